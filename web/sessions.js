// sessions.js - code and conversations, kept in this browser; and the list of them.

import { make } from "./dom.js";

const KEPT = 20;
const CODE_MAX = 256 * 1024;
const PREFIX = "cerium.session.";

/** Each session is one entry, so that tabs do not write over each other's. */
export function all() {
  const found = [];
  for (let i = 0; i < localStorage.length; i++) {
    const name = localStorage.key(i);
    if (!name.startsWith(PREFIX)) continue;
    try {
      found.push(JSON.parse(localStorage.getItem(name)));
    } catch {
      localStorage.removeItem(name);
    }
  }
  return found.sort((a, b) => b.at - a.at);
}

export function load(id) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + id));
  } catch {
    return null;
  }
}

export function remove(id) {
  localStorage.removeItem(PREFIX + id);
}

/** The oldest are removed if there are too many, or the browser has no more room. */
export function save(session) {
  const text = JSON.stringify({
    ...session,
    code: session.code.slice(0, CODE_MAX),
    at: Date.now(),
  });
  const others = all().filter(({ id }) => id !== session.id);
  for (const { id } of others.splice(KEPT - 1)) remove(id);
  for (;;) {
    try {
      localStorage.setItem(PREFIX + session.id, text);
      return true;
    } catch {
      if (!others.length) return false;
      remove(others.pop().id);
    }
  }
}

export function title({ turns, code, path }) {
  const asked = turns.find(({ role }) => role === "user")?.text;
  const line = code
    .split("\n")
    .find((text) => /\w\w/.test(text) && !/^\s*(#include|import|from)\b/.test(text));
  return (asked || line || path || "empty").trim().slice(0, 80);
}

export function ago(ms) {
  const minutes = Math.round((Date.now() - ms) / 60000);
  const say = (n, unit) => new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(-n, unit);
  if (minutes < 1) return "just now";
  if (minutes < 60) return say(minutes, "minute");
  if (minutes < 36 * 60) return say(Math.round(minutes / 60), "hour");
  return say(Math.round(minutes / 1440), "day");
}

/** Fill a list: entries {id, title, facts, current}, open(id), forget(id) or null. */
export function list(element, entries, open, forget) {
  element.replaceChildren(
    ...entries.map((entry) => {
      const button = make(
        "button",
        { type: "button", onclick: () => open(entry.id) },
        make("b", {}, entry.title),
        make("small", {}, entry.facts),
      );
      button.dataset.testid = "session";
      const item = make("li", {}, button);
      if (entry.current) item.setAttribute("aria-current", "true");
      if (forget) {
        item.append(
          make(
            "button",
            {
              type: "button",
              className: "quiet",
              "aria-label": `Forget ${entry.title}`,
              onclick: () => forget(entry.id),
            },
            "Forget",
          ),
        );
      }
      return item;
    }),
  );
  if (!entries.length) element.append(make("li", { className: "none" }, "None yet."));
}

/** Sessions that the server has stored: the newest response of each chain. */
export async function remote(get) {
  const answer = await get("v1/responses?limit=20");
  if (!answer.ok) return [];
  const { data } = await answer.json();
  if (!Array.isArray(data)) return [];
  const earlier = new Set(data.map((response) => response.previous_response_id));
  return data
    .filter(({ id, status }) => !earlier.has(id) && status !== "in_progress")
    .map((response) => ({
      id: response.id,
      title: said(response.output).replace(/[*`#]/g, "").trim().slice(0, 80) || response.id,
      facts: `${ago(response.created_at * 1000)} · ${response.usage?.total_tokens ?? 0} tokens`,
    }));
}

/** The turns of a stored chain, oldest first. */
export async function fetchTurns(get, id) {
  const turns = [];
  for (let n = 0; id && n < 64; n++) {
    const [response, input] = await Promise.all(
      [`v1/responses/${id}`, `v1/responses/${id}/input_items?order=asc&limit=100`].map(
        async (path) => {
          const answer = await get(path);
          if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
          return answer.json();
        },
      ),
    );
    const asked = input.data
      .filter(({ role }) => role === "user" || role === "assistant")
      .map((item) => ({ role: item.role, text: text(item.content), sent: text(item.content) }));
    turns.unshift(...asked, { role: "assistant", text: said(response.output) });
    id = response.previous_response_id;
  }
  return turns;
}

const text = (content) =>
  typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("");

/** The text of a response's messages. */
export function said(output) {
  return (output ?? [])
    .filter(({ type }) => type === "message")
    .map(({ content }) => text(content))
    .join("\n\n");
}
