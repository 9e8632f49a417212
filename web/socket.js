// socket.js - the one WebSocket: opens it, reopens it with growing pauses, reports its state.

const PAUSE_MIN_MS = 250;
const PAUSE_MAX_MS = 10000;

/** The key as a subprotocol may carry it: a token of RFC 9110. */
const escaped = (key) =>
  encodeURIComponent(key).replace(
    /[!'()*]/g,
    (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase(),
  );

export class Link {
  #socket = null;
  #timer = 0;
  #pause = PAUSE_MIN_MS;

  /** message(object); state(name, seconds): "connecting", "open", "waiting" (that long), "key". */
  constructor({ url, message, state, key }) {
    Object.assign(this, { url, message, state, key });
    addEventListener("online", () => this.retry());
    addEventListener("offline", () => this.#lose());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.retry();
    });
  }

  get open() {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  /** False when there is no connection: nothing is kept for later. */
  send(object) {
    if (this.open) this.#socket.send(JSON.stringify(object));
    return this.open;
  }

  /** Leave the present connection and make one with the present key. */
  restart() {
    clearTimeout(this.#timer);
    this.#leave();
    this.#pause = PAUSE_MIN_MS;
    this.#connect();
  }

  /** Connect at once if a pause was running. */
  retry() {
    if (!this.#socket) this.restart();
  }

  /** Without waiting for the other side's closing frame: offline, a browser waits a minute for
   * it. */
  #leave() {
    if (!this.#socket) return;
    this.#socket.onopen = this.#socket.onmessage = this.#socket.onclose = null;
    this.#socket.close();
    this.#socket = null;
  }

  #lose() {
    if (!this.#socket) return;
    this.#leave();
    this.#closed(true);
  }

  #connect() {
    const key = this.key();
    const socket = new WebSocket(
      this.url,
      key ? ["cerium", `cerium.bearer.${escaped(key)}`] : ["cerium"],
    );
    let opened = false;
    this.#socket = socket;
    this.state("connecting");
    socket.onopen = () => {
      opened = true;
      this.#pause = PAUSE_MIN_MS;
      this.state("open");
    };
    socket.onmessage = (event) => {
      let object = null;
      try {
        object = JSON.parse(event.data);
      } catch {
        return; // not ours
      }
      this.message(object);
    };
    socket.onclose = () => this.#closed(opened);
  }

  async #closed(opened) {
    this.#socket = null;
    clearTimeout(this.#timer);
    const pause = this.#pause * (0.75 + Math.random() / 2);
    this.#pause = Math.min(this.#pause * 2, PAUSE_MAX_MS);
    this.#timer = setTimeout(() => this.#connect(), pause);
    this.state("waiting", pause / 1000);
    // A browser does not show why an upgrade was refused; a plain request does.
    if (!opened && (await this.#refused()) && !this.#socket) {
      clearTimeout(this.#timer);
      this.state("key");
    }
  }

  async #refused() {
    try {
      const headers = this.key() ? { authorization: `Bearer ${this.key()}` } : {};
      const { status } = await fetch("v1/models", { headers, cache: "no-store" });
      return status === 401 || status === 403;
    } catch {
      return false; // unreachable
    }
  }
}
