// extension.js - cerium in VS Code: starts `cerium lsp`, and shows what an editor has no place for:
// the state in the status bar, a menu, next edits.  It opens no connection of its own.
"use strict";

const fs = require("fs");
const path = require("path");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");
const { NextEdits } = require("./next_edit.js");
const { programOf, settingsOf, statusText } = require("./words.js");

let client = null;
let bar = null;
let nextEdits = null;
let state = { kind: "Normal", busy: true, message: "", model: "" };

const settings = () => vscode.workspace.getConfiguration("cerium");

function showState() {
  const editor = vscode.window.activeTextEditor;
  const language = editor ? editor.document.languageId : "";
  const words = statusText(state, settingsOf(settings()), language);
  bar.text = words.text;
  bar.tooltip = words.tooltip;
  bar.backgroundColor = words.bad
    ? new vscode.ThemeColor("statusBarItem.warningBackground")
    : undefined;
}

function serverOptions() {
  const folders = vscode.workspace.isTrusted
    ? (vscode.workspace.workspaceFolders || []).map((f) => f.uri.fsPath)
    : [];
  const found = programOf(settings().get("path"), process.env.PATH || "", folders, (file) => {
    try {
      fs.accessSync(file, fs.constants.X_OK);
      return fs.statSync(file).isFile();
    } catch {
      return false;
    }
  }, path);
  const args = ["lsp"];
  if (settings().get("model")) args.push("-m", settings().get("model"));
  if (settings().get("server")) args.push("--server", settings().get("server"));
  return found && { command: found, args };
}

// Nothing while something is selected, or several carets stand.
async function inlineItems(document, position, context, token, next) {
  const editor = vscode.window.activeTextEditor;
  const quiet =
    editor &&
    editor.document === document &&
    (editor.selections.length > 1 || !editor.selection.isEmpty);
  return quiet ? [] : next(document, position, context, token);
}

async function start() {
  const server = serverOptions();
  if (!server) {
    state = { kind: "Error", busy: false, model: "", message: "there is no program `cerium`" };
    showState();
    const open = "Settings";
    const chosen = await vscode.window.showErrorMessage(
      "cerium: the program is not in PATH: install it, or name it in cerium.path.", open);
    if (chosen === open)
      vscode.commands.executeCommand("workbench.action.openSettings", "cerium.path");
    return;
  }
  client = new LanguageClient("cerium", "cerium", server, {
    documentSelector: [{ scheme: "file" }, { scheme: "untitled" }],
    initializationOptions: { ...settingsOf(settings()), status: true },
    synchronize: { configurationSection: "cerium" },
    middleware: { provideInlineCompletionItems: inlineItems },
  });
  client.onNotification("didChangeStatus", (now) => {
    state = now;
    showState();
  });
  try {
    await client.start();
    await askState();
  } catch (e) {
    state = { kind: "Error", busy: false, model: "", message: `${server.command}: ${e.message}` };
    showState();
  }
}

async function stop() {
  const old = client;
  client = null;
  if (old) await old.stop().catch(() => {});
}

async function askState() {
  if (!client || !client.isRunning()) return;
  state = await client.sendRequest("cerium/status", {}).catch((e) => ({
    kind: "Error", busy: false, model: "", message: String(e.message) }));
  showState();
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

async function menu() {
  const commands = [
    ["Turn on or off", "cerium.toggle"],
    ["Turn on or off for this language", "cerium.toggleLanguage"],
    ["Snooze for five minutes", "cerium.snooze"],
    ["Edit by instruction", "cerium.edit"],
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
  const commands = {
    "cerium.menu": menu,
    "cerium.toggle": toggle,
    "cerium.toggleLanguage": toggleLanguage,
    "cerium.snooze": () => run("cerium.server.snooze", 5),
    "cerium.edit": editByInstruction,
    "cerium.nextEdit": () => nextEdits.take(),
    "cerium.dismissNextEdit": () => nextEdits.dismiss(),
    "cerium.restart": () => stop().then(start),
    "cerium.showLog": () => client && client.outputChannel.show(),
  };
  for (const [name, work] of Object.entries(commands))
    context.subscriptions.push(vscode.commands.registerCommand(name, work));
  context.subscriptions.push(
    bar, nextEdits,
    vscode.window.onDidChangeActiveTextEditor(showState),
    vscode.workspace.onDidChangeConfiguration((e) => {
      if (["path", "model", "server"].some((k) => e.affectsConfiguration(`cerium.${k}`)))
        stop().then(start);
      else if (e.affectsConfiguration("cerium")) showState();
    }));
  showState();
  await start();
}

module.exports = { activate, deactivate: stop };
