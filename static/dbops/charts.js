// The charts of a rebuild. Without this file the page shows the server's drawings from when it was opened.
(function () {
  "use strict";
  const card = document.getElementById("charts");
  if (!card || !window.uPlot) return;
  const FETCH_GAP_MILLISECONDS = 2000;
  // The server thins a history at 1000 points: from here on the page requests it again instead of growing for days.
  const MOST_POINTS = 1500;
  const COLUMNS = ["number", "at", "rate", "lag", "read", "written"];
  const UNITS = { "MiB/s": rate, s: duration };
  const MIB = 1024 * 1024;
  // In bytes: a rate is shown in MiB a second, so its lines are at round numbers of these.
  const RATE_STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000].map((step) => step * MIB);
  // In seconds: a lag is shown in minutes and hours.
  const LAG_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800];

  const points = Object.fromEntries(COLUMNS.map((name) => [name, []]));
  const charts = [];

  // --- words, as on the server --------------------------------------------------------------------------------------
  const { words, say, localized, roundDuration } = window.dbopsWords;
  function mebibytes(bytes) {
    const number = bytes / MIB;
    return localized(number.toFixed(number >= 10 ? 0 : 1));
  }
  function rate(bytes) {
    return `${mebibytes(bytes)} MiB/s`;
  }
  function duration(value) {
    return window.dbopsWords.duration(Math.max(0, Math.round(value)));
  }
  function clock(style) {
    const wanted = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...style };
    try {
      return new Intl.DateTimeFormat("en-GB", { ...wanted, timeZone: card.dataset.zone });
    } catch {
      return new Intl.DateTimeFormat("en-GB", { ...wanted, timeZone: "UTC" });
    }
  }
  const toTheMinute = clock({});
  const toTheSecond = clock({ second: "2-digit" });
  function spread(values, written) {
    const known = values.filter((value) => value !== null).sort((one, other) => one - other);
    if (!known.length) return "";
    const half = known.length >> 1;
    const middle = known.length % 2 ? known[half] : (known[half - 1] + known[half]) / 2;
    // A common unit appears once.
    const short = (value) => written(value).replace(" MiB/s", "");
    return say(words.spread, { low: short(known[0]), middle: short(middle), high: written(known[known.length - 1]) });
  }

  // --- one chart ------------------------------------------------------------------------------------------------------
  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const styleOf = (line) => getComputedStyle(line.querySelector(".spark"));

  function build(section) {
    const lines = [...section.querySelectorAll("[data-line]")];
    const isLag = section.dataset.chart === "lag";
    return {
      section,
      lines,
      title: section.querySelector(".chart-title").textContent.trim().replace(/\s+/g, " "),
      written: UNITS[isLag ? "s" : "MiB/s"],
      isLag,
      plot: section.querySelector(".chart-plot"),
      empty: section.querySelector(".chart-empty"),
      drawn: null,
    };
  }
  function axisOf(chart) {
    const written = (value) => (value === 0 ? "0" : chart.isLag ? roundDuration(Math.round(value)) : mebibytes(value));
    return {
      stroke: token("--muted"),
      font: "11px system-ui, sans-serif",
      grid: { stroke: token("--line"), width: 1 },
      ticks: { show: false },
      space: 28,
      size: chart.isLag ? 52 : 38,
      gap: 4,
      incrs: chart.isLag ? LAG_STEPS : RATE_STEPS,
      values: (_, splits) => splits.map(written),
    };
  }
  function timeAxis() {
    return {
      stroke: token("--muted"),
      font: "11px system-ui, sans-serif",
      grid: { show: false },
      ticks: { stroke: token("--line"), width: 1, size: 4 },
      space: 64,
      size: 22,
      gap: 2,
      values: (_, splits) => {
        const style = splits.length > 1 && splits[1] - splits[0] < 60 ? toTheSecond : toTheMinute;
        return splits.map((second) => style.format(second * 1000));
      },
    };
  }
  function draw(chart) {
    const series = chart.lines.map((line) => {
      const dash = styleOf(line).strokeDasharray;
      return {
        label: line.dataset.line,
        stroke: styleOf(line).stroke,
        width: 1.5,
        dash: dash && dash !== "none" ? dash.split(/[ ,]+/).map(parseFloat) : undefined,
        points: { size: 4 },
      };
    });
    chart.plot.replaceChildren();
    chart.drawn = new window.uPlot(
      {
        width: Math.max(80, chart.plot.clientWidth),
        height: chart.plot.clientHeight,
        padding: [6, 8, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false } },
        scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
        axes: [timeAxis(), axisOf(chart)],
        series: [{}, ...series],
        hooks: { setCursor: [(drawn) => showFigures(chart, drawn.cursor.idx)] },
      },
      dataOf(chart),
      chart.plot,
    );
  }
  const dataOf = (chart) => [points.at, ...chart.lines.map((line) => points[line.dataset.line])];

  // Under the pointer: that moment; otherwise the range of all.
  function showFigures(chart, index) {
    const isAt = index !== null && index !== undefined && index < points.at.length;
    chart.lines.forEach((line) => {
      const values = points[line.dataset.line];
      const all = spread(values, chart.written);
      line.hidden = !all;
      const value = isAt && values[index] !== null ? chart.written(values[index]) : words.unknown;
      const here = isAt ? say(words.value_at, { value, time: toTheSecond.format(points.at[index] * 1000) }) : all;
      const summary = line.querySelector("[data-summary]");
      if (summary.textContent !== here) summary.textContent = here;
    });
  }
  function show(chart) {
    const said = chart.lines.map((line) => [line.querySelector("strong").textContent, spread(points[line.dataset.line], chart.written)]);
    const known = said.filter(([, figures]) => figures);
    chart.empty.hidden = known.length > 0;
    const text = known.length ? known.map((pair) => pair.join(" ")).join("; ") : chart.empty.textContent;
    chart.plot.setAttribute("aria-label", say(words.over_time, { title: chart.title, figures: text }));
    if (!known.length) return showFigures(chart, null);
    if (chart.drawn) chart.drawn.setData(dataOf(chart));
    else draw(chart);
    return showFigures(chart, chart.drawn.cursor.idx);
  }
  const showAll = () => charts.forEach(show);

  // --- points: from the page, or requested -----------------------------------------------------------------------------------
  const last = () => (points.number.length ? points.number[points.number.length - 1] : -1);

  function take(samples) {
    let added = false;
    samples.number.forEach((number, index) => {
      if (number <= last()) return;
      COLUMNS.forEach((name) => points[name].push(samples[name][index]));
      added = true;
    });
    return added;
  }
  let asking = false;
  let askedAt = -Infinity;
  let isWhole = false;
  async function ask() {
    const wait = askedAt + FETCH_GAP_MILLISECONDS - performance.now();
    if (asking) return;
    asking = true;
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    askedAt = performance.now();
    const whole = !isWhole || points.number.length > MOST_POINTS;
    try {
      const answer = await fetch(card.dataset.samples + (whole ? "" : `?after=${last()}`), { headers: { Accept: "application/json" } });
      if (answer.status === 200) {
        const samples = await answer.json();
        if (whole) COLUMNS.forEach((name) => (points[name].length = 0));
        take(samples);
      }
      isWhole = isWhole || answer.ok;
    } catch {
      // The page itself shows that it cannot be updated; the next update requests them again.
    }
    asking = false;
    showAll();
  }
  function onNews() {
    const root = document.querySelector("[data-live-root]");
    if (!root?.dataset.points) return;
    const samples = JSON.parse(root.dataset.points);
    const newest = samples.number.length ? samples.number[samples.number.length - 1] : -1;
    if (isWhole && newest <= last()) return;
    // If the oldest sample is newer than the last shown point, some between were missed: asleep, or offline.
    if (!isWhole || points.number.length > MOST_POINTS || samples.number[0] > last() + 1) ask();
    else if (take(samples)) showAll();
  }

  card.querySelectorAll("[data-chart]").forEach((section) => charts.push(build(section)));
  const resized = new ResizeObserver(() => {
    charts.forEach((chart) => {
      const width = chart.plot.clientWidth;
      if (chart.drawn && width && width !== chart.drawn.width) chart.drawn.setSize({ width, height: chart.plot.clientHeight });
    });
  });
  charts.forEach((chart) => resized.observe(chart.section));
  new MutationObserver(() => {
    charts.forEach((chart) => {
      chart.drawn?.destroy();
      chart.drawn = null;
    });
    showAll();
  }).observe(document.documentElement, { attributes: true, attributeFilter: ["data-bs-theme"] });
  document.addEventListener("htmx:sseMessage", onNews);
  document.addEventListener("htmx:afterSettle", onNews);
  ask();
})();
