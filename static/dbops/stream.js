// The live stream of a page. A browser gives an EventSource up for good after some failures, and htmx then waits for up to a minute before it
// makes another one; one that a sleeping laptop has lost looks open for ever. This one is opened anew after seconds in each of these cases,
// and at once when the browser says that it is online again.
(function () {
  "use strict";
  const AGAIN_MILLISECONDS = 3000;
  // The server says something every 15 s.
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
