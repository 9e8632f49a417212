// app.js - joins the parts of the page: one socket, an editor that it completes, a conversation.

import { $, announce } from "./dom.js";
import { Ask } from "./ask.js";
import { Editor } from "./editor.js";
import { Follower } from "./follow.js";
import { Meter, Stream } from "./meter.js";
import { left, watch } from "./metrics.js";
import { Offers } from "./offers.js";
import * as sessions from "./sessions.js";
import { Link } from "./socket.js";
import { guardState, words } from "./watchdog.js";
import { completesOnly, reason, whoAnswers } from "./words.js";

const CARET_MS = 220; // delay after a caret move before a proposal is requested
const SAVE_MS = 400;
// A place where the bundled model is sure enough to show something.
const SAMPLE = `package main

import "os"

// read returns a file's content.
func read(path string) ([]byte, error) {
\tdata, err := os.ReadFile(path)
\tif err^
\t\treturn nil, err
\t}
\treturn data, nil
}
`;

// ---- the server ----

const key = () => sessionStorage.getItem("cerium.key") ?? "";
const get = (path, options = {}) =>
  fetch(path, {
    cache: "no-store",
    headers: key() ? { authorization: `Bearer ${key()}` } : {},
    ...options,
  });

const link = new Link({
  url: new URL("v1/responses", location.href).href.replace(/^http/, "ws"),
  key,
  message(event) {
    if (event.type === "completion.finding") announce(words(event.finding));
    else if (event.type === "completion.keepalive") return;
    else if (event.type === "completion.delta") grew(event);
    else if (event.id && completions.has(event.id)) ended(event);
    else if (event.type === "codex.rate_limits") limited(event);
    else ask.event(event);
  },
  state: connected,
});

const WORDS = {
  connecting: "connecting",
  open: "connected",
  waiting: "no connection",
  key: "key needed",
};

function connected(state, seconds = 0) {
  const element = $("link");
  const before = element.dataset.state;
  element.dataset.state = state;
  element.lastElementChild.textContent = WORDS[state];
  if (before === "open") {
    ask.lost();
    completions.clear();
  }
  if (state === "open") {
    banner(null);
    describe();
    follower.restart();
  } else if (state === "waiting") {
    const when = `${Math.round(seconds)} s`;
    banner(
      `No connection. Your text is kept; trying again${seconds < 1 ? "" : ` in ${when}`}.`,
      "Try now",
      () => link.retry(),
    );
  } else if (state === "key") {
    const text = key()
      ? "This server does not take that API key."
      : "This server wants an API key.";
    banner(text, "Enter key", openKey);
    if (!$("key").open && !key()) openKey();
  }
}

function banner(text, action, act) {
  if ($("banner").hidden !== !text) $("banner").hidden = !text;
  if (!text) return;
  $("banner-text").textContent = text;
  $("banner-act").textContent = action;
  $("banner-act").onclick = act;
}

/** The answering model. */
async function describe() {
  try {
    const [models, health] = await Promise.all(
      ["v1/models", "health"].map(async (path) => {
        const answer = await get(path);
        return answer.ok ? answer.json() : {};
      }),
    );
    const model = whoAnswers(models) || health.model || "";
    $("model").textContent = model;
    $("model").title = `${model}${health.version ? ` · cerium ${health.version}` : ""}`;
    document.title = model ? `${model} · cerium` : "cerium";
    const mute = completesOnly(models) && health.replay !== true;
    $("no-chat").hidden = !mute;
    offers.show(mute);
    $("replay").hidden = !health.replay;
    const said = guardState(health.guard);
    $("guard").hidden = !said;
    $("guard").textContent = said?.short ?? "";
    $("guard").title = said?.long ?? "";
  } catch {
    // the socket shows the reason
  }
}

const offers = new Offers({ box: $("offers"), request: get, ready: describe });

// ---- speed ----

const meter = new Meter({
  first: $("first"),
  rate: $("rate"),
  firstSpark: $("first-spark"),
  rateSpark: $("rate-spark"),
  mark: $("mark"),
});

function used({ input_tokens: input, cached_tokens: flat, input_tokens_details: details }) {
  const cached = flat ?? details?.cached_tokens;
  if (input && cached !== undefined)
    $("reused").textContent = `${Math.round((100 * cached) / input)} %`;
}

function limited(event) {
  const percent = left(event);
  $("limit-dial").hidden = percent === undefined;
  $("limit").textContent = `${percent} %`;
  $("limit-of").textContent = event.rate_limits?.limit_reached ? "left: wait" : "left";
}

watch(get, ({ running, waiting, kv, rate }) => {
  const say = (value, text) => (value === undefined ? "–" : text(value));
  $("load").textContent = say(running, String);
  $("waiting").textContent = waiting ? `running, ${waiting} waiting` : "running";
  $("kv").textContent = say(
    kv,
    (part) => `${(100 * part).toFixed(part > 0 && part < 0.1 ? 1 : 0)} %`,
  );
  $("kv-gauge").style.width = `${100 * (kv ?? 0)}%`;
  $("total").textContent = say(rate, (n) => Math.round(n).toLocaleString("en"));
});

// ---- completions ----

const completions = new Map(); // id: its stream
let serial = 0;
let frame = 0;

const follower = new Follower({
  ask(prefix, suffix, candidates) {
    const id = `c${++serial}`;
    const max_tokens = Number($("length").value);
    const path = $("path").value.trim();
    const several = candidates && { candidates, min_confidence: 0 };
    const what = { type: "completion.create", id, path, prefix, suffix, max_tokens, ...several };
    if (!link.send(what)) return null;
    completions.set(id, new Stream(meter));
    why = "";
    return id;
  },
  cancel(id) {
    link.send({ type: "completion.cancel", id });
  },
  show(text, more = false) {
    cancelAnimationFrame(frame);
    if (more) frame = requestAnimationFrame(() => propose(text));
    else propose(text);
  },
});

let why = ""; // the reason why nothing is proposed

function propose(text) {
  editor.propose(text);
  const place = text && follower.place;
  $("proposal").textContent = text
    ? `${text.length} characters proposed${place && `, ${place}`}`
    : why;
}

function grew({ id, delta }) {
  completions.get(id)?.token();
  follower.delta(id, delta);
}

function ended(event) {
  const stream = completions.get(event.id);
  completions.delete(event.id);
  stream.end(event.usage?.output_tokens, event.timings?.predict_ms);
  if (event.usage) used(event.usage);
  if (event.error) announce(event.error.message);
  why = reason(event.error ? "error" : event.reason, event.error?.message);
  if (!follower.text) propose("");
  follower.done(event.id, event.error ? "error" : event.reason, event.candidates);
}

const editor = new Editor($("editor"), {
  change(typed) {
    if (document.activeElement !== editor.input || editor.selecting) {
      follower.leave();
      return;
    }
    if (follower.enabled || follower.text)
      follower.update(editor.before, editor.after, typed ? undefined : CARET_MS);
    if (typed) touch();
  },
  blur: () => follower.leave(),
  accept: () => announce("Accepted."),
  dismiss: () => follower.dismiss() || ask.stop(),
  force: () => follower.force(editor.before, editor.after),
  turn: (step) => follower.turn(step),
});

$("follow").onclick = () => {
  follower.enabled = !follower.enabled;
  $("follow").setAttribute("aria-checked", String(follower.enabled));
  localStorage.setItem("cerium.follow", follower.enabled ? "on" : "off");
  if (follower.enabled) editor.input.focus();
};
$("length").onchange = () => localStorage.setItem("cerium.length", $("length").value);
$("path").oninput = () => {
  editor.named($("path").value);
  touch();
};

// ---- the conversation ----

const ask = new Ask({
  log: $("turns"),
  empty: $("empty"),
  stopButton: $("stop"),
  sendButton: $("send"),
  link,
  meter,
  used,
  code: () => ({ path: $("path").value.trim() || "code", text: editor.text }),
  insert: (code) => {
    pane("code");
    editor.insert(code);
  },
  changed: () => touch(),
});

const message = $("message");
const grow = () => {
  message.style.height = "auto";
  message.style.height = `${message.scrollHeight}px`;
};

function send() {
  const text = message.value.trim();
  if (!text) return;
  if (!ask.send(text, $("with-code").checked)) {
    announce("No connection: the message is kept.");
    return;
  }
  message.value = "";
  grow();
}

$("composer").onsubmit = (event) => {
  event.preventDefault();
  send();
};
message.oninput = grow;
message.onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
};
$("stop").onclick = () => {
  ask.stop();
  message.focus();
};
for (const button of $("starters").querySelectorAll("button")) {
  button.onclick = () => {
    message.value = button.textContent;
    send();
    message.focus();
  };
}

// ---- sessions ----

let session = null;
let saving = 0;

function touch() {
  clearTimeout(saving);
  saving = setTimeout(save, SAVE_MS);
}

function save() {
  clearTimeout(saving);
  if (!session) return;
  Object.assign(session, {
    code: editor.text,
    path: $("path").value,
    caret: editor.input.selectionStart,
    turns: ask.turns,
    last: ask.busy ? null : ask.last,
  });
  if (session.turns.length || session.code !== session.begun) sessions.save(session);
}

const extension = (path) => /\.(\w+)$/.exec(path)?.[1] ?? "c";

/** A session that is saved only after something was written or asked. */
function blank(path, code, caret) {
  const id = crypto.getRandomValues(new Uint32Array(2)).join("");
  return { id, path, code, begun: code, caret, turns: [], last: null };
}

function begin(from) {
  session = from;
  sessionStorage.setItem("cerium.session", session.id);
  $("path").value = session.path;
  ask.open(session.turns, session.last);
  follower.leave();
  editor.open(session.code, session.caret);
  editor.named(session.path);
}

$("new-session").onclick = () => {
  save();
  begin(blank(`main.${extension(session.path)}`, "", 0));
  pane("code");
  editor.input.focus();
};

function listSessions() {
  save();
  const facts = (s) =>
    [sessions.ago(s.at), s.path, s.turns.length ? `${s.turns.length >> 1} asked` : ""]
      .filter(Boolean)
      .join(" · ");
  sessions.list(
    $("local-sessions"),
    sessions.all().map((s) => ({
      id: s.id,
      title: sessions.title(s),
      facts: facts(s),
      current: s.id === session.id,
    })),
    (id) => {
      begin(sessions.load(id));
      $("sessions").close();
    },
    (id) => {
      sessions.remove(id);
      if (id === session.id) session.begun = session.code; // saved again when it changes
      listSessions();
    },
  );
}

async function listRemote() {
  const found = await sessions.remote(get).catch(() => []);
  $("remote-title").hidden = $("remote-sessions").hidden = !found.length;
  sessions.list(
    $("remote-sessions"),
    found,
    async (id) => {
      try {
        const turns = await sessions.fetchTurns(get, id);
        begin({ ...blank(session.path, editor.text, 0), turns, last: id });
        $("sessions").close();
        pane("ask");
      } catch (error) {
        announce(`The session could not be opened: ${error.message}`);
      }
    },
    null,
  );
}

$("open-sessions").onclick = () => {
  listSessions();
  $("sessions").showModal();
  listRemote();
};

// ---- key, theme, help, panes ----

function openKey() {
  $("key-value").value = key();
  $("key").showModal();
}
$("open-key").onclick = openKey;
$("key-value").onkeydown = (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  $("key").close("save");
};
$("key").onclose = () => {
  const choice = $("key").returnValue;
  if (choice === "save" && $("key-value").value.trim())
    sessionStorage.setItem("cerium.key", $("key-value").value.trim());
  else if (choice === "forget") sessionStorage.removeItem("cerium.key");
  else return;
  $("key").returnValue = $("key-value").value = "";
  link.restart();
};

const THEMES = ["system", "light", "dark"];

function theme(name) {
  document.documentElement.dataset.theme = name;
  localStorage.setItem("cerium.theme", name);
  $("theme").querySelector("use").setAttribute("href", `#i-${name}`);
  $("theme").title = `Theme: ${name}`;
  $("theme").setAttribute("aria-label", `Theme: ${name}`);
  meter.redraw();
}
$("theme").onclick = () =>
  theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % 3]);

$("open-help").onclick = () => $("help").showModal();
for (const button of document.querySelectorAll("[data-close]")) {
  button.onclick = () => button.closest("dialog").close();
}

/** On a narrow page one pane is visible; on a wide one this only moves the focus. */
function pane(name) {
  document.body.dataset.pane = name;
  for (const tab of ["code", "ask"]) {
    $(`tab-${tab}`).setAttribute("aria-selected", String(tab === name));
    $(`tab-${tab}`).tabIndex = tab === name ? 0 : -1;
  }
}
for (const tab of ["code", "ask"]) {
  const other = tab === "code" ? "ask" : "code";
  $(`tab-${tab}`).onclick = () => pane(tab);
  $(`tab-${tab}`).onkeydown = (event) => {
    if (!/^Arrow(Left|Right)$/.test(event.key)) return;
    pane(other);
    $(`tab-${other}`).focus();
  };
}

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "F6") {
    event.preventDefault();
    const name = $("pane-code").contains(document.activeElement) ? "ask" : "code";
    pane(name);
    (name === "code" ? editor.input : message).focus();
  } else if (event.key === "F1") {
    event.preventDefault();
    $("help").showModal();
  } else if (event.key === "Escape" && ask.stop()) {
    event.preventDefault();
  }
});

addEventListener("pagehide", save);

// ---- begin ----

theme(document.documentElement.dataset.theme);
follower.enabled = localStorage.getItem("cerium.follow") !== "off";
$("follow").setAttribute("aria-checked", String(follower.enabled));
$("length").value = localStorage.getItem("cerium.length") ?? "64";
const [head, tail] = SAMPLE.split("^");
begin(
  sessions.load(sessionStorage.getItem("cerium.session") ?? "") ??
    blank("read.go", head + tail, head.length),
);
link.restart();
if (matchMedia("(hover: hover)").matches) editor.input.focus();
// Focus would bring up a keyboard over half of the page: the first proposal needs none.
else follower.update(editor.before, editor.after);
