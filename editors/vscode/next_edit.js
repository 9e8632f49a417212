// next_edit.js - the next edit, drawn in the text: deletions are struck out, insertions come
// after them; Tab goes there and applies it, Escape or a click dismisses it.
"use strict";

const { difference } = require("./words.js");

const REST_MS = 600; // after a key before it is requested
const NEAR_LINES = 20; // farther away, Tab goes there first

class NextEdits {
  constructor(vscode, client, enabled) {
    Object.assign(this, { vscode, client, enabled, shown: null, timer: null, asked: 0 });
    this.gone = vscode.window.createTextEditorDecorationType({
      textDecoration: "line-through",
      backgroundColor: new vscode.ThemeColor("diffEditor.removedTextBackground"),
      overviewRulerColor: new vscode.ThemeColor("editorOverviewRuler.modifiedForeground"),
    });
    this.subscriptions = [
      vscode.workspace.onDidChangeTextDocument((e) => this.changed(e)),
      vscode.window.onDidChangeTextEditorSelection((e) => this.moved(e)),
      vscode.window.onDidChangeActiveTextEditor(() => this.dismiss()),
    ];
  }

  dispose() {
    this.dismiss();
    this.gone.dispose();
    for (const s of this.subscriptions) s.dispose();
  }

  changed(event) {
    const editor = this.vscode.window.activeTextEditor;
    if (!editor || event.document !== editor.document || !event.contentChanges.length) return;
    this.dismiss();
    this.timer = setTimeout(() => this.ask(editor), REST_MS);
  }

  moved(event) {
    const byMouse = event.kind === this.vscode.TextEditorSelectionChangeKind.Mouse;
    if (this.shown && byMouse) this.dismiss();
  }

  async ask(editor) {
    const client = this.client();
    if (!client || !this.enabled()) return;
    const asked = ++this.asked;
    const { document, selection } = editor;
    const version = document.version;
    const answer = await client.sendRequest("textDocument/copilotInlineEdit", {
      textDocument: { uri: client.code2ProtocolConverter.asUri(document.uri), version },
      position: client.code2ProtocolConverter.asPosition(selection.active),
    }).catch(() => null);
    const edit = answer && answer.edits && answer.edits[0];
    if (!edit || asked !== this.asked || document.version !== version) return;
    this.show(editor, client.protocol2CodeConverter.asRange(edit.range), edit.text);
  }

  // A model's edit replaces whole lines: their unchanged part is left out.
  show(editor, whole, wholeText) {
    const { document } = editor;
    const at = document.offsetAt(whole.start);
    const { from, to, text } = difference(document.getText(whole), wholeText);
    const range = new this.vscode.Range(
      document.positionAt(at + from), document.positionAt(at + to));
    this.shown = { editor, range, text, version: document.version };
    editor.setDecorations(this.gone, [{
      range,
      renderOptions: {
        after: {
          contentText: text.replace(/\r?\n/g, " \u23ce "),
          margin: "0 0 0 0.3em",
          backgroundColor: new this.vscode.ThemeColor("diffEditor.insertedTextBackground"),
        },
      },
    }]);
    this.vscode.commands.executeCommand("setContext", "cerium.hasNextEdit", true);
  }

  dismiss() {
    clearTimeout(this.timer);
    this.asked++;
    if (!this.shown) return;
    this.shown.editor.setDecorations(this.gone, []);
    this.shown = null;
    this.vscode.commands.executeCommand("setContext", "cerium.hasNextEdit", false);
  }

  async take() {
    const { shown, vscode } = this;
    if (!shown || shown.editor.document.version !== shown.version) return this.dismiss();
    const caret = shown.editor.selection.active;
    if (Math.abs(caret.line - shown.range.start.line) > NEAR_LINES) {
      shown.editor.selection = new vscode.Selection(shown.range.start, shown.range.start);
      shown.editor.revealRange(shown.range, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
      return undefined;
    }
    this.dismiss();
    const done = await shown.editor.edit((e) => e.replace(shown.range, shown.text));
    if (!done) return undefined;
    const { document } = shown.editor;
    const end = document.positionAt(document.offsetAt(shown.range.start) + shown.text.length);
    shown.editor.selection = new vscode.Selection(end, end);
    shown.editor.revealRange(new vscode.Range(end, end));
    return undefined;
  }
}

module.exports = { NextEdits, NEAR_LINES };
