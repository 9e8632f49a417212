"""kit.py - what the checks of `cerium lsp` have in common: counting, sessions, typing, edits."""

import json
import subprocess
import sys
import tempfile

from client import Client

CERIUM = sys.argv[1]
PULLS = {"textDocument": {"diagnostic": {"dynamicRegistration": True}}}
NEXT = "textDocument/copilotInlineEdit"
EDITS = {"workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}}}
CODE = '''import hashlib


class Point:
    def __init__(self, x, y):
        self.x = x
        self.y = y

    def add(self, other):
        return Point(self.x + other.x, self.y + other.y)

'''
passed, failed, seen = 0, 0, []


def blocks(text, added):
    """Does `scan` block a line of Python that is added at the end of the text?"""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as f:
        f.write(text + added + "\n")
        f.flush()
        done = subprocess.run([CERIUM, "scan", "--block-only", "--json", f.name],
                              capture_output=True, text=True)
    lines = [json.loads(line)["line"] for line in done.stdout.splitlines()]
    return any(n > text.count("\n") for n in lines) and done.returncode == 1


def is_sanitized():
    """AddressSanitizer keeps what is freed for a while."""
    with open(CERIUM, "rb") as f:
        return b"__asan_init" in f.read()


def check(name, good, what=""):
    global passed, failed
    if good:
        passed += 1
    else:
        failed += 1
        print(f"  FAIL {name}: {what}")


def begin(capabilities=None, options=None, args=(), env=None, **more):
    c = Client(*args, program=CERIUM, env=env)
    c.initialize(capabilities, options, **more)
    seen.append(c)
    return c


def end(name, c):
    status = c.shutdown()
    check(f"{name}: exit status 0 after shutdown", status == 0, status)
    c.process.stdin.close()


def type_text(c, uri, at, text):
    """Type, ask after each key; yields (what is after the caret, item or None)."""
    for key in text:
        c.change(uri, at, at, key)
        at += 1
        items = c.inline(uri, at)
        yield at, items[0] if items else None


def apply_edits(c, text, edits):
    places = []
    for e in edits:
        lines = text.split("\n")
        ends = []
        for p in (e["range"]["start"], e["range"]["end"]):
            at = sum(len(line) + 1 for line in lines[:p["line"]])
            if p["line"] < len(lines):
                line = lines[p["line"]].encode("utf-16-le")
                at += len(line[:2 * p["character"]].decode("utf-16-le"))
            ends.append(min(at, len(text)))
        places.append((ends[0], ends[1], e["newText"]))
    for a, b, new in sorted(places, reverse=True):
        text = text[:a] + new + text[b:]
    return text
