// Additions to pages that also work without it: theme, copying, counting seconds, and the live rebuild page.
(function () {
  "use strict";
  // The stream sends something every few seconds; after a longer silence it is dead, whatever the browser reports.
  const LIVE_MILLISECONDS = 20000;
  const AGAIN_MILLISECONDS = 3000;
  // A hidden page polls this rarely: enough for its icon and its notification.
  const HIDDEN_MILLISECONDS = 30000;
  const loaded = performance.now();

  // --- words: in the page's language, as the server's filters write them -------------------------------------------
  const words = JSON.parse(document.getElementById("words").textContent);
  const say = (pattern, values) => pattern.replace(/{(\w+)}/g, (_, name) => values[name]);
  const pad = (number) => String(number).padStart(2, "0");
  const localized = (number) => number.replace(".", words.point);
  // The largest unit of a duration, with its numbers.
  function measured(seconds) {
    if (seconds < 60) return ["seconds", { seconds }];
    if (seconds < 3600) return ["minutes", { minutes: Math.floor(seconds / 60), seconds: pad(seconds % 60) }];
    const hours = Math.floor(seconds / 3600);
    if (seconds < 86400) return ["hours", { hours, minutes: pad(Math.floor((seconds % 3600) / 60)) }];
    return ["days", { days: Math.floor(seconds / 86400), hours: hours % 24 }];
  }
  function duration(seconds) {
    const [unit, numbers] = measured(seconds);
    return say(words.durations[unit], numbers);
  }
  // Without a rest of zero.
  function roundDuration(seconds) {
    const [unit, numbers] = measured(seconds);
    const isRound = unit !== "seconds" && !Object.entries(numbers).some(([name, value]) => name !== unit && Number(value));
    return isRound ? say(words.round_durations[unit], numbers) : duration(seconds);
  }
  window.dbopsWords = { words, say, localized, duration, roundDuration };

  // --- light and dark ---------------------------------------------------------------------------------------------
  document.querySelectorAll("[data-theme-toggle]").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", () => {
      const root = document.documentElement;
      const theme = root.getAttribute("data-bs-theme") === "dark" ? "light" : "dark";
      root.setAttribute("data-bs-theme", theme);
      try {
        window.localStorage.setItem("dbops-theme", theme);
      } catch {
        // Kept for this page only.
      }
    });
  });

  // --- copying, and forms that are submitted once -----------------------------------------------------------------
  if (navigator.clipboard) {
    document.querySelectorAll("[data-copy]").forEach((button) => {
      button.hidden = false;
    });
  }
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const label = button.querySelector("span");
    try {
      await navigator.clipboard.writeText(button.closest(".command-box").querySelector("pre").textContent);
      label.textContent = words.copied;
    } catch {
      label.textContent = words.not_allowed;
    }
    setTimeout(() => (label.textContent = words.copy), 2000);
  });
  document.addEventListener("submit", (event) => {
    const button = event.target.querySelector("[data-once]");
    // The request key makes a second click harmless; this only avoids doubt.
    if (button) setTimeout(() => (button.disabled = true), 0);
  });
  window.addEventListener("pageshow", () => {
    document.querySelectorAll("form [data-once]").forEach((button) => (button.disabled = false));
  });

  // --- sliders with number fields ----------------------------------------------------------------------------------
  document.querySelectorAll("[data-mirrors]").forEach((slider) => {
    const number = document.getElementById(slider.dataset.mirrors);
    slider.hidden = false;
    // in tenths, but never below the form's minimum
    slider.addEventListener("input", () => (number.value = Math.max(number.min, Number(slider.value).toFixed(1))));
    number.addEventListener("input", () => (slider.value = number.value));
  });

  // --- counting seconds -------------------------------------------------------------------------------------------
  const AGE_UNITS = [[86400, "days"], [3600, "hours"], [60, "minutes"], [1, "seconds"]];
  function age(seconds) {
    const [size, unit] = AGE_UNITS.find(([size]) => seconds >= size) ?? [];
    return size ? say(words.ages[unit], { number: Math.floor(seconds / size) }) : words.now;
  }
  const shownAt = new WeakMap();
  function count() {
    document.querySelectorAll("[data-elapsed], [data-ago]").forEach((element) => {
      if (!shownAt.has(element)) shownAt.set(element, performance.now());
      const passed = Math.round((performance.now() - shownAt.get(element)) / 1000);
      const ago = element.dataset.ago !== undefined;
      const seconds = Number(ago ? element.dataset.ago : element.dataset.elapsed) + passed;
      const text = ago ? age(seconds) : duration(seconds);
      if (element.textContent !== text) element.textContent = text;
    });
    // An expected time has passed: the text after it says so.
    document.querySelectorAll("[data-passes]:not([hidden])").forEach((element) => {
      if (!shownAt.has(element)) shownAt.set(element, performance.now());
      if (performance.now() - shownAt.get(element) < Number(element.dataset.passes) * 1000) return;
      element.hidden = true;
      element.nextElementSibling.hidden = false;
    });
  }
  document.querySelectorAll("[data-elapsed], [data-ago], [data-passes]").forEach((element) => shownAt.set(element, loaded));
  setInterval(count, 1000);

  // --- keep opened sections and the focus when a fragment is replaced -------------------------------------------------
  const opened = new Map();
  let focused = "";
  function remember(target) {
    target.querySelectorAll?.("details[id]").forEach((details) => opened.set(details.id, details.open));
    const active = document.activeElement;
    // One answer can replace several parts: only the part with the focus changes what is remembered.
    if (target.contains?.(active)) focused = selector(active);
  }
  // htmx restores the focus only of elements with an id.
  function selector(element) {
    if (element.matches("details[id] > summary")) return `#${CSS.escape(element.parentElement.id)} > summary`;
    return element.matches("a[href]") ? `a[href="${CSS.escape(element.getAttribute("href"))}"]` : "";
  }
  function reopen(target) {
    target.querySelectorAll?.("details[id]").forEach((details) => {
      if (opened.has(details.id)) details.open = opened.get(details.id);
    });
    const again = focused && document.activeElement === document.body ? target.querySelector?.(focused) : null;
    if (!again) return;
    again.focus({ preventScroll: true });
    focused = "";
  }
  document.addEventListener("htmx:beforeSwap", (event) => remember(event.target));
  document.addEventListener("htmx:oobBeforeSwap", (event) => remember(event.detail.target));
  document.addEventListener("htmx:oobAfterSwap", (event) => reopen(event.detail.target));
  document.addEventListener("htmx:afterSwap", (event) => reopen(event.target));

  // --- notice on a page that cannot be updated -------------------------------------------------------------------------
  const stale = document.getElementById("stale");
  // By URL: one part of a page may fail while the others are updated.
  const failing = new Map();
  let current = Date.now();
  let liveAt = 0;
  function showStale() {
    const problem = failing.values().next().value;
    if (problem) {
      stale.dataset.problem = problem;
      const time = new Date(current).toLocaleTimeString(words.language, { hour12: false });
      const since = say(words.own_clock, { time });
      if (stale.hidden) stale.querySelector("[data-since]").textContent = since;
      stale.querySelector("[data-for]").textContent = duration(Math.max(0, Math.round((Date.now() - current) / 1000)));
    }
    stale.hidden = !problem;
  }
  setInterval(showStale, 1000);
  function fail(event, problem) {
    failing.set(event.detail.pathInfo.requestPath.split("?")[0], problem);
    showStale();
  }
  // A part that is requested on an event, not every few seconds, is requested again: its content is old.
  const missed = new Map();
  let askedAgainAt = 0;
  function miss(event) {
    const { elt, pathInfo } = event.detail;
    if (elt.matches("[hx-trigger~=again]")) missed.set(pathInfo.requestPath, elt);
  }
  function answered(path) {
    for (const [key, problem] of failing) if (key === path || problem === "silent") failing.delete(key);
    if (!failing.size) current = Date.now();
    showStale();
    askAgain();
  }
  function askAgain() {
    if (!missed.size || Date.now() - askedAgainAt < AGAIN_MILLISECONDS) return;
    askedAgainAt = Date.now();
    const parts = [...missed.values()];
    missed.clear();
    parts.filter((part) => part.isConnected).forEach((part) => htmx.trigger(part, "again"));
  }
  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, (event) => {
      fail(event, "silent");
      miss(event);
    });
  }
  window.addEventListener("online", askAgain);
  document.addEventListener("htmx:responseError", (event) => {
    const status = event.detail.xhr.status;
    if (status >= 500) miss(event);
    fail(event, status === 403 ? "denied" : status === 404 ? "gone" : "failed");
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.successful) answered(event.detail.pathInfo.requestPath.split("?")[0]);
  });
  // While the live stream works, its page does not poll: a thousand open pages would load the database.
  const polledAt = new Map();
  document.addEventListener("htmx:beforeRequest", (event) => {
    const path = event.detail.pathInfo.requestPath.split("?")[0];
    if (!/\/poll\/|\/status\//.test(path)) return;
    const isLive = Date.now() - liveAt < LIVE_MILLISECONDS && !failing.size;
    const isRare = document.hidden && Date.now() - (polledAt.get(path) ?? 0) < HIDDEN_MILLISECONDS;
    // Without a session only the bar asks on, until there is one again.
    const isLoggedOut = path.endsWith("/poll/") && document.getElementById("bar-logged-out");
    if (isLive || isRare || isLoggedOut) event.preventDefault();
    else polledAt.set(path, Date.now());
  });

  // --- the live rebuild page ----------------------------------------------------------------------------------------
  const stream = document.getElementById("stream");
  if (!stream) return;
  const badge = document.getElementById("live-state");
  const announcement = document.getElementById("announcement");
  let connected = false;
  let said = "";

  function live(state, text) {
    if (!badge) return;
    badge.hidden = false;
    badge.dataset.live = state;
    if (badge.textContent !== text) badge.textContent = text;
  }
  const shown = () => stream.querySelector("[data-live-root]");
  // A rebuild that has ended needs no more requests.
  const isActive = () => Boolean(shown()?.querySelector("[hx-get]"));
  function heard() {
    liveAt = current = Date.now();
    failing.clear();
    showStale();
    askAgain();
  }
  function announce() {
    const root = shown();
    if (!root) return;
    document.title = root.dataset.title;
    if (badge && !isActive()) badge.hidden = true;
    if (said && said !== root.dataset.say) announcement.textContent = root.dataset.say;
    said = root.dataset.say;
  }

  document.addEventListener("htmx:sseBeforeMessage", (event) => remember(event.target));
  document.addEventListener("htmx:sseMessage", (event) => {
    heard();
    reopen(event.target);
    announce();
  });
  document.addEventListener("htmx:sseOpen", () => {
    connected = true;
    heard();
    live("live", words.live);
  });
  document.addEventListener("htmx:sseError", () => {
    connected = false;
    liveAt = 0;
    live("polling", words.live_lost);
  });
  document.addEventListener("dbops:rest", () => {
    connected = false;
    liveAt = 0;
    live("waiting", words.connecting);
  });
  document.addEventListener("visibilitychange", () => {
    const poll = shown()?.querySelector("[hx-get]");
    if (poll && !document.hidden) htmx.trigger(poll, "again");
  });
  document.addEventListener("htmx:sseClose", () => {
    connected = false;
    liveAt = 0;
    if (badge) badge.hidden = true;
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    // A poll's answer that is older than the stream's must not turn the page back.
    const revision = event.detail.xhr?.getResponseHeader("X-Revision");
    if (revision && shown() && Number(revision) < Number(shown().dataset.revision)) event.detail.shouldSwap = false;
  });
  document.addEventListener("htmx:afterSettle", () => {
    announce();
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.successful && !connected && isActive()) live("polling", words.not_live);
  });
  announce();
})();
