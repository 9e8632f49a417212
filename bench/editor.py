#!/usr/bin/env python3
"""editor.py - how long `cerium lsp` lets an editor wait, and what it costs while nobody types.

    bench/editor.py [--cerium ./cerium] [--keys N] [--root DIR]

For an idle machine; three minutes.  Code is made by rule, so that runs are alike.  --root: a
workspace whose files are known, for snippets.  Times are medians and 99th percentiles in ms.  Those
of an empty line are told apart: nothing is shown there until the keys have rested for 400 ms."""

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
    if not ms:
        return "none"
    ms = sorted(ms)
    return f"p50 {ms[len(ms) // 2]:.2f}, p99 {ms[min(len(ms) - 1, len(ms) * 99 // 100)]:.2f}"


def timed(f):
    began = time.monotonic()
    out = f()
    return (time.monotonic() - began) * 1e3, out


def type_at(c, uri, at, keys, pause):
    """Each key, its answer: times of those that were computed, those that were kept, and those of
    an empty line."""
    computed, kept, empty, said = [], [], [], None
    for i in range(keys):
        key = TYPED[i % len(TYPED)]
        c.change(uri, at, at, key)
        at += 1
        ms, items = timed(lambda: c.inline(uri, at))
        item = items[0]["insertText"] if items else ""
        line = c.texts[uri][:at].rpartition("\n")[2]
        (kept if item and said == key + item else computed if line.strip() else empty).append(ms)
        said = item
        time.sleep(pause)
    return computed, kept, empty


def typing(args, c, n_lines, keys):
    uri = f"file:///bench/{n_lines}.py"
    text = code(n_lines)
    at = text.rfind("\n\n", 0, len(text) // 2) + 1 if n_lines < 5000 else len(text)
    c.open(uri, text)
    c.inline(uri, at)
    cpu = c.cpu_ms()
    computed, kept, empty = type_at(c, uri, at, keys, 0.125)
    cpu = (c.cpu_ms() - cpu) / keys
    print(f"typing in {n_lines} lines: computed {spread(computed)} ({len(computed)}); "
          f"kept {spread(kept)} ({len(kept)}); empty lines {spread(empty)} ({len(empty)}); "
          f"processor {cpu:.1f} ms a key")
    changes = []
    for i in range(100):
        c.change(uri, at, at, "x")
        changes.append(timed(lambda: c.ask("cerium/status", None))[0])
    print(f"a change of {n_lines} lines, and a message: {spread(changes)}")
    return uri


def jumps(c):
    """The caret jumps by 200 lines, a blank is typed, and what may stand there is asked for."""
    uri = "file:///bench/jumps.py"
    c.open(uri, code(4000))
    line, times = "        return number\n", ([], [])
    for i in range(20):
        text, at = c.texts[uri], 0
        for _ in range(20 + i * 30):
            at = text.index(line, at) + 1
        here = at + len(line) - 2
        if i % 2:
            place = c.position(text, here)
            c.ask("textDocument/codeAction", {
                "textDocument": {"uri": uri}, "range": {"start": place, "end": place},
                "context": {"diagnostics": []}})
            time.sleep(0.6)  # it rests there
        c.change(uri, here, here, " ")
        ms, items = timed(lambda: c.inline(uri, here + 1, 1))
        assert items, "nothing was computed"
        times[i % 2].append(ms)
        time.sleep(0.5)
    print(f"after a jump of 200 lines: {spread(times[0])}; where the caret had rested "
          f"{spread(times[1])}")


def next_edits(c):
    """A parameter is renamed in a file of 20000 short lines, and its next place asked for."""
    uri = "file:///bench/next.py"
    part = "def area_{0}(w{1}):\n    x = {0}\n    y = x\n    return w{1}\n"
    c.open(uri, "".join(part.format(i, i % 500) for i in range(5000)))
    times, found = [], 0
    for i in range(100):
        head = f"area_{i * 50}("
        at = c.texts[uri].index(head) + len(head)
        c.change(uri, at, c.texts[uri].index(")", at), f"breadth_{i}")
        time.sleep(0.6)
        ms, edits = timed(lambda: c.ask("textDocument/copilotInlineEdit", {
            "textDocument": {"uri": uri, "version": c.versions[uri]},
            "position": c.position(c.texts[uri], at)})["edits"])
        times.append(ms)
        found += len(edits) == 1
    print(f"a next edit in 20000 lines ({found} of 100 found): {spread(times)}")


def findings(c):
    """A key in 2000 lines, and what the watchdog finds then."""
    uri = "file:///bench/findings.py"
    c.open(uri, "import hashlib\n" + code(2000) + "h = hashlib.md5(b'')\n")
    times = []
    for i in range(20):
        at = c.texts[uri].index("limit", 1000 * (i + 1))
        c.change(uri, at, at, "x")
        ms, report = timed(lambda: c.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}}))
        assert len(report["items"]) == 1, report
        times.append(ms)
        time.sleep(0.2)
    print(f"findings in 2000 lines after a key: {spread(times)}")


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
    c.initialize({"textDocument": {"diagnostic": {}}},
                 options={"feedback": False, **args.settings}, workspaceFolders=folders)
    c.ready()
    time.sleep(5 if args.root else 0)
    print(f"{c.ask('cerium/status', None)['files']} files are known")
    typing(args, c, 500, args.keys)
    typing(args, c, 20000, args.keys // 2)
    jumps(c)
    next_edits(c)
    findings(c)
    time.sleep(3)
    cpu, switches = c.cpu_ms(), c.switches()
    time.sleep(10)
    print(f"10 s without a key: processor {c.cpu_ms() - cpu} ms, "
          f"{c.switches() - switches} switches")
    c.shutdown()


main()
