"""check_solve_apply.py - `cerium solve --apply`: a file that changes meanwhile is kept, and one
whose writer is killed at any moment is the old one or the new one.

    check_solve_apply.py PROGRAM

The model's variants are asked for (--ask), so this decides when the winner is known."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

CERIUM = os.path.abspath(sys.argv[1])
OLD = "def add(a, b):\n    return a - b\n"
NEW = "def add(a, b):\n    return b + a\n"
ROUNDS = 12


class Solve:
    """One that waits for its variants."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "add.py")
        with open(self.path, "w") as f:
            f.write(OLD)
        self.process = subprocess.Popen(
            [CERIUM, "solve", self.path + ":2", "--example", "add(2, 3) == 5", "--makers", "model",
             "-N", "4", "--first", "--apply", "--json", "--ask"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.asked = self.until("ask")

    def until(self, name):
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] in (name, "error"):
                assert event["event"] == name, event
                return event
        raise AssertionError("it ended before the event " + name)

    def answer(self):
        choice = {"text": "    return b + a", "finish_reason": "stop"}
        answer = {"choices": [choice] * self.asked["n"], "usage": {"completion_tokens": 5}}
        self.process.stdin.write(json.dumps(answer) + "\n")
        self.process.stdin.flush()

    def text(self):
        with open(self.path) as f:
            return f.read()


def changed(folder, change, wanted):
    """What is refused in one line, and what is there then."""
    s = Solve(folder)
    change(s.path)
    s.answer()
    said = s.until("error")["message"] if wanted else s.until("end")
    s.process.wait()
    assert s.process.returncode == (1 if wanted else 0), said
    assert not wanted or wanted in said and "\n" not in said, said
    return s


def append(path):
    with open(path, "a") as f:
        f.write("# more\n")


def replace(path):
    os.rename(path, path + ".old")
    with open(path, "w") as f:
        f.write("# another\n")


def check_changes():
    with tempfile.TemporaryDirectory() as folder:
        assert changed(folder, lambda path: None, None).text() == NEW
        assert changed(folder, append, "it changed while").text() == OLD + "# more\n"
        assert changed(folder, replace, "it changed while").text() == "# another\n"
        assert not os.path.exists(changed(folder, os.unlink, "add.py").path)
        assert not [n for n in os.listdir(folder) if n.startswith("add.py.") and
                    not n.endswith(".old")], os.listdir(folder)


def check_kills():
    """Moments from the winner's pass on, in which it is confirmed and written."""
    chosen, seen = random.Random(7), {OLD: 0, NEW: 0}
    for i in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            s = Solve(folder)
            s.answer()
            s.until("pass")
            if i % 4:
                time.sleep(chosen.random() * 0.05 * (i % 4) ** 2)
            else:
                s.process.stdout.read()  # to its end
            s.process.send_signal(signal.SIGKILL)
            s.process.wait()
            assert s.text() in seen, s.text()
            seen[s.text()] += 1
    assert seen[NEW] >= ROUNDS // 4, seen
    print("killed: %d times the old file, %d times the new one" % (seen[OLD], seen[NEW]))


check_changes()
check_kills()
