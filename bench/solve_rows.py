#!/usr/bin/env python3
"""solve_rows.py - how many rows the model computes for a thousand samples of a line.

    bench/solve_rows.py [TASKS.jsonl | LINES.jsonl.gz] [--cerium ./cerium] [--model FILE]
                        [-N 256] [--temp 0.8] [--tasks 60]

The line of each task (see bench/solve.py, or lines of HumanEval-Infilling, drawn as by
bench/solve_speed.py) is sampled N times by consecutive requests.  Requests with the same text share
rows.  Counted are rows computed, including recomputed ones, and tokens sampled.  Counts, not times:
other programs hardly change them.  The goal is 65 %."""

import argparse
import gzip
import json
import os
import random
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def read_tasks(path, n):
    """(name of a file, its text, the line to rewrite)"""
    if path.endswith(".gz"):
        with gzip.open(path, "rt") as f:
            tasks = [json.loads(line) for line in f]
        random.Random(2026).shuffle(tasks)
        return [("task.py", t["prompt"] + "\n" + t["suffix"], t["prompt"].count("\n") + 1)
                for t in tasks[:n]]
    with open(path) as f:
        return [(t["file"], t["source"], t["line"]) for t in map(json.loads, f)][:n]


def sample(args, name, text, line):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "w") as f:
            f.write(text)
        done = subprocess.run(
            [args.cerium, "solve", "%s:%d" % (path, line), "--test", "false", "--json", "--makers",
             "model", "-N", str(args.n), "--temp", str(args.temp), "--no-speculation", "-m",
             args.model], capture_output=True, text=True)
    events = [json.loads(one) for one in done.stdout.splitlines()]
    if not events or events[-1].get("event") != "end":
        raise SystemExit("%s: %s" % (name, done.stderr.strip()[-300:]))
    return events[-1]["tokens"], events[-1]["rows"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("set", nargs="?", default=os.path.join(HERE, "solve", "tasks.jsonl"))
    parser.add_argument("--cerium", default="./cerium")
    parser.add_argument("--model", default="models/cerium-line.gguf")
    parser.add_argument("-N", dest="n", type=int, default=256)
    parser.add_argument("--temp", type=float, default=0.8)
    parser.add_argument("--tasks", type=int, default=60)
    args = parser.parse_args()
    all_tokens = all_rows = n = 0
    for task in read_tasks(args.set, args.tasks):
        tokens, rows = sample(args, *task)
        all_tokens, all_rows, n = all_tokens + tokens, all_rows + rows, n + 1
        print("%-16s %6d tokens, %6d rows: %.1f %%" % (task[0], tokens, rows,
                                                       100 * rows / max(tokens, 1)), flush=True)
    print("%d lines, %d samples each at temperature %.1f: %d tokens, %d rows: %.1f %%"
          % (n, args.n, args.temp, all_tokens, all_rows, 100 * all_rows / max(all_tokens, 1)))


main()
