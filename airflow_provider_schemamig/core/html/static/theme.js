// Light or dark as Airflow's own switch says, which it keeps in this origin's storage; before anything is drawn.
"use strict";

function followTheme() {
  let theme = null;
  try { theme = localStorage.getItem("theme"); } catch { /* storage may be forbidden: then as the system says */ }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}
followTheme();
addEventListener("storage", followTheme);
