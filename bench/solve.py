#!/usr/bin/env python3
"""solve.py - how many tasks of a set `cerium solve` solves, and at what cost.

    bench/solve.py [TASKS.jsonl] [--cerium ./cerium] [-N 1000] [--only REGEX] [--svg FILE]
                   [-- OPTIONS of solve]

A task of the set is a line of JSON: the language, the name of a file and its source, the byte
`at` which something is missing (`fill`) or wrong (`repair`), and tests that run after it.
`hidden`, if a task has it, are tests that the program does not see.  A repair knows the line, a
fill the column.  --svg draws the number of solved tasks over the number of variants."""

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

SET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "solve", "tasks.jsonl")
SUFFIX = {"python": ".py", "javascript": ".js", "c": ".c"}


def solve(args, task, folder):
    """The last event of a run, and the file after the diff."""
    path = os.path.join(folder, task["file"])
    tests = os.path.join(folder, "tests_of" + SUFFIX[task["language"]])
    with open(path, "wb") as f:
        f.write(task["source"].encode())
    with open(tests, "w") as f:
        f.write(task["tests"])
    place = "%s:%d" % (path, task["line"])
    if task["kind"] == "fill":
        place += ":%d" % task["column"]
    done = subprocess.run([args.cerium, "solve", place, "--test-file", tests, "-N", str(args.n),
                           "--json", *args.options], capture_output=True, text=True)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    if not events or events[-1].get("event") != "end":
        return {"status": "error", "why": done.stderr.strip()[-200:]}
    return events[-1]


def passes_hidden(args, task, end, folder):
    """Whether the solved file passes tests that were hidden."""
    if "hidden" not in task or not end.get("diff"):
        return None
    subprocess.run(["patch", "-s", os.path.join(folder, task["file"])], input=end["diff"],
                   text=True, check=True)
    tests = os.path.join(folder, "hidden_of" + SUFFIX[task["language"]])
    with open(tests, "w") as f:
        f.write(task["hidden"])
    done = subprocess.run([args.cerium, "solve", os.path.join(folder, task["file"]), "--test-file",
                           tests, "-N", "1", "--makers", "mutate"], capture_output=True, text=True)
    return "pass already" in done.stderr


def by_variants(rows, n):
    """{kind: [(variants, tasks solved by at most that many)]}; variants: powers of two."""
    steps = [2 ** i for i in range(n.bit_length()) if 2 ** i < n] + [n]
    curves = {}
    for kind in ("repair", "fill"):
        found = [end["index"] for task, end, _ in rows
                 if task["kind"] == kind and end["status"] == "found"]
        if found:
            curves[kind] = [(k, sum(index < k for index in found)) for k in steps]
    return curves


def draw(path, curves, n):
    """Lines over a logarithmic axis, in an SVG made without other programs."""
    most = max(solved for curve in curves.values() for _, solved in curve)
    width, height, left, top = 560, 300, 50, 20

    def at(k, solved):
        return "%.1f,%.1f" % (left + width * math.log2(k) / math.log2(n),
                              top + height * (1 - solved / most))

    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 370" font-size="13"'
             ' font-family="sans-serif">', '<rect width="700" height="370" fill="white"/>']
    for color, (kind, curve) in zip(("#1f6feb", "#bf4b00"), curves.items()):
        parts.append('<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>'
                     % (color, " ".join(at(*point) for point in curve)))
        x, y = at(*curve[-1]).split(",")
        parts.append('<text x="%s" y="%s" fill="%s"> %s: %d</text>' % (x, y, color, kind,
                                                                       curve[-1][1]))
    for k, _ in next(iter(curves.values())):
        x = at(k, 0).split(",")[0]
        parts.append('<text x="%s" y="%d" text-anchor="middle">%d</text>' % (x, top + height + 18,
                                                                             k))
    for solved in range(0, most + 1, max(1, most // 5)):
        y = at(1, solved).split(",")[1]
        parts.append('<text x="%d" y="%s" text-anchor="end">%d</text>' % (left - 8, y, solved))
        parts.append('<path stroke="#ddd" d="M%d %sh%d"/>' % (left, y, width))
    parts.append('<text x="%d" y="%d" text-anchor="middle">variants at most</text></svg>'
                 % (left + width // 2, top + height + 40))
    with open(path, "w") as f:
        f.write("\n".join(parts) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tasks", nargs="?", default=SET)
    parser.add_argument("--cerium", default="./cerium")
    parser.add_argument("-N", dest="n", type=int, default=1000)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--svg")
    given, options = sys.argv[1:], []
    if "--" in given:
        given, options = given[:given.index("--")], given[given.index("--") + 1:]
    args = parser.parse_args(given)
    args.options = options
    rows = []
    with open(args.tasks) as f:
        tasks = [json.loads(line) for line in f]
    for task in tasks:
        if not re.search(args.only, "%(id)s %(language)s %(kind)s" % task):
            continue
        with tempfile.TemporaryDirectory() as folder:
            end = solve(args, task, folder)
            rows.append((task, end, passes_hidden(args, task, end, folder)))
        lines = [x for x in end.get("diff", "").split("\n")
                 if x[:1] in "+-" and not x.startswith(("+++", "---"))]
        print("%s %s %-10s %s" % (task["id"], task["kind"], end["status"],
                                  end.get("index", end.get("why", ""))), flush=True)
        if args.show:
            print("\n".join("    " + x for x in lines), flush=True)
    for kind in ("repair", "fill"):
        for language in ("python", "javascript", "c", ""):
            of = [r for r in rows if r[0]["kind"] == kind and language in ("", r[0]["language"])]
            good = [r for r in of if r[1]["status"] == "found"]
            hidden = [r[2] for r in good if r[2] is not None]
            if of:
                print("%s %s: %d of %d solved%s" % (
                    kind, language or "in all", len(good), len(of),
                    "; %d of %d right by hidden tests" % (sum(hidden), len(hidden))
                    if hidden else ""))
    curves = by_variants(rows, args.n)
    for kind, curve in curves.items():
        print("%s: solved by so many variants: %s" % (
            kind, ", ".join("%d: %d" % point for point in curve)))
    if args.svg and curves:
        draw(args.svg, curves, args.n)
    ended = [r[1] for r in rows if "seconds" in r[1]]
    if ended:
        rate = statistics.median(e["tested"] / max(e["seconds"], 1e-9) for e in ended)
        print("median: %.0f tests/s" % rate)


if __name__ == "__main__":
    main()
