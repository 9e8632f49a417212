#!/usr/bin/env python3
"""exists_volume.py ENV FOLDER ...: `cerium scan --exists` over sources of installed packages, where
each finding is a false alarm, an optional import, or code for another version: findings by kind,
and how many there are in 1,000 uses.

A use is a name that a checker would look up: an imported module, a name taken from one, an
attribute of one, a keyword of a call of one.  Python's are counted with its own parser, those of
JavaScript and TypeScript by expressions (dev.jsonl of the shared set says the number for each of
its pieces: `exists_volume.py --check SET` compares).  Lists findings that are no import with -v.
CERIUM=./cerium."""
import ast
import collections
import json
import os
import re
import subprocess
import sys
import warnings

CERIUM = os.environ.get("CERIUM", "./cerium")
SCRIPTS = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".jsx")
NAME = r"[A-Za-z_$][\w$]*"
IMPORT = r"""(?:import|export)\s([^'";]*?)\bfrom\s*['"]([^'"]+)['"]"""
REQUIRE = (r"(?:(?:const|let|var)\s+(\{[^}]*\}|%s)\s*=\s*)?" % NAME +
           r"""require\(\s*['"]([^'"]+)['"]""")


class Python(ast.NodeVisitor):
    """Counts the uses of names that an import binds."""

    def __init__(self):
        self.bound, self.n = set(), 0

    def visit_Import(self, node):
        for a in node.names:
            self.n += 1
            self.bound.add(a.asname or a.name.split(".")[0])

    def visit_ImportFrom(self, node):
        if node.level:
            return
        self.n += 1 + len(node.names)
        self.bound.update(a.asname or a.name for a in node.names)

    def visit_Attribute(self, node):
        root = node.value
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in self.bound:
            self.n += 1
        self.generic_visit(node)

    def visit_Call(self, node):
        root = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in self.bound:
            self.n += sum(k.arg is not None for k in node.keywords)
        self.generic_visit(node)


def uses_of_python(code):
    counter = Python()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            counter.visit(ast.parse(code))
    except (SyntaxError, ValueError, RecursionError):
        return 0
    return counter.n


def uses_of_script(code):
    n, bound = 0, set()
    for names, path in re.findall(IMPORT, code):
        if path.startswith("."):
            continue
        n += 1
        group = re.search(r"\{([^}]*)\}", names)
        n += len(re.findall(NAME + r"(?:\s+as\s+" + NAME + ")?", group.group(1))) if group else 0
        bound.update(re.findall(NAME, re.sub(r"\{[^}]*\}", "", names)))
    for names, path in re.findall(REQUIRE, code):
        if path.startswith("."):
            continue
        n += 1
        if names.startswith("{"):
            n += len(re.findall(NAME + r"(?:\s*:\s*" + NAME + ")?", names))
        elif names:
            bound.add(names)
    for name in bound - {"type", "as", "from"}:
        n += len(re.findall(r"(?<![\w$.])" + re.escape(name) + r"\.(?=[A-Za-z_$])", code))
    return n


def uses_of(path):
    with open(path, errors="replace") as f:
        code = f.read()
    return uses_of_python(code) if path.endswith(".py") else uses_of_script(code)


def check(path):
    said, counted = collections.Counter(), collections.Counter()
    for row in open(path):
        piece = json.loads(row)
        script = piece["language"] != "python"
        said[script] += piece["uses"]
        counted[script] += (uses_of_script if script else uses_of_python)(piece["code"])
    for script in said:
        print("%s: %d uses, counted %d" % ("scripts" if script else "python", said[script],
                                           counted[script]))


def volume(env, folder, show):
    run = subprocess.run([CERIUM, "scan", "--exists", "--env", env, folder], capture_output=True,
                         text=True, errors="replace")
    kinds = collections.Counter()
    for row in run.stdout.splitlines():
        kind = re.search(r"\((import|symbol|attribute|keyword)\)$", row)
        if not kind:
            continue
        kinds[kind.group(1)] += 1
        if show and kind.group(1) != "import":
            print("   ", row)
    files = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names
             if name.endswith(SCRIPTS + (".py",)) and not os.path.islink(os.path.join(at, name))]
    uses = sum(map(uses_of, files))
    names = sum(n for kind, n in kinds.items() if kind != "import")
    print("%s: %d files, %d uses; %d findings that are no import (%.2f in 1,000 uses), %d imports"
          % (folder, len(files), uses, names, 1000 * names / max(uses, 1), kinds["import"]))


def main():
    if sys.argv[1] == "--check":
        check(sys.argv[2])
        return
    show = "-v" in sys.argv
    env, *folders = [a for a in sys.argv[1:] if a != "-v"]
    for folder in folders:
        volume(env, folder, show)


if __name__ == "__main__":
    main()
