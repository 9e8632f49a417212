// words.js - what settings and states mean, without an editor: tests run it in Node.
"use strict";

const KEYS = ["enable", "languages", "exclude", "maxLines", "minConfidence", "delay", "nextEdit",
  "retrieval", "feedback", "watchdog"];

/** The settings as the language server reads them; null is left out. */
function settingsOf(configuration) {
  const out = {};
  for (const key of KEYS) {
    const value = configuration.get(key);
    if (value !== null && value !== undefined) out[key] = value;
  }
  return out;
}

/** The program: as it was named, else of PATH, else in a folder that is open and trusted. */
function programOf(named, searched, folders, isProgram, path) {
  if (named) return isProgram(named) ? named : null;
  for (const folder of [...searched.split(path.delimiter), ...folders]) {
    const file = folder && path.join(folder, "cerium");
    if (file && path.isAbsolute(file) && isProgram(file)) return file;
  }
  return null;
}

/** {text, tooltip, bad} for the status bar. */
function statusText(state, settings, language) {
  const off = !settings.enable || (settings.languages || {})[language] === false;
  if (state.kind === "Error") {
    const tooltip = state.message || "cerium does not run";
    return { text: "$(warning) cerium", tooltip, bad: true };
  }
  if (state.busy)
    return { text: "$(loading~spin) cerium", tooltip: "the model is being loaded", bad: false };
  const name = state.model || "cerium";
  return {
    text: off ? "$(circle-slash) cerium" : "$(check) cerium",
    tooltip: off ? `${name}: off${settings.enable ? ` for ${language}` : ""}` : name,
    bad: false,
  };
}

module.exports = { settingsOf, programOf, statusText };
