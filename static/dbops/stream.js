// The live stream of a page. After some failures a browser gives up an EventSource for good, and htmx then waits up to a minute before it
// opens a new one; a stream lost by a sleeping laptop looks open for ever. This file reopens the stream within seconds in each of these
// cases, and at once when the browser is online again.
// A browser opens six HTTP/1.1 connections to a server, and a stream keeps one. So only visible pages have a stream, and only few of them at
// the same time: the others poll.
(function () {
  "use strict";
  const AGAIN_MILLISECONDS = 3000;
  // The server sends something every few seconds.
  const SILENT_MILLISECONDS = 40000;
  const PLACES = ["dbops-stream-1", "dbops-stream-2", "dbops-stream-3"];

  // Return a function that gives the place back, or null if all are taken. The browser gives back the place of a tab that has crashed.
  // Without Web Locks (no HTTPS, and not localhost) there is always a place.
  async function takePlace() {
    if (!navigator.locks) return () => {};
    for (const name of PLACES) {
      const release = await new Promise((answer) => {
        const hold = (lock) => (lock ? new Promise(answer) : answer(null));
        navigator.locks.request(name, { ifAvailable: true }, hold).catch(() => answer(null));
      });
      if (release) return release;
    }
    return null;
  }

  class SteadySource {
    constructor(url) {
      this.url = url;
      this.listeners = [["alive", () => {}]];
      this.isOver = false;
      this.connect = this.connect.bind(this);
      this.look = () => {
        if (!document.hidden) return this.connect();
        this.rest();
        document.dispatchEvent(new CustomEvent("dbops:rest"));
      };
      window.addEventListener("online", this.connect);
      document.addEventListener("visibilitychange", this.look);
      this.watch = setInterval(() => {
        const isSilent = this.readyState === EventSource.OPEN && Date.now() - this.heardAt > SILENT_MILLISECONDS;
        if (!this.source || isSilent) this.connect();
      }, 5000);
      this.connect();
    }
    get readyState() {
      if (this.isOver) return EventSource.CLOSED;
      return this.source?.readyState === EventSource.OPEN ? EventSource.OPEN : EventSource.CONNECTING;
    }
    get isWanted() {
      return !this.isOver && !document.hidden;
    }
    async connect() {
      clearTimeout(this.timer);
      if (!this.isWanted || this.isAsking) return;
      if (!this.place) {
        this.isAsking = true;
        this.place = await takePlace();
        this.isAsking = false;
        if (!this.place) return;
        if (!this.isWanted) return this.rest();
      }
      this.source?.close();
      const source = (this.source = new EventSource(this.url, { withCredentials: true }));
      source.onopen = (event) => {
        this.heardAt = Date.now();
        this.onopen?.(event);
      };
      source.onerror = (event) => {
        if (source !== this.source) return;
        this.onerror?.(event);
        if (source.readyState === EventSource.CLOSED) this.timer = setTimeout(this.connect, AGAIN_MILLISECONDS);
      };
      this.listeners.forEach(([name, listener]) => this.listen(name, listener));
    }
    // Give back the connection and the place.
    rest() {
      clearTimeout(this.timer);
      this.source?.close();
      this.source = null;
      this.place?.();
      this.place = null;
    }
    listen(name, listener) {
      this.source?.addEventListener(name, listener);
      this.source?.addEventListener(name, () => (this.heardAt = Date.now()));
    }
    addEventListener(name, listener) {
      this.listeners.push([name, listener]);
      this.listen(name, listener);
    }
    removeEventListener(name, listener) {
      this.listeners = this.listeners.filter(([, known]) => known !== listener);
      this.source?.removeEventListener(name, listener);
    }
    close() {
      this.isOver = true;
      clearInterval(this.watch);
      window.removeEventListener("online", this.connect);
      document.removeEventListener("visibilitychange", this.look);
      this.rest();
    }
  }
  htmx.createEventSource = (url) => new SteadySource(url);
})();
