// page.mjs - the page at / in headless Chromium, against a running server.
//
//   node page.mjs BASE_URL CHROMIUM_PATH [KEY]
//
// Run it where playwright-core is installed (node_modules of the current folder).  KEY: for a
// server that needs one.  PAGE_SHOTS=FOLDER keeps screenshots.  The model's text does not matter,
// but it must not be empty; only for the rows of a name it must begin like ROWS in node.py.  Ends
// with "page: N passed, M failed".
import { createRequire } from "node:module";
import { join } from "node:path";

const { chromium } = createRequire(join(process.cwd(), "here.js"))("playwright-core");
const [base, executablePath, key] = process.argv.slice(2);
if (!executablePath) {
  console.error("page.mjs: say BASE_URL and CHROMIUM_PATH");
  process.exit(2);
}

const WAIT_MS = 15000;
let passed = 0,
  failed = 0;

function check(name, fine, more = "") {
  if (fine) passed++;
  else failed++;
  if (!fine) console.log(`  FAIL ${name} ${more}`);
}

/** Wait until a probe returns something true; returns the last value. */
async function until(probe, ms = WAIT_MS) {
  const end = Date.now() + ms;
  for (;;) {
    const value = await probe();
    if (value || Date.now() > end) return value;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });

/** A page that records all it sends, receives, requests and logs as errors. */
async function open(options = {}, prepare = null) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  const seen = { sent: [], got: [], urls: [], complaints: [] };
  const parse =
    (list) =>
    ({ payload }) =>
      list.push(JSON.parse(payload));
  page.on("websocket", (socket) => {
    seen.urls.push(socket.url());
    socket.on("framesent", parse(seen.sent));
    socket.on("framereceived", parse(seen.got));
  });
  page.on("request", (request) => seen.urls.push(request.url()));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) seen.complaints.push(message.text());
  });
  page.on("pageerror", (error) => seen.complaints.push(String(error)));
  if (key) await context.addInitScript((k) => sessionStorage.setItem("cerium.key", k), key);
  await prepare?.(context);
  const answer = await page.goto(base);
  const at = (id) => page.getByTestId(id);
  const connected = () =>
    until(async () => (await at("link").getAttribute("data-state")) === "open");
  const text = (id) => at(id).innerText();
  const code = () => at("code").inputValue();
  const ghost = () =>
    page.evaluate(() =>
      [...document.querySelectorAll(".ghost")].map((element) => element.textContent).join("\n"),
    );
  const caret = () => at("code").evaluate((element) => element.selectionStart);
  const creates = (type = "completion.create") =>
    seen.sent.filter((message) => message.type === type);
  return { context, page, seen, answer, at, text, code, ghost, caret, creates, connected };
}

async function shot(page, name) {
  if (process.env.PAGE_SHOTS)
    await page.screenshot({ path: join(process.env.PAGE_SHOTS, `${name}.png`) });
}

/** A finished proposal with no further request, so that nothing changes while it is checked. */
const settled = (p) =>
  until(async () => {
    const last = p.creates().at(-1)?.id;
    const done = p.seen.got.some(({ type, id }) => type === "completion.done" && id === last);
    const text = done && (await p.ghost());
    if (!text) return "";
    await p.page.waitForTimeout(150);
    return p.creates().at(-1).id === last && (await p.ghost()) === text ? text : "";
  });

async function testLoad(p) {
  check("the page is there", p.answer.status() === 200);
  const policy = p.answer.headers()["content-security-policy"] ?? "";
  check(
    "the policy lets in nothing from elsewhere",
    /default-src '(self|none)'/.test(policy) && !/unsafe/.test(policy),
    policy,
  );
  check("it connects", await p.connected());
  check("the model has a name", await until(() => p.text("model")));
  check("the server's load is shown", await until(async () => /\d/.test(await p.text("load"))));
}

async function testTyping(p) {
  await p.at("code").focus();
  const proposal = await settled(p);
  check("it proposes", proposal);
  check("the first token's time is shown", /\d/.test(await p.text("first-token")));
  await shot(p.page, "proposal");

  const [before, at] = [await p.code(), await p.caret()];
  const typed = /^\s*\S|^\s+/.exec(proposal)[0];
  for (const letter of typed) await p.page.keyboard.press(letter === "\n" ? "Enter" : letter);
  const taken = (await p.code()).slice(at, await p.caret());
  check(
    "typing what it says takes from it",
    proposal.startsWith(taken) && taken.trim() === typed.trim(),
  );
  check("the rest stays", (await p.ghost()).startsWith(proposal.slice(taken.length)));
  check("what is after the caret stays", (await p.code()).endsWith(before.slice(at)));

  const asked = p.creates().length;
  const other = (await p.ghost()).startsWith("q") ? "z" : "q";
  await p.page.keyboard.type(other);
  const create = await until(() => p.creates()[asked]);
  check("typing something else asks anew", create && create.prefix.endsWith(taken + other));
  check("what is typed is there", (await p.code()).slice(0, await p.caret()).endsWith(other));
  await p.page.keyboard.press("Backspace");
  check("going back brings it back", (await p.ghost()).startsWith(proposal.slice(taken.length)));

  const shown = await settled(p);
  await p.page.keyboard.press("Alt+BracketRight");
  const place = await until(async () => /, (\d) of (\d)$/.exec(await p.text("proposal")));
  const next = await p.ghost();
  check("Alt and ] ask for others", p.creates().at(-1).candidates > 1);
  check("another is shown", place?.[1] === "2" && next && next !== shown, [place, shown, next]);
  await shot(p.page, "next-proposal");
  await p.page.keyboard.press("Alt+BracketLeft");
  check("Alt and [ go back", await until(async () => (await p.ghost()) === shown));
}

async function testAccepting(p) {
  let proposal = await settled(p);
  let [text, at] = [await p.code(), await p.caret()];
  await p.page.keyboard.press("Control+ArrowRight");
  const word = (await p.code()).slice(at, await p.caret());
  check(
    "Ctrl+Right accepts a word",
    word && proposal.startsWith(word) && !/\w\s+\w/.test(word),
    word,
  );
  proposal = await settled(p);
  [text, at] = [await p.code(), await p.caret()];
  await p.page.keyboard.press("Tab");
  check("Tab accepts", (await p.code()) === text.slice(0, at) + proposal + text.slice(at));
  await p.page.keyboard.press("Control+z");
  check("undo takes it back", (await p.code()).length < text.length + proposal.length);
  await p.page.keyboard.press("Control+Space");
  check("Ctrl+Space asks", await settled(p));
  await p.page.keyboard.press("Escape");
  check("Esc dismisses", (await p.ghost()) === "");
  await p.page.keyboard.press("Escape");
  await p.page.keyboard.press("Tab");
  check(
    "Esc, then Tab leaves the editor",
    await p.page.evaluate(() => document.activeElement.id !== "code"),
  );
  const asked = p.creates().length;
  await p.at("follow").click();
  await p.at("code").focus();
  await p.page.keyboard.type("x");
  await p.page.waitForTimeout(300);
  check("switched off, it asks nobody", p.creates().length === asked);
  await p.at("follow").click();
  check(
    "every completion ends once",
    await until(() =>
      p
        .creates()
        .every(
          ({ id }) =>
            p.seen.got.filter(
              (event) =>
                event.id === id && (event.type === "completion.done" || event.type === "error"),
            ).length === 1,
        ),
    ),
  );
}

/** Act in the page as soon as an answer streams: the model may be faster than a driver.  Returns
 * the message that cancels or steers it, or null when nothing could be caught. */
async function caught(p, question, act) {
  for (let n = 0; n < 4; n++) {
    const asked = p.seen.sent.length;
    await p.page.evaluate((name) => {
      const acts = {
        stop: () => document.getElementById("stop").click(),
        redirect: () => {
          document.getElementById("message").value = "Now say it in one word.";
          document.getElementById("composer").requestSubmit();
        },
      };
      const log = document.getElementById("turns");
      const observer = new MutationObserver(() => {
        if (!log.querySelector(".turn.live:last-of-type .said")?.textContent.trim()) return;
        observer.disconnect();
        acts[name]();
      });
      observer.observe(log, { childList: true, subtree: true, characterData: true });
    }, act);
    await ask(p, `${question} (${n})`);
    const canceled = await until(
      () =>
        p.seen.sent.slice(asked).find(({ type }) => /^response.(cancel|steer)$/.test(type)),
      5000,
    );
    await idle(p);
    if (canceled) return canceled;
  }
  return null;
}

const idle = (p) =>
  until(
    async () =>
      !(await p.at("stop").isVisible()) && (await p.page.locator(".turn.live").count()) === 0,
  );

async function testAsking(p) {
  const canceled = await caught(p, "Explain this code at length.", "stop");
  check("an answer can be stopped", canceled?.response_id);
  const text = await p.at("answer").last().innerText();
  check("a stopped answer says so", /stopped/.test(text), text);
  const first = JSON.stringify(p.creates("response.create")[0].input);
  check("the code was sent along", first.includes("os.ReadFile"));
  check("the speed is shown", await until(async () => /\d/.test(await p.text("rate"))));

  const redirected = await caught(p, "Tell me more of it, in many words.", "redirect");
  check("a message in mid-stream steers", redirected?.type === "response.steer");
  check("a redirect sends only what is new", redirected?.input.length === 1);
  check("a redirected answer ends", await idle(p));
  const said = await p.at("answer").last().locator(".said").innerText();
  check("the next answer has words", said.trim().length > 0);
  check("no answer failed", (await p.page.locator(".facts .bad").count()) === 0);
}

async function testKeyboard(p) {
  await p.at("code").focus();
  await p.page.keyboard.press("F6");
  check(
    "F6 goes to the questions",
    await p.at("message").evaluate((e) => e === document.activeElement),
  );
  await p.page.keyboard.press("F6");
  check(
    "F6 goes back to the code",
    await p.at("code").evaluate((e) => e === document.activeElement),
  );
  await p.page.keyboard.press("F1");
  check("F1 opens the keys", await p.at("help").isVisible());
  await p.page.keyboard.press("Escape");
  check("Esc closes them", !(await p.at("help").isVisible()));
  await p.page.locator(".skip").focus();
  const reached = new Set();
  for (let n = 0; n < 60; n++) {
    await p.page.keyboard.press("Tab");
    const [id, outlined] = await p.page.evaluate(() => {
      const e = document.activeElement,
        style = getComputedStyle(e);
      return [e.id, style.outlineStyle !== "none" || /textarea/i.test(e.tagName)];
    });
    if (id && !outlined) check(`the focus on #${id} is seen`, false);
    reached.add(id);
    // A proposal and a streaming answer: each takes one.
    for (let i = 0; i < 3 && id === "code"; i++) await p.page.keyboard.press("Escape");
    if (id === "send") break;
  }
  const wanted = [
    "open-sessions",
    "new-session",
    "open-key",
    "theme",
    "open-help",
    "path",
    "length",
    "follow",
    "code",
    "message",
    "with-code",
    "send",
  ];
  check(
    "Tab reaches everything",
    wanted.every((id) => reached.has(id)),
    wanted.filter((id) => !reached.has(id)).join(),
  );
  const nameless = await p.page.evaluate(() =>
    [...document.querySelectorAll("button, input, select, textarea")]
      .filter(
        (e) =>
          e.checkVisibility() &&
          !(e.getAttribute("aria-label") || e.labels?.length || e.textContent.trim()),
      )
      .map((e) => e.outerHTML),
  );
  check("everything has a name", nameless.length === 0, nameless.join());
}

const luminance = (page) =>
  page.evaluate(() => {
    const [r, g, b] = getComputedStyle(document.body)
      .backgroundColor.match(/[\d.]+/g)
      .map(Number);
    return (r + g + b) / 3;
  });

async function testLook(p) {
  await p.page.emulateMedia({ colorScheme: "light" });
  check("it is light where that is asked", (await luminance(p.page)) > 200);
  await p.page.emulateMedia({ colorScheme: "dark" });
  check("it is dark where that is asked", (await luminance(p.page)) < 60);
  await shot(p.page, "dark");
  await p.at("theme").click();
  check("the button makes it light", (await luminance(p.page)) > 200);
  await p.at("theme").click();
  check("and dark", (await luminance(p.page)) < 60);
  await p.at("theme").click();
  await p.page.emulateMedia({ colorScheme: "light" });
  await p.page.setViewportSize({ width: 390, height: 844 });
  const wide = await p.page.evaluate(() => document.documentElement.scrollWidth);
  check("it fits a phone", wide <= 390, String(wide));
  check(
    "a phone shows one pane",
    !(await p.at("message").isVisible()) && (await p.at("code").isVisible()),
  );
  await p.at("tab-ask").click();
  check(
    "and then the other",
    (await p.at("message").isVisible()) && !(await p.at("code").isVisible()),
  );
  await shot(p.page, "phone");
  await p.at("tab-code").click();
  await p.page.setViewportSize({ width: 1280, height: 800 });
}

async function testSessions(p) {
  await p.at("code").focus();
  await p.page.keyboard.press("Control+End");
  await p.page.keyboard.type("/* kept */");
  const text = await p.code();
  await p.page.waitForTimeout(600);
  await p.page.reload();
  check("a reload keeps the text", (await p.code()) === text);
  check("and the conversation", (await p.at("question").count()) > 1);
  check("it connects again", await p.connected());
  await p.at("new-session").click();
  check(
    "a new session is empty",
    (await p.code()) === "" && (await p.at("question").count()) === 0,
  );
  await p.at("open-sessions").click();
  await shot(p.page, "sessions");
  await p.at("local-sessions").getByTestId("session").first().click();
  check("an old one comes back", (await p.code()) === text && (await p.at("question").count()) > 1);
}

/** In a page of its own: Chromium itself logs failed requests here. */
async function testLost() {
  const p = await open();
  await p.connected();
  await p.at("code").focus();
  await p.page.keyboard.type("int kept;");
  const text = await p.code();
  await p.page.evaluate(() => {
    window.banners = []; // it may be back before the test looks
    const banner = document.getElementById("banner");
    new MutationObserver(() => banner.hidden || window.banners.push(banner.innerText)).observe(
      banner,
      { attributes: true },
    );
  });
  await p.context.setOffline(true);
  const banners = await until(() => p.page.evaluate(() => window.banners.join("")));
  check("a lost connection is shown", /No connection/.test(banners), banners);
  await p.page.keyboard.type(" int more;");
  await shot(p.page, "lost");
  await p.context.setOffline(false);
  check("it connects again by itself", await p.connected());
  check("nothing typed is lost", (await p.code()).length === text.length + " int more;".length);
  const asked = p.creates().length;
  await p.page.keyboard.type("zq9"); // no proposal continues this: it must ask
  check("and it completes again", await until(() => p.creates().length > asked));
  await p.context.close();
}

/** Replaces the page's server; answer(message, say, n) handles the n-th request. */
const routed = (answer) => (context) =>
  context.routeWebSocket(/responses/, (socket) => {
    let n = 0;
    socket.onMessage((data) => {
      const message = JSON.parse(data);
      if (message.type.startsWith("response.")) {
        n += /^response.(create|steer)$/.test(message.type);
        answer(message, (event) => socket.send(JSON.stringify(event)), n);
      }
    });
  });

const completed = (id, text) => ({
  type: "response.completed",
  response: {
    id,
    status: "completed",
    output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text }] }],
  },
});

const created = (id) => ({ type: "response.created", response: { id, status: "in_progress" } });

const refused = (code, message) => ({
  type: "error",
  status: 400,
  error: { type: "invalid_request_error", code, message },
});

async function ask(p, text) {
  await p.at("message").fill(text);
  await p.page.keyboard.press("Enter");
}

const lastAnswer = async (p) => (await idle(p)) && p.at("answer").last().innerText();

/** A server that forgets responses, and one that refuses. */
async function testFaults() {
  const p = await open(
    {},
    routed((message, say, n) => {
      if (message.previous_response_id) {
        say(refused("previous_response_not_found", "Previous response was not found."));
      } else if (/refuse/.test(JSON.stringify(message.input.at(-1)))) {
        say(refused("other", "No, thank you."));
      } else {
        say(created(`resp_${n}`));
        say(completed(`resp_${n}`, `answer ${n}`));
      }
    }),
  );
  await p.connected();
  await ask(p, "one");
  check("an answer without deltas is shown", /answer 1/.test(await lastAnswer(p)));
  await ask(p, "two");
  check("what the server forgot is sent again", /answer 3/.test(await lastAnswer(p)));
  await ask(p, "refuse");
  check("a refusal is shown", /No, thank you/.test(await lastAnswer(p)));
  await p.context.close();
}

/** Stopping and redirecting by the keyboard, a server that never ends by itself. */
async function testStopping() {
  const asked = [];
  const p = await open(
    {},
    routed((message, say, n) => {
      asked.push(message);
      const id = message.response_id ?? `resp_${n}`;
      const of = message.previous_response_id;
      if (message.type === "response.steer") {
        if (message.input[0].content[0].text === "four") {
          const error = { type: "invalid_request_error", code: "steering_not_supported" };
          say({ type: "response.steer.failed", steer: { previous_response_id: of }, error });
          return;
        }
        const ended = completed(of, "");
        const reason = { reason: "steered" };
        ended.response = { ...ended.response, status: "incomplete", incomplete_details: reason };
        say({ ...ended, type: "response.incomplete" });
      }
      if (message.type !== "response.cancel") {
        say(created(id));
        say({ type: "response.output_text.delta", delta: `words of ${n}` });
      } else {
        say({ ...completed(id, ""), type: "response.incomplete" });
      }
    }),
  );
  const streams = () => until(() => p.at("stop").isVisible());
  await p.connected();
  await ask(p, "one");
  check("it streams", (await streams()) && (await p.text("send")) === "Redirect");
  await shot(p.page, "stream");
  await p.page.keyboard.press("Escape");
  check("Esc stops an answer", (await idle(p)) && asked.at(-1).response_id === "resp_1");
  check("what was said stays", /words of 1[^]*stopped/.test(await lastAnswer(p)));
  await ask(p, "two");
  await streams();
  await ask(p, "three");
  const steer = asked.at(-1);
  check("Enter steers what streams", steer.type === "response.steer");
  check("and names it", steer.previous_response_id === "resp_2");
  check("a redirect sends only what is new", steer.input.length === 1);
  check("the one before says so", /redirected/.test(await p.at("answer").nth(1).innerText()));
  const newest = () => p.at("answer").last().innerText();
  check("the successor is heard", await until(async () => /words of 3/.test(await newest())));
  await ask(p, "four");
  await until(async () => asked.at(-1).type === "response.create");
  const [cancel, create] = asked.slice(-2);
  check("what cannot be steered is cancelled", cancel.type === "response.cancel");
  check("and gone on from", create.previous_response_id === cancel.response_id);
  await p.context.close();
}

/** Another session while an answer streams: the rest of the answer is dropped. */
async function testLeaving() {
  const asked = [];
  const p = await open(
    {},
    routed((message, say, n) => {
      asked.push(message);
      if (message.type === "response.cancel") {
        setTimeout(() => say(completed("resp_1", "of the old one")), 300);
      } else if (n === 1) {
        say(created("resp_1"));
      } else {
        setTimeout(() => say(created("resp_2")), 400);
        setTimeout(() => say(completed("resp_2", "of the new one")), 450);
      }
    }),
  );
  await p.connected();
  await ask(p, "slow");
  await until(() => asked.length);
  await p.at("new-session").click();
  await ask(p, "next");
  const text = await lastAnswer(p);
  check("a late answer is not that of another session", /of the new one/.test(text), text);
  const { type, previous_response_id: id } = asked.at(-1);
  check("nor does the next request go on from it", type === "response.create" && !id);
  await p.context.close();
}

/** Before any input there is a proposal, or the reason why there is none. */
async function testFirstView() {
  for (const [name, options] of [
    ["a desk", { colorScheme: "dark" }],
    ["a phone", { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }],
  ]) {
    const p = await open(options);
    const told = await until(() => p.text("proposal"));
    check(`the first view of ${name} proposes, or says why not`, told);
    const words = await settled(p);
    check(`the bundled model proposes something on ${name}`, words);
    await shot(p.page, `first-${name.split(" ")[1]}`);
    await p.context.close();
  }
  const p = await open({}, (context) =>
    context.route("**/health", (route) =>
      route.fulfill({ json: { status: "ok", guard: { on: true, unjudged: ["go"] } } }),
    ),
  );
  check("a watchdog that lacks a grammar is seen", await until(() => p.at("guard").isVisible()));
  check(
    "with the language",
    ((await p.at("guard").getAttribute("title")) ?? "").includes("grammar for go"),
  );
  check("that the model does not chat is said", await until(() => p.at("no-chat").isVisible()));
  await p.context.close();
}

/** An injection is retracted: no byte of it is ever on the page. */
async function testWatchdog() {
  const p = await open({ reducedMotion: "reduce" });
  await p.connected();
  await p.page.evaluate(() => {
    const seen = (window.seenInPage = { weak: 0, held: 0, drawn: 0 });
    new MutationObserver(() => {
      seen.drawn++;
      seen.weak += document.body.textContent.includes("= '\" + name");
      seen.held += document.querySelectorAll(".finding.taken_back").length;
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  await ask(p, "Show me the rows of a name, in Python.");
  const text = await lastAnswer(p);
  const seen = await p.page.evaluate(() => window.seenInPage);
  const badges = await p.at("finding").allInnerTexts();
  const told = JSON.stringify(p.seen.got);
  check("a weak line is held, and the page says so", seen.held > 0, JSON.stringify(seen));
  check("and is never in the page", seen.drawn > 0 && seen.weak === 0, JSON.stringify(seen));
  check("nor in what the browser was sent", told.includes("cursor") && !/= '\W*\+ name/.test(told));
  check("the safe one is", text.includes("name = %s") && text.includes("fetchall"), text);
  check(
    "a badge names what was rewritten",
    badges.length === 1 && /SQL injection rewritten: CWE.89/.test(badges[0]),
    badges.join("; "),
  );
  await shot(p.page, "watchdog");
  await p.context.close();
}

const p = await open({ reducedMotion: "reduce" });
try {
  await testLoad(p);
  await testTyping(p);
  await testAccepting(p);
  await testAsking(p);
  await testKeyboard(p);
  await testLook(p);
  await testSessions(p);
  const origin = new URL(base).host;
  check(
    "nothing was asked of anybody else",
    p.seen.urls.every((url) => new URL(url).host === origin),
  );
  check(
    "the browser had nothing to complain of",
    p.seen.complaints.length === 0,
    p.seen.complaints.join("; "),
  );
  await testLost();
  await testFaults();
  await testLeaving();
  await testStopping();
  await testFirstView();
await testWatchdog();
} catch (error) {
  check("the test itself", false, error.stack);
}
await browser.close();
console.log(`page: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
