// The log of a rebuild's page. The page works without this: it shows the end of the log, and "Page by page" leads to the rest.
// The list holds a window of the log: some thousand consecutive lines. Lines beyond it are requested on scrolling.
(function () {
  "use strict";
  const box = document.getElementById("log");
  const list = document.getElementById("log-lines");
  if (!box || !list) return;
  const { words, say } = window.dbopsWords;
  const PAGE = 500;
  const MOST_LINES = 2000;
  const NEAR_PIXELS = 1200;
  const CENTRE_FRAMES = 30;
  const part = (name) => document.getElementById(`log-${name}`);
  const form = part("tools");
  const filters = [part("host"), part("level")];

  const idOf = (line) => Number(line.id.slice("event-".length));
  const firstId = () => (list.firstElementChild ? idOf(list.firstElementChild) : 0);
  const lastId = () => (list.lastElementChild ? idOf(list.lastElementChild) : 0);
  const lineOf = (id) => list.querySelector(`#event-${id}`);

  let follows = true;
  let isPaused = false;
  let hasOlder = box.dataset.isCut === "1";
  let hasNewer = false;
  let waiting = 0; // new lines that are not shown
  let seen = lastId(); // the newest known line
  let newest = seen; // the newest line that passes the filters
  let turn = 0; // grows when the window moves elsewhere: answers to older requests are ignored
  let isAsking = false;
  let lastTop = 0;
  let byHandUntil = 0;
  let centred = null; // the line that is being moved to the middle
  const search = { foundIn() {}, highlight() {}, again() {}, focus() {}, clear() {} }; // log_search.js replaces these

  // --- requests to the server -----------------------------------------------------------------------------------------
  const note = (text) => (part("note").textContent = text);
  const chosen = () => Object.fromEntries(filters.filter((filter) => filter.value).map((filter) => [filter.name, filter.value]));

  async function ask(address, parameters) {
    const answer = await fetch(`${address}?${new URLSearchParams({ ...chosen(), ...parameters })}`, { credentials: "same-origin" });
    if (answer.redirected) throw new Error(words.log_in_again);
    if (!answer.ok && answer.status !== 404) throw new Error(say(words.status, { status: answer.status }));
    return answer;
  }
  function parsed(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return [...template.content.querySelectorAll("li")];
  }
  // Return a page of lines; null if there is no such line, undefined if it is no longer wanted or did not arrive.
  async function page(parameters, asked) {
    try {
      const answer = await ask(box.dataset.lines, parameters);
      const html = await answer.text();
      if (asked !== turn) return undefined;
      note("");
      if (answer.status === 404) return null;
      const flag = (name) => answer.headers.get(name) === "1";
      return { lines: parsed(html), hasOlder: flag("X-Older"), hasNewer: flag("X-Newer") };
    } catch (error) {
      if (asked === turn) note(say(words.log_not_read, { reason: error.message }));
      return undefined;
    }
  }

  // --- the window -----------------------------------------------------------------------------------------------------
  const distance = () => box.scrollHeight - box.scrollTop - box.clientHeight;
  const byHand = () => performance.now() < byHandUntil;

  function toEnd() {
    centred = null;
    box.scrollTop = box.scrollHeight;
    lastTop = box.scrollTop;
  }
  // Lines get their true height when they are shown for the first time, and the frame can shrink: the end moves away.
  const sizes = new ResizeObserver(() => {
    if (follows && distance() >= 1) toEnd();
  });
  sizes.observe(list);
  sizes.observe(box);
  function follow(yes) {
    follows = yes;
    if (yes) waiting = 0;
    show();
  }
  function show() {
    part("older").hidden = !hasOlder;
    part("newer").hidden = !hasNewer || isPaused;
    part("follow").setAttribute("aria-pressed", String(follows));
    part("pause")?.setAttribute("aria-pressed", String(isPaused));
    part("follow").dataset.waiting = waiting && !follows ? say(words.new_lines, { number: waiting.toLocaleString(words.language) }) : "";
  }
  // The first visible line: lines are in order, so a binary search finds it.
  function firstVisible() {
    const top = box.getBoundingClientRect().top;
    let [low, high] = [0, list.children.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list.children[middle].getBoundingClientRect().bottom > top) high = middle;
      else low = middle + 1;
    }
    return list.children[low] ?? list.lastElementChild;
  }
  // Change the list and keep the visible lines in place. The browser's own anchoring is off during that time: it does not work at the top.
  function inPlace(change) {
    const anchor = firstVisible();
    const before = anchor?.getBoundingClientRect().top;
    box.classList.add("is-changing");
    change();
    if (anchor?.isConnected) box.scrollTop += anchor.getBoundingClientRect().top - before;
    lastTop = box.scrollTop;
    requestAnimationFrame(() => box.classList.remove("is-changing"));
  }
  function cutTop() {
    while (list.children.length > MOST_LINES) {
      list.firstElementChild.remove();
      hasOlder = true;
    }
  }
  function cutEnd() {
    while (list.children.length > MOST_LINES) {
      list.lastElementChild.remove();
      hasNewer = true;
    }
  }
  function replace(answer) {
    list.replaceChildren(...answer.lines);
    hasOlder = answer.hasOlder;
    ended(answer);
    changed(answer.lines);
  }
  // The stream may have sent lines during the request.
  function ended(answer) {
    seen = Math.max(seen, lastId());
    newest = Math.max(newest, lastId());
    hasNewer = answer.hasNewer || lastId() < newest;
  }
  // ``lines`` are consecutive: each of them, the one after them and the first of all may begin a step now.
  function changed(lines) {
    show();
    [...lines, lines.at(-1)?.nextElementSibling, list.firstElementChild].forEach((line) => line?.isConnected && markStep(line));
    search.highlight();
  }
  const stepOf = (line) => line.querySelector(".log-step").textContent;
  function markStep(line) {
    const before = line.previousElementSibling;
    line.classList.toggle("begins-step", !before || stepOf(before) !== stepOf(line));
  }
  async function grow(isOlder) {
    if (isAsking || !list.firstElementChild) return;
    isAsking = true;
    const answer = await page(isOlder ? { before: firstId() } : { after: lastId() }, turn);
    isAsking = false;
    if (!answer) return;
    const edge = isOlder ? firstId() : lastId();
    const lines = answer.lines.filter((line) => (isOlder ? idOf(line) < edge : idOf(line) > edge));
    inPlace(() => {
      if (isOlder) {
        list.prepend(...lines);
        hasOlder = answer.hasOlder;
        cutEnd();
      } else {
        list.append(...lines);
        ended(answer);
        cutTop();
      }
    });
    changed(lines);
  }
  async function newestLines() {
    isPaused = false;
    follow(true);
    if (hasNewer || !list.firstElementChild) {
      const answer = await page({}, ++turn);
      if (!answer) return;
      replace(answer);
    }
    toEnd();
  }
  async function oldestLines() {
    follow(false);
    if (hasOlder) {
      const answer = await page({ after: 0 }, ++turn);
      if (!answer) return;
      replace(answer);
    }
    box.scrollTop = lastTop = 0;
  }

  // --- new lines ------------------------------------------------------------------------------------------------------
  const passes = (line) => {
    const [host, level] = filters.map((filter) => filter.value);
    const isHost = !host || line.dataset.host === (host === "-" ? "" : host);
    return isHost && (!level || line.dataset.level === "error" || line.dataset.level === level);
  };
  // isEnd: these are the newest lines of the log, including sent ones; otherwise only new ones.
  function take(lines, isEnd) {
    const fresh = lines.filter((line) => idOf(line) > seen);
    if (!fresh.length) return;
    const hasGap = isEnd && lines.length >= PAGE && idOf(lines[0]) > seen;
    seen = idOf(fresh[fresh.length - 1]);
    const wanted = fresh.filter(passes);
    if (!wanted.length && !hasGap) return;
    if (wanted.length) newest = idOf(wanted[wanted.length - 1]);
    search.foundIn(wanted);
    if (isPaused || hasNewer || (hasGap && !follows)) {
      hasNewer = true;
      waiting += wanted.length;
      show();
    } else if (hasGap) {
      hasNewer = true;
      newestLines();
    } else {
      add(wanted);
    }
  }
  function add(lines) {
    list.append(...lines);
    if (follows) {
      cutTop();
    } else {
      waiting += lines.length;
      cutEnd();
    }
    changed(lines);
    if (follows) toEnd();
  }
  document.addEventListener("htmx:sseBeforeMessage", (event) => {
    if (event.target !== list && event.target.id !== "log-snapshot") return;
    event.preventDefault();
    take(parsed(event.detail.data), event.target !== list);
  });
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    if (event.detail.target !== list) return;
    event.detail.shouldSwap = false;
    take([...event.detail.fragment.querySelectorAll("li")], true);
  });

  // --- one line -------------------------------------------------------------------------------------------------------
  function centre(line) {
    let calm = 0;
    centred = line;
    // Lines that were never shown have an estimated height: repeat until nothing moves any more.
    const middle = (left) => {
      if (centred !== line || !line.isConnected || (byHand() && left < CENTRE_FRAMES)) return;
      const from = box.scrollTop;
      box.scrollTop = line.offsetTop - (box.clientHeight - Math.min(line.offsetHeight, box.clientHeight)) / 2;
      lastTop = box.scrollTop;
      calm = Math.abs(lastTop - from) < 2 ? calm + 1 : 0;
      if (left && calm < 3) requestAnimationFrame(() => middle(left - 1));
    };
    byHandUntil = 0;
    middle(CENTRE_FRAMES);
  }
  // Show any line of the log; return it, or its neighbour if the filters hide it, or false if it did not arrive.
  async function reach(id) {
    follow(false);
    if (!lineOf(id)) {
      const answer = await page({ around: id }, ++turn);
      if (answer === null) note(say(words.no_line, { number: id }));
      if (!answer) return false;
      replace(answer);
    }
    const line = lineOf(id) ?? [...list.children].find((other) => idOf(other) > id) ?? list.lastElementChild;
    if (line) centre(line);
    return line;
  }
  function mark(line, kind) {
    list.querySelectorAll(`.${kind}`).forEach((other) => other.classList.remove(kind));
    if (line) line.classList.add(kind);
  }
  async function target() {
    const asked = /^#event-(\d{1,18})$/.exec(window.location.hash);
    if (!asked) return;
    const id = Number(asked[1]);
    let line = await reach(id);
    if (line !== false && (!line || idOf(line) !== id)) {
      filters.forEach((filter) => (filter.value = ""));
      line = await reach(id);
    }
    mark(line, "is-target");
    if (line) box.scrollIntoView({ block: "nearest" });
  }
  window.addEventListener("hashchange", target);

  // --- filters and switches -------------------------------------------------------------------------------------------
  async function filter() {
    const place = follows || !list.firstElementChild ? 0 : idOf(firstVisible());
    newest = 0;
    const answer = await page(place ? { around: place } : {}, ++turn);
    if (!answer) return;
    replace(answer);
    if (place) await reach(place);
    else toEnd();
    search.again();
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  filters.forEach((each) => each.addEventListener("change", filter));

  function wrap(yes) {
    part("wrap").setAttribute("aria-pressed", String(yes));
    inPlace(() => box.classList.toggle("is-unwrapped", !yes));
    if (follows) toEnd();
  }
  function isWrapped() {
    try {
      return window.localStorage.getItem("dbops-log-wrap") !== "off";
    } catch {
      return true;
    }
  }
  part("wrap").addEventListener("click", () => {
    const yes = box.classList.contains("is-unwrapped");
    wrap(yes);
    try {
      window.localStorage.setItem("dbops-log-wrap", yes ? "on" : "off");
    } catch {
      // Kept for this page only.
    }
  });
  part("pause")?.addEventListener("click", () => {
    if (isPaused) {
      newestLines();
    } else {
      isPaused = true;
      follow(false);
    }
  });
  part("follow").addEventListener("click", () => (follows ? follow(false) : newestLines()));
  part("older").addEventListener("click", (event) => {
    event.preventDefault();
    follow(false);
    grow(true);
  });
  part("newer").addEventListener("click", () => grow(false));

  // --- scrolling and keys ---------------------------------------------------------------------------------------------
  for (const name of ["wheel", "touchmove", "pointerdown", "keydown"]) {
    box.addEventListener(name, () => (byHandUntil = performance.now() + 1000), { passive: true });
  }
  box.addEventListener(
    "scroll",
    () => {
      const isUp = box.scrollTop < lastTop - 1;
      lastTop = box.scrollTop;
      // Movement without the reader (lines that get their true height, lines that are cut) is not scrolling.
      if (byHand()) {
        byHandUntil = performance.now() + 1000;
        if (isUp && follows) follow(false);
        else if (!isUp && !follows && !hasNewer && !isPaused && distance() < 24) follow(true);
      }
      if (follows) return;
      if (hasOlder && box.scrollTop < NEAR_PIXELS) grow(true);
      else if (hasNewer && !isPaused && distance() < NEAR_PIXELS) grow(false);
    },
    { passive: true },
  );
  function walk(by) {
    const here = list.contains(document.activeElement) ? document.activeElement.closest("li") : null;
    const to = here ? (by > 0 ? here.nextElementSibling : here.previousElementSibling) : firstVisible();
    if (!to) return;
    follow(false);
    const link = to.querySelector(".log-time");
    link.focus({ preventScroll: true });
    to.scrollIntoView({ block: "nearest" });
  }
  const KEYS = {
    j: () => walk(1),
    k: () => walk(-1),
    "/": () => search.focus(),
    End: newestLines,
    Home: oldestLines,
    Escape: () => search.clear(),
  };
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key]();
  });

  form.querySelectorAll("[data-with-script]").forEach((element) => (element.hidden = false));
  form.querySelectorAll("[data-without-script]").forEach((element) => (element.hidden = true));
  box.classList.add("has-steps");
  if (!isWrapped()) wrap(false);
  changed([...list.children]);
  toEnd();
  target();
  window.dbopsLog = { box, list, part, idOf, note, ask, firstVisible, reach, mark, search };
})();
