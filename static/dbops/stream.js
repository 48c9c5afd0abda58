// The live stream of a page. After some failures a browser gives up an EventSource for good, and htmx then waits up to a minute before it
// opens a new one; a stream lost by a sleeping laptop looks open for ever. This file reopens the stream within seconds in each of these
// cases, and at once when the browser is online again.
(function () {
  "use strict";
  const AGAIN_MILLISECONDS = 3000;
  // The server sends something every few seconds.
  const SILENT_MILLISECONDS = 40000;

  class SteadySource {
    constructor(url) {
      this.url = url;
      this.listeners = [["alive", () => {}]];
      this.isOver = false;
      this.connect = this.connect.bind(this);
      window.addEventListener("online", this.connect);
      this.watch = setInterval(() => {
        if (this.readyState === EventSource.OPEN && Date.now() - this.heardAt > SILENT_MILLISECONDS) this.connect();
      }, 5000);
      this.connect();
    }
    get readyState() {
      if (this.isOver) return EventSource.CLOSED;
      return this.source.readyState === EventSource.OPEN ? EventSource.OPEN : EventSource.CONNECTING;
    }
    connect() {
      clearTimeout(this.timer);
      if (this.isOver) return;
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
    listen(name, listener) {
      this.source.addEventListener(name, listener);
      this.source.addEventListener(name, () => (this.heardAt = Date.now()));
    }
    addEventListener(name, listener) {
      this.listeners.push([name, listener]);
      this.listen(name, listener);
    }
    removeEventListener(name, listener) {
      this.listeners = this.listeners.filter(([, known]) => known !== listener);
      this.source.removeEventListener(name, listener);
    }
    close() {
      this.isOver = true;
      clearTimeout(this.timer);
      clearInterval(this.watch);
      window.removeEventListener("online", this.connect);
      this.source.close();
    }
  }
  htmx.createEventSource = (url) => new SteadySource(url);
})();
