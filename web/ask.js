// ask.js - the conversation: asks, streams the answer, stops, redirects, survives its connection.
//
// Answers come in the order of the requests, so the events on the socket belong to the oldest
// flight until its closing event.  A redirect steers the flight: the server ends it at the next
// good place and begins the answer to the new text, which is the next flight.  If it cannot be
// steered, it is canceled, and the next request continues from its text so far.

import { announce, make } from "./dom.js";
import { Stream } from "./meter.js";
import { Prose } from "./prose.js";
import { said } from "./sessions.js";
import { badge } from "./watchdog.js";

const TOKENS_MAX = 2048; // a small model must not generate endlessly
const GUIDANCE =
  "You are a coding assistant in a playground. Answer briefly. Make minimal, targeted edits. " +
  "Put code into fenced blocks with the name of its language.";

const CLOSING = /^response\.(completed|incomplete|failed|cancell?ed)$/;

const item = (role, text) => ({
  type: "message",
  role,
  content: [{ type: role === "assistant" ? "output_text" : "input_text", text }],
});

export class Ask {
  turns = [];
  #flights = [];
  #last = null; // the response that the next request continues
  #sentCode = null; // what the model has seen of the editor
  #deferred = null; // a flight that waits for the id of the one before it
  #frame = 0;

  /** Of elements: log, empty, stopButton, sendButton; link, meter; code() {path, text};
   * insert(code); changed(): there is something to save. */
  constructor(parts) {
    Object.assign(this, parts);
  }

  get busy() {
    return this.#flights.length > 0;
  }
  get last() {
    return this.#last;
  }

  /** Another conversation.  Running answers still arrive, out of sight. */
  open(turns, last = null) {
    this.stop();
    for (const flight of this.#flights) flight.why = flight.left = "stopped";
    this.turns = turns;
    this.#last = last;
    this.#sentCode = null;
    this.log.replaceChildren(this.empty, ...turns.map((turn) => this.#drawn(turn).element));
    this.#show();
  }

  /** Ask, or redirect the streaming answer.  False without a connection. */
  send(text, withCode) {
    if (!this.link.open) return false;
    const question = { role: "user", text, sent: this.#withCode(text, withCode) };
    if (question.sent !== text) question.path = this.code().path;
    const answer = { role: "assistant", text: "" };
    this.turns.push(question, answer);
    this.log.append(this.#drawn(question).element);
    const flight = {
      question,
      turn: answer,
      id: null,
      buffer: "",
      thought: "",
      ...this.#drawn(answer),
    };
    this.log.append(flight.element);
    flight.element.classList.add("live");
    const running = this.#flights.at(-1);
    this.#flights.push(flight);
    if (running && !running.id) this.#deferred = flight;
    else if (running && !running.why) this.#steer(running, flight);
    else this.#request(flight);
    this.#show(true);
    this.changed();
    return true;
  }

  /** Stop the streaming answer; why is shown.  True if there was one. */
  stop(why = "stopped") {
    const flight = this.#flights.at(-1);
    if (!flight || flight.why) return false;
    this.#cancel(flight, why);
    const first = this.#flights[0];
    if (flight.steers && first !== flight && !first.why) this.#cancel(first, "redirected");
    return true;
  }

  /** An event of the Responses API, or an error that belongs to no completion. */
  event(event) {
    const flight = this.#flights[0];
    if (!flight) return;
    switch (event.type) {
      case "response.created":
        this.#created(flight, event.response.id);
        break;
      case "response.output_text.delta":
        this.#delta(flight, event.delta, "buffer");
        break;
      case "response.reasoning_text.delta":
      case "response.reasoning_summary_text.delta":
        this.#delta(flight, event.delta, "thought");
        break;
      case "response.steer.failed":
        this.#unsteered(event);
        break;
      case "response.cerium.finding":
        this.#found(flight, event.finding);
        break;
      case "error":
        this.#failed(flight, event);
        break;
      default:
        if (CLOSING.test(event.type)) this.#closed(flight, event.response);
    }
  }

  /** The connection is gone: the text stays, and the next request sends everything again. */
  lost() {
    for (const flight of this.#flights.splice(0)) {
      flight.why ??= "connection lost";
      this.#land(flight, null);
    }
    this.#deferred = null;
    this.#last = null;
    this.#show();
  }

  // ---- requests ----

  #withCode(text, wanted) {
    const { path, text: code } = this.code();
    if (!wanted || !code.trim() || this.#sentCode === path + code) return text;
    this.#sentCode = path + code;
    const fence = /^`{3,}/m.test(code) ? "`````" : "```";
    const name = path.includes(".") ? path.split(".").pop() : "";
    return `${path}:\n${fence}${name}\n${code.replace(/\n$/, "")}\n${fence}\n\n${text}`;
  }

  #request(flight) {
    const body = { type: "response.create", max_output_tokens: TOKENS_MAX };
    if (this.#last) {
      body.previous_response_id = this.#last;
      body.input = [item("user", flight.question.sent)];
    } else {
      const history = this.turns
        .slice(0, this.turns.indexOf(flight.turn))
        .filter((turn) => turn.text);
      body.input = [
        item("developer", GUIDANCE),
        ...history.map((turn) => item(turn.role, turn.sent ?? turn.text)),
      ];
    }
    flight.whole = !this.#last;
    flight.stream = new Stream(this.meter);
    this.link.send(body);
  }

  /** The server begins the next answer with the text that steered the running one. */
  #steer(running, flight) {
    flight.steers = running.id;
    flight.stream = new Stream(this.meter);
    const input = [item("user", flight.question.sent)];
    this.link.send({ type: "response.steer", previous_response_id: running.id, input });
  }

  /** The answer had ended, or comes from another server. */
  #unsteered({ steer }) {
    const flight = this.#flights.find((each) => each.steers === steer?.previous_response_id);
    if (!flight || flight.id) return;
    const running = this.#flights[0];
    flight.steers = null;
    if (flight.why) {
      this.#flights.splice(this.#flights.indexOf(flight), 1);
      this.#land(flight, null);
      this.#goOn();
      this.#show();
      return;
    }
    if (running !== flight && !running.why) this.#cancel(running, "redirected");
    this.#request(flight);
  }

  #cancel(flight, why) {
    flight.why = why;
    if (!flight.id) return; // as soon as it has one
    this.link.send({ type: "response.cancel", response_id: flight.id });
    if (!flight.left) this.#last = flight.id;
  }

  // ---- events ----

  #created(flight, id) {
    flight.id = id;
    if (flight.why) this.#cancel(flight, flight.why);
    this.#goOn();
  }

  /** The request that waited for an id, or for the end of an answer without one. */
  #goOn() {
    const next = this.#deferred;
    this.#deferred = null;
    const running = this.#flights[0];
    if (next && running !== next && running.id && !running.why) this.#steer(running, next);
    else if (next) this.#request(next);
  }

  #delta(flight, text, kind) {
    flight.stream.token();
    flight[kind] += text;
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#follow(() => this.#flights.forEach((each) => this.#flush(each)));
    });
  }

  /** Run a function that makes the log longer; a log scrolled to its end stays there. */
  #follow(grow) {
    const follow = this.log.scrollTop + this.log.clientHeight > this.log.scrollHeight - 60;
    grow();
    if (follow) this.log.scrollTop = this.log.scrollHeight;
  }

  #flush(flight) {
    if (flight.thought) this.#think(flight);
    if (flight.buffer) {
      flight.prose.feed(flight.buffer);
      flight.turn.text += flight.buffer;
      flight.buffer = "";
    }
  }

  /** The watchdog: a line is held and rewritten, or the outcome. */
  #found(flight, finding) {
    this.#follow(() => {
      this.#flush(flight);
      flight.held?.remove();
      flight.held = null;
      if (finding.deed === "taken_back") {
        flight.held = badge(finding);
        flight.element.append(flight.held);
      } else {
        (flight.turn.findings ??= []).push(finding);
        flight.element.append(badge(finding));
      }
    });
    if (finding.deed !== "taken_back") announce(badge(finding).textContent);
  }

  #think(flight) {
    flight.details ??= make("details", {}, make("summary", {}, "Thought"), make("div"));
    if (!flight.details.isConnected) flight.element.prepend(flight.details);
    flight.details.lastChild.append(flight.thought);
    flight.thought = "";
  }

  #closed(flight, response) {
    if (!flight.turn.text && !flight.buffer) flight.buffer = said(response.output);
    if (response.status === "failed") flight.error = response.error?.message || "the server failed";
    else if (response.id === flight.id && !flight.why) this.#last = response.id;
    if (response.incomplete_details?.reason === "steered") flight.why = "redirected";
    if (response.incomplete_details?.reason === "content_filter")
      flight.why ??= "ended by the watchdog";
    if (response.incomplete_details?.reason === "max_output_tokens") {
      const full = response.usage?.output_tokens < TOKENS_MAX;
      flight.why ??= full ? "the context is full" : `stopped at ${TOKENS_MAX} tokens`;
    }
    flight.served = response.metadata?.served_by;
    this.#flights.shift();
    this.#land(flight, response.usage);
    if (!flight.why) announce("Answer complete.");
    this.#goOn();
    this.#show();
  }

  #failed(flight, { error = {} }) {
    if (error.code === "previous_response_not_found" && !flight.whole) {
      this.#last = null;
      this.#request(flight);
      return;
    }
    flight.error = error.message || "the server refused";
    this.#flights.shift();
    this.#land(flight, null);
    announce(flight.error);
    this.#goOn();
    this.#show();
  }

  /** A flight ended in any way: its turn is final. */
  #land(flight, usage) {
    flight.stream?.end(usage?.output_tokens);
    flight.turn.facts = facts(flight, usage);
    this.#follow(() => {
      this.#flush(flight);
      flight.prose.end();
      flight.held?.remove();
      flight.element.classList.remove("live");
      this.#drawFacts(flight.element, flight.turn.facts);
    });
    if (usage) this.used(usage);
    this.changed();
  }

  // ---- drawing ----

  #drawn(turn) {
    if (turn.role === "user") {
      const element = make("div", { className: "turn user" }, turn.text);
      if (turn.path) element.append(make("small", {}, `with ${turn.path}`));
      element.dataset.testid = "question";
      return { element };
    }
    const body = make("div", { className: "said" });
    const element = make("article", { className: "turn", "aria-label": "Answer" }, body);
    element.dataset.testid = "answer";
    const prose = new Prose(body, this.insert);
    prose.feed(turn.text);
    for (const finding of turn.findings ?? []) element.append(badge(finding));
    if (turn.facts) {
      prose.end();
      this.#drawFacts(element, turn.facts);
    }
    return { element, prose };
  }

  #drawFacts(element, list) {
    element.append(
      make(
        "div",
        { className: "facts" },
        ...list.map(([kind, text]) => make("span", { className: kind }, text)),
      ),
    );
  }

  #show(down = false) {
    const running = this.#flights.some((flight) => !flight.why);
    this.empty.hidden = this.turns.length > 0;
    this.stopButton.hidden = !running;
    this.sendButton.classList.toggle("redirect", running);
    this.sendButton.firstElementChild.textContent = running ? "Redirect" : "Ask";
    this.log.setAttribute("aria-busy", String(running));
    if (down) this.log.scrollTop = this.log.scrollHeight;
  }
}

/** The line below an answer: [class, text]. */
function facts({ error, why, stream, served }, usage) {
  const list = [];
  const say = (n, digits = 0) => Number(n.toFixed(digits)).toLocaleString("en");
  if (error) list.push(["bad", error]);
  if (why) list.push(["why", why]);
  if (served) list.push(["", `by ${served}`]);
  if (stream?.first) {
    list.push(["", `first token ${say(stream.first, stream.first < 10 ? 1 : 0)} ms`]);
  }
  if (stream?.rate) list.push(["", `${say(stream.rate)} tokens/s`]);
  if (usage) list.push(["", `${say(usage.output_tokens)} tokens`]);
  if (usage?.input_tokens) {
    const cached = usage.input_tokens_details?.cached_tokens ?? 0;
    const part = say((100 * cached) / usage.input_tokens);
    list.push(["", `${part} % of ${say(usage.input_tokens)} reused`]);
  }
  return list;
}
