"""check_honest.py - `cerium bench --honest` against a server whose answers are recorded: what
counts as done, what is asked again and with which words, and what is refused."""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from harness import CERIUM, HANG_S, MODEL, Report, Server, free_port, line  # noqa: E402
from harness import stretched_model  # noqa: E402

ADD = "def add(a, b):\n    return a - b\n"
TWICE = 'def twice(text):\n    return ""\n'
TASKS = [
    {"id": "add", "language": "python", "file": "add.py", "kind": "repair", "source": ADD,
     "at": [26, 31], "tests": "assert add(2, 3) == 5\nassert add(0, 7) == 7\n"},
    {"id": "twice", "language": "python", "file": "twice.py", "kind": "fill", "source": TWICE,
     "at": [28, 30], "tests": 'assert twice("ab") == "abab", "not twice"\n'},
]


def fenced(text):
    return "Here it is.\n\n```python\n%s```\n" % text


# The fast model fills the place, which ends where its line does.  The deep one says the file anew,
# and is told why that failed.
SCRIPT = [
    line("a * b\n    rubbish(", model="fast", last="def add", nth=1),
    line("a + b\n    rubbish(", model="fast", last="def add", nth=2),
    line("text", model="fast", last="def twice", repeat=True),
    line(fenced(ADD.replace("-", "+")), model="deep", last="This is the file add.py"),
    line("I cannot say.", model="deep", last="This is the file twice.py"),
    line(fenced(TWICE.replace('""', "text")), model="deep", last="That fails: the answer has no"),
    line(fenced(TWICE.replace('""', "2 * text")), model="deep", last="not twice"),
]


def chatting_model(folder):
    """The bundled model, as if it had been made to chat."""
    with open(stretched_model(16384), "rb") as f:
        data = f.read()
    assert data.count(b"cerium.completes_only") == 1
    path = os.path.join(folder, "chats.gguf")
    with open(path, "wb") as f:
        f.write(data.replace(b"cerium.completes_only", b"cerium.completes_less"))
    return path


def write(folder, name, tasks):
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        f.writelines((task if isinstance(task, str) else json.dumps(task)) + "\n"
                     for task in tasks)
    return path


def bench(*words):
    done = subprocess.run([CERIUM, "bench", *words], capture_output=True, text=True,
                          timeout=HANG_S, env={**os.environ, "CERIUM_API_KEY": ""})
    return done.returncode, done.stdout, done.stderr


def check_done(report, server, path):
    words = ["--honest", path, "--server", server.url, "--fast", "fast", "--deep", "deep"]
    with report.check("what is done, by how many tries", server):
        status, out, err = bench(*words, "--json")
        assert status == 0, err
        all_of = json.loads(out)
        told = [(t["id"], [(t[tier]["done"], t[tier]["tries"]) for tier in ("fast", "deep")])
                for t in all_of["tasks"]]
        assert told == [("add", [(True, 2), (True, 1)]), ("twice", [(False, 4), (True, 3)])], told
        assert (all_of["fast"]["done"], all_of["fast"]["tries"]) == (1, 6), all_of
        assert (all_of["deep"]["done"], all_of["deep"]["tries"]) == (2, 4), all_of
        assert all_of["done_by_both"] == 1 and all_of["in_turn"]["done"] == 2, all_of
    with report.check("tokens and seconds add up", server):
        for tier in ("fast", "deep"):
            of = [t[tier] for t in all_of["tasks"]]
            assert all_of[tier]["tokens"] == sum(t["tokens"] for t in of) > 0, all_of
            assert abs(all_of[tier]["seconds"] - sum(t["seconds"] for t in of)) < 1e-6, all_of
            assert 0 < all_of[tier]["seconds_of_both"] <= all_of[tier]["seconds"], all_of
            # Tests take time, too, and that is not the answers'.
            assert all_of[tier]["tokens_per_s"] * all_of[tier]["seconds"] > all_of[tier]["tokens"]
        turn = all_of["tasks"][0]["fast"]["seconds"] + all_of["tasks"][1]["fast"]["seconds"] \
            + all_of["tasks"][1]["deep"]["seconds"]
        assert abs(all_of["in_turn"]["seconds"] - turn) < 1e-6, all_of
    with report.check("why the last try failed", server):
        assert "not twice" in all_of["tasks"][1]["fast"]["failure"], all_of
        assert all_of["tasks"][0]["fast"]["failure"] is None, all_of


def check_table(report, folder):
    path = write(folder, "one.jsonl", TASKS[:1])
    args = ["--model-id", "fast", "--models", "deep=" + chatting_model(folder)]
    with Server(replay=SCRIPT, args=args) as server:
        with report.check("the table, and a cap of tries", server):
            status, out, err = bench("--honest", path, "--server", server.url + "/", "--fast",
                                     "fast", "--deep", "deep", "--tries", "1")
            assert status == 0, err
            rows = [row.split() for row in out.splitlines()]
            one = next(row for row in rows if row and row[0] == "add")
            assert (one[1], one[2], one[5], one[6]) == ("no", "1", "done", "1"), out
            assert ["tasks", "done", "of", "1", "0", "1"] in rows, out
            assert "then the deep one for the rest: 1 of 1" in out, out
            assert "no task is done by both" in out, out


# (a line of the set, what is said of it)
BAD = [
    ("{", "no JSON object"), ("[]", "no JSON object"), ("7", "no JSON object"),
    ({**TASKS[0], "id": None}, "must be texts"), ({**TASKS[0], "tests": 7}, "must be texts"),
    ({**TASKS[0], "source": "a\0b"}, "must be texts"),
    ({**TASKS[0], "at": [3, 2]}, "`at`"), ({**TASKS[0], "at": [0, 99]}, "`at`"),
    ({**TASKS[0], "at": [-1, 2]}, "`at`"), ({**TASKS[0], "at": 3}, "`at`"),
    ({**TASKS[0], "language": "cobol"}, "python, javascript or c"),
    ({**TASKS[0], "tests": "assert add(3, 2) == 1\n"}, "pass already"),
]


def check_bad(report, server, folder, path):
    def refused(status, says, *words):
        got, out, err = bench(*words)
        assert got == status and says in err and not out and err.count("\n") == 1, \
            (words, got, out, err)

    where = ["--server", server.url]
    models = ["--fast", "fast", "--deep", "deep"]
    with report.check("lines that are no task, with their number", server):
        for task, says in BAD:
            bad = write(folder, "bad.jsonl", ["", task])
            refused(1, says, "--honest", bad, *where, *models)
            refused(1, "bad.jsonl:2: ", "--honest", bad, *where, *models)
        refused(1, "no task", "--honest", write(folder, "none.jsonl", [""]), *where, *models)
    with report.check("models and servers that are not there", server):
        refused(2, "no model none; it has: fast, deep", "--honest", path, *where, "--fast", "none",
                "--deep", "deep")
        nobody = "http://127.0.0.1:%d" % free_port()
        refused(1, nobody, "--honest", path, "--server", nobody, *models)
        refused(2, "give an address", "--honest", path, "--server", "localhost", *models)
    with report.check("options that do not fit", server):
        refused(2, "--fast and --deep", "--honest", path, *where, "--fast", "fast")
        refused(2, "exclude each other", "--honest", path, "--quality", path, *models)
        refused(1, "nowhere.jsonl", "--honest", "nowhere.jsonl", *where, *models)


def main():
    report = Report("honest")
    folder = tempfile.TemporaryDirectory(prefix="cerium-honest-")
    path = write(folder.name, "tasks.jsonl", TASKS)
    args = ["--model-id", "fast", "--models", "deep=" + chatting_model(folder.name)]
    with Server(replay=SCRIPT, args=args, model=MODEL) as server:
        status, _, err = bench("--honest", write(folder.name, "bad.jsonl", [BAD[-1][0]]),
                               "--server", server.url, "--fast", "fast", "--deep", "deep")
        if "pass already" not in err:
            report.skip("bench --honest", "no sandbox here: %s" % err.strip()[:300])
            report.end()
        check_bad(report, server, folder.name, path)
        check_done(report, server, path)
    check_table(report, folder.name)
    report.end()


if __name__ == "__main__":
    main()
