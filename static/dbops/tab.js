// The state of a rebuild in its browser tab: percent and result in the icon, and a notification at the end.
(function () {
  "use strict";
  const { words } = window.dbopsWords;
  const shown = () => document.querySelector("[data-live-root]");
  const link = document.querySelector('link[rel="icon"]');
  const FINAL = ["succeeded", "failed", "cancelled", "expired"];
  if (!shown() || !link) return;

  // --- the icon: a ring that fills; at the end a distinct shape, so that colour is not the only sign --------------------
  const GREEN = "#2b8a4a", RED = "#d3293d", BLUE = "#2f7fe0", GREY = "#8a95a1", AMBER = "#d98200";
  const stroke = (color, path) =>
    `<path d="${path}" fill="none" stroke="${color}" stroke-width="5" stroke-linecap="round" stroke-linejoin="round"/>`;
  const SIGNS = {
    succeeded: stroke(GREEN, "M5 17l8 8L27 8"),
    failed: stroke(RED, "M7 7l18 18M25 7L7 25"),
    cancelled: stroke(GREY, "M6 16h20"),
    expired: stroke(GREY, "M6 16h20"),
    lost: stroke(AMBER, "M10 11a6 6 0 1 1 8 6q-2 1-2 4M16 27v.1"),
    queued: stroke(GREY, "M16 7v9l6 4"),
  };
  function ring(percent) {
    const circle = (color, more) =>
      `<circle cx="16" cy="16" r="12" fill="none" stroke="${color}" stroke-width="6" ${more}/>`;
    const part = percent === "" ? 15 : Math.max(2, Math.min(100, Number(percent)));
    return circle(GREY, 'opacity=".4"') + circle(BLUE, `pathLength="100" stroke-dasharray="${part} 100" transform="rotate(-90 16 16)"`);
  }
  function icon(status, percent) {
    const inside = SIGNS[status] || ring(percent);
    return `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">${inside}</svg>`)}`;
  }

  // --- the notification: only requested by a click ------------------------------------------------------------------------
  const box = document.getElementById("notify-toggle");
  const button = box?.querySelector("button");
  const answer = box?.querySelector("[role=status]");
  let isWanted = false;

  function offer() {
    if (!box || !("Notification" in window) || FINAL.includes(shown().dataset.status)) return;
    box.hidden = Notification.permission === "denied";
  }
  button?.addEventListener("click", async () => {
    isWanted = (await Notification.requestPermission()) === "granted";
    button.hidden = true;
    answer.textContent = isWanted ? words.will_notify : words.not_notified;
  });
  function notify(root) {
    isWanted = false;
    try {
      const notification = new Notification(root.dataset.title, { body: root.dataset.say, icon: link.href, tag: location.pathname });
      notification.addEventListener("click", () => window.focus());
    } catch {
      // Some mobile browsers allow notifications only from service workers; title and icon show the result as well.
    }
  }

  function showStatus() {
    const root = shown();
    if (!root) return;
    const { status, percent } = root.dataset;
    const wanted = icon(status, percent);
    if (link.getAttribute("href") !== wanted) link.href = wanted;
    if (!FINAL.includes(status)) return;
    if (isWanted) notify(root);
    if (box) box.hidden = true;
  }
  document.addEventListener("htmx:sseMessage", showStatus);
  document.addEventListener("htmx:afterSettle", showStatus);
  offer();
  showStatus();
})();
