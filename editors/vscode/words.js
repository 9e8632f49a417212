// words.js - the meaning of settings and states, without an editor: tests run it in Node.
"use strict";

const KEYS = ["enable", "languages", "exclude", "maxLines", "candidates", "minConfidence", "delay",
  "nextEdit", "retrieval", "feedback", "watchdog"];

/** The settings as the language server reads them; null is left out. */
function settingsOf(configuration) {
  const out = {};
  for (const key of KEYS) {
    const value = configuration.get(key);
    if (value !== null && value !== undefined) out[key] = value;
  }
  return out;
}

/** The program: the named one, otherwise from PATH, otherwise in an open and trusted folder. */
function programOf(named, searched, folders, isProgram, path) {
  if (named) return isProgram(named) ? named : null;
  for (const folder of [...searched.split(path.delimiter), ...folders]) {
    const file = folder && path.join(folder, "cerium");
    if (file && path.isAbsolute(file) && isProgram(file)) return file;
  }
  return null;
}

/** The port of a server on this machine, which can be started here; otherwise null. */
function localPort(server) {
  try {
    const url = new URL(server);
    const here = ["127.0.0.1", "localhost", "[::1]"].includes(url.hostname);
    return here && url.protocol === "http:" ? Number(url.port || 80) : null;
  } catch {
    return null;
  }
}

/** {text, tooltip, bad} for the status bar; snoozed: "14:05", or nothing. */
function statusText(state, settings, language, snoozed) {
  const off = !settings.enable || (settings.languages || {})[language] === false;
  if (state.kind === "Error") {
    const tooltip = state.message || "cerium does not run";
    return { text: "$(warning) cerium: stopped", tooltip, bad: true };
  }
  if (state.busy)
    return { text: "$(loading~spin) cerium", tooltip: "the model is being loaded", bad: false };
  const icon = off ? "circle-slash" : snoozed ? "bell-slash" : "check";
  const where = settings.enable ? ` for ${language}` : "";
  const lines = [`${state.model || "cerium"}${off ? `: off${where}` : ""}`];
  if (!off && snoozed) lines.push(`quiet until ${snoozed}`);
  if (state.tokens_per_second) lines.push(`${Math.round(state.tokens_per_second)} tokens a second`);
  if (state.findings) lines.push(`the watchdog found ${state.findings}`);
  const found = state.findings ? ` $(shield) ${state.findings}` : "";
  return { text: `$(${icon}) cerium${found}`, tooltip: lines.join("\n"), bad: false };
}

/** Where two texts differ, in whole words: {from, to, text}, so that `text` in place of [from, to)
 * of the old one makes the new one. */
function difference(old, text) {
  const inWord = (s, at) => /\w/.test(s[at - 1] || "") && /\w/.test(s[at] || "");
  const most = Math.min(old.length, text.length);
  let from = 0;
  while (from < most && old[from] === text[from]) from++;
  while (from && (inWord(old, from) || inWord(text, from))) from--;
  let to = old.length;
  let end = text.length;
  while (to > from && end > from && old[to - 1] === text[end - 1]) to--, end--;
  while (to < old.length && (inWord(old, to) || inWord(text, end))) to++, end++;
  return { from, to, text: text.slice(from, end) };
}

module.exports = { settingsOf, programOf, localPort, statusText, difference };
