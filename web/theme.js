// theme.js - the chosen theme, before the first paint; not a module, so that it blocks.
document.documentElement.dataset.theme = localStorage.getItem("cerium.theme") || "system";
