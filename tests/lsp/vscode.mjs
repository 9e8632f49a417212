// vscode.mjs - the extension in a real VS Code: code-server, driven by keys in headless Chromium.
//
//   node vscode.mjs FOLDER CHROMIUM CERIUM WORK [KEYS]
//
// FOLDER: where npm installed code-server and playwright-core.  CERIUM: the program.  WORK: an
// empty folder.  The extension is build/cerium-vscode.vsix.  KEYS: only type so many, and say how
// long it takes from each to ghost text.  SHOTS=FOLDER keeps screenshots.  Ends with "vscode: N
// passed, M failed".
import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import net from "node:net";
import { join } from "node:path";

const [folder, executablePath, cerium, work, keys] = process.argv.slice(2);
const { chromium } = createRequire(join(folder, "here.js"))("playwright-core");
const WAIT_MS = Number(process.env.WAIT_MS || 180000);
const project = join(work, "project");
const file = (name) => join(project, name);
const read = (name) => fs.readFileSync(file(name), "utf8");

let passed = 0;
let failed = 0;
function check(name, fine, what = "") {
  if (fine) passed++;
  else {
    failed++;
    console.log(`  FAIL ${name} ${typeof what === "string" ? what : JSON.stringify(what)}`);
  }
}

const rest = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Wait until a probe gives something true; what it gave last. */
async function until(probe, ms = WAIT_MS) {
  const end = Date.now() + ms;
  for (;;) {
    const value = await probe();
    if (value || Date.now() > end) return value;
    await rest(10);
  }
}

const freePort = () => new Promise((resolve) => {
  const server = net.createServer().listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

const answers = (url) => fetch(url).then((r) => r.ok, () => false);

// ---- what it works on ----

const POINT = "import hashlib\n\n\n" +
  fs.readFileSync("examples/point.py", "utf8").split("    def __sub__")[0];
const FILES = {
  "point.py": POINT,
  "area.py": "def area(width, height):\n    if width > height:\n        return width * height\n" +
    "    return 2 * width\n\n\ndef other(width):\n    return width\n",
  "sum.c": "int sum(int a, int b)\n{\n    return a - b;\n}\n",
};
const SUM_DONE = FILES["sum.c"].replace("a - b", "a + b");

function keep(name, values) {
  const path = join(work, "data", name, "settings.json");
  fs.mkdirSync(join(work, "data", name), { recursive: true });
  fs.writeFileSync(path, JSON.stringify(values));
}

/** Those of the machine on which programs run; the others are the user's. */
const settings = (more = {}) => keep("Machine", { "cerium.path": join(work, "cerium"), ...more });

/** The program, with all that goes through it in WORK/to and WORK/from, and an answer to edits. */
function prepare() {
  fs.mkdirSync(join(project, ".git"), { recursive: true });
  for (const [name, text] of Object.entries(FILES)) fs.writeFileSync(file(name), text);
  fs.writeFileSync(join(work, "answer"), "```c\n" + SUM_DONE + "```\n");
  for (const name of ["to", "from"]) fs.writeFileSync(join(work, name), "");
  fs.writeFileSync(join(work, "cerium"), `#!/bin/sh
[ "$1" = lsp ] || exec '${cerium}' "$@"
tee -a '${work}/to' | {
    sh -c 'echo $$ >"$0.$$"; mv "$0.$$" "$0"; exec "$@"' '${work}/pid' \\
        '${cerium}' "$@" --replay '${work}/answer'
    kill $$
} 2>>'${work}/log' | tee -a '${work}/from'
`, { mode: 0o755 });
  settings();
  keep("User", {
    "telemetry.telemetryLevel": "off", "extensions.autoUpdate": "off",
    "extensions.autoCheckUpdates": false, "chat.disableAIFeatures": true, "git.enabled": false,
    "extensions.ignoreRecommendations": true, "files.autoSave": "off", "files.hotExit": "off",
    "files.saveConflictResolution": "overwriteFileOnDisk", "editor.autoIndent": "none",
    "workbench.startupEditor": "none", "editor.minimap.enabled": false,
    "workbench.secondarySideBar.defaultVisibility": "hidden" });
}

/** All messages that went one way. */
function messages(name) {
  const bytes = fs.readFileSync(join(work, name));
  const all = [];
  for (let at = 0; ;) {
    const head = bytes.indexOf("\r\n\r\n", at);
    if (head < 0) return all;
    const n = Number(/Content-Length: *(\d+)/i.exec(bytes.toString("latin1", at, head))[1]);
    if (head + 4 + n > bytes.length) return all;
    all.push(JSON.parse(bytes.toString("utf8", head + 4, head + 4 + n)));
    at = head + 4 + n;
  }
}

const offsetOf = (text, { line, character }) =>
  text.split("\n").slice(0, line).reduce((sum, one) => sum + one.length + 1, 0) + character;

/** The text with the last item that the server gave. */
function withLastItem(text) {
  const item = messages("from").filter((m) => m.result?.items?.length).at(-1).result.items[0];
  return text.slice(0, offsetOf(text, item.range.start)) + item.insertText +
    text.slice(offsetOf(text, item.range.end));
}

// ---- the editor ----

prepare();
const port = await freePort();
const base = `http://127.0.0.1:${port}`;
const children = [];
const start = (program, args, log) => {
  const child = spawn(program, args, {
    stdio: ["ignore", ...Array(2).fill(fs.openSync(join(work, log), "a"))] });
  children.push(child);
  return child;
};
process.on("exit", () => children.forEach((child) => child.kill()));
const codeServer = [join(folder, "node_modules/code-server/out/node/entry.js"),
  "--user-data-dir", join(work, "data"), "--extensions-dir", join(work, "extensions")];
const installed = spawnSync(process.execPath, [...codeServer, "--install-extension",
  "build/cerium-vscode.vsix"], { encoding: "utf8" });
check("the extension is installed", /successfully installed/.test(installed.stdout),
  installed.stdout + installed.stderr);
start(process.execPath, [...codeServer,
  "--auth", "none", "--bind-addr", `127.0.0.1:${port}`, "--disable-telemetry",
  "--disable-update-check", "--disable-workspace-trust", "--disable-getting-started-override",
  project], "code-server.log");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
check("code-server answers", await until(() => answers(`${base}/healthz`)));
const page = await browser.newPage({ viewport: { width: 1000, height: 700 } });

const press = (...names) => names.reduce((done, name) => done.then(() => page.keyboard.press(name)),
  Promise.resolve());
const type = (text) => page.keyboard.type(text, { delay: 30 });
const bar = page.locator('.statusbar-item[id^="cerium"]');
const barIs = (icon) => until(() => bar.locator(`.codicon-${icon}`).count());
const shown = async (selector) => (await page.locator(selector).allInnerTexts())
  .join("").replace(/\u00a0/g, " ");
const ghost = () => shown(".ghost-text-decoration, .ghost-text, .suggest-preview-text");
/** Ghost text is there after "self": what was typed before the language server ran has no proposal,
 * so the last letter is typed again.  Each time it is waited for twice as long: a machine may be
 * busy. */
async function checkGhostOfSelf(name) {
  let text = await ghost();
  for (let wait = 1000; !text && wait < 2 * WAIT_MS; wait *= 2) {
    await press("Backspace");
    await type("f");
    text = await until(ghost, wait);
  }
  const asked = messages("to").filter((m) => m.method === "textDocument/inlineCompletion").at(-1);
  check(name, text, { asked: asked?.params, bar: await bar.innerText(),
    answer: messages("from").filter((m) => m.id === asked?.id && !m.method) });
}
const gone = ".view-line span[class*='TextEditorDecorationType']";
/** No message and no panel; or what there is. */
async function checkStill(name) {
  const all = await page.locator(".notification-toast").allInnerTexts();
  check(name, !all.length && await page.locator(".part.panel").isHidden(), all);
}
const shot = (name) => process.env.SHOTS &&
  page.screenshot({ path: join(process.env.SHOTS, `${name}.png`) });

/** Save the file: true when it is, and holds that text. */
async function savesAs(name, want) {
  await press("Control+s");
  return until(async () => read(name) === want && !await page.locator(".tab.active.dirty").count());
}

/** Open a file, and wait until the model is ready. */
async function edit(name) {
  await page.locator(".explorer-folders-view .monaco-list-row", { hasText: name }).click();
  check(`${name} is open`, await until(async () =>
    (await page.locator(".tab.active").getAttribute("aria-label")).startsWith(name) &&
    await page.locator(".view-lines .view-line").count()));
  check(`${name}: the model is ready`, await barIs("check"), await bar.innerHTML());
  await page.locator(".view-lines").first().click();
}

async function goTo(place) {
  await press("Control+g");
  await until(() => page.locator(".quick-input-widget input").isVisible());
  await page.keyboard.type(place);
  await press("Enter");
}

async function command(name) {
  await press("F1");
  await until(() => page.locator(".quick-input-widget input").isVisible());
  await page.keyboard.type(name);
  await until(() => page.locator(".quick-input-list .monaco-list-row.focused").count());
  await press("Enter");
}

// ---- what a user sees ----

const TYPED = "    def __sub__(self, oth";

/** Alt+] shows the next candidate, Alt+[ the one before. */
async function candidates(first) {
  // VS Code closed the bracket, which is no ghost text.
  const plain = (text) => text.replace(/[)\s]/g, "");
  let answer = null;
  for (let i = 0; i < 20 && !answer; i++) { // those that are too late come with the next answer
    await press("Alt+BracketRight");
    answer = await until(() =>
      messages("from").filter((m) => m.result?.items?.length > 1).at(-1), 5000);
  }
  const texts = answer ? answer.result.items.map((item) => item.insertText) : [];
  check("who asks for the next one gets several", texts.length > 1, texts);
  check("of which the first is that which was shown", plain(texts[0] ?? "") === plain(first),
    [texts, first]);
  for (const text of texts.slice(1)) {
    check("the next one is shown", await until(async () => plain(await ghost()) === plain(text)),
      [text, await ghost()]);
    await shot("1-next-candidate");
    await press("Alt+BracketRight");
  }
  check("then the first again", await until(async () => await ghost() === first), await ghost());
  await press("Alt+BracketLeft");
  check("and backwards the last", await until(async () =>
    plain(await ghost()) === plain(texts.at(-1) ?? "")), await ghost());
  await press("Alt+BracketRight");
  check("and forwards the first", await until(async () => await ghost() === first), await ghost());
}

async function ghostText() {
  await edit("point.py");
  await press("Control+End");
  await type(TYPED);
  const text = await until(ghost);
  check("ghost text is there", text.startsWith("er"), text);
  await shot("1-ghost-text");
  await candidates(text);
  const before = POINT + TYPED + ")"; // VS Code closes the bracket
  const want = withLastItem(before);
  await press("Tab");
  check("Tab takes it", await until(async () => !(await ghost()).startsWith("er")));
  check("what is in the file is the item, byte for byte", want !== before &&
    await savesAs("point.py", want), { want, got: read("point.py") });
  await press("Control+z");
  check("undo is one step", await savesAs("point.py", before), read("point.py"));
}

async function weakLine() {
  await press("Control+End", "Shift+Home", "Shift+Home", "Delete");
  await type("h = hashlib.md5(b'x')");
  await press("Enter", "Enter");
  check("a weak line is marked", await until(() => page.locator(".squiggly-warning").count()));
  check("and counted in the status bar", await until(() => bar.locator(".codicon-shield").count()),
    await bar.innerHTML());
  const told = await bar.locator("a").getAttribute("aria-label");
  check("which names the model and its speed",
    await until(async () => /cerium-line.*tokens a second/s.test(
      await bar.locator("a").getAttribute("aria-label"))), told);
  await shot("2-weak-line");
  await checkStill("all without a message");
}

async function quiet() {
  const line = "    def __mul__(self, oth";
  await press("Control+End");
  await bar.click();
  await until(() => page.locator(".quick-input-list").isVisible());
  await page.keyboard.type("Snooze");
  await press("Enter");
  check("the status bar shows the snooze", await barIs("bell-slash"), await bar.innerHTML());
  await page.locator(".view-lines").first().click();
  await press("Control+End", "Home");
  const asked = messages("to").length;
  await type(line);
  await until(() => messages("to").slice(asked).some(
    (m) => m.method === "textDocument/didChange"));
  const questions = messages("to").slice(asked)
    .filter((m) => m.method === "textDocument/inlineCompletion").map((m) => m.id);
  const said = await until(() => {
    const given = messages("from").filter((m) => questions.includes(m.id) && !m.method);
    return given.length === questions.length && given;
  });
  check("while it lasts nothing is proposed", said && said.every((m) => !m.result?.items?.length),
    said);
  check("nor shown", await ghost() === "");
  await shot("3-snooze");
  await command("cerium: Snooze");
  check("and it is ended", await barIs("check"));
  await page.locator(".view-lines").first().click();
  await command("cerium: Turn On or Off for This Language");
  check("a language is turned off", await barIs("circle-slash"));
  await command("cerium: Turn On or Off for This Language");
  check("and on", await barIs("check"));
  await page.locator(".view-lines").first().click();
  check("what was typed is kept", await savesAs("point.py",
    `${POINT}h = hashlib.md5(b'x')\n\n${line})`), read("point.py"));
}

async function nextEdit() {
  await edit("area.py");
  await goTo("1:10");
  await press("Control+Shift+ArrowRight");
  await type("breadth");
  check("the next place is struck out", await until(async () => await shown(gone) === "width"),
    await shown(gone));
  const behind = await page.locator(gone).evaluateAll((all) => all.map(
    (e) => getComputedStyle(e, "::after").content).filter((text) => text !== "none"));
  check("the new name stands behind it", behind.includes('"breadth"'), behind);
  await shot("4-next-edit");
  const want = FILES["area.py"].replace(/width/g, (name, at) =>
    at < FILES["area.py"].indexOf("def other") ? "breadth" : name);
  for (let i = 0; i < 3; i++) {
    check("a place offers itself", await until(() => page.locator(gone).count()));
    await press("Tab");
    await until(async () => await page.locator(gone).count() === 0);
  }
  await rest(1000);
  check("three times Tab, and no more", await page.locator(gone).count() === 0);
  check("all places of the name, and no other", await savesAs("area.py", want), read("area.py"));
}

async function instruction() {
  await edit("sum.c");
  await press("Control+Home");
  await command("cerium: Edit by Instruction");
  const input = page.locator(".quick-input-widget");
  await until(async () => (await input.innerText()).includes("What is"));
  await page.keyboard.type("add");
  await press("Enter");
  const picked = page.locator(".quick-input-list .monaco-list-row.focused");
  check("an edit is shown first", await until(async () =>
    await picked.count() && (await picked.innerText()).includes("Make this edit")));
  check("beside the text as it is", await until(async () =>
    /return a - b.*return a \+ b/s.test(await shown(".monaco-diff-editor .view-line"))));
  await shot("5-edit-preview");
  await press("Enter");
  check("then made", await until(async () =>
    !await page.locator(".monaco-diff-editor").isVisible() &&
    (await shown(".view-line")).includes("a + b")), read("sum.c"));
  check("as it was shown", await savesAs("sum.c", SUM_DONE), read("sum.c"));
}

/** The plug is pulled: the language server's process, then that of `cerium serve`. */
async function plug() {
  const text = read("point.py");
  await edit("point.py");
  await press("Control+End");
  const pid = () => {
    const id = Number(fs.readFileSync(join(work, "pid"), "utf8"));
    if (id > 1) return id;
    throw new Error(`no process: ${id}`); // a signal to 0 would end the whole test run
  };
  // Language servers that answered `initialize`: one that is killed before is another case.
  const starts = () => fs.readFileSync(join(work, "from"), "utf8").split('"capabilities"').length;
  for (let i = 0; i < 4; i++) {
    const one = pid();
    const before = starts();
    process.kill(one, "SIGKILL");
    if (!i) await type("\n");
    check("a language server that dies is started again",
      await until(() => pid() !== one && starts() > before));
    check("and the status bar is as before", await barIs("check"), await bar.innerHTML());
  }
  process.kill(pid(), "SIGKILL");
  check("but not for ever", await until(async () =>
    (await bar.innerHTML()).includes("ended again and again")), await bar.innerHTML());
  await rest(200);
  await checkStill("all that without a message");
  await command("cerium: Restart");
  check("it is started when it is told to", await barIs("check"), await bar.innerHTML());

  const other = await freePort();
  const url = `http://127.0.0.1:${other}`;
  const serve = start(cerium, ["serve", "--port", String(other)], "serve.log");
  check("cerium serve answers", await until(() => answers(`${url}/v1/models`)));
  const second = pid();
  const before = starts();
  settings({ "cerium.server": url });
  check("the setting is read", await until(() => pid() !== second && starts() > before));
  check("its server is used", await barIs("check"), await bar.innerHTML());
  await press("Control+End");
  await type("    def __neg__(self");
  await checkGhostOfSelf("with ghost text of the server");
  const box = async () =>
    JSON.stringify(await page.locator(".monaco-editor").first().boundingBox());
  const place = await box();
  serve.kill("SIGKILL");
  await type("):\n# x");
  check("the status bar says so", await barIs("warning"), await bar.innerHTML());
  check("in a word", (await bar.innerText()).trim() === "cerium: stopped", await bar.innerText());
  await type("yz");
  await shot("6-no-server");
  check("what is typed is there", await savesAs("point.py",
    `${text}\n    def __neg__(self):\n# xyz`), read("point.py"));
  check("nothing moved", place === await box());
  await checkStill("no message, no panel");
  await bar.click();
  check("a click starts the server", await until(() => answers(`${url}/v1/models`)));
  check("and all is as before", await barIs("check"), await bar.innerHTML());
  await page.locator(".view-lines").first().click();
  // In Chromium 150 the editor does not see that the status bar took the focus, and a click in it
  // takes none.
  await page.locator(".monaco-editor .native-edit-context").first().focus();
  await press("Control+End", "Enter");
  await type("    def __pos__(self");
  await checkGhostOfSelf("with ghost text");
  await shot("7-server-again");
  return url;
}

async function all() {
  await ghostText();
  await weakLine();
  await quiet();
  await nextEdit();
  await instruction();
  return plug();
}

/** From each key to the frame with other ghost text: new, or what is left while one types along. */
async function measure(n) {
  await edit("point.py");
  await press("Control+End");
  await page.evaluate(() => {
    window.times = { fresh: [], kept: [] };
    let pressed = 0;
    let was = "";
    addEventListener("keydown", () => (pressed = performance.now()), true);
    new MutationObserver(() => {
      const now = [...document.querySelectorAll(".ghost-text-decoration, .ghost-text")]
        .map((e) => e.textContent).join("");
      const list = was.endsWith(now) ? window.times.kept : window.times.fresh;
      if (now && now !== was && pressed) {
        const began = pressed;
        requestAnimationFrame(() => list.push(performance.now() - began));
        pressed = 0;
      }
      was = now;
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
  const names = ["sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"];
  const text = names.map((name) => `    def __${name}__(self, other):\n` +
    `        return Point(self.x.__${name}__(other.x), self.y.__${name}__(other.y))\n\n`).join("");
  for (let i = 0; i < n; i++) {
    await page.keyboard.type(text[i % text.length]);
    await rest(125);
  }
  const times = await page.evaluate(() => window.times);
  for (const [name, list] of Object.entries(times)) {
    list.sort((a, b) => a - b);
    const at = (share) =>
      list.length ? list[Math.floor((list.length - 1) * share)].toFixed(0) : "-";
    console.log(`key to ghost text in VS Code, ms, ${name}: p50 ${at(0.5)}, p90 ${at(0.9)}, ` +
      `p99 ${at(0.99)} (${list.length} of ${n} keys)`);
  }
}

let url;
try {
  await page.goto(`${base}/?folder=${project}`);
  if (keys) await measure(Number(keys));
  else url = await all();
} catch (e) {
  check("no exception", false, e.stack);
  await shot("exception");
}
await browser.close();
children[0].kill();
const left = () => fs.readdirSync("/proc").filter((id) => {
  try {
    return Number(id) && id !== String(process.pid) && id !== String(process.ppid) &&
      fs.readFileSync(`/proc/${id}/cmdline`, "utf8").includes(work);
  } catch {
    return false; // it has just ended
  }
});
check("what was started ends with the editor", await until(() => !left().length), left());
if (url) check("and so does the server that was started in it", await until(async () =>
  !(await answers(`${url}/v1/models`))));
console.log(`vscode: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
