#!/usr/bin/env python3
"""editor.py - how long `cerium lsp` lets an editor wait, and what it costs while nobody types.

    bench/editor.py [--cerium ./cerium] [--keys N] [--root DIR]

For an idle machine; three minutes.  Code is made by rule, so that runs are alike.  --root: a
workspace whose files are known, for snippets.  Times are medians and 99th percentiles in ms."""

import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../tests/lsp"))
from client import Client  # noqa: E402

TYPED = "    value = self.read_line(number, first=width)\n    return value + self.area_of(number)\n"


def code(n_lines):
    part = ("    def area_{0}(self, width, height):\n        number = width * height + {0}\n"
            "        if number > self.limit:\n            return self.limit\n"
            "        return number\n\n")
    return "class Table:\n" + "".join(part.format(i) for i in range(n_lines // 6))


def spread(ms):
    ms = sorted(ms)
    return f"p50 {ms[len(ms) // 2]:.2f}, p99 {ms[min(len(ms) - 1, len(ms) * 99 // 100)]:.2f}"


def timed(f):
    began = time.monotonic()
    out = f()
    return (time.monotonic() - began) * 1e3, out


def type_at(c, uri, at, keys, pause):
    """Each key, its answer: times of those that were computed, and of those that were kept."""
    computed, kept, said = [], [], None
    for i in range(keys):
        key = TYPED[i % len(TYPED)]
        c.change(uri, at, at, key)
        at += 1
        ms, items = timed(lambda: c.inline(uri, at))
        item = items[0]["insertText"] if items else ""
        (kept if item and said == key + item else computed).append(ms)
        said = item
        time.sleep(pause)
    return computed, kept


def typing(args, c, n_lines, keys):
    uri = f"file:///bench/{n_lines}.py"
    text = code(n_lines)
    at = text.rfind("\n\n", 0, len(text) // 2) + 1 if n_lines < 5000 else len(text)
    c.open(uri, text)
    c.inline(uri, at)
    cpu = c.cpu_ms()
    computed, kept = type_at(c, uri, at, keys, 0.125)
    cpu = (c.cpu_ms() - cpu) / keys
    print(f"typing in {n_lines} lines: computed {spread(computed)} ({len(computed)}); "
          f"kept {spread(kept) if kept else 'none'} ({len(kept)}); processor {cpu:.1f} ms a key")
    changes = []
    for i in range(100):
        c.change(uri, at, at, "x")
        changes.append(timed(lambda: c.ask("cerium/status", None))[0])
    print(f"a change of {n_lines} lines, and a message: {spread(changes)}")
    return uri


def jumps(c):
    uri = "file:///bench/jumps.py"
    text = code(2000)
    c.open(uri, text)
    at = [i for i in range(len(text)) if text.startswith("        return number\n", i)]
    cold, warm = [], []
    for i in range(20):
        here = at[(i * 40 + 7) % len(at)] + 15
        if i % 2:
            place = c.position(text, here)
            c.ask("textDocument/codeAction", {
                "textDocument": {"uri": uri}, "range": {"start": place, "end": place},
                "context": {"diagnostics": []}})
            time.sleep(0.6)  # it rests there
        (warm if i % 2 else cold).append(timed(lambda: c.inline(uri, here, 1))[0])
    print(f"after a jump of 200 lines: {spread(cold)}; where the caret had rested {spread(warm)}")


def next_edits(c):
    uri = "file:///bench/next.py"
    c.open(uri, code(20000))
    at = c.texts[uri].index("width", len(c.texts[uri]) // 2 - 4000)
    at = c.texts[uri].index("def area", at)
    at = c.texts[uri].index("width", at)
    c.change(uri, at, at + 5, "breadth")
    time.sleep(0.6)
    ms = []
    for _ in range(100):
        took, edits = timed(lambda: c.ask("textDocument/copilotInlineEdit", {
            "textDocument": {"uri": uri, "version": c.versions[uri]},
            "position": c.position(c.texts[uri], at)})["edits"])
        ms.append(took)
    print(f"a next edit in 20000 lines ({len(edits)} found): {spread(ms)}")


def starts(args):
    first, answers = [], []
    for _ in range(5):
        began = time.monotonic()
        c = Client(program=args.cerium)
        c.initialize()
        first.append((time.monotonic() - began) * 1e3)
        text = code(60)
        c.open("file:///bench/start.py", text)
        while not c.inline("file:///bench/start.py", len(text), 1):
            assert time.monotonic() - began < 60, "no completion comes"
            time.sleep(0.005)
        answers.append((time.monotonic() - began) * 1e3)
        with open(f"/proc/{c.pid}/status") as f:
            anon = next(int(line.split()[1]) for line in f if line.startswith("RssAnon"))
        c.shutdown()
    print(f"start: initialize answered {spread(first)}; first completion {spread(answers)}; "
          f"memory that is no file's {anon / 1024:.0f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cerium", default="./cerium")
    parser.add_argument("--keys", type=int, default=300)
    parser.add_argument("--root", help="the workspace")
    parser.add_argument("--settings", type=json.loads, default={}, metavar="JSON")
    args = parser.parse_args()
    starts(args)
    c = Client(program=args.cerium)
    folders = args.root and [{"uri": "file://" + os.path.abspath(args.root), "name": "root"}]
    c.initialize(options={"feedback": False, **args.settings}, workspaceFolders=folders)
    c.ready()
    time.sleep(5 if args.root else 0)
    print(f"{c.ask('cerium/status', None)['files']} files are known")
    typing(args, c, 500, args.keys)
    typing(args, c, 20000, args.keys // 2)
    jumps(c)
    next_edits(c)
    time.sleep(3)
    cpu, switches = c.cpu_ms(), c.switches()
    time.sleep(10)
    print(f"10 s without a key: processor {c.cpu_ms() - cpu} ms, "
          f"{c.switches() - switches} switches")
    c.shutdown()


main()
