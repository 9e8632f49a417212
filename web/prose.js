// prose.js - text of a model as it streams: paragraphs, lists, headings, fenced code.  Complete
// lines stay unchanged; only the last one is drawn again.

import { make } from "./dom.js";
import { language, paint } from "./highlight.js";

export class Prose {
  #line = ""; // the unfinished last line
  #drawn = null; // how it is drawn: {undo()}
  #block = null; // the paragraph or list that continues
  #fence = null; // {mark, code, open, language}

  /** insert(code): the button of code blocks; element: where to draw. */
  constructor(element, insert) {
    Object.assign(this, { element, insert, text: "" });
  }

  feed(text) {
    this.text += text;
    const lines = (this.#line + text).split("\n");
    this.#drawn?.undo();
    this.#drawn = null;
    this.#line = lines.pop();
    for (const line of lines) this.#add(line);
    // A line that may become a fence is not shown before that is known.
    if (this.#line && !/^\s{0,3}`{1,3}$/.test(this.#line)) this.#drawn = this.#try(this.#line);
  }

  end() {
    if (!this.#line) return;
    this.#drawn?.undo();
    this.#drawn = null;
    this.#add(this.#line);
    this.#line = "";
  }

  /** Draw a line so that it can be undone. */
  #try(line) {
    const block = this.#block,
      fence = this.#fence && { ...this.#fence };
    const target = fence ? fence.code : block;
    const children = target ? target.childNodes.length : 0;
    const blocks = this.element.childNodes.length;
    this.#add(line);
    return {
      undo: () => {
        while (this.element.childNodes.length > blocks) this.element.lastChild.remove();
        while (target && target.childNodes.length > children) target.lastChild.remove();
        this.#block = block;
        this.#fence = fence;
      },
    };
  }

  #add(line) {
    const mark = /^\s{0,3}(`{3,}|~{3,})\s*([^\s`]*)/.exec(line);
    if (this.#fence) {
      if (mark && mark[1].startsWith(this.#fence.mark) && !mark[2]) this.#fence = null;
      else this.#addCode(line);
      return;
    }
    if (mark) {
      this.#openFence(mark[1], mark[2]);
      return;
    }
    const heading = /^#{1,6}\s+(.*)/.exec(line);
    const item = /^\s*(?:[-*+]|(\d+)[.)])\s+(.*)/.exec(line);
    if (!line.trim()) {
      this.#block = null;
    } else if (heading) {
      this.#block = null;
      this.element.append(make("h4", {}, ...inline(heading[1])));
    } else if (item) {
      const tag = item[1] ? "OL" : "UL";
      if (this.#block?.tagName !== tag) this.#open(make(tag, item[1] ? { start: item[1] } : {}));
      this.#block.append(make("li", {}, ...inline(item[2])));
    } else if (this.#block?.tagName === "P") {
      this.#block.append(make("span", {}, " ", ...inline(line)));
    } else {
      this.#open(make("p", {}, ...inline(line)));
    }
  }

  #open(block) {
    this.#block = block;
    this.element.append(block);
  }

  #openFence(mark, name) {
    const code = make("code");
    const fence = { mark, code, open: null, language: language(name || "c") };
    const copy = make("button", { type: "button" }, "Copy");
    const put = make("button", { type: "button" }, "Insert");
    copy.onclick = async () => {
      await navigator.clipboard.writeText(code.textContent);
      copy.textContent = "Copied";
      setTimeout(() => {
        copy.textContent = "Copy";
      }, 1500);
    };
    put.onclick = () => this.insert(code.textContent);
    const caption = make(
      "figcaption",
      {},
      make("span", { className: "grow" }, name || "code"),
      copy,
      put,
    );
    this.element.append(make("figure", {}, caption, make("pre", { tabIndex: 0 }, code)));
    this.#block = null;
    this.#fence = fence;
  }

  #addCode(line) {
    const fence = this.#fence;
    const row = make("span", {}, fence.code.childNodes.length ? "\n" : "");
    fence.open = paint(line, fence.open, fence.language, (name, text) =>
      row.append(name ? make("span", { className: name }, text) : text),
    );
    fence.code.append(row);
  }
}

/** `code` and **strong** of one line. */
function inline(line) {
  return line
    .split(/(`[^`]+`|\*\*[^*]+\*\*)/)
    .filter(Boolean)
    .map((piece) => {
      if (/^`[^`]+`$/.test(piece)) return make("code", {}, piece.slice(1, -1));
      if (/^\*\*[^*]+\*\*$/.test(piece)) return make("strong", {}, piece.slice(2, -2));
      return document.createTextNode(piece);
    });
}
