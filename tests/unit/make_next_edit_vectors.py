#!/usr/bin/env python3
"""make_next_edit_vectors.py - prompts of Sweep's next-edit form, as its makers' server writes them.

    pip install --no-deps sweep-autocomplete==0.1.1
    pip install regex requests pydantic loguru numpy scipy scikit-learn
    tests/unit/make_next_edit_vectors.py >tests/unit/next_edit_vectors.jsonl

A line has the editor's input (path, text, caret, changes, original, snippets) and the prompt.  No
model runs: the call of one is replaced.  Places on blank lines before the window are left
out: there the server marks a caret that is not the user's.
"""
import difflib
import json
import random
import sys
import types

asked = []
local = types.ModuleType("sweep_autocomplete.autocomplete.llm_local")
local.RequestCancelled = type("RequestCancelled", (Exception,), {})
local.generate_completion = lambda prompt, **_: (asked.append(prompt), ("", 1, [], "stop"))[1]
sys.modules[local.__name__] = local
from loguru import logger  # noqa: E402

logger.remove()
from sweep_autocomplete.autocomplete import next_edit_autocomplete as sweep  # noqa: E402


def hunks(path, old, new, around):
    """The change, one per hunk, without the lines that name files."""
    lines = list(difflib.unified_diff(old.splitlines(True), new.splitlines(True), n=around))[2:]
    out = []
    for line in lines:
        if line.startswith("@@"):
            out.append("")
        out[-1] += line if line.endswith("\n") else line + "\n"
    return [{"path": path, "diff": text} for text in out]


def vector(name, path, text, caret, changes=(), original=None, snippets=()):
    asked.clear()
    said = "\n".join("File: %s\n%s" % (c["path"], c["diff"].rstrip("\n")) for c in changes)
    chunks = [sweep.FileChunkData(p, 1, 2, t) for p, t in snippets]
    list(sweep.fetch_next_edits(path, text, said, caret, original, [], chunks, [], ""))
    print(json.dumps({"name": name, "path": path, "text": text, "caret": caret,
                      "changes": list(changes), "original": original,
                      "snippets": [{"path": p, "text": t} for p, t in snippets],
                      "prompt": asked[0]}))


def line(random, i):
    what = random.choice(["x%d = f(%d)", "    y%d += g(%d, z)", "if a%d > %d:", "return h%d(%d)"])
    return what % (i, random.randrange(1000)) if random.random() < 0.85 else ""


def random_vector(seed):
    r = random.Random(seed)
    texts = ["\n".join(line(r, i) for i in range(r.randrange(3, 24)))
             + r.choice(["\n", "", "\n\n"])]
    changes = []
    for k in range(r.randrange(0, 9)):
        lines = texts[-1].split("\n")
        at = r.randrange(len(lines))
        how = r.randrange(4)
        if how == 0:
            lines[at] = line(r, 100 + k)
        elif how == 1:
            lines.insert(at, line(r, 200 + k))
        elif how == 2 and len(lines) > 3:
            del lines[at]
        else:
            lines[at] = lines[at] + "  # %d" % k
        texts.append("\n".join(lines))
        changes += hunks("a/b.py", texts[-2], texts[-1], r.randrange(4))
    text = texts[-1]
    if not text.strip():
        return
    filled = [i for i, c in enumerate(text) if c not in "\n"]
    snippets = [("c.py", "u = 1\nv = 2" + r.choice(["", "\n"]))] if r.random() < 0.3 else []
    vector("random %d" % seed, "a/b.py", text, r.choice(filled), changes,
           r.choice([None, texts[0]]), snippets)


shapes = ("import os\n\n\ndef area(width, h):\n    return width * h\n\n\n"
          "def volume(w, h, d):\n    return area(w, h) * d\n")
vector("a rename", "shapes.py", shapes, shapes.index("width * h") + 5,
       [{"path": "shapes.py", "diff": "@@ -4,2 +4,2 @@\n-def area(w, h):\n+def area(width, h):\n"
                                      "     return w * h\n"},
        {"path": "shapes.py", "diff": "@@ -4,2 +4,2 @@\n def area(width, h):\n-    return w * h\n"
                                      "+    return width * h\n"}],
       shapes.replace("width", "w"), [("ret.py", "y = 2\n")])
vector("the end of the file", "a.c", "int a;\n", 7)
vector("nothing changed", "a.c", "int a;\nint b;", 3)
long = "".join("x%d\n" % i for i in range(801))
for i in (375,):
    vector("a long file, line %d" % i, "l.py", long, long.index("x%d\n" % i) + 2)
vector("another file's change", "b.py", "u = g(1)\nv = f(2)\n", 8,
       [{"path": "a.py", "diff": "@@ -1 +1 @@\n-def f(a):\n+def g(a):\n"},
        {"path": "b.py", "diff": "@@ -1,2 +1,2 @@\n-u = f(1)\n+u = g(1)\n v = f(2)\n"}],
       "u = f(1)\nv = f(2)\n")
many = "".join("k%d = %d\n" % (i, i) for i in range(60))
vector("a wide line", "w.py", "z = '%s'\ny = 2\n" % ("q" * 700) + many, 711)
vector("a window that is cut", "w.py",
       "".join("w%d = '%s'\n" % (i, "p" * 400) for i in range(8)) + many, 20)
vector("a change of blanks alone", "a.py", "a = 1\nb = 2\n", 3,
       [{"path": "a.py", "diff": "@@ -1,2 +1,2 @@\n-a = 1\n+ a = 1 \n b = 2\n"}])
for n in range(45):
    random_vector(n)
