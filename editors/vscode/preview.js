// preview.js - the change of an instruction as a diff, before it is applied.
"use strict";

const SCHEME = "cerium-edit";

class Previews {
  constructor(vscode, enabled) {
    Object.assign(this, { vscode, enabled, texts: new Map() });
    this.registration = vscode.workspace.registerTextDocumentContentProvider(SCHEME, {
      provideTextDocumentContent: (uri) => this.texts.get(uri.toString()) });
  }

  dispose() {
    this.registration.dispose();
  }

  /** The text of a document after edits. */
  static textWith(document, edits) {
    const text = document.getText();
    const parts = [];
    let at = 0;
    const placed = edits.map((e) => ({ from: document.offsetAt(e.range.start),
      to: document.offsetAt(e.range.end), text: e.newText }));
    for (const e of placed.sort((a, b) => a.from - b.from)) {
      parts.push(text.slice(at, e.from), e.text);
      at = e.to;
    }
    return parts.join("") + text.slice(at);
  }

  /** Asks whether the user wants these edits of a document. */
  async asks(document, edits) {
    const { vscode } = this;
    const uri = document.uri.with({ scheme: SCHEME, query: String(document.version) });
    const name = document.uri.path.replace(/.*\//, "");
    this.texts.set(uri.toString(), Previews.textWith(document, edits));
    // In its own tab: the text's tab may be a preview, and must stay.
    await vscode.commands.executeCommand("vscode.diff", document.uri, uri, `${name}: edited`,
      { preview: false });
    const wanted = "Make this edit";
    const chosen = await vscode.window.showQuickPick([wanted, "Discard it"], {
      placeHolder: "What the instruction changes", ignoreFocusOut: true });
    this.texts.delete(uri.toString());
    for (const tab of vscode.window.tabGroups.all.flatMap((group) => group.tabs))
      if (tab.input.modified && tab.input.modified.toString() === uri.toString())
        await vscode.window.tabGroups.close(tab);
    return chosen === wanted;
  }

  /** workspace/applyEdit.  An edit that the user discards counts as handled, too. */
  async apply(params, converter, next) {
    const [change] = params.edit.documentChanges || [];
    const document = change && this.vscode.workspace.textDocuments.find(
      (d) => d.uri.toString() === converter.asUri(change.textDocument.uri).toString() &&
        d.version === change.textDocument.version);
    if (!this.enabled() || !document) return next(params);
    const wanted = await this.asks(document, await converter.asTextEdits(change.edits));
    return wanted ? next(params) : { applied: true };
  }
}

module.exports = { Previews };
