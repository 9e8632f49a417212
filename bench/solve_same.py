#!/usr/bin/env python3
"""solve_same.py - whether `cerium solve` finds the same in every way of running it.

    bench/solve_same.py [TASKS.jsonl] [--tasks 20] [-N 200] [--seconds 280] [--cerium ./cerium]

Each task (see bench/solve.py) with one thread and two, with one, two and four slots for tests,
with drafts and without, and with busy loops on every processor: status, index and diff must be
equal.  Exits with 1 if they are not."""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time

import solve

WAYS = [(("--threads", str(threads), "--slots", str(slots)) + more, busy)
        for busy in (0, 1) for threads, slots, more in
        ((1, 1, ()), (2, 1, ()), (1, 2, ()), (2, 4, ()), (2, 2, ("--no-speculation",)))]

# The loop ends with this program, however that ends.
LOOP = "import os\nwhile os.getppid() == %d:\n    for _ in range(10 ** 6):\n        pass\n"


@contextlib.contextmanager
def busy_loops(n):
    loops = [subprocess.Popen([sys.executable, "-c", LOOP % os.getpid()]) for _ in range(n)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run(args, task, folder, options):
    end = solve.solve(argparse.Namespace(cerium=args.cerium, n=args.n, options=options), task,
                      folder)
    if end["status"] == "error":
        raise SystemExit("%s: %s" % (task["id"], end["why"]))
    return end["status"], end.get("index"), end.get("diff")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("set", nargs="?", default=solve.SET)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("-N", dest="n", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=280)
    parser.add_argument("--cerium", default="./cerium")
    args = parser.parse_args()
    with open(args.set) as f:
        tasks = [json.loads(line) for line in f]
    # Node starts again for each variant, which would use all of the time.
    tasks = [t for t in tasks if t["language"] != "javascript"][:args.tasks]
    begin, n, different = time.monotonic(), 0, 0
    for task in tasks:
        if time.monotonic() - begin > args.seconds:
            break
        with tempfile.TemporaryDirectory() as folder:
            found = []
            for options, busy in WAYS:
                with busy_loops(busy * os.cpu_count()):
                    found.append(run(args, task, folder, options))
        n += 1
        wrong = [way for way, one in zip(WAYS, found) if one != found[0]]
        different += bool(wrong)
        print("%-16s %-6s %5s %s" % (task["id"], found[0][0], found[0][1],
                                     "DIFFERS: %s" % wrong if wrong else "the same in %d ways"
                                     % len(WAYS)), flush=True)
    print("%d of %d tasks: the same in %d ways, %d not; %.0f s" % (
        n - different, n, len(WAYS), different, time.monotonic() - begin))
    sys.exit(different > 0)


main()
