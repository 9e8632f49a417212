"""check_renames.py - next edits after a rename, beside what others say a name is bound to.

    python3 check_renames.py ./cerium [NAMES]

Python files are those of its own library, and its compiler's symbol table says whose a name is;
C files are the project's, and clang's syntax tree says it.  A definition is renamed as a user does
it, key by key, and the places that are proposed are compared with the truth."""

import ast
import difflib
import glob
import json
import os
import random
import re
import subprocess
import symtable
import sys
import sysconfig

sys.path.insert(0, os.path.dirname(__file__))
from client import Client  # noqa: E402

CERIUM = sys.argv[1]
NAMES = int(sys.argv[2]) if len(sys.argv) > 2 else 40
NEW = "renamed_thing"
passed, failed = 0, 0


def check(name, good, what=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"  FAIL {name}: {what}")


class Editor:
    def __init__(self):
        self.c = Client(program=CERIUM)
        self.c.initialize({"workspace": {"workspaceEdit": {"documentChanges": True}}},
                          {"enable": True})
        self.n = 0

    def rename(self, text, language, ending, at, old, new=NEW):
        """Offsets of the text before the rename that are proposed, without the renamed one."""
        self.n += 1
        c, uri = self.c, f"file:///r/{self.n}.{ending}"
        c.open(uri, text, language)
        c.change(uri, at, at + len(old), new[0])
        for i in range(1, len(new)):
            c.change(uri, at + i, at + i, new[i])
        place = c.position(c.texts[uri], at + len(new))
        found = c.ask("textDocument/codeAction", {
            "textDocument": {"uri": uri}, "range": {"start": place, "end": place},
            "context": {"diagnostics": []}})
        now = c.texts[uri]
        starts = [0]
        for line in now.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        places = set()
        for action in found:
            if not action["title"].startswith(("Rename", "Change")):
                continue
            for e in action["edit"]["documentChanges"][0]["edits"]:
                p = e["range"]["start"]
                line = now[starts[p["line"]]:].encode("utf-16-le")[:2 * p["character"]]
                offset = starts[p["line"]] + len(line.decode("utf-16-le"))
                places.add(offset if offset < at else offset - len(new) + len(old))
        c.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        return places


def score(name, results, recall_min):
    right = sum(len(got & want) for got, want, _ in results)
    wrong = sum(len(got - want) for got, want, _ in results)
    missed = sum(len(want - got) for got, want, _ in results)
    asked = right + missed
    precision = right / max(1, right + wrong)
    recall = right / max(1, asked)
    print(f"  {name}: {len(results)} names, {asked} places: precision {precision:.4f}, "
          f"recall {recall:.4f}, {wrong} wrong")
    bad = [(what, sorted(got - want)[:3]) for got, want, what in results if got - want]
    less = [(what, sorted(want - got)[:3]) for got, want, what in results if want - got]
    check(f"{name}: precision of at least 0.98", precision >= 0.98, bad[:5])
    check(f"{name}: recall of at least {recall_min}", recall >= recall_min, less[:8])
    if os.environ.get("SHOW"):
        print("\n".join(map(str, bad[:20] + less[:20])))


# ---- Python, by the compiler's own symbol table ----

class Bindings(ast.NodeVisitor):
    """(table, name) -> places (line, column): each name of a file by the scope that the compiler's
    symbol table gives it."""

    def __init__(self, text, path):
        self.table = symtable.symtable(text, path, "exec")
        self.used = {}  # how many children of a table were entered
        self.places, self.stores, self.imported = {}, {}, set()
        self.text = text.split("\n")
        self.visit(ast.parse(text))

    def home(self, table, name):
        try:
            symbol = table.lookup(name)
        except KeyError:
            return None
        top = table
        while getattr(top, "outer", None):
            top = top.outer
        if symbol.is_global() or symbol.is_declared_global():
            return top
        while table is not None:
            if table.get_type() != "class" or table is self.table:
                try:
                    if table.lookup(name).is_local():
                        return table
                except KeyError:
                    pass
            table = getattr(table, "outer", None)
        return None

    def add(self, name, line, column, stores=True):
        home = self.home(self.table, name)
        if home is not None:
            self.places.setdefault((id(home), name), set()).add((line, column))
            if stores:
                self.stores.setdefault((id(home), name), set()).add((line, column))

    def word(self, name, line, column, stores=True):
        """A name that the tree has no place for: the first such word behind one."""
        found = re.search(rf"\b{re.escape(name)}\b", self.text[line - 1][column:])
        if found:
            self.add(name, line, column + found.start(), stores)

    def enter(self, name, work):
        outer = self.table
        children = [c for c in outer.get_children() if c.get_name() == name]
        n = self.used.get((id(outer), name), 0)
        self.used[id(outer), name] = n + 1
        self.table = children[n]
        self.table.outer = outer
        self.keep = getattr(self, "keep", []) + [self.table]  # ids stay theirs
        work()
        self.table = outer

    def visit_Name(self, node):
        self.add(node.id, node.lineno, node.col_offset, not isinstance(node.ctx, ast.Load))

    def all(self, nodes):
        for node in nodes:
            if node is not None:
                self.visit(node)

    def function(self, node, name, body):
        a = node.args
        args = a.posonlyargs + a.args + a.kwonlyargs + [x for x in (a.vararg, a.kwarg) if x]
        self.all(a.defaults + a.kw_defaults)
        self.all([x.annotation for x in args])

        def inside():
            for x in args:
                self.add(x.arg, x.lineno, x.col_offset)
            self.all(body)
        self.enter(name, inside)

    def visit_FunctionDef(self, node):
        self.all(node.decorator_list + [node.returns])
        self.word(node.name, node.lineno, node.col_offset + 4)
        self.function(node, node.name, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node):
        self.function(node, "lambda", [node.body])

    def visit_ClassDef(self, node):
        self.all(node.decorator_list + node.bases + [k.value for k in node.keywords])
        self.word(node.name, node.lineno, node.col_offset + 6)
        self.enter(node.name, lambda: self.all(node.body))

    def comprehension(self, node, name, elements):
        self.visit(node.generators[0].iter)

        def inside():
            for i, g in enumerate(node.generators):
                self.visit(g.target)
                self.all(([g.iter] if i else []) + g.ifs)
            self.all(elements)
        self.enter(name, inside)

    def visit_ListComp(self, node):
        self.comprehension(node, "listcomp", [node.elt])

    def visit_SetComp(self, node):
        self.comprehension(node, "setcomp", [node.elt])

    def visit_GeneratorExp(self, node):
        self.comprehension(node, "genexpr", [node.elt])

    def visit_DictComp(self, node):
        self.comprehension(node, "dictcomp", [node.key, node.value])

    def visit_Global(self, node):
        for name in node.names:
            self.word(name, node.lineno, node.col_offset + 6, False)

    visit_Nonlocal = visit_Global

    def visit_ExceptHandler(self, node):
        self.all([node.type])
        if node.name:
            at = node.type.end_col_offset
            self.word(node.name, node.type.end_lineno, at)
        self.all(node.body)

    def visit_Import(self, node):
        for a in node.names:
            name = (a.asname or a.name).split(".")[0]
            home = self.home(self.table, name)
            self.imported.add((id(home), name))

    visit_ImportFrom = visit_Import


def python_names(rng):
    folder = sysconfig.get_paths()["stdlib"]
    files = sorted(glob.glob(folder + "/*.py") + glob.glob(folder + "/*/*.py"))
    files = [f for f in files if 3000 < os.path.getsize(f) < 60000 and "/test" not in f and
             "site-packages" not in f and "lib2to3" not in f]
    rng.shuffle(files)
    n = 0
    for path in files:
        if n >= NAMES:
            return
        try:
            with open(path, encoding="utf-8") as f:
                text = f.read()
            if not text.isascii() or "\f" in text:
                continue
            bound = Bindings(text, path)
        except (SyntaxError, UnicodeDecodeError):
            continue
        starts = [0]
        for line in text.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        found = [(key[1], min(bound.stores[key]), places) for key, places in bound.places.items()
                 if key in bound.stores and key not in bound.imported and 3 <= len(places) <= 40 and
                 key[1] not in ("self", "cls", "_")]
        rng.shuffle(found)
        for name, (line, column), places in found[:3]:
            at = starts[line - 1] + column
            n += 1
            yield (text, at, name, {starts[a - 1] + b for a, b in places} - {at},
                   f"{path}:{line}: {name}")


def python():
    editor, results = Editor(), []
    for text, at, name, want, what in python_names(random.Random(3)):
        results.append((editor.rename(text, "python", "py", at, name), want, what))
    editor.c.shutdown()
    score("Python", results, 0.90)


# ---- C, by clang ----

def c_names(rng, clang):
    files = sorted(glob.glob("src/*/*.c"))
    rng.shuffle(files)
    n = 0
    for path in files:
        if n >= NAMES or os.path.getsize(path) > 40000:
            continue
        done = subprocess.run([clang, "-std=c17", "-D_GNU_SOURCE", "-Isrc", "-Iinclude",
                               "-fsyntax-only", "-Xclang", "-ast-dump=json", path],
                              capture_output=True, env={**os.environ, "CCACHE_DISABLE": "1"})
        if done.returncode:
            continue
        with open(path) as f:
            text = f.read()
        if not text.isascii():
            continue
        uses, where = {}, {}

        def place(loc, name):
            """The offset in this file, -1 in another; what a macro is given stands where it is
            written."""
            for one in (loc.get("spellingLoc"), loc.get("expansionLoc"), loc):
                at = one.get("offset", -1) if one and "includedFrom" not in one else -1
                if at >= 0 and text[at:at + len(name)] == name:
                    return at
            return -1

        def walk(node, path_of):
            stack = [node]
            while stack:
                node = stack.pop()
                kind = node.get("kind", "")
                loc = node.get("loc") or {}
                if kind in ("VarDecl", "ParmVarDecl") and node.get("name"):
                    at = place(loc, node["name"])
                    if at >= 0:
                        where[node["id"]] = (at, node["name"])
                ref = node.get("referencedDecl")
                if kind == "DeclRefExpr" and ref:
                    at = place(node["range"]["begin"], ref.get("name", ""))
                    if at >= 0 and ref.get("name"):
                        uses.setdefault(ref["id"], set()).add(at)
                stack.extend(node.get("inner") or [])

        walk(json.loads(done.stdout), path)
        found = [(where[i], uses[i]) for i in where if 2 <= len(uses.get(i, ())) <= 40]
        # What macros hide from the tree would be told wrong: names that stand in none.
        found = [f for f in found if not any(
            line.lstrip().startswith("#") and re.search(rf"\b{f[0][1]}\b", line)
            for line in text.split("\n"))]
        rng.shuffle(found)
        for (at, name), at_uses in found[:3]:
            n += 1
            yield text, at, name, at_uses - {at}, f"{path}:{text.count(chr(10), 0, at) + 1}: {name}"


def c():
    clang = next((p for p in ("clang-14", "clang") if subprocess.run(
        ["sh", "-c", f"command -v {p}"], capture_output=True).returncode == 0), None)
    if not clang:
        print("skipped: renames in C: there is no clang")
        return
    editor, results = Editor(), []
    for text, at, name, want, what in c_names(random.Random(4), clang):
        results.append((editor.rename(text, "c", "c", at, name), want, what))
    editor.c.shutdown()
    score("C", results, 0.90)


# ---- shadowed names, and others, by hand: « » is renamed, ‹ › are the other places ----

CASES = [
    ("python", "x = 1\ndef f(«x»):\n    y = [x for x in range(3)]\n"
               "    return ‹x› + y[0]\nprint(x)\n"),
    ("python", "def f(«n»):\n    def g(n):\n        return n\n    return g(‹n›)\n"),
    ("python", "def f(«a», b=1):\n    class C:\n        a = 2\n        z = a\n"
               "    return ‹a›\n"),
    ("python", "«count» = 0\ndef f():\n    global ‹count›\n    ‹count› += 1\ndef g():\n"
               "    count = 2\n    return count\n"),
    ("python", "def f(«k»):\n    return lambda k: k, ‹k›, d.k, g(k=‹k›)\n"),
    ("python", "def f(«v», w=v0):\n    def g(a=‹v›):\n        return ‹v›\n"
               "    return f'{‹v›}'\n"),
    ("python", "from m import «name»\nprint(name)\n"),
    ("python", "def f():\n    «total» = 0\n    def g():\n        nonlocal ‹total›\n"
               "        ‹total› = 1\n    # total\n    return 'total', ‹total›\n"),
    ("python", "def f(«items»):\n    return {i: ‹items›[i] for i in ‹items›}\n"),
    ("c", "int n;\nint f(int «n»)\n{\n    { int n = 2; g(n); }\n    return ‹n›;\n}\n"
          "int h(void) { return n; }\n"),
    ("c", "static int «limit» = 3;\nint f(int limit) { return limit; }\n"
          "int g(void) { return ‹limit›; }\n"
          "int h(struct s *p) { return p->limit + ‹limit›; }\n"),
    ("c", "int f(void)\n{\n    for (int «i» = 0; ‹i› < 3; ‹i›++) g(‹i›);\n"
          "    for (int i = 0; i < 3; i++) g(i);\n    return 0;\n}\n"),
    ("c", "void p(int «x»);\nvoid q(int x) { r(x); }\n"),
    ("javascript", "let x = 1;\nfunction f(«x») {\n  const g = (x) => x;\n"
                   "  return g(‹x›) + o.x;\n}\n"),
    ("javascript", "const «a» = 1;\nfunction f() {\n  { let a = 2; g(a); }\n"
                   "  return ‹a›;\n}\n"),
    ("javascript", "function f() {\n  if (c) { var «v» = 1; }\n  return ‹v›;\n}\n"
                   "let v = 2;\n"),
    ("javascript", "function f(«id») {\n  return {‹id›, name: ‹id›};\n}\n"),
    ("typescript", "function f(«n»: number): number {\n  const m = (n: number) => n;\n"
                   "  return ‹n› + m(1);\n}\n"),
    ("rust", "fn f(«x»: i32) -> i32 {\n    x + 1\n}\n"),
]
ENDINGS = {"python": "py", "c": "c", "javascript": "js", "typescript": "ts", "rust": "rs"}


def cases():
    editor = Editor()
    for i, (language, marked) in enumerate(CASES):
        want, text, at, name = set(), "", None, None
        for part in re.split(r"(«\w+»|‹\w+›)", marked):
            if part[:1] == "«":
                at, name = len(text), part[1:-1]
            elif part[:1] == "‹":
                want.add(len(text))
            text += part.strip("«»‹›") if part[:1] in "«‹" and part else part
        got = editor.rename(text, language, ENDINGS[language], at, name)
        check(f"case {i} ({language})", got == want, (text, sorted(got), sorted(want)))
        # A name that stands there already is not given again.
        if want and language == "python":
            taken = editor.rename("def other(): return thing\n" + text, language, "py",
                                  at + 26, name, "thing")
            check(f"case {i}: a taken name", not taken, sorted(taken))
    editor.c.shutdown()


def changed(rng, line):
    """A line as a user's last edit of it leaves it, or None."""
    number = re.search(r"(?<![\w.])\d+(?![\w.])", line)
    string = re.search(r"'[a-z ]{3,}'|\"[a-z ]{3,}\"", line)
    attribute = re.search(r"(?<=\.)[a-z_]{4,}(?=\()", line)
    forms = [(m, new) for m, new in ((number, "7041"), (string, "'other words'"),
                                     (attribute, "renamed_thing")) if m]
    forms += [(m, new) for old, new in ((" and ", " or "), (" == ", " != "), ("True", "False"))
              for m in [re.search(old, line)] if m]
    if not forms:
        return None
    m, new = rng.choice(forms)
    return line[:m.start()] + new + line[m.end():]


def edited_texts(rng):
    """Text before, and after an edit from which nothing follows: (language, before, after)."""
    with open("bench/edits/edits.jsonl", encoding="utf-8") as f:
        for edit in map(json.loads, f):
            if edit["path"].endswith((".c", ".h")):
                yield "c", edit["before"], edit["after"]
    files = sorted(glob.glob(sysconfig.get_path("stdlib") + "/*.py"))
    for path in rng.sample(files, min(len(files), NAMES * 4)):
        with open(path, encoding="utf-8", errors="replace") as f:
            text = f.read()
        lines = text.split("\n")
        places = [i for i, line in enumerate(lines)
                  if line.startswith("    ") and "#" not in line and changed(rng, line)]
        if len(text) > 100000 or not places:
            continue
        at = rng.choice(places)
        kind = rng.randrange(4)
        new = list(lines)
        if kind == 0:
            del new[at]
        elif kind == 1:
            new.insert(at, re.match(" *", lines[at]).group() + "log_it_here()")
        else:
            new[at] = changed(rng, lines[at])
        yield "python", text, "\n".join(new)


def edit_text(client, uri, before, after):
    """The lines that differ, each hunk as a change; returns the end of the last one."""
    old, new = before.split("\n"), after.split("\n")
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line) + 1)
    shift, at = 0, 0
    for tag, a, b, i, j in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            text = "".join(line + "\n" for line in new[i:j])
            at = starts[a] + shift
            client.change(uri, at, min(at + starts[b] - starts[a], len(client.texts[uri])), text)
            at += len(text)
            shift += len(text) - (starts[b] - starts[a])
    return min(at, len(client.texts[uri]))


def silence():
    """After an edit from which nothing follows, nothing is proposed."""
    client = Client(program=CERIUM)
    client.initialize({"workspace": {"workspaceEdit": {"documentChanges": True}}},
                      {"enable": True})
    proposed, n = [], 0
    renamed = "def f(width, high):\n    return width * high\n"
    texts = list(edited_texts(random.Random(11)))
    texts.append(("python", renamed, renamed.replace("width", "wide", 1)))
    for language, before, after in texts:
        uri = f"file:///silence/{n}.{ENDINGS[language]}"
        n += 1
        client.open(uri, before, language)
        at = edit_text(client, uri, before, after)
        line = client.position(client.texts[uri], at)["line"]
        edits = client.ask("textDocument/copilotInlineEdit", {
            "textDocument": {"uri": uri, "version": client.versions[uri]},
            "position": {"line": max(line - 3, 0), "character": 0}})["edits"]
        if edits:
            proposed.append((uri, edits[0]["text"], edits[0]["range"]))
    check("a rename is followed by its other place", proposed and proposed.pop()[1] == "wide",
          proposed)
    n -= 1
    print(f"  after {n} edits from which nothing follows: {len(proposed)} proposals")
    check("edits from which nothing follows are followed by nothing",
          n >= NAMES and len(proposed) * 20 <= n, (n, proposed[:3]))
    client.shutdown()


cases()
silence()
python()
c()
print(f"renames: {passed} passed, {failed} failed")
sys.exit(failed != 0)
