// check_extension.js - the VS Code extension's own parts in Node, with a made editor.
"use strict";

const path = require("path");
const folder = path.resolve(__dirname, "../../editors/vscode");
const { difference, localPort, programOf, settingsOf, statusText } = require(`${folder}/words.js`);
const { NextEdits } = require(`${folder}/next_edit.js`);
const manifest = require(`${folder}/package.json`);

let passed = 0;
let failed = 0;
function check(name, good, what) {
  if (good) passed++;
  else {
    failed++;
    console.log(`  FAIL ${name}: ${JSON.stringify(what)}`);
  }
}

// ---- words ----

const has = (...files) => (file) => files.includes(file);
check("named", programOf("/x/cerium", "/bin", [], has("/x/cerium", "/bin/cerium"), path) ===
  "/x/cerium");
check("named and not there", programOf("/x/cerium", "/bin", [], has("/bin/cerium"), path) === null);
check("of PATH", programOf("", "/a:/bin", ["/w"], has("/bin/cerium", "/w/cerium"), path) ===
  "/bin/cerium");
check("of a folder that is trusted", programOf("", "/a", ["/w"], has("/w/cerium"), path) ===
  "/w/cerium");
check("of none", programOf("", ".:/a:", ["rel"], () => true, path) === "/a/cerium");
const configuration = (values) => ({ get: (key) => values[key] });
check("null is left out", JSON.stringify(settingsOf(configuration(
  { enable: true, minConfidence: null, delay: 0 }))) === '{"enable":true,"delay":0}');
check("an error is told", statusText({ kind: "Error", message: "no server" }, { enable: true }, "c")
  .tooltip === "no server");
check("loading", statusText({ kind: "Normal", busy: true }, { enable: true }, "c").text.includes(
  "loading"));
check("off for a language", statusText({ kind: "Normal", model: "m" },
  { enable: true, languages: { c: false } }, "c").tooltip === "m: off for c");

const running = { kind: "Normal", model: "m", tokens_per_second: 81.7, findings: 2 };
const words = statusText(running, { enable: true }, "c");
check("model, speed and findings", words.tooltip ===
  "m\n82 tokens a second\nthe watchdog found 2" && words.text.endsWith(" 2") && !words.bad, words);
check("snoozed", statusText(running, { enable: true }, "c", "14:05").tooltip.includes("14:05"));
check("off is not snoozed", !statusText(running, { enable: false }, "c", "14:05").tooltip.includes(
  "14:05"));
check("ports of this machine", localPort("http://127.0.0.1:8383") === 8383 &&
  localPort("http://localhost") === 80 && localPort("http://[::1]:9/") === 9);
check("and of no other", [undefined, "", "x", "https://localhost:1", "http://10.0.0.1:8383"].every(
  (server) => localPort(server) === null));

/** The difference, put into the old text, is the new one; what it replaces and by what. */
function differs(old, text) {
  const d = difference(old, text);
  check(`${old} becomes ${text}`, old.slice(0, d.from) + d.text + old.slice(d.to) === text, d);
  return `${old.slice(d.from, d.to)}>${d.text}`;
}
check("whole words", differs("width", "breadth") === "width>breadth" &&
  differs("a", "ab") === "a>ab" && differs("ba", "a") === "ba>a");
check("of a line, what differs", differs("c = three(3)\n", "c = three(3, 4)\n") === ">, 4");
check("one of many", differs("aa", "aaa") === "aa>aaa" && differs("f(a)", "f(a, a)") === ">, a" &&
  differs("()", "()()") === ">()");
check("nothing", differs("same", "same") === ">");
check("all", differs("", "x\n") === ">x\n" && differs("x\n", "") === "x\n>");

// ---- the manifest ----

const commands = manifest.contributes.commands.map((c) => c.command);
check("no command is the server's", commands.every((c) => !c.startsWith("cerium.server.")));
const source = require("fs").readFileSync(`${folder}/extension.js`, "utf8");
check("every command is there", commands.every((c) => source.includes(`"${c}"`)), commands);
const network = /require\("(https?|net|tls|dgram|dns|http2)"\)|fetch\(|WebSocket|XMLHttpRequest/;
for (const file of require("fs").readdirSync(folder).filter((name) => name.endsWith(".js")))
  check(`${file} opens no connection`,
    !network.test(require("fs").readFileSync(`${folder}/${file}`, "utf8")));

// ---- next edits ----

class Position {
  constructor(line, character) { Object.assign(this, { line, character }); }
  translate(lines, characters) {
    return new Position(this.line + lines, this.character + characters);
  }
}
class Range { constructor(start, end) { Object.assign(this, { start, end }); } }
class Selection { constructor(a, b) { Object.assign(this, { anchor: a, active: b }); } }

function makeEditor() {
  const heard = {};
  const on = (name) => (work) => ((heard[name] = work), { dispose() { delete heard[name]; } });
  const context = {};
  const line = "    x = 1\n";
  const document = {
    uri: "u", version: 3, text: line.repeat(80),
    offsetAt: (p) => p.line * line.length + p.character,
    positionAt: (n) => new Position(Math.floor(n / line.length), n % line.length),
    getText: (r) => document.text.slice(document.offsetAt(r.start), document.offsetAt(r.end)),
  };
  const editor = {
    document,
    selection: new Selection(new Position(0, 0), new Position(0, 0)),
    drawn: [], made: [],
    setDecorations(type, list) { this.drawn = list; },
    revealRange() {},
    async edit(work) {
      work({ replace: (range, text) => this.made.push([range, text]) });
      return true;
    },
  };
  const vscode = {
    Position, Range, Selection,
    ThemeColor: class {},
    TextEditorSelectionChangeKind: { Mouse: 2 },
    TextEditorRevealType: { InCenterIfOutsideViewport: 2 },
    commands: { executeCommand: (_, key, value) => { context[key] = value; } },
    window: {
      activeTextEditor: editor,
      createTextEditorDecorationType: () => ({ dispose() {} }),
      onDidChangeTextEditorSelection: on("moved"),
      onDidChangeActiveTextEditor: on("left"),
    },
    workspace: { onDidChangeTextDocument: on("changed") },
  };
  return { vscode, editor, heard, context };
}

async function nextEdits() {
  const { vscode, editor, heard, context } = makeEditor();
  const asked = [];
  let line = 2;
  let answers = true;
  const client = {
    code2ProtocolConverter: { asUri: (u) => u, asPosition: (p) => p },
    protocol2CodeConverter: {
      asRange: (r) => new Range(new Position(r.start.line, r.start.character),
        new Position(r.end.line, r.end.character)) },
    async sendRequest(method, params) {
      asked.push([method, params]);
      return { edits: answers ? [{ text: "width", range: {
        start: { line, character: 4 }, end: { line, character: 5 } } }] : [] };
    },
  };
  const next = new NextEdits(vscode, () => client, () => true);
  await next.ask(editor);
  check("it is asked for the version", asked[0][0] === "textDocument/copilotInlineEdit" &&
    asked[0][1].textDocument.version === 3, asked);
  check("it is drawn", editor.drawn.length === 1 &&
    editor.drawn[0].renderOptions.after.contentText === "width" && context["cerium.hasNextEdit"]);
  await next.take();
  check("near, it is made", editor.made.length === 1 && editor.made[0][1] === "width" &&
    editor.selection.active.line === 2 && editor.selection.active.character === 9);
  check("and gone", editor.drawn.length === 0 && context["cerium.hasNextEdit"] === false);
  line = 60;
  await next.ask(editor);
  await next.take();
  check("far away, Tab goes there",
    editor.made.length === 1 && editor.selection.active.line === 60);
  await next.take();
  check("and then makes it", editor.made.length === 2);
  await next.ask(editor);
  heard.moved({ kind: 2 });
  check("a click dismisses it", editor.drawn.length === 0);
  await next.ask(editor);
  editor.document.version = 4;
  await next.take();
  check("an older text's is not made", editor.made.length === 2 && editor.drawn.length === 0);
  next.show(editor, new Range(new Position(3, 0), new Position(4, 0)), "    x = 1, 2\n");
  const said = () => editor.drawn[0].renderOptions.after.contentText;
  check("of a whole line, what differs", said() === ", 2" &&
    editor.drawn[0].range.start.character === 9, editor.drawn[0]);
  next.show(editor, new Range(new Position(3, 9), new Position(3, 9)), "\n    y");
  check("lines are drawn in one", said() === " \u23ce     y");
  next.dismiss();
  answers = false;
  await next.ask(editor);
  check("nothing is nothing", editor.drawn.length === 0);
  answers = true;
  const late = next.ask(editor);
  next.dismiss();
  await late;
  check("what comes too late is not drawn", editor.drawn.length === 0);
  heard.changed({ document: editor.document, contentChanges: [1] });
  check("a change is followed by a question", next.timer !== null);
  next.dispose();
  check("nothing is heard afterwards", Object.keys(heard).length === 0, Object.keys(heard));
}

nextEdits().then(() => {
  console.log(`extension: ${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
});
