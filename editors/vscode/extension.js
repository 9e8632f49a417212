// extension.js - cerium in VS Code: starts `cerium lsp`, and shows what the editor does not:
// the state in the status bar, a menu, next edits.  It opens no connection of its own.
"use strict";

const fs = require("fs");
const path = require("path");
const vscode = require("vscode");
const { CloseAction, ErrorAction, LanguageClient, RevealOutputChannelOn, State } =
  require("vscode-languageclient/node");
const { NextEdits } = require("./next_edit.js");
const { Previews } = require("./preview.js");
const { localPort, programOf, settingsOf, statusText } = require("./words.js");

const SNOOZE_MINUTES = 5;
const ASK_MS = 1000; // between two requests for the state

let client = null;
let change = Promise.resolve(); // the start, stop or restart that runs, or the last one
let bar = null;
let nextEdits = null;
let previews = null;
let state = { kind: "Normal", busy: true, message: "", model: "" };
let asking = null; // the timer of the next request
let snoozed = { until: 0, timer: null };

const settings = () => vscode.workspace.getConfiguration("cerium");

function showState(now = state) {
  state = now;
  const editor = vscode.window.activeTextEditor;
  const language = editor ? editor.document.languageId : "";
  const quiet = snoozed.until > Date.now() &&
    new Date(snoozed.until).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const words = statusText(state, settingsOf(settings()), language, quiet);
  const starts = words.bad && localPort(settings().get("server"));
  bar.text = words.text;
  bar.tooltip = starts ? `${words.tooltip}\nClick to start the server here.` : words.tooltip;
  bar.command = starts ? "cerium.startServer" : "cerium.menu";
  bar.backgroundColor = words.bad
    ? new vscode.ThemeColor("statusBarItem.warningBackground")
    : undefined;
}

const stopped = (message) => showState({ kind: "Error", busy: false, model: "", message });

function programHere() {
  const folders = vscode.workspace.isTrusted
    ? (vscode.workspace.workspaceFolders || []).map((f) => f.uri.fsPath)
    : [];
  return programOf(settings().get("path"), process.env.PATH || "", folders, (file) => {
    try {
      fs.accessSync(file, fs.constants.X_OK);
      return fs.statSync(file).isFile();
    } catch {
      return false;
    }
  }, path);
}

const modelArgs = () => (settings().get("model") ? ["-m", settings().get("model")] : []);

function serverOptions() {
  const command = programHere();
  const args = ["lsp", ...modelArgs()];
  if (settings().get("server")) args.push("--server", settings().get("server"));
  return command && { command, args };
}

// Nothing while there is a selection, or several carets.
async function inlineItems(document, position, context, token, next) {
  const editor = vscode.window.activeTextEditor;
  const quiet =
    editor &&
    editor.document === document &&
    (editor.selections.length > 1 || !editor.selection.isEmpty);
  const items = quiet ? [] : await next(document, position, context, token);
  askSoon();
  return items;
}

// It logs failures, and shows no message: the status bar shows when it stops.
class QuietClient extends LanguageClient {
  error(message, data) {
    super.error(message, data, false);
  }
}

// The language client restarts the program, but not for ever; the status bar shows that, and no
// message appears.
function errorHandler(of) {
  let ends = null;
  return {
    error: () => ({ action: ErrorAction.Continue, handled: true }),
    closed: async () => {
      if (of() !== client) return { action: CloseAction.DoNotRestart, handled: true };
      ends = ends || client.createDefaultErrorHandler();
      const next = await ends.closed();
      snoozed.until = 0;
      stopped(next.action === CloseAction.Restart
        ? "cerium lsp ended, and is started again"
        : "cerium lsp ended again and again: its log may say why");
      return { ...next, handled: true };
    },
  };
}

async function sayNoProgram() {
  const open = "Settings";
  const chosen = await vscode.window.showErrorMessage(
    "cerium: the program is not in PATH: install it, or name it in cerium.path.", open);
  if (chosen === open)
    vscode.commands.executeCommand("workbench.action.openSettings", "cerium.path");
}

async function start() {
  const server = serverOptions();
  if (!server) {
    stopped("there is no program `cerium`");
    sayNoProgram(); // not awaited: it stays until somebody answers
    return;
  }
  showState({ kind: "Normal", busy: true, message: "", model: "" });
  const own = new QuietClient("cerium", "cerium", server, {
    documentSelector: [{ scheme: "file" }, { scheme: "untitled" }],
    initializationOptions: { ...settingsOf(settings()), status: true },
    synchronize: { configurationSection: "cerium" },
    middleware: {
      provideInlineCompletionItems: inlineItems,
      workspace: { handleApplyEdit: (params, next) =>
        previews.apply(params, client.protocol2CodeConverter, next) },
    },
    errorHandler: errorHandler(() => own),
    initializationFailedHandler: () => false, // start() rejects
    revealOutputChannelOn: RevealOutputChannelOn.Never,
  });
  client = own;
  own.onNotification("didChangeStatus", (now) => own === client && showState(now));
  own.onDidChangeState((e) => e.newState === State.Running && askState());
  await own.start().catch((e) => stopped(`${server.command}: ${e.message}`));
}

async function stop() {
  const old = client;
  client = null;
  if (!old) return;
  // A client that is starting, after its program ended, refuses to stop: wait for it.
  if (old.state === State.Starting) await old.start().catch(() => {});
  await old.stop().catch(() => {});
}

// One after the other: settings may change again while a program stops or starts, and each start
// would leave one behind.
function restart() {
  change = change.then(stop).then(start);
  return change;
}

async function askState() {
  if (!client || !client.isRunning()) return;
  const asked = client;
  const now = await asked.sendRequest("cerium/status", {}).catch(() => null);
  if (now && asked === client) showState(now);
}

// After anything that may have changed it; without a key, no request.
function askSoon() {
  if (asking) return;
  asking = setTimeout(() => {
    asking = null;
    askState();
  }, ASK_MS);
}

// ---- commands ----

async function toggle() {
  const on = settings().get("enable");
  await settings().update("enable", !on, vscode.ConfigurationTarget.Global);
  showState();
}

async function toggleLanguage() {
  const editor = vscode.window.activeTextEditor;
  if (!editor) return;
  const language = editor.document.languageId;
  const languages = { ...settings().get("languages") };
  languages[language] = languages[language] === false;
  await settings().update("languages", languages, vscode.ConfigurationTarget.Global);
  showState();
}

function run(command, ...args) {
  if (!client || !client.isRunning()) return null;
  return client.sendRequest("workspace/executeCommand", { command, arguments: args });
}

async function editByInstruction() {
  const editor = vscode.window.activeTextEditor;
  if (!editor || !client) return;
  const instruction = await vscode.window.showInputBox({
    prompt: "What is to be done in this file?" });
  if (!instruction) return;
  await run("cerium.server.edit", {
    uri: client.code2ProtocolConverter.asUri(editor.document.uri),
    range: client.code2ProtocolConverter.asRange(editor.selection),
    instruction,
    version: editor.document.version,
  });
}

async function snooze() {
  const wakes = snoozed.until > Date.now();
  const minutes = wakes ? 0 : SNOOZE_MINUTES;
  if (!client || !client.isRunning()) return;
  await run("cerium.server.snooze", minutes);
  clearTimeout(snoozed.timer);
  snoozed = { until: minutes ? Date.now() + minutes * 60000 : 0, timer: null };
  if (minutes) snoozed.timer = setTimeout(() => showState(), minutes * 60000 + 1);
  await vscode.commands.executeCommand("editor.action.inlineSuggest.hide");
  nextEdits.dismiss();
  showState();
}

function startServer() {
  const port = localPort(settings().get("server"));
  const command = programHere();
  if (!port || !command) return;
  vscode.window.createTerminal({
    name: "cerium serve",
    shellPath: command,
    shellArgs: ["serve", "--port", String(port), ...modelArgs()],
    isTransient: true,
  });
}

async function menu() {
  const wakes = snoozed.until > Date.now();
  const commands = [
    ["Turn on or off", "cerium.toggle"],
    ["Turn on or off for this language", "cerium.toggleLanguage"],
    [wakes ? "End the snooze" : "Snooze for five minutes", "cerium.snooze"],
    ["Edit by instruction", "cerium.edit"],
    ...(localPort(settings().get("server")) ? [["Start the server", "cerium.startServer"]] : []),
    ["Restart", "cerium.restart"],
    ["Show the log", "cerium.showLog"],
  ].map(([label, command]) => ({ label, command }));
  const chosen = await vscode.window.showQuickPick(commands, { placeHolder: bar.tooltip });
  if (chosen) await vscode.commands.executeCommand(chosen.command);
}

async function activate(context) {
  bar = vscode.window.createStatusBarItem(vscode.StatusBarAlignment.Right, 100);
  bar.command = "cerium.menu";
  bar.show();
  nextEdits = new NextEdits(vscode, () => (client && client.isRunning() ? client : null),
    () => settings().get("enable") && settings().get("nextEdit"));
  previews = new Previews(vscode, () => settings().get("previewEdits"));
  const commands = {
    "cerium.menu": menu,
    "cerium.toggle": toggle,
    "cerium.toggleLanguage": toggleLanguage,
    "cerium.snooze": snooze,
    "cerium.startServer": startServer,
    "cerium.edit": editByInstruction,
    "cerium.nextEdit": () => nextEdits.take(),
    "cerium.dismissNextEdit": () => nextEdits.dismiss(),
    "cerium.restart": restart,
    "cerium.showLog": () => client && client.outputChannel.show(),
  };
  for (const [name, work] of Object.entries(commands))
    context.subscriptions.push(vscode.commands.registerCommand(name, work));
  context.subscriptions.push(
    bar, nextEdits, previews,
    { dispose: () => [asking, snoozed.timer].forEach((t) => clearTimeout(t)) },
    vscode.window.onDidChangeActiveTextEditor(() => showState()),
    vscode.languages.onDidChangeDiagnostics(askSoon),
    vscode.workspace.onDidChangeConfiguration((e) => {
      if (["path", "model", "server"].some((k) => e.affectsConfiguration(`cerium.${k}`)))
        restart();
      else if (e.affectsConfiguration("cerium")) showState();
    }));
  await restart();
}

module.exports = { activate, deactivate: () => (change = change.then(stop)) };
