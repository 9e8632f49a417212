// follow.js - the proposal at the caret, and when to ask for another; no page, no socket.
//
// A proposal is text between two texts.  Typing its text consumes it without a request; deleting
// restores it; anything else shows an earlier proposal that fits, or asks again.  While it is
// being consumed, more is requested after its end, so that it does not run out.  Others for the
// same place are requested when the user turns to them; the first stays as it is.

const KEPT = 24; // earlier proposals
const MORE_BELOW = 24; // characters left when more is requested
const PREFIX_MAX = 24576;
const PREFIX_STEP = 8192;
const SUFFIX_MAX = 4096;
const CANDIDATES = 5; // to ask for; some say the same

export class Proposal {
  constructor(before, after) {
    Object.assign(this, { before, after, text: "", id: null, reason: null, dry: false });
  }

  /** The rest of it between these texts; null if it does not fit there. */
  rest(before, after) {
    if (after !== this.after || !before.startsWith(this.before)) return null;
    const typed = before.slice(this.before.length);
    return this.text.startsWith(typed) ? this.text.slice(typed.length) : null;
  }
}

/** The text that is sent: its start moves in steps, so that the server finds it in its cache. */
export function cut(before, after) {
  if (before.length > PREFIX_MAX) {
    const steps = Math.ceil((before.length - PREFIX_MAX) / PREFIX_STEP);
    const line = before.indexOf("\n", steps * PREFIX_STEP);
    before = before.slice(line < 0 ? steps * PREFIX_STEP : line + 1);
  }
  return [before, after.slice(0, SUFFIX_MAX)];
}

export class Follower {
  #kept = [];
  #running = null; // the proposal that the server works on
  #current = null; // the visible one
  #at = null; // {before, after}
  #timer = 0;
  #refused = false; // dismissed: no request before the text or the caret changes
  #turned = null; // {at, list, shown, step, id}: the proposals of a place; id: others are requested

  /** ask(prefix, suffix, candidates) returns an id, or null if no request is possible now;
   * candidates: undefined, or so many texts, which come with the end; cancel(id);
   * show(text, more): the text at the caret, "" for nothing; more: it grew by a token. */
  constructor({ ask, cancel, show, delay = 30 }) {
    Object.assign(this, { ask, cancel, show, delay, enabled: true });
  }

  /** The text or the caret changed; wait: milliseconds before the request. */
  update(before, after, wait = this.delay) {
    if (this.#at?.before === before && this.#at.after === after) return;
    this.#at = { before, after };
    this.#refused = false;
    this.#settle(wait);
  }

  /** Another proposal for this place: 1 the next one, -1 the one before. True if one is shown. */
  turn(step) {
    if (!this.text) return false;
    if (this.#turned?.at === this.#at) {
      if (this.#turned.id) this.#turned.step += step;
      else this.#show(step);
      return true;
    }
    clearTimeout(this.#timer);
    if (this.#running) this.#stop();
    const id = this.ask(...cut(this.#at.before, this.#at.after), CANDIDATES);
    const first = { at: this.#at, list: [this.#current], shown: 0, step, id };
    this.#turned = id === null ? null : first;
    return id !== null;
  }

  /** Which of the proposals for this place is shown, as "2 of 3"; "" if they were not asked for. */
  get place() {
    const t = this.#turned;
    return t && t.at === this.#at && !t.id ? `${t.shown + 1} of ${t.list.length}` : "";
  }

  #show(step) {
    const t = this.#turned;
    const n = t.list.length;
    t.shown = (((t.shown + step) % n) + n) % n;
    this.#current = t.list[t.shown];
    this.show(this.text);
  }

  /** They came: those that say something else are shown in turn, and kept behind the first. */
  #others(candidates) {
    const t = this.#turned;
    const { before, after } = t.at;
    t.id = null;
    for (const { text, cut: is_cut } of candidates) {
      const says = (p) => p.rest(before, after)?.trim() === text.trim();
      if (!text.trim() || t.list.some(says)) continue;
      const p = new Proposal(before, after);
      Object.assign(p, { text, reason: is_cut ? "length" : "stop" });
      t.list.push(p);
      this.#kept.splice(1, 0, p);
      this.#kept.length = Math.min(this.#kept.length, KEPT);
    }
    if (t.at === this.#at) this.#show(t.step);
  }

  #forget() {
    if (this.#turned?.id) this.cancel(this.#turned.id);
    this.#turned = null;
  }

  #settle(wait) {
    const { before, after } = this.#at;
    clearTimeout(this.#timer);
    if (this.#turned && this.#turned.at !== this.#at) this.#forget();
    const fits = (p) => p && p.rest(before, after) !== null;
    const kept = () => this.enabled && this.#kept.find((p) => p.rest(before, after));
    const found = fits(this.#current) ? this.#current : kept() || null;
    if (this.#running && this.#running !== found) this.#stop();
    this.#current = found ?? new Proposal(before, after);
    const rest = this.#current.rest(before, after);
    this.show(rest);
    const wanted =
      !this.#running &&
      !this.#current.dry &&
      rest.length < MORE_BELOW &&
      (rest === "" || this.#current.reason !== "stop");
    if (wanted && this.enabled) this.#timer = setTimeout(() => this.#request(), rest ? 0 : wait);
  }

  /** No proposal here: no caret, or a selection. */
  leave() {
    clearTimeout(this.#timer);
    this.#forget();
    if (this.#running) this.#stop();
    this.#current = this.#at = null;
    this.show("");
  }

  /** The user does not want this one. True if there was something to dismiss. */
  dismiss() {
    const shown = this.text !== "" || this.#running !== null;
    const at = this.#at;
    this.#kept = this.#kept.filter((p) => p !== this.#current);
    this.leave();
    this.#at = at;
    this.#refused = true;
    return shown;
  }

  /** Ask here and now, ignoring earlier proposals. */
  force(before, after) {
    this.dismiss();
    this.#refused = false;
    this.#kept = this.#kept.filter((p) => p.rest(before, after) === null);
    const enabled = this.enabled;
    this.#at = { before, after };
    this.#current = new Proposal(before, after);
    this.enabled = true;
    this.#request();
    this.enabled = enabled;
  }

  get text() {
    return this.#current && this.#at
      ? (this.#current.rest(this.#at.before, this.#at.after) ?? "")
      : "";
  }

  delta(id, text) {
    const p = this.#running;
    if (!p || p.id !== id) return;
    if (p.text === "") this.#keep(p);
    p.text += text;
    if (p === this.#current) this.show(this.text, true);
  }

  /** reason: of completion.done, or "error"; candidates: its further texts. */
  done(id, reason, candidates = []) {
    if (this.#turned?.id === id) this.#others(candidates);
    const p = this.#running;
    if (!p || p.id !== id) return;
    this.#running = null;
    p.reason = reason;
    p.dry = p.text.length === p.asked; // the model adds nothing more: do not ask again
    if (p === this.#current && reason !== "error") this.#settle(0);
  }

  /** The connection is new: running requests are lost. */
  restart() {
    this.#running = this.#turned = null;
    if (this.#at && !this.#refused) this.#settle(0);
  }

  #request() {
    const p = this.#current;
    if (!p || !this.enabled) return;
    p.asked = p.text.length;
    p.id = this.ask(...cut(p.before + p.text, p.after));
    this.#running = p.id === null ? null : p;
  }

  #stop() {
    this.cancel(this.#running.id);
    this.#running.reason = "canceled";
    this.#running = null;
  }

  #keep(p) {
    this.#kept.unshift(p);
    this.#kept.length = Math.min(this.#kept.length, KEPT);
  }
}
