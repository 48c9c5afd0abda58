// Search in the log of a rebuild's page: the server finds the lines; this file counts, shows and highlights them.
(function () {
  "use strict";
  if (!window.dbopsLog) return;
  const { words, say } = window.dbopsWords;
  const { box, list, part, idOf, note, ask, firstVisible, reach, mark } = window.dbopsLog;
  const MOST_HIGHLIGHTS = 5000;
  const input = part("search");
  let current = null;
  let found = nothingFound();

  function nothingFound() {
    return { text: "", pattern: null, events: [], isCut: false, at: -1 };
  }
  const patternOf = (text) => new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
  let searchTurn = 0;

  async function search() {
    const text = input.value;
    const asked = ++searchTurn;
    if (!text) {
      found = nothingFound();
      showFound();
      return;
    }
    try {
      const answer = await (await ask(box.dataset.matches, { find: text })).json();
      if (asked !== searchTurn) return;
      note("");
      found = { text, pattern: patternOf(text), events: answer.events, isCut: answer.is_cut, at: -1 };
    } catch (error) {
      if (asked === searchTurn) note(say(words.search_failed, { reason: error.message }));
      return;
    }
    const from = firstVisible() ? idOf(firstVisible()) : 0;
    const next = found.events.findIndex((id) => id >= from);
    await go(next >= 0 ? next : found.events.length - 1);
  }
  async function go(at) {
    found.at = at;
    showFound();
    if (at < 0) return;
    current = found.events[at];
    mark(await reach(current), "is-current");
    highlight();
  }
  function step(by) {
    const count = found.events.length;
    return input.value === found.text ? count && go((found.at + by + count) % count) : search();
  }
  function foundIn(lines) {
    if (!found.pattern) return;
    const ids = lines.filter((line) => line.querySelector(".log-words").textContent.search(found.pattern) >= 0).map(idOf);
    if (!ids.length) return;
    found.events.push(...ids);
    showFound();
  }
  function showFound() {
    const count = found.events.length;
    const written = (number) => number.toLocaleString(words.language);
    const all = `${written(count)}${found.isCut ? "+" : ""}`;
    const place = say(words.match, { number: written(found.at + 1), count: all });
    part("match-count").textContent = !found.text ? "" : count ? place : words.no_match;
    part("previous").disabled = part("next").disabled = !count;
    if (!count) {
      current = null;
      mark(null, "is-current");
    }
    highlight();
  }
  function clearSearch() {
    input.value = "";
    search();
    box.focus({ preventScroll: true });
  }
  // Highlights change no element, so they cost only their ranges. Browsers without them only mark the line.
  function highlight() {
    if (!window.CSS?.highlights) return;
    const [all, here] = [new Highlight(), new Highlight()];
    if (found.pattern) {
      for (const line of list.querySelectorAll(".log-words")) {
        const text = line.firstChild;
        if (!text) continue;
        const into = idOf(line.closest("li")) === current ? here : all;
        for (const match of text.data.matchAll(found.pattern)) {
          const range = new Range();
          range.setStart(text, match.index);
          range.setEnd(text, match.index + match[0].length);
          into.add(range);
        }
        if (all.size > MOST_HIGHLIGHTS) break;
      }
    }
    CSS.highlights.set("log-match", all);
    CSS.highlights.set("log-current", here);
  }
  let typed = 0;
  input.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(search, 250);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(typed);
      step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      event.preventDefault();
      clearSearch();
    }
  });
  part("next").addEventListener("click", () => step(1));
  part("previous").addEventListener("click", () => step(-1));

  Object.assign(window.dbopsLog.search, {
    foundIn,
    highlight,
    again: () => found.text && search(),
    focus: () => input.focus(),
    clear: clearSearch,
  });
})();
