// offers.js - chat models, for users without one: their needs, one click, the progress.

import { announce, make } from "./dom.js";

const POLL_MS = 700;

/** "531 MB", "4.7 GB": as in the terminal. */
export function size(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let n = bytes;
  let unit = 0;
  while (n >= 1000 && unit + 1 < units.length) {
    n /= 1000;
    unit++;
  }
  return `${unit ? Number(n.toPrecision(3)) : n} ${units[unit]}`;
}

/** Whole percent of a fetch, never 100 before it is complete. */
export function percent({ done_bytes: done, total_bytes: total }) {
  return total > 0 ? Math.min(99, Math.floor((100 * done) / total)) : 0;
}

/** The offers: chat models, those that fit first, each group small to large. */
export function offers(list) {
  return list
    .filter((one) => one.chats && !one.is_served)
    .sort((a, b) => b.fits - a.fits || a.memory_bytes - b.memory_bytes);
}

/** Size and needs in words. */
export function facts(one) {
  const where = one.is_here ? "on this machine" : size(one.size_bytes);
  return `${where} · needs ${size(one.memory_bytes)} of memory`;
}

/** The models that do not fit into this many bytes, in words. */
export function tooLarge(list, most) {
  return `${list.length} ${list.length > 1 ? "need" : "needs"} more than the ${size(most)} here`;
}

export class Offers {
  #timer = 0;
  #shown = ""; // the list's source

  /** box: its element; request(path, options): fetch with the key; ready(name): it is fetched. */
  constructor({ box, request, ready }) {
    Object.assign(this, { box, request, ready });
  }

  /** Show the offers, or nothing. */
  async show(wanted) {
    clearTimeout(this.#timer);
    this.box.hidden = !wanted;
    if (!wanted) {
      this.#shown = "";
      return;
    }
    try {
      const answer = await this.request("models/pull");
      if (answer.ok) this.#draw(await answer.json());
      else this.box.hidden = true;
    } catch {
      this.#timer = setTimeout(() => this.show(true), POLL_MS);
    }
  }

  #draw(found) {
    const pull = found.pull;
    const runs = pull?.state === "running";
    const key = JSON.stringify([found.data, found.allowed, runs && pull.model, pull?.state]);
    if (key !== this.#shown) {
      this.#shown = key;
      this.box.replaceChildren(...this.#parts(found));
    }
    if (runs) {
      const bar = this.box.querySelector("progress");
      bar.value = percent(pull);
      this.box.querySelector(".far").textContent =
        `${size(pull.done_bytes)} of ${size(pull.total_bytes)}, ${percent(pull)} %`;
      this.#timer = setTimeout(() => this.#follow(pull.model), POLL_MS);
    }
  }

  /** Until it ends. */
  async #follow(name) {
    try {
      const found = await (await this.request("models/pull")).json();
      if (found.pull?.state === "done" && found.pull.model === name) {
        announce(`${name} is here.`);
        this.ready(name);
        return;
      }
      if (found.pull?.state === "failed") announce(found.pull.reason);
      this.#draw(found);
    } catch {
      this.#timer = setTimeout(() => this.#follow(name), POLL_MS);
    }
  }

  async #begin(name) {
    const answer = await this.request("models/pull", {
      method: "POST",
      body: JSON.stringify({ model: name }),
    });
    if (!answer.ok) announce((await answer.json()).error?.message ?? "It could not be fetched.");
    this.#shown = "";
    this.show(true);
  }

  async #cancel() {
    await this.request("models/pull", { method: "DELETE" });
    announce("Canceled. What came is kept.");
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.show(true), POLL_MS);
  }

  #parts(found) {
    const list = offers(found.data);
    if (!list.length) return [];
    const pull = found.pull;
    const runs = pull?.state === "running";
    const parts = [make("h3", {}, "Get a model that chats")];
    if (!found.allowed) {
      const fitting = list.find((one) => one.fits) ?? list[0];
      parts.push(
        make("p", {}, `${found.reason}.`),
        make("code", { className: "command" }, `cerium pull ${fitting.name}`),
      );
      return parts;
    }
    if (pull?.state === "failed")
      parts.push(make("p", { className: "why", "data-testid": "offer-why" }, pull.reason));
    const large = list.filter((one) => !one.fits);
    const rows = list.filter((one) => one.fits).map((one) => {
      const mine = runs && pull.model === one.name;
      const row = make("li");
      row.append(
        make("span", { className: "name" }, one.name),
        make("small", {}, facts(one)),
      );
      if (mine) row.append(...this.#running());
      else
        row.append(
          make(
            "button",
            {
              className: "quiet get",
              type: "button",
              disabled: runs,
              "data-testid": `get-${one.name}`,
              onclick: () => this.#begin(one.name),
            },
            one.is_here ? "Use" : "Get",
          ),
        );
      return row;
    });
    parts.push(make("ul", { "data-testid": "offers-list" }, ...rows));
    if (large.length)
      parts.push(
        make(
          "details",
          {},
          make("summary", {}, tooLarge(large, found.memory_bytes_max)),
          make("p", {}, large.map((one) => `${one.name} (${size(one.memory_bytes)})`).join(", ")),
        ),
      );
    return parts;
  }

  #running() {
    return [
      make("progress", { max: 100, value: 0, "aria-label": "fetched" }),
      make("small", { className: "far", "data-testid": "offer-far" }),
      make(
        "button",
        {
          className: "quiet get",
          type: "button",
          "data-testid": "offer-cancel",
          onclick: () => this.#cancel(),
        },
        "Cancel",
      ),
    ];
  }
}
