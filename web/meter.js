// meter.js - the speed of streams as this page sees it, and small charts of the latest ones.

const KEPT = 72; // values of a drawing
const SAMPLE_MS = 100; // while a stream runs
const WINDOW_MS = 400; // over which a running stream's speed is taken
const SPAN_MIN_MS = 40; // below it this page's clock and event loop blur a speed
const SAMPLES_PER_BAR = 5; // a long stream gets a bar for each group of samples

/** Bars of the latest values, the newest on the right; drawn only when a value comes. */
export class Spark {
  #values = [];
  #live = false;

  constructor(canvas) {
    this.canvas = canvas;
    new ResizeObserver(() => this.#draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
  }

  /** live: the value of a running stream: the next one replaces it. */
  push(value, live = false) {
    if (this.#live) this.#values.pop();
    this.#values.push(value);
    this.#live = live;
    if (this.#values.length > KEPT) this.#values.shift();
    this.#draw();
  }

  /** The colours changed. */
  redraw() {
    this.#draw();
  }

  #draw() {
    const { canvas } = this;
    const ratio = devicePixelRatio || 1;
    const width = (canvas.width = Math.round(canvas.clientWidth * ratio));
    const height = (canvas.height = Math.round(canvas.clientHeight * ratio));
    if (!width || !this.#values.length) return;
    const context = canvas.getContext("2d");
    context.fillStyle = getComputedStyle(canvas).color;
    const step = Math.round(5 * ratio),
      bar = Math.round(3 * ratio);
    const shown = this.#values.slice(-Math.floor(width / step));
    // One slow value, like the first of all, must not flatten the others.
    const usual = [...shown].sort((a, b) => a - b)[shown.length >> 1];
    const top = Math.min(Math.max(...shown), 3 * usual);
    shown.forEach((value, i) => {
      const tall = Math.max(ratio, Math.round(Math.min(1, value / top) * height));
      const newest = i === shown.length - 1;
      context.globalAlpha = newest ? 1 : 0.22 + 0.4 * (i / shown.length);
      context.fillRect(width - (shown.length - i) * step + (step - bar), height - tall, bar, tall);
    });
  }
}

/** One stream: began with the request, then tokens, then the end. */
export class Stream {
  tokens = 0;
  first = 0; // ms from the request to the first token
  #times = [];

  constructor(meter) {
    this.meter = meter;
    this.began = performance.now();
    meter.began(this);
  }

  token() {
    const now = performance.now();
    if (!this.tokens++) {
      this.first = now - this.began;
      this.firstAt = now;
      this.meter.firstToken(this.first);
    }
    this.lastAt = now;
    this.#times.push(now);
  }

  /** Tokens a second of the last moments, or since the first token. */
  get rateNow() {
    const now = performance.now();
    while (this.#times.length > 2 && this.#times[0] < now - WINDOW_MS) this.#times.shift();
    const span = this.#times.at(-1) - this.#times[0];
    return span > SPAN_MIN_MS ? ((this.#times.length - 1) * 1000) / span : 0;
  }

  /** exact: how many tokens the server counted; server_ms: from first to last by the server's
   * clock, which is used if this page's is too coarse. */
  end(exact = this.tokens, server_ms = 0) {
    const seen = this.lastAt - this.firstAt;
    const span = seen > SPAN_MIN_MS ? seen : server_ms;
    this.rate = span > 0 && exact > 3 ? ((exact - 1) * 1000) / span : 0;
    this.meter.ended(this);
  }
}

export class Meter {
  #stream = null;
  #timer = 0;
  #samples = 0;

  /** Of elements: first, rate (text), firstSpark, rateSpark (canvas), mark. */
  constructor(parts) {
    Object.assign(this, parts);
    this.firstSpark = new Spark(parts.firstSpark);
    this.rateSpark = new Spark(parts.rateSpark);
  }

  began(stream) {
    this.#stream = stream;
    this.#rest();
  }

  firstToken(ms) {
    this.first.textContent = ms < 10 ? ms.toFixed(1) : Math.round(ms).toLocaleString("en");
    this.firstSpark.push(ms);
    this.mark.classList.add("lit");
    this.#samples = 0;
    this.#timer = setInterval(() => this.#sample(), SAMPLE_MS);
  }

  ended(stream) {
    if (stream !== this.#stream) return;
    this.#rest();
    if (stream.rate) this.#show(stream.rate, false);
  }

  #rest() {
    clearInterval(this.#timer);
    this.mark.classList.remove("lit");
  }

  redraw() {
    this.firstSpark.redraw();
    this.rateSpark.redraw();
  }

  #sample() {
    const rate = this.#stream.rateNow;
    if (rate) this.#show(rate, ++this.#samples % SAMPLES_PER_BAR !== 0);
  }

  #show(rate, live) {
    this.rate.textContent = rate < 10 ? rate.toFixed(1) : Math.round(rate).toLocaleString("en");
    this.rateSpark.push(rate, live);
  }
}
