#!/usr/bin/env python3
"""How many of a model's lines pass the tests of HumanEval-Infilling.

    cerium eval --set HumanEval-SingleLineInfilling.jsonl --answers lines.jsonl
    python pass_rate.py HumanEval-SingleLineInfilling.jsonl lines.jsonl

Each program is the text before the line, the line, the text after it,
and the test. A model's code is untrusted: it runs in a bubblewrap
sandbox without network, files, other processes or much time and memory. The
intervals are by bootstrap over the functions, whose lines are not independent.
"""

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SECONDS, MEMORY = 10, 512 << 20
SANDBOX = ["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
           "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
           "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
           "--chdir", "/tmp", "--unshare-all", "--die-with-parent",
           "--new-session", "--clearenv", "--cap-drop", "ALL"]


def limits():
    """Options of the sandbox and its limits."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def passes(program):
    """Whether a Python program ends by itself, in time, with status 0."""
    try:
        done = subprocess.run(
            ["bwrap", *SANDBOX, "/usr/bin/python3", "-I", "-"],
            input=program.encode(), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=3 * SECONDS, preexec_fn=limits)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def program_of(task, line):
    """The task with the line inserted, and a call of its test."""
    end = "\n" if task["canonical_solution"].endswith("\n") else ""
    return (task["prompt"] + line + end + task["suffix"] + "\n" + task["test"]
            + f"\ncheck({task['entry_point']})\n")


def interval(groups, seed=7, rounds=2000):
    """95 % interval of the share, resampling whole groups of 0 and 1."""
    draw = random.Random(seed)
    groups = [(sum(group), len(group)) for group in groups.values()]
    shares = []
    for _ in range(rounds):
        drawn = draw.choices(groups, k=len(groups))
        shares.append(sum(g[0] for g in drawn) / sum(g[1] for g in drawn))
    shares.sort()
    return shares[rounds // 40], shares[-rounds // 40 - 1]


def rows(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("set", type=Path, help="HumanEval-Infilling, unpacked")
    parser.add_argument("answers", type=Path, help="from cerium eval")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if not shutil.which("bwrap"):
        parser.exit(1, "pass_rate.py: there is no bwrap to run code in; "
                       "install bubblewrap\n")
    tasks = {task["task_id"]: task for task in rows(args.set)}
    with ThreadPoolExecutor(args.jobs) as pool:
        known = pool.map(passes, [program_of(t, t["canonical_solution"])
                                  for t in list(tasks.values())[:2]])
        if not all(known):
            parser.exit(1, "pass_rate.py: known solutions fail in the sandbox: "
                           "is /usr/bin/python3 there?\n")
        answers = [a for a in rows(args.answers) if a["task_id"] in tasks]
        results = pool.map(passes, [program_of(tasks[a["task_id"]],
                                               a["answer"]) for a in answers])
        by_form = defaultdict(lambda: defaultdict(list))
        exact = defaultdict(int)
        for answer, passed in zip(answers, results):
            function = "/".join(answer["task_id"].split("/")[:3])
            by_form[answer["form"]][function].append(passed)
            exact[answer["form"]] += answer["right"]
    for form, groups in by_form.items():
        n = sum(map(len, groups.values()))
        share = sum(map(sum, groups.values())) / n
        low, high = interval(groups)
        print(f"{form:7} {n} lines: pass {share:6.1%} [{low:.1%}, {high:.1%}]"
              f", exact {exact[form] / n:6.1%}")


if __name__ == "__main__":
    main()
