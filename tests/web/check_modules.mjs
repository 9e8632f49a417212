// check_modules.mjs - the current proposal, its requests and their times; highlighting that loses
// no text; metrics as text.
//
//   node check_modules.mjs FOLDER     with the page's modules
import assert from "node:assert/strict";
import { join, resolve } from "node:path";

const from = (name) => import(join(resolve(process.argv[2]), name));
const { cut, Follower, Proposal } = await from("follow.js");
const { language, paint } = await from("highlight.js");
const { left, parse } = await from("metrics.js");
const { badge, guardState } = await from("watchdog.js");
const { completesOnly, reason, talker, whoAnswers } = await from("words.js");
const { facts, offers, percent, size, tooLarge } = await from("offers.js");

let passed = 0,
  failed = 0;

async function test(name, run) {
  try {
    await run();
    passed++;
  } catch (error) {
    failed++;
    console.log(`  FAIL ${name}: ${error.message}`);
  }
}

/** A follower whose requests and screen are recorded; time is advanced by hand. */
function bench() {
  const seen = { asked: [], canceled: [], shown: "", timers: [] };
  globalThis.setTimeout = (act) => seen.timers.push(act);
  globalThis.clearTimeout = () => (seen.timers = []);
  const follower = new Follower({
    ask: (prefix, suffix, candidates) =>
      seen.asked.push({ prefix, suffix, ...(candidates && { candidates }),
        id: `c${seen.asked.length}` }) && seen.asked.at(-1).id,
    cancel: (id) => seen.canceled.push(id),
    show: (text) => (seen.shown = text),
  });
  const pass = () => seen.timers.splice(0).forEach((act) => act());
  return { follower, seen, pass };
}

/** The caret is after "int ", with a proposal "main(void)" that ended for a reason. */
function proposed(reason) {
  const b = bench();
  b.follower.update("int ", ";");
  b.pass();
  b.follower.delta("c0", "main");
  b.follower.delta("c0", "(void) { return 0; } // and on");
  if (reason) b.follower.done("c0", reason);
  return b;
}

const WHOLE = "main(void) { return 0; } // and on";

await test("it asks once, and shows what comes", () => {
  const { seen } = proposed(null);
  assert.deepEqual(seen.asked, [{ prefix: "int ", suffix: ";", id: "c0" }]);
  assert.equal(seen.shown, WHOLE);
});

await test("typing what it says takes from it and asks nobody", () => {
  const { follower, seen, pass } = proposed(null);
  for (const n of [1, 2, 5]) {
    follower.update("int " + WHOLE.slice(0, n), ";");
    pass();
    assert.equal(seen.shown, WHOLE.slice(n));
  }
  follower.delta("c0", "!");
  assert.equal(seen.shown, WHOLE.slice(5) + "!");
  assert.equal(seen.asked.length, 1);
  assert.deepEqual(seen.canceled, []);
});

await test("typing something else cancels and asks anew", () => {
  const { follower, seen, pass } = proposed(null);
  follower.update("int x", ";");
  assert.deepEqual(seen.canceled, ["c0"]);
  assert.equal(seen.shown, "");
  pass();
  assert.equal(seen.asked[1].prefix, "int x");
  follower.delta("c0", "late");
  follower.done("c0", "superseded");
  assert.equal(seen.shown, "");
});

await test("going back shows what was there, and asks nobody", () => {
  const { follower, seen, pass } = proposed("stop");
  follower.update("int x", ";");
  pass();
  follower.delta("c1", "yz");
  follower.done("c1", "stop");
  follower.update("int ", ";");
  pass();
  assert.equal(seen.shown, WHOLE);
  assert.equal(seen.asked.length, 2);
});

await test("what comes after the caret matters", () => {
  const { follower, seen } = proposed("stop");
  follower.update("int ", "");
  assert.equal(seen.shown, "");
});

await test("before its end more is asked for, behind it", () => {
  const { follower, seen, pass } = proposed("length");
  follower.update("int " + WHOLE.slice(0, 8), ";");
  pass();
  assert.equal(seen.asked.length, 1);
  follower.update("int " + WHOLE.slice(0, 14), ";");
  pass();
  assert.equal(seen.asked[1].prefix, "int " + WHOLE);
  follower.delta("c1", " more");
  assert.equal(seen.shown, WHOLE.slice(14) + " more");
});

await test("where the model stopped, only its end asks for more", () => {
  const { follower, seen, pass } = proposed("stop");
  follower.update("int " + WHOLE.slice(0, 20), ";");
  pass();
  assert.equal(seen.asked.length, 1);
  follower.update("int " + WHOLE, ";");
  pass();
  assert.equal(seen.asked.length, 2);
});

await test("a model with nothing to say is not asked again and again", () => {
  const { follower, seen, pass } = bench();
  follower.update("done", "");
  pass();
  follower.done("c0", "stop");
  pass();
  follower.update("done", "");
  pass();
  assert.equal(seen.asked.length, 1);
});

await test("what is dismissed stays away until something changes", () => {
  const { follower, seen, pass } = proposed(null);
  assert.equal(follower.dismiss(), true);
  assert.deepEqual([seen.shown, seen.canceled], ["", ["c0"]]);
  follower.update("int ", ";");
  follower.restart();
  pass();
  assert.equal(seen.asked.length, 1);
  assert.equal(follower.dismiss(), false);
  follower.update("int m", ";");
  pass();
  assert.equal(seen.asked.length, 2);
});

await test("a new connection asks again for what was under way", () => {
  const { follower, seen, pass } = proposed(null);
  follower.restart();
  pass();
  follower.delta("c0", "late");
  assert.equal(seen.shown, WHOLE);
  follower.update("int x", ";");
  follower.restart();
  pass();
  assert.equal(seen.asked.at(-1).prefix, "int x");
});

await test("without a connection nothing runs", () => {
  const { follower, seen, pass } = bench();
  follower.ask = () => null;
  follower.update("a", "");
  pass();
  follower.update("b", "");
  assert.deepEqual(seen.canceled, []);
});

await test("switched off it asks only when it is made to", () => {
  const { follower, seen, pass } = bench();
  follower.enabled = false;
  follower.update("a", "");
  pass();
  assert.equal(seen.asked.length, 0);
  follower.force("a", "");
  follower.delta("c0", "bc");
  assert.deepEqual([seen.asked.length, seen.shown], [1, "bc"]);
});

const OTHERS = [{ text: "other(int n)", cut: false }, { text: ` ${WHOLE}\n` }, { text: " " },
  { text: "third" }, { text: "third" }];

/** The same, and the others have come. */
function turned() {
  const b = proposed("stop");
  assert.equal(b.follower.turn(1), true);
  b.follower.delta("c1", "as the first");
  b.follower.done("c1", "stop", OTHERS);
  return b;
}

await test("turning asks for others once, and goes round", () => {
  const { follower, seen, pass } = turned();
  assert.deepEqual(seen.asked[1], { prefix: "int ", suffix: ";", candidates: 5, id: "c1" });
  assert.deepEqual([seen.shown, follower.place], ["other(int n)", "2 of 3"]);
  const shown = [1, 1, -1, -1, -1].map((step) => follower.turn(step) && seen.shown);
  assert.deepEqual(shown, ["third", WHOLE, "third", "other(int n)", WHOLE]);
  pass();
  assert.equal(seen.asked.length, 2);
});

await test("turned several times while they are made, it goes as far", () => {
  const { follower, seen } = proposed("stop");
  follower.turn(1);
  follower.turn(1);
  assert.deepEqual([seen.shown, follower.place], [WHOLE, ""]);
  follower.done("c1", "stop", OTHERS);
  assert.equal(seen.shown, "third");
});

await test("typing along keeps the one that is shown, going back the first", () => {
  const { follower, seen } = turned();
  follower.update("int other(", ";");
  assert.deepEqual([seen.shown, follower.place], ["int n)", ""]);
  follower.update("int ot", ";");
  assert.equal(seen.shown, "her(int n)");
  follower.update("int m", ";");
  assert.equal(seen.shown, WHOLE.slice(1));
  follower.update("int th", ";");
  assert.equal(seen.shown, "ird");
});

await test("typing on cancels the others, and they come too late", () => {
  const { follower, seen } = proposed("stop");
  follower.turn(1);
  follower.update("int m", ";");
  assert.deepEqual(seen.canceled, ["c1"]);
  follower.done("c1", "canceled", OTHERS);
  assert.deepEqual([seen.shown, follower.place], [WHOLE.slice(1), ""]);
});

await test("without others, a proposal or a connection there is nothing to turn to", () => {
  const { follower, seen } = proposed("stop");
  follower.turn(1);
  follower.done("c1", "error");
  assert.deepEqual([seen.shown, follower.place], [WHOLE, "1 of 1"]);
  follower.turn(-1);
  assert.deepEqual([seen.shown, seen.asked.length], [WHOLE, 2]);
  follower.leave();
  assert.equal(follower.turn(1), false);
  const b = proposed("stop");
  b.follower.ask = () => null;
  assert.equal(b.follower.turn(1), false);
  assert.equal(b.seen.shown, WHOLE);
});

await test("a proposal fits where it says so, and nowhere else", () => {
  const p = new Proposal("a", "z");
  p.text = "bcd";
  assert.equal(p.rest("a", "z"), "bcd");
  assert.equal(p.rest("abcd", "z"), "");
  for (const [before, after] of [
    ["", "z"],
    ["b", "z"],
    ["a", "y"],
    ["abx", "z"],
    ["abcde", "z"],
  ]) {
    assert.equal(p.rest(before, after), null);
  }
});

await test("the start of a long prefix moves in steps, to the start of a line", () => {
  const lines = (n) => "0123456789abcde\n".repeat(n);
  assert.deepEqual(cut(lines(1000), lines(1000)), [lines(1000), lines(256)]);
  const starts = new Set();
  for (let n = 1500; n < 4000; n++) {
    const [prefix] = cut(lines(n) + "tail", "");
    assert(prefix.length <= 24576 && prefix.length > 16000 && lines(n).length % 16 === 0);
    assert(prefix.startsWith("0123") && prefix.endsWith("\ntail"));
    starts.add(lines(n).length + 4 - prefix.length);
  }
  assert(starts.size <= 6, String(starts.size));
});

await test("colours lose no character, whatever the text", () => {
  const bits = [
    "/*",
    "*/",
    "//",
    "#",
    '"',
    "'",
    '"""',
    "'''",
    "`",
    "\\",
    "int",
    "x",
    "0x1F",
    "1.5e3",
    " ",
    "{",
    "ß",
    "🙂",
    "$a",
    "def",
  ];
  let seed = 1;
  const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
  for (const name of [
    "a.c",
    "a.cc",
    "a.py",
    "a.js",
    "a.rs",
    "a.go",
    "a.sh",
    "a.txt",
    "Makefile",
    "",
    "a.zig",
  ]) {
    let open = null;
    for (let n = 0; n < 2000; n++) {
      const line = Array.from({ length: random(12) }, () => bits[random(bits.length)]).join("");
      let painted = "";
      open = paint(line, open, language(name), (_, text) => (painted += text));
      assert.equal(painted, line);
    }
  }
});

await test("colours are those of the language", () => {
  const of = (name, line, open = null) => {
    const pieces = [];
    const end = paint(
      line,
      open,
      language(name),
      (kind, text) => kind && pieces.push([kind, text]),
    );
    return [pieces, end];
  };
  assert.deepEqual(of("a.c", "int x; // y")[0], [
    ["t-word", "int"],
    ["t-comment", "// y"],
  ]);
  const [, open] = of("a.c", "x = 1; /* begins");
  assert.deepEqual(of("a.c", "ends */ return", open)[0], [
    ["t-comment", "ends */"],
    ["t-word", "return"],
  ]);
  assert.deepEqual(of("a.py", "x = 'a#b' # c")[0], [
    ["t-string", "'a#b'"],
    ["t-comment", "# c"],
  ]);
  assert.deepEqual(of("a.rs", "fn f<'a>(c: char) { '\\n' }")[0].at(-1), ["t-string", "'\\n'"]);
});

await test("metrics are added up by name, and nothing else is read", () => {
  const sums = parse(`# HELP vllm:num_requests_running a
vllm:num_requests_running{model_name="a b",x="}"} 2
vllm:num_requests_running{model_name="b"} 1
vllm:kv_cache_usage_perc 0.25
cerium_requests_running{class="turn"} 7
other_total 9
`);
  assert.deepEqual(sums, {
    num_requests_running: 3,
    kv_cache_usage_perc: 0.25,
    requests_running: 7,
  });
});

await test("the tightest limit is shown, and none where there is none", () => {
  const event = (primary, secondary) => ({
    rate_limits: {
      primary: primary === null ? null : { used_percent: primary },
      secondary: secondary === null ? null : { used_percent: secondary },
    },
  });
  assert.equal(left(event(42, null)), 58);
  assert.equal(left(event(42, 90)), 10);
  assert.equal(left(event(120, 90)), 0);
  assert.equal(left(event(null, null)), undefined);
  assert.equal(left({}), undefined);
});

/** The parts of a document that an element needs. */
function page() {
  const element = () => ({
    className: "",
    dataset: {},
    text: "",
    append(...parts) {
      for (const part of parts) this.text += part.text ?? part;
    },
  });
  return { createElement: element };
}

await test("nothing to show is said in words, whatever the reason", () => {
  for (const how of ["stop", "length", "unsure", "content_filter", "context", "failed"])
    assert.match(reason(how), /^[A-Z].*\.$/);
  assert.match(reason("unsure"), /not sure/);
  assert.equal(reason("error", "the queue is full"), "the queue is full");
  assert.match(reason("error"), /failed/);
  assert.equal(reason("canceled"), ""); // no one waits for it
  assert.equal(reason("superseded"), "");
});

await test("a model that only completes is known, chat form or not", () => {
  const chats = [{ slug: "a" }, { slug: "cerium" }];
  assert.equal(completesOnly({ data: [{ id: "a", completes_only: true }], models: chats }), true);
  assert.equal(completesOnly({ data: [{ id: "a" }], models: chats }), false);
  assert.equal(completesOnly({ data: [{ id: "a" }], models: [] }), true);
  assert.equal(completesOnly({}), false); // nothing is known
});

await test("who completes and who talks are told apart", () => {
  const line = { id: "line", fill_in_middle: true, completes_only: true };
  const large = { id: "large", fill_in_middle: true };
  const chat = [{ slug: "large" }];
  assert.equal(talker({ data: [line, large], models: chat }).id, "large");
  assert.equal(completesOnly({ data: [line, large], models: chat }), false);
  assert.equal(whoAnswers({ data: [line, large], models: chat }), "line · large");
  assert.equal(whoAnswers({ data: [large, line], models: chat }), "large");
  assert.equal(whoAnswers({ data: [line], models: [] }), "line");
  assert.equal(whoAnswers({}), "");
});

await test("what is offered: those that chat and fit first, with what they need", () => {
  const one = (name, memory_bytes, more = {}) =>
    ({ name, memory_bytes, size_bytes: memory_bytes / 2, chats: true, fits: true, ...more });
  const all = [
    one("huge", 9e9, { fits: false }), one("b", 5e9), one("fim", 1e9, { chats: false }),
    one("a", 8e8), one("served", 1e9, { is_served: true }), one("vast", 8e9, { fits: false }),
  ];
  assert.deepEqual(offers(all).map((o) => o.name), ["a", "b", "vast", "huge"]);
  assert.equal(facts(all[3]), "400 MB · needs 800 MB of memory");
  assert.equal(facts({ ...all[1], is_here: true }), "on this machine · needs 5 GB of memory");
  assert.equal(tooLarge([all[0]], 6.5e9), "1 needs more than the 6.5 GB here");
  assert.match(tooLarge([all[0], all[5]], 6.5e9), /^2 need /);
  assert.equal(size(0), "0 bytes");
  assert.equal(size(999), "999 bytes");
  assert.equal(size(1650000000), "1.65 GB");
  assert.equal(percent({ done_bytes: 1, total_bytes: 0 }), 0); // not known
  assert.equal(percent({ done_bytes: 50, total_bytes: 100 }), 50);
  assert.equal(percent({ done_bytes: 100, total_bytes: 100 }), 99); // it is still checked
});

await test("a watchdog that cannot see is no watchdog that is content", () => {
  assert.equal(guardState({ on: true, unjudged: [] }), null);
  assert.equal(guardState(undefined), null); // an older server
  assert.match(guardState({ on: true, unjudged: ["go", "php"] }).long, /grammar for go, php/);
  assert.match(guardState({ on: false, unjudged: [] }).short, /no watchdog/);
});

await test("a finding's badge says what was done with the line", () => {
  globalThis.document = page();
  const finding = { weakness: "sql", cwe: 89, idiom: "execute(text, values)" };
  const held = badge({ ...finding, deed: "taken_back" });
  assert.equal(held.className, "finding taken_back");
  assert.equal(held.dataset.testid, "finding");
  assert.equal(held.text, "checking: a line is held");
  const rewritten = badge({ ...finding, deed: "rewritten" });
  assert.equal(rewritten.className, "finding rewritten");
  assert.equal(rewritten.text, "SQL injection rewritten: CWE\u201189execute(text, values)");
  for (const deed of ["rewritten", "replaced", "withheld", "blocked"]) {
    const struck = badge({ ...finding, deed, line: 4, message: "text with values" });
    assert.ok(struck.text.includes("line 4: text with values"), struck.text);
  }
  const known = badge({ ...finding, deed: "known", line: 4, message: "text with values" });
  assert.ok(!known.text.includes("line 4"), known.text);
  assert.equal(badge({ deed: "blocked", weakness: "other" }).text, "other kept back");
  delete globalThis.document;
});

console.log(`web: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
