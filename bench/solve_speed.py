#!/usr/bin/env python3
"""solve_speed.py - the time of `cerium solve`, and how many lines of HumanEval it solves.

    bench/solve_speed.py [--cerium ./cerium] [--model FILE] [--lines FILE.jsonl.gz] [--tasks 60]
                         [--variants 1000] [--seconds 280] [--lines-only]

1,000 variants of one line of a file of 40 lines, none of which passes: generated, deduplicated,
tested; five times, by the model alone and by edits and the model.  Then lines of
HumanEval-Infilling (one line missing; drawn by random.Random(2026).shuffle), each with 1,000
variants, as many lines as fit into the time.  Only meaningful on an otherwise idle machine."""

import argparse
import gzip
import json
import os
import random
import statistics
import subprocess
import tempfile
import time

LINES = ["    total = values[%d] + total" % (i % 7) for i in range(30)]
FILE = "\n".join(["def add_up(values):", '    """The sum of values, with a bonus."""',
                  "    total = 0", *LINES, "    bonus = len(values)", "    return total", "", "",
                  "def last(values):", "    return values[-1]", "", "# the end", ""])
NEVER = "assert add_up([1, 2, 3, 4, 5, 6, 7]) == 'never'\n"


def run(args, *words):
    """The last event, None if the tests pass already, and the seconds of the whole command."""
    begin = time.monotonic()
    done = subprocess.run([args.cerium, "solve", "--json", "-m", args.model, *words],
                          capture_output=True, text=True)
    taken = time.monotonic() - begin
    events = [json.loads(line) for line in done.stdout.splitlines()]
    if "pass already" in done.stderr:
        return None, taken
    if not events or events[-1].get("event") != "end":
        raise SystemExit("solve: %s" % done.stderr.strip()[-300:])
    return events[-1], taken


def speed(args, folder):
    path, tests = os.path.join(folder, "add_up.py"), os.path.join(folder, "never.py")
    for name, text in ((path, FILE), (tests, NEVER)):
        with open(name, "w") as f:
            f.write(text)
    line = FILE.split("\n").index("    bonus = len(values)") + 1
    for makers in ("model", "mutate,model,repair"):
        runs = [run(args, "%s:%d" % (path, line), "--test-file", tests, "--makers", makers,
                    "-N", str(args.variants)) for _ in range(5)]
        end = runs[0][0]
        took = statistics.median(t for _, t in runs)
        print("%s: %d made, %d different, %d tested, %d tokens: median %.2f s (%s), %.0f tests/s"
              % (makers, end["made"], end["different"], end["tested"], end["tokens"], took,
                 " ".join("%.2f" % t for _, t in runs),
                 statistics.median(e["tested"] / t for e, t in runs)), flush=True)


def lines(args, folder):
    with gzip.open(args.lines, "rt") as f:
        tasks = [json.loads(line) for line in f]
    random.Random(2026).shuffle(tasks)
    begin, solved, tried, needless = time.monotonic(), [], 0, 0
    for task in tasks[:args.tasks]:
        if time.monotonic() - begin > args.seconds:
            break
        path, tests = os.path.join(folder, "task.py"), os.path.join(folder, "task_tests.py")
        before = task["prompt"]
        with open(path, "w") as f:
            f.write(before + "\n" + task["suffix"])
        with open(tests, "w") as f:
            f.write("%s\ncheck(%s)\n" % (task["test"], task["entry_point"]))
        end, _ = run(args, "%s:%d" % (path, before.count("\n") + 1), "--test-file", tests,
                     "--first", "--makers", "model,repair", "-N", str(args.variants))
        tried += 1
        needless += end is None
        if end and end["status"] == "found":
            solved.append(end["index"])
    print("HumanEval lines: %d of %d solved with at most %d variants, %d more pass without their "
          "line; indices %s; %.0f s" % (len(solved), tried, args.variants, needless, sorted(solved),
                                        time.monotonic() - begin))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cerium", default="./cerium")
    parser.add_argument("--model", default="models/cerium-line.gguf")
    parser.add_argument("--lines")
    parser.add_argument("--lines-only", action="store_true")
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--variants", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=280)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not args.lines_only:
            speed(args, folder)
        if args.lines:
            lines(args, folder)


main()
