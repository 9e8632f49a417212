#!/usr/bin/env python3
"""keystrokes.py - how much typing `cerium lsp` saves: files are typed key by key by somebody
who knows the text, and accepts a proposal when it is right.

    bench/keystrokes.py [--cerium ./cerium] [--keys N] [--root DIR] [--settings JSON] FILE...

A proposal is shown after each key.  It is accepted if all of it is right and it has at least three
characters; if only its beginning is right, typing continues.  Printed: the share of characters
that were accepted, wrong characters shown per right one, and milliseconds from key to
answer and of processor time per key (only meaningful on an idle machine).  --root: the folder
open in the editor, whose files are read before typing begins; --settings: see
docs/editors.md, for instance '{"retrieval": false}'."""

import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../tests/lsp"))
from client import Client  # noqa: E402


def common(a, b):
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


def type_file(c, uri, text, keys_max, seen):
    """Types after the first half of the text."""
    at = text.rfind("\n", 0, len(text) // 2) + 1
    end = min(len(text), at + keys_max)
    language = {"py": "python", "js": "javascript"}.get(uri.rpartition(".")[2], "c")
    c.open(uri, text[:at], language)
    shown = None
    while at < end:
        c.change(uri, at, at, text[at])
        at += 1
        seen["keys"] += 1
        if not text[text.rfind("\n", 0, at) + 1:at].strip():
            shown = None
            continue  # nothing is shown there while typing
        began = time.monotonic()
        items = c.inline(uri, at)
        seen["ms"].append((time.monotonic() - began) * 1e3)
        item = items[0]["insertText"] if items else ""
        if not item:
            shown = None
            continue
        right = common(item, text[at:])
        if shown is None or not shown.endswith(item):
            seen["right"] += right
            seen["wrong"] += len(item) - right
            seen["shown"] += 1
        shown = item
        if right == len(item) and right >= 3 and at + right <= end:
            c.change(uri, at, at, item)
            at += right
            seen["taken"] += 1
            seen["saved"] += right
            shown = None
    c.notify("textDocument/didClose", {"textDocument": {"uri": uri}})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cerium", default="./cerium")
    parser.add_argument("--keys", type=int, default=600, help="characters of each file")
    parser.add_argument("--root", help="the workspace")
    parser.add_argument("--settings", type=json.loads, default={}, metavar="JSON")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    c = Client(program=args.cerium)
    folders = args.root and [{"uri": "file://" + os.path.abspath(args.root), "name": "root"}]
    c.initialize(options={"watchdog": False, "feedback": False, **args.settings},
                 workspaceFolders=folders)
    c.ready()
    read = None
    while args.root and read != c.ask("cerium/status", None)["files"]:
        read = c.ask("cerium/status", None)["files"]
        time.sleep(10)
    if args.root:
        print(f"{read} files are known")
    seen = {"keys": 0, "taken": 0, "saved": 0, "right": 0, "wrong": 0, "shown": 0, "ms": []}
    cpu = c.cpu_ms()
    for path in args.files:
        with open(path, encoding="utf-8") as f:
            type_file(c, "file://" + os.path.abspath(path), f.read(), args.keys, seen)
    cpu = c.cpu_ms() - cpu
    c.shutdown()
    ms = sorted(seen["ms"])
    print(f"{len(args.files)} files, {seen['keys']} keys, {seen['taken']} proposals taken of "
          f"{seen['shown']} shown")
    print(f"characters saved: {100 * seen['saved'] / (seen['saved'] + seen['keys']):.1f} %")
    print(f"wrong characters shown a right one: {seen['wrong'] / max(1, seen['right']):.2f}")
    print(f"key to answer: p50 {ms[len(ms) // 2]:.1f} ms, p99 {ms[len(ms) * 99 // 100]:.1f} ms; "
          f"processor: {cpu / seen['keys']:.1f} ms a key")


main()
