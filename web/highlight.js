// highlight.js - words, strings, numbers and comments of a line of code; the state at its end.

const C = `
  auto break case char const continue default do double else enum extern float for goto if
  inline int long register restrict return short signed sizeof static struct switch typedef
  union unsigned void volatile while bool true false NULL size_t uint8_t uint16_t uint32_t
  uint64_t int32_t int64_t`;
const CPP = `
  ${C} class namespace template typename public private protected virtual override new delete
  using nullptr constexpr auto this throw try catch operator friend explicit noexcept`;
const PYTHON = `
  and as assert async await break class continue def del elif else except False finally for from
  global if import in is lambda None nonlocal not or pass raise return True try while with yield
  self`;
const JS = `
  async await break case catch class const continue default delete do else export extends false
  finally for from function if import in instanceof interface let new null of return static
  super switch this throw true try type typeof undefined var void while yield`;
const RUST = `
  as async await break const continue crate dyn else enum extern false fn for if impl in let
  loop match mod move mut pub ref return self Self static struct super trait true type unsafe
  use where while`;
const GO = `
  break case chan const continue default defer else fallthrough for func go goto if import
  interface map package range return select struct switch type var nil true false error string
  int bool byte`;
const SH = `
  if then else elif fi for while until do done case esac function in return local export set
  shift exit`;

const STRINGS = "\"(?:\\\\.|[^\"\\\\])*\"?|'(?:\\\\.|[^'\\\\])*'?";
const NUMBERS = "\\b(?:0[xX][\\da-fA-F_]+|\\d[\\d_]*(?:\\.[\\d_]+)?(?:[eE][+-]?\\d+)?)\\w*";

function make(words, comment, blocks, strings = STRINGS) {
  const opens = blocks.map(([open]) => open.replace(/[*`/]/g, "\\$&"));
  const parts = [
    `(?<comment>${comment}.*)`,
    opens.length ? `(?<open>${opens.join("|")})` : "",
    `(?<string>${strings})`,
    `(?<number>${NUMBERS})`,
    "(?<name>[A-Za-z_$#@][\\w$]*)",
  ];
  return {
    words: new Set(words.trim().split(/\s+/)),
    blocks,
    pattern: new RegExp(parts.filter(Boolean).join("|"), "g"),
  };
}

const SLASHES = [["/*", "*/", "comment"]];
const NARROW = "\"(?:\\\\.|[^\"\\\\])*\"?|'(?:\\\\.|[^'\\\\])'"; // 'a is a lifetime
const c = make(C, "//", SLASHES);
const cpp = make(CPP, "//", SLASHES);
const python = make(PYTHON, "#", [
  ['"""', '"""', "string"],
  ["'''", "'''", "string"],
]);
const js = make(JS, "//", [...SLASHES, ["`", "`", "string"]]);
const rust = make(RUST, "//", SLASHES, NARROW);
const go = make(GO, "//", [...SLASHES, ["`", "`", "string"]]);
const sh = make(SH, "#", []);
const plain = make("", "\\u0000", []);

const LANGUAGES = {
  c,
  h: c,
  cc: cpp,
  cpp,
  cxx: cpp,
  hpp: cpp,
  "c++": cpp,
  cs: cpp,
  java: cpp,
  py: python,
  python,
  js,
  mjs: js,
  jsx: js,
  ts: js,
  tsx: js,
  javascript: js,
  typescript: js,
  json: js,
  rs: rust,
  rust,
  go,
  sh,
  bash: sh,
  zsh: sh,
  shell: sh,
  mk: sh,
  txt: plain,
  md: plain,
  text: plain,
};

/** By a file's name, or by the name of a language. */
export function language(name) {
  return LANGUAGES[name.toLowerCase().split(".").pop()] ?? (name.endsWith("Makefile") ? sh : c);
}

/** Passes the line's pieces to out(className or null, text); open: the state after the line before,
 * or null.  Returns the state after this one. */
export function paint(line, open, { words, blocks, pattern }, out) {
  let at = 0;
  const close = () => {
    const end = line.indexOf(open[1], at);
    const stop = end < 0 ? line.length : end + open[1].length;
    if (stop > at) out(`t-${open[2]}`, line.slice(at, stop));
    at = stop;
    if (end >= 0) open = null;
  };
  if (open) close();
  while (!open && at < line.length) {
    pattern.lastIndex = at;
    const match = pattern.exec(line);
    if (!match) break;
    if (match.index > at) out(null, line.slice(at, match.index));
    const { groups: g, 0: text } = match;
    at = match.index + text.length;
    if (g.open) {
      open = blocks.find(([start]) => start === text);
      out(`t-${open[2]}`, text);
      close();
    } else if (g.name) {
      out(words.has(text) || text[0] === "#" ? "t-word" : null, text);
    } else {
      out(g.comment ? "t-comment" : g.string ? "t-string" : "t-number", text);
    }
  }
  if (at < line.length) out(null, line.slice(at));
  return open;
}
