// editor.js - a textarea that keeps the text, the caret and the undo list, and a sheet below it
// that draws the same text in colour with the proposal at the caret.
//
// The sheet has one element per line, painted again only when the line or the state before it
// changes.  Text after the caret moves aside for the proposal, so clicks there are mapped back.

import { make } from "./dom.js";
import { language, paint } from "./highlight.js";

const INDENT = "    ";
const TURNS = { BracketRight: 1, BracketLeft: -1 }; // with Alt, as in VS Code

export class Editor {
  #text = null; // as it is drawn
  #lines = []; // {text, open: the state before it, end: after it, element}
  #ghost = "";
  #frame = 0;
  #drawn = []; // elements that the proposal added or changed
  #language = language("c");
  #leaving = false; // Tab goes to the next control

  /** on: change(typed) after the text or the caret moved, blur(), accept(), dismiss() -> bool,
   * force(), turn(step) -> bool. */
  constructor(root, on) {
    this.root = root;
    this.on = on;
    this.gutter = root.querySelector(".gutter");
    this.view = root.querySelector(".view");
    this.input = root.querySelector("textarea");
    this.input.addEventListener("input", () => this.#changed(true));
    this.input.addEventListener("keydown", (event) => this.#key(event));
    this.input.addEventListener("pointerdown", (event) => this.#pointer(event));
    this.input.addEventListener("blur", () => this.on.blur());
    this.input.addEventListener("focus", () => this.#changed(false));
    document.addEventListener("selectionchange", () => {
      if (document.activeElement === this.input) this.#changed(false);
    });
    this.#draw();
  }

  get text() {
    return this.input.value;
  }
  get before() {
    return this.text.slice(0, this.input.selectionStart);
  }
  get after() {
    return this.text.slice(this.input.selectionEnd);
  }
  get selecting() {
    return this.input.selectionStart !== this.input.selectionEnd;
  }

  /** A new document; caret: where in it. */
  open(text, caret = text.length) {
    this.input.value = text;
    this.input.setSelectionRange(caret, caret);
    this.#ghost = "";
    this.#changed(false);
  }

  named(path) {
    this.#language = language(path);
    this.#lines = [];
    this.view.replaceChildren();
    this.#draw();
  }

  /** Insert text at the caret, replacing the selection, so that undo knows it. */
  insert(text) {
    this.input.focus();
    if (text && !document.execCommand("insertText", false, text)) {
      this.input.setRangeText(text, this.input.selectionStart, this.input.selectionEnd, "end");
      this.#changed(true);
    }
  }

  /** The grey text at the caret. */
  propose(text) {
    if (text === this.#ghost) return;
    this.#ghost = text;
    this.#drawGhost();
    this.#drawGutter();
  }

  accept(part = /^[^]*$/) {
    const [text] = part.exec(this.#ghost) ?? [""];
    if (text) this.insert(text);
    return text !== "";
  }

  // ---- keys ----

  #key(event) {
    const { key, ctrlKey, metaKey, altKey, shiftKey } = event;
    if (event.isComposing) return;
    const word = (ctrlKey || metaKey) && key === "ArrowRight" && !shiftKey;
    let done = false;
    if (key === "Tab" && !shiftKey && !ctrlKey && !altKey && !this.#leaving) {
      if (this.accept()) this.on.accept();
      else this.insert(INDENT);
      done = true;
    } else if (word && this.#ghost) {
      done = this.accept(/^\s*(?:[\p{L}\p{N}_$]+|[^\p{L}\p{N}_$\s]+)?/u);
      if (done) this.on.accept();
    } else if (key === "Escape") {
      done = this.on.dismiss();
      this.#leaving = !done;
    } else if (key === "Enter" && !ctrlKey && !metaKey && !altKey) {
      this.insert(this.#newLine());
      done = true;
    } else if (altKey && !ctrlKey && !metaKey && TURNS[event.code]) {
      done = this.on.turn(TURNS[event.code]);
    } else if (key === " " && ctrlKey) {
      this.on.force();
      done = true;
    }
    if (key !== "Escape" && key !== "Tab" && key !== "Shift") this.#leaving = false;
    if (done) {
      event.preventDefault();
      event.stopPropagation();
    }
  }

  /** A new line as in the proposal, otherwise indented as the present one, deeper after
   * an opening bracket or a colon. */
  #newLine() {
    const proposed = /^\n[ \t]*/.exec(this.#ghost);
    if (proposed) return proposed[0];
    const line = this.before.split("\n").pop();
    const deeper = /[{[(:]\s*$/.test(line) ? (line.startsWith("\t") ? "\t" : INDENT) : "";
    return "\n" + /^[ \t]*/.exec(line)[0] + deeper;
  }

  // ---- the pointer ----

  #pointer(event) {
    this.#leaving = false;
    if (!this.#ghost || event.button !== 0) return;
    const on = (element) =>
      [...element.getClientRects()].some(
        (r) =>
          event.clientX >= r.left &&
          event.clientX <= r.right &&
          event.clientY >= r.top &&
          event.clientY <= r.bottom,
      );
    const ghosts = [...this.view.querySelectorAll(".ghost")];
    if (event.pointerType === "touch" && ghosts.some(on)) {
      event.preventDefault();
      if (this.accept()) this.on.accept();
      return;
    }
    const extra = this.#ghost.split("\n").length - 1;
    const row = Math.floor(
      (event.clientY - this.#lines[0].element.getBoundingClientRect().top) / this.#row,
    );
    const at = this.#caretLine;
    if (row < at || (row === at && extra > 0)) return; // nothing moved there
    const column = row <= at + extra ? null : this.#columnAt(row - extra, event.clientX);
    event.preventDefault();
    this.input.focus();
    this.#place(column === null ? at : row - extra, column);
  }

  /** The caret to a line and column; null: leave it. */
  #place(line, column) {
    if (column === null) return;
    const index = Math.min(line, this.#lines.length - 1);
    const start = this.#lines.slice(0, index).reduce((sum, { text }) => sum + text.length + 1, 0);
    this.input.setSelectionRange(start + column, start + column);
  }

  #columnAt(line, x) {
    const { text } = this.#lines[Math.min(line, this.#lines.length - 1)];
    let low = 0,
      high = text.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const centre = (this.#x(line, middle) + this.#x(line, middle + 1)) / 2;
      if (x > centre) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The position on the screen of a column of a line without a proposal. */
  #x(line, column) {
    const { element } = this.#lines[Math.min(line, this.#lines.length - 1)];
    const range = document.createRange();
    range.setStart(element, 0);
    let left = column;
    for (const node of element.childNodes) {
      if (left <= node.textContent.length) {
        range.setEnd(node.nodeType === Node.TEXT_NODE ? node : node.firstChild, left);
        break;
      }
      left -= node.textContent.length;
    }
    return column ? range.getBoundingClientRect().right : element.getBoundingClientRect().left;
  }

  // ---- drawing ----

  get #row() {
    return parseFloat(getComputedStyle(this.input).lineHeight);
  }
  get #caretLine() {
    const before = this.before;
    let n = 0;
    for (let at = before.indexOf("\n"); at >= 0; at = before.indexOf("\n", at + 1)) n++;
    return n;
  }

  #changed(typed) {
    if (this.text !== this.#text) this.#draw();
    this.on.change(typed); // proposes
    this.#drawGhost();
    this.#drawGutter();
    this.#reveal();
  }

  /** Paint the lines that differ from those drawn before. */
  #draw() {
    this.#dropGhost();
    this.#text = this.text;
    const texts = this.#text.split("\n");
    const old = this.#lines;
    let head = 0,
      tail = 0;
    const most = Math.min(texts.length, old.length);
    while (head < most && texts[head] === old[head].text) head++;
    while (tail < most - head && texts.at(-1 - tail) === old.at(-1 - tail).text) tail++;
    const fresh = texts
      .slice(head, texts.length - tail)
      .map((text) => ({ text, open: undefined, end: null, element: make("div") }));
    for (const { element } of old.slice(head, old.length - tail)) element.remove();
    const below = tail ? old.at(-tail).element : null;
    for (const { element } of fresh) this.view.insertBefore(element, below);
    this.#lines = [...old.slice(0, head), ...fresh, ...(tail ? old.slice(-tail) : [])];
    let open = head ? this.#lines[head - 1].end : null;
    for (let i = head; i < this.#lines.length; i++) {
      const line = this.#lines[i];
      if (line.open !== undefined && line.open === open) break; // the rest is unchanged
      line.open = open;
      this.#paint(line);
      open = line.end;
    }
  }

  #paint(line) {
    const pieces = [];
    line.end = paint(line.text, line.open, this.#language, (name, text) =>
      pieces.push(name ? make("span", { className: name }, text) : document.createTextNode(text)),
    );
    line.element.replaceChildren(...pieces);
  }

  #dropGhost() {
    for (const element of this.#drawn) element.remove();
    const line = this.#drawn.length ? this.#lines[this.#ghostLine] : null;
    this.#drawn = [];
    if (line) this.#paint(line);
  }

  #ghostLine = 0;

  #drawGhost() {
    this.#dropGhost();
    if (!this.#ghost || this.selecting) return;
    this.#ghostLine = this.#caretLine;
    const line = this.#lines[this.#ghostLine];
    const column = this.before.length - this.before.lastIndexOf("\n") - 1;
    const tail = split(line.element, column);
    const [first, ...more] = this.#ghost.split("\n");
    const grey = (text) => make("span", { className: "ghost" }, text);
    const start = grey(first);
    line.element.append(start);
    this.#drawn.push(start);
    let last = line.element;
    for (const text of more) {
      const element = make("div", {}, grey(text));
      last.after(element);
      this.#drawn.push(element);
      last = element;
    }
    last.append(...tail, make("span", { className: "ghost-key" }, "Tab"));
  }

  #drawGutter() {
    const extra = this.#drawn.length ? this.#ghost.split("\n").length - 1 : 0;
    const at = this.#caretLine;
    const state = `${this.#lines.length} ${extra} ${at}`;
    if (this.gutter.dataset.state === state) return;
    this.gutter.dataset.state = state;
    const numbers = (from, to) =>
      Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i + 1).join("\n");
    const above = numbers(0, at);
    const below = numbers(at + 1, this.#lines.length);
    this.gutter.replaceChildren(
      above && above + "\n",
      make("b", {}, String(at + 1)),
      "\n".repeat(extra + 1),
      below,
    );
  }

  /** Keep the caret in sight, after the browser has scrolled. */
  #reveal() {
    if (document.activeElement !== this.input) return;
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => {
      const { root, gutter } = this;
      const row = this.#row,
        top = this.view.firstElementChild.offsetTop + this.#caretLine * row;
      const place = (from, to, now, room) =>
        from < now ? from : to > now + room ? to - room : now;
      root.scrollTop = place(top - row, top + 4 * row, root.scrollTop, root.clientHeight);
      const column = this.before.length - this.before.lastIndexOf("\n") - 1;
      const left = this.#x(this.#caretLine, column) - this.view.getBoundingClientRect().left;
      const room = root.clientWidth - gutter.offsetWidth;
      root.scrollLeft =
        left < room * 0.6 ? 0 : place(left - room / 4, left + room / 3, root.scrollLeft, room);
    });
  }
}

/** Cut the pieces of a line at a column; removes the rest from the line and returns it. */
function split(element, column) {
  const nodes = [...element.childNodes];
  const tail = [];
  let left = column;
  for (const node of nodes) {
    const text = node.textContent;
    if (left >= text.length) {
      left -= text.length;
      continue;
    }
    const rest = node.cloneNode();
    rest.textContent = text.slice(left);
    tail.push(rest);
    if (left > 0) node.textContent = text.slice(0, left);
    else node.remove();
    left = 0;
  }
  return tail;
}
