#!/usr/bin/env python3
"""solve_cancel.py - how long POST /v1/solve continues after its client has left.

    bench/solve_cancel.py [ROUNDS]

The client leaves a solve whose variants sleep, again and again: milliseconds until none of its
processes exists, for a stream and for a single object.  The goal is at most 50, on an otherwise
idle machine."""

import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "server"))

from check_solve_route import ASLEEP, below, running  # noqa: E402
from harness import Server  # noqa: E402


def left_once(server, stream):
    with running(server, order=ASLEEP, stream=stream):
        pass
    begin = time.perf_counter()
    while below(server.process.pid):
        pass
    return (time.perf_counter() - begin) * 1e3


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    with tempfile.TemporaryDirectory(prefix="cerium-cancel-") as folder:
        os.environ["TMPDIR"] = folder
        with Server(args=["--solve"]) as server:
            for stream in (True, False):
                took = sorted(left_once(server, stream) for _ in range(rounds))
                print("%d %s left: median %.1f ms, %.1f at the 95th percentile, %.1f at most"
                      % (rounds, "streams" if stream else "objects", statistics.median(took),
                         took[int(0.95 * (rounds - 1))], took[-1]), flush=True)


main()
