// Runs before the first paint, so that a dark page does not flash white.
(function () {
  "use strict";
  var query = window.matchMedia("(prefers-color-scheme: dark)");

  function stored() {
    try {
      return window.localStorage.getItem("dbops-theme");
    } catch {
      return null;
    }
  }

  function apply() {
    document.documentElement.setAttribute("data-bs-theme", stored() || (query.matches ? "dark" : "light"));
  }

  apply();
  query.addEventListener("change", apply);
})();
