"""agent_tasks.py - the tasks of bench/agent, judged by their own tests: untouched, each scores 0,
with its author's solution 1, and with the real Codex and recorded answers 1.

This is the short form of `make bench-agent`, without its harness."""

import json
import os
import shlex
import sys
import tempfile

import codex
import harness
from harness import MODEL_ID, ROOT, Report, Server

AGENT = os.path.join(ROOT, "bench", "agent")
sys.path.insert(0, AGENT)

import room  # noqa: E402
import turns  # noqa: E402

TASKS = sorted(os.listdir(os.path.join(AGENT, "tasks")))
NODE = os.path.dirname(harness.NODE_BIN)


class Started(room.Room):
    """A room that exists for a block."""

    def __init__(self, name):
        super().__init__(tempfile.mkdtemp(prefix="cerium-room-"),
                         os.path.join(AGENT, "tasks", name), node=NODE)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()


def check_judge(report, name):
    with report.check("%s: untouched it scores 0" % name), Started(name) as r:
        reward, said = r.judge()
        assert reward == 0 and "no reward" not in said, said
    with report.check("%s: its author's solution scores 1" % name), Started(name) as r:
        status, out = r.solve()
        reward, said = r.judge()
        assert reward == 1, (status, out, said)


def run_codex(r, server):
    home = "/installed-agent/codex-home"
    os.makedirs(r.path(home))
    with open(r.path(home + "/config.toml"), "w") as f:
        f.write(codex.CONFIG % {"url": server.url, "model": MODEL_ID, "websockets": "true",
                                "more": ""})
    with open(os.path.join(r.task, "instruction.md")) as f:
        instruction = f.read()
    return r.run("codex exec --skip-git-repo-check --json -- %s" % shlex.quote(instruction),
                 env={"CODEX_HOME": home, "CERIUM_KEY": codex.KEY}, seconds=harness.HANG_S)


def check_codex(report, name):
    with open(os.path.join(AGENT, "tasks", name, "replay.jsonl")) as f:
        script = [json.loads(line) for line in f]
    with Server(replay=script, context=32768, key=codex.KEY) as server, Started(name) as r:
        with report.check("%s: the real Codex solves it, with recorded answers" % name, server):
            status, out = run_codex(r, server)
            reward, said = r.judge()
            assert status == 0 and reward == 1, (said[-300:], out[-600:])
        with report.check("%s: only a turn's new tokens are read" % name, server):
            seen = [t for t in turns.turns_of(server.log_path) if t["said"]]
            assert len(seen) == 3, seen
            for before, after in zip(seen, seen[1:]):
                assert after["cached"] > 0.9 * before["prompt"], seen


def main():
    report = Report("agent_tasks")
    why = room.lacks()
    if why:
        report.skip("the tasks of bench/agent", why)
        report.end()
    for name in TASKS:
        check_judge(report, name)
    if not report.missing("codex"):
        for name in TASKS:
            check_codex(report, name)
    report.end()


if __name__ == "__main__":
    main()
