// Loaded before the page is drawn, so that it never flashes in the other theme.
"use strict";
document.documentElement.dataset.theme = localStorage.getItem("holdfast-theme") ?? "auto";
