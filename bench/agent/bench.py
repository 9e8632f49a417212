#!/usr/bin/env python3
"""bench.py - the tasks of bench/agent with Harbor and the real Codex: rewards, and for each task's
turns the new tokens, the cached tokens, and the time.

    bench/agent/bench.py [--harbor PROGRAM] [--only NAME] [-m MODEL | --url URL] [--model-id NAME]

Without a model the answers are recorded (`cerium serve --replay`): that only shows that harness,
agent, server and tests fit together.  With -m FILE a server with that model is started; with --url
a running one is used, without its log.

First run Harbor's own agents: `nop` must score 0 on every task, and `oracle`, which runs the
author's solution, 1."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TASKS = HERE / "tasks"
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "clients")]

import room  # noqa: E402
import turns  # noqa: E402
from harness import CLIENTS, NODE_BIN, Server  # noqa: E402

CODEX = json.dumps({"features": {"plugins": False, "multi_agent": False, "goals": False},
                    "web_search": "disabled", "analytics": {"enabled": False}})
CONTEXT = 32768


def last_word(*command):
    said = subprocess.run(command, capture_output=True, text=True).stdout.split()
    return said[-1] if said else "unknown"


def harbor(args, agent, path, *more):
    """Run an agent on a task, or a folder of them: {task: (reward or None, why there is none)}."""
    env = {**os.environ, "PYTHONPATH": str(HERE), "CERIUM_ROOM_NODE": os.path.dirname(NODE_BIN),
           "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    env["OPENAI_API_KEY"] = env.get("CERIUM_API_KEY") or "none"
    rewards = {}
    with tempfile.TemporaryDirectory(prefix="cerium-bench-") as out:
        done = subprocess.run(
            [args.harbor, "run", "-p", str(path), "-a", agent, "-e", "harbor_room:HarborRoom", "-n",
             "1", "-o", out, "-q", "-y", *more], env=env, capture_output=True, text=True)
        for result_path in pathlib.Path(out).glob("*/*/result.json"):
            with open(result_path) as f:
                result = json.load(f)
            found = (result["verifier_result"] or {}).get("rewards") or {}
            failed = result["exception_info"] or {}
            rewards[result["task_name"].rsplit("/", 1)[-1]] = (
                found.get("reward"), failed.get("exception_message", ""))
    if not rewards:
        raise SystemExit("harbor: %s" % (done.stdout + done.stderr).strip()[-2000:])
    return rewards


def check_judge(args, tasks):
    """The base for everything else."""
    for agent, wanted in (("nop", 0), ("oracle", 1)):
        rewards = harbor(args, agent, TASKS)
        wrong = {name: rewards.get(name) for name in tasks if rewards[name][0] != wanted}
        if wrong:
            raise SystemExit("the agent %s must score %d: %s" % (agent, wanted, wrong))
        print("%s: %d on %d of %d tasks" % (agent, wanted, len(tasks), len(tasks)), flush=True)


def codex(args, name, url):
    return harbor(args, "codex", TASKS / name, "-m", "openai/" + args.model_id, "--base-url",
                  url + "/v1", "--ak", "version=" + args.codex, "--ak", "config=" + CODEX)[name]


def server_for(args, name):
    if args.m:
        return Server(model=args.m)
    with open(TASKS / name / "replay.jsonl") as f:
        return Server(replay=[json.loads(line) for line in f], context=CONTEXT)


def do_task(args, name):
    """(reward, the reason for none, seconds, its turns or None)."""
    begin = time.monotonic()
    if args.url:
        return *codex(args, name, args.url), time.monotonic() - begin, None
    with server_for(args, name) as server:
        begin = time.monotonic()
        reward, why = codex(args, name, server.url)
        seconds = time.monotonic() - begin
        return reward, why, seconds, turns.turns_of(server.log_path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--harbor", default=str(ROOT / "build" / "harbor" / "bin" / "harbor"))
    parser.add_argument("--only", default="")
    parser.add_argument("-m")
    parser.add_argument("--url")
    parser.add_argument("--model-id", default="cerium")
    args = parser.parse_args()
    tasks = [t for t in sorted(os.listdir(TASKS)) if args.only in t]
    why = room.lacks()
    if not why and not os.path.exists(os.path.join(NODE_BIN, "codex")):
        why = "no codex in %s: make test-clients CLIENTS_ONLY=codex installs it" % CLIENTS
    if why:
        raise SystemExit("bench-agent: " + why)
    args.codex = last_word("codex", "--version")
    print("harbor %s, codex %s, %s" % (last_word(args.harbor, "--version"), args.codex,
                                       args.m or args.url or "recorded answers (the plumbing)"))
    check_judge(args, tasks)
    head = ("task", "reward", "s", "turns", "read", "cached", "said", "first ms", "turn ms")
    print("%-10s %6s %6s %6s %7s %7s %6s %9s %8s" % head)
    rewards = []
    for name in tasks:
        reward, why, seconds, seen = do_task(args, name)
        rewards.append(reward or 0)
        row = "%-10s %6s %6.1f" % (name, "-" if reward is None else "%g" % reward, seconds)
        if seen is not None:
            row += " %(turns)6d %(read)7d %(cached)7d %(said)6d %(first_ms)9.1f %(ms)8.1f" \
                % turns.sums(seen)
        print(row + (" " + " ".join(why.split())[:200] if why else ""), flush=True)
    print("mean reward %.2f of %d tasks" % (sum(rewards) / len(rewards), len(rewards)))
    sys.exit(not args.m and not args.url and min(rewards) < 1)


main()
