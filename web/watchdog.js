// watchdog.js - the watchdog's action on a line, as a badge.

import { make } from "./dom.js";

const NAMES = {
  secret: "Hard-coded secret",
  sql: "SQL injection",
  nosql: "NoSQL injection",
  ldap: "LDAP injection",
  xpath: "XPath injection",
  command: "Command injection",
  code: "Code injection",
  path: "Path traversal",
  xss: "Cross-site scripting",
  ssrf: "Server-side request forgery",
  redirect: "Open redirect",
  deserialize: "Unsafe deserialization",
  crypto: "Weak cryptography",
  tls: "TLS not verified",
  jwt: "Unverified token",
  xxe: "XML external entities",
  temp: "Unsafe temporary file",
  permissions: "Open permissions",
  memory: "Unsafe C string call",
  format: "Format string",
  exists: "A name that is not there",
  late: "A line that could not be judged",
};

const DEEDS = {
  taken_back: "checking: a line is held",
  rewritten: "rewritten",
  replaced: "replaced by its safe form",
  withheld: "withheld",
  warned: "found",
  known: "was there before",
  blocked: "kept back",
};

/** The badge's text, without the idiom. */
export function words({ deed, weakness, cwe }) {
  if (deed === "taken_back") return DEEDS[deed];
  const number = cwe ? `: CWE\u2011${cwe}` : "";
  return `${NAMES[weakness] ?? weakness} ${DEEDS[deed] ?? deed}${number}`;
}

/** /health's statement about the watchdog, if not "all is judged"; otherwise null. */
export function guardState(guard) {
  if (!guard) return null;
  if (!guard.on) return { short: "no watchdog", long: "Code is not judged: --guard off" };
  if (!guard.unjudged?.length) return null;
  const names = guard.unjudged.join(", ");
  return {
    short: "watchdog incomplete",
    long: `This build has no grammar for ${names}: it cannot judge these languages`,
  };
}

export function badge(finding) {
  const element = make("div", { className: `finding ${finding.deed}` }, words(finding));
  element.dataset.testid = "finding";
  // Weak text is never sent, so the struck-out text is the fault and its line.
  const gone = ["rewritten", "replaced", "withheld", "blocked"].includes(finding.deed);
  if (gone && finding.line && finding.message)
    element.append(make("s", {}, `line ${finding.line}: ${finding.message}`));
  const idiom = finding.deed === "taken_back" ? "" : finding.idiom;
  if (idiom) element.append(make("code", {}, idiom));
  return element;
}
