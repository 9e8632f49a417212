<?php
function get($pdo, $ids) {
    $marks = implode(',', array_fill(0, count($ids), '?'));
    $s = $pdo->prepare("SELECT * FROM t WHERE id IN ($marks)");
    $s->execute($ids);
}
