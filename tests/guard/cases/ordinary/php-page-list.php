<?php
$pages = ['home', 'about'];
$page = in_array($_GET['page'] ?? '', $pages, true) ? $_GET['page'] : 'home';
include __DIR__ . "/pages/$page.php";
