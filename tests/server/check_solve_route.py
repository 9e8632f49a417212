"""check_solve_route.py - POST /v1/solve: solutions, refusals, turns, and that nothing
is left over."""

import concurrent.futures
import contextlib
import fcntl
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from check_keys import Team  # noqa: E402
from harness import CERIUM, MODEL, PATIENCE, ROOT, Report, Server, line, wait_for  # noqa: E402

os.environ["CERIUM_RULES"] = os.path.join(ROOT, "rules")
ADD = 'def add(a, b):\n    """The sum."""\n    return a - b\n'
HOLE = "def add(a, b):\n    return none_of_these\n"
TESTS = "assert add(2, 3) == 5\nassert add(0, 7) == 7\n"
# The model writes a line that no edit makes; each variant is a choice of its own request.
SCRIPT = [line("    return b + a", repeat=True, last="def add(a, b):")]
MUTATE = {"code": ADD, "file": "add.py", "line": 3, "tests": TESTS, "makers": ["mutate"],
          "max_variants": 30}
SLOW = {**MUTATE, "tests": "import time\ntime.sleep(0.3)\nassert add(2, 3) == 'no'\n",
        "max_seconds": 500, "max_variants": 4000}

# The file as it is fails at once; every variant sleeps until it is killed.
ASLEEP = {**SLOW, "tests": "import time\nif add(2, 3) != -1:\n    time.sleep(600)\n"
                           "assert add(2, 3) == 'no'\n"}


def solve(server, want=200, body=MUTATE, **fields):
    return server.json("POST", "/v1/solve", {**body, **fields}, want=want, timeout=120)


def events(server, **fields):
    status, headers, data = server.request("POST", "/v1/solve", {**MUTATE, "stream": True,
                                                                 **fields}, timeout=120)
    assert status == 200, data
    assert headers["Content-Type"] == "text/event-stream"
    found = []
    for block in data.decode().strip().split("\n\n"):
        name, said = block.split("\n")
        found.append(json.loads(said[len("data: "):]))
        assert name == "event: " + found[-1]["event"], block
    return found


def parents_below(pid):
    """All descendants of this process, and the parent of each."""
    parents = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(path) as f:
            words = f.read().rsplit(")", 1)[1].split()
            parents[int(path.split("/")[2])] = (int(words[1]), words[0])
    found, more = set(), {pid}
    while more:
        more = {p for p, (parent, state) in parents.items() if parent in more and state != "Z"}
        found |= more
    return {p: parents[p][0] for p in found}


def below(pid):
    return set(parents_below(pid))


def is_clean(server):
    return not below(server.process.pid) and not glob.glob(os.environ["TMPDIR"] + "/cerium-solve-*")


@contextlib.contextmanager
def running(server, key=None, stream=True, order=SLOW):
    """A running one, whose client leaves at the end."""
    body = json.dumps({**order, "stream": stream}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        s.settimeout(120 * PATIENCE)
        s.sendall(b"POST /v1/solve HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n"
                  % (len(body), b"Authorization: Bearer %s\r\n" % key.encode() if key else b"")
                  + body)
        said = b""
        if not stream:
            wait_for(lambda: len(below(server.process.pid)) > 1)
        while stream and b"event: progress" not in said:
            more = s.recv(65536)
            assert more, said
            said += more
        yield s


def check_found(report, server):
    with report.check("a passing variant, as one object", server):
        end = solve(server)
        assert end["status"] == "found" and end["text"] == ADD.replace("a - b", "a + b"), end
        assert "-    return a - b\n+    return a + b\n" in end["diff"], end
        assert end["nearest"] is None and end["model"] is None and not end["applied"], end
        assert end["tested"] >= end["passed"] >= 1, end
    with report.check("the same as a stream, its events in their order", server):
        found = events(server)
        names = [one["event"] for one in found]
        assert names[0] == "begin" and names[-1] == "end" and "pass" in names, names
        assert names.count("begin") == names.count("end") == 1, names
        assert found[0]["sandbox"] == "strict" and found[-1]["status"] == "found", found
        assert found[-1]["text"] == solve(server)["text"]
    with report.check("examples, doctests, hidden tests, other places, other languages", server):
        def fixed(**fields):
            body = {k: v for k, v in MUTATE.items() if fields.get(k, v) is not None}
            body.update((k, v) for k, v in fields.items() if v is not None)
            end = solve(server, body=body)
            assert end["status"] == "found" and "a + b" in end["text"], end
        fixed(tests=None, examples=["add(2, 3) == 5", "add(1, 1) == 2"])
        fixed(tests=None, doctest=True, code=ADD.replace("The sum.", "\n    >>> add(2, 3)\n    5\n"
                                                         "    "), line=None, function="add")
        fixed(tests="assert add(0, 0) == 0\nassert add(2, 2) == 4\n",
              hidden="assert add(2, 3) == 5\n")
        fixed(file=None, language="python", line=2, last_line=3)
        fixed(file="add.c", line=1, code="int add(int a, int b) { return a - b; }\n", tests=None,
              examples=["add(2, 3) == 5"])
    with report.check("no solution: the tries, and the nearest one", server):
        end = solve(server, tests=TESTS + "assert add(1, 1) == 7\n", max_variants=40)
        assert end["status"] == "none" and "text" not in end and "index" not in end, end
        assert end["made"] <= 40 and end["verdicts"].get("fail"), end
        assert end["nearest"]["passed"] == 2 and "+    return" in end["diff"], end
    with report.check("it ends when its time is over", server):
        assert solve(server, body=SLOW, max_seconds=1)["status"] == "stopped"


def check_model(report, server):
    ask = {"code": HOLE, "line": 2, "makers": ["model"], "max_variants": 30}
    with report.check("the model's variants: its answers are of class batch, and counted", server):
        before = server.metric('cerium_answers_total{class="batch"}')
        end = solve(server, **ask)
        assert end["status"] == "found" and "return b + a" in end["text"], end
        assert end["tokens"] > 0 and end["model"] is None, end
        assert server.metric('cerium_answers_total{class="batch"}') > before
        for other in ("completion", "edit", "turn"):
            assert server.metric('cerium_answers_total{class="%s"}' % other) == 0, other
        assert solve(server, **ask)["text"] == end["text"]
    with report.check("by the name of a model", server):
        assert solve(server, **ask, model="cerium-line")["status"] == "found"


# (fields, part of the message)
BAD = [
    ({"code": None}, "code"), ({"code": 7}, "code"), ({"code": ""}, "line 3"),
    ({"file": None}, "file"), ({"file": "../add.py"}, "file"), ({"file": "/add.py"}, "file"),
    ({"file": "-add.py"}, "file"), ({"file": "a:1.py"}, "file"), ({"file": "add.txt"}, "file"),
    ({"file": ".py"}, "file"), ({"file": "a" * 200 + ".py"}, "file"),
    ({"language": "python"}, "one of both"), ({"file": None, "language": "cobol"}, "language"),
    ({"line": 0}, "line"), ({"line": 2.5}, "line"), ({"line": "3"}, "line"),
    ({"line": 99}, "line 99"), ({"line": None, "column": 3}, "line"),
    ({"last_line": 1}, "last_line"), ({"last_line": 3, "column": 2}, "not both"),
    ({"function": "add"}, "function"), ({"line": None, "function": "nobody"}, "nobody"),
    ({"line": None, "function": "-x"}, "function"),
    ({"tests": None}, "tests"), ({"tests": None, "examples": []}, "tests"),
    ({"doctest": True}, "tests"), ({"doctest": 1}, "doctest"), ({"examples": [7]}, "examples"),
    ({"examples": "add(1, 1) == 2"}, "examples"), ({"examples": ["1"] * 65}, "examples"),
    ({"tests": "assert add(2, 2) == 0\n"}, "pass already"),
    ({"tests": "import nothing_of_this_name\n"}, "cannot run"),
    ({"max_variants": 0}, "max_variants"), ({"max_variants": 5000}, "max_variants"),
    ({"max_seconds": 0}, "max_seconds"), ({"max_seconds": "1"}, "max_seconds"),
    ({"max_seconds": 601}, "max_seconds"), ({"seed": -1}, "seed"), ({"seed": 1 << 70}, ""),
    ({"makers": "mutate"}, "makers"), ({"makers": []}, "makers"),
    ({"makers": ["repair"]}, "makers"),
    ({"makers": ["mutate", "mutate"]}, "makers"), ({"makers": ["magic"]}, "makers"),
    ({"stream": "yes"}, "stream"), ({"model": 7}, "model"), ({"model": "m" * 100}, "model"),
    ({"command": "true"}, "command"), ({"pytest": "-q"}, "pytest"), ({"root": "/"}, "root"),
]


def check_bad(report, server):
    with report.check("invalid requests are refused with the reason", server):
        for fields, says in BAD:
            body = {k: v for k, v in {**MUTATE, **fields}.items() if v is not None}
            error = solve(server, want=400, body=body)["error"]
            assert says in error["message"] and "\n" not in error["message"], (fields, error)
        for body in ("", "[]", "{", '{"code":"a","code":"b"}', '{"code":"\\u0000"}'):
            assert server.request("POST", "/v1/solve", body)[0] == 400, body
        assert server.request("POST", "/v1/solve", {**MUTATE, "code": "#" * (5 << 20)})[0] == 413
        assert server.request("GET", "/v1/solve")[0] == 405
    with report.check("a bad request with stream gets no stream", server):
        assert solve(server, want=400, stream=True, line=99)["error"]["code"] == "invalid_value"


def check_turns(report, server):
    with report.check("two at a time; completions are answered meanwhile", server):
        with running(server), running(server):
            status, headers, _ = server.request("POST", "/v1/solve", MUTATE)
            assert status == 429 and int(headers["Retry-After"]) > 0, status
            server.json("POST", "/infill", {"input_prefix": "int f(", "input_suffix": "",
                                            "n_predict": 4})
            with open("/proc/%d/stat" % server.process.pid) as f:
                ours = int(f.read().rsplit(")", 1)[1].split()[16])
            for pid in below(server.process.pid):
                with contextlib.suppress(OSError), open("/proc/%d/stat" % pid) as f:
                    assert int(f.read().rsplit(")", 1)[1].split()[16]) > ours, pid
    with report.check("a client that leaves ends it: no process, no file", server):
        wait_for(lambda: is_clean(server))
        assert solve(server)["status"] == "found"
        wait_for(lambda: is_clean(server))
        with running(server, stream=False):
            pass
        wait_for(lambda: is_clean(server))
    with report.check("a client that leaves ends the running try, and no other begins", server):
        with running(server, order=ASLEEP):
            before = below(server.process.pid)
        begun = set()

        def is_over():
            now = parents_below(server.process.pid)
            begun.update(p for p, parent in now.items() if p not in before and parent in before)
            # One may begin before the server notices; each of these tries takes seconds.
            assert len(begun) <= 1, "tries begin after the client has left: %s" % begun
            return is_clean(server)
        wait_for(is_over)
    with report.check("one whose process is killed fails, and is removed", server):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            asked = pool.submit(solve, server, want=500, body=SLOW)
            wait_for(lambda: len(below(server.process.pid)) > 2)
            os.kill(min(below(server.process.pid)), signal.SIGKILL)
            assert asked.result()["error"]["code"] == "solve_failed"
        wait_for(lambda: is_clean(server))


def check_ends(report):
    with Server(args=["--solve", "--drain", "0"]) as server:
        with report.check("the server ends, with all its processes", server):
            with running(server):
                pids = below(server.process.pid)
                assert pids and server.stop() == 0
                wait_for(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in pids))
            assert not glob.glob(os.environ["TMPDIR"] + "/cerium-solve-*")
        server.start()
        with report.check("the same when it is killed", server):
            with running(server):
                pids = below(server.process.pid)
                server.process.kill()
                server.process.wait()
                wait_for(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in pids))
        with report.check("what it left is removed at the next start, and nothing else", server):
            check_sweep(server)


def check_sweep(server):
    left, = glob.glob(os.environ["TMPDIR"] + "/cerium-solve-*")
    tmp, where = tempfile.mkdtemp, os.environ["TMPDIR"]
    others = {name: tmp("", "cerium-solve-", where) for name in ("locked", "new", "open", "full")}
    others["other"] = tmp("", "cerium-other-", where)
    os.chmod(others["open"], 0o755)
    os.mkdir(others["full"] + "/folder")
    link = where + "/cerium-solve-link"
    os.symlink(others["other"], link)
    for folder in others.values():
        with open(folder + "/a.py", "w") as f:
            f.write("a = 1\n")
    old = [left, *(folder for name, folder in others.items() if name != "new")]
    for folder in old:
        os.utime(folder, (1, 1))
    lock = os.open(others["locked"], os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        server.start()
        wait_for(lambda: not os.path.exists(left) and os.listdir(others["full"]) == ["folder"])
        assert server.request("GET", "/health")[0] == 200
        kept = {name for name, folder in others.items() if os.path.exists(folder + "/a.py")}
        assert kept == {"locked", "new", "open", "other"} and os.path.islink(link), kept
    finally:
        os.close(lock)
        os.unlink(link)
        for folder in others.values():
            shutil.rmtree(folder)


def check_keys(report):
    team = Team()
    steady, other, few = team.add("a", "steady"), team.add("b", "steady"), team.add("c", "few")
    ask = {**MUTATE, "code": HOLE, "line": 2, "makers": ["model"], "max_variants": 200,
           "tests": "assert add(2, 3) == 'no'\n"}

    def asked(key, body=MUTATE):
        status, _, data = server.request("POST", "/v1/solve", body,
                                         {"Authorization": "Bearer " + key}, timeout=120)
        return status, json.loads(data)

    with team.serve("--solve") as server:
        with report.check("no key, no solve", server):
            assert server.request("POST", "/v1/solve", MUTATE)[0] == 401
        with report.check("a key has one at a time, and another key gets a place", server):
            with running(server, key=steady):
                assert asked(steady)[0] == 429
                status, end = asked(other)
                assert status == 200 and end["status"] == "found", end
        with report.check("over its tier's limit the model generates no more, and it says so",
                          server):
            status, end = asked(few, ask)
            assert status == 200 and end["status"] == "none", end
            assert "requests per minute in tier few" in end["model"], end
            assert 0 < end["made"] < 200, end
        with report.check("the model's tokens are in the key's usage", server):
            assert server.stop() == 0
            used = team.used("c")
            assert used["requests"] == 3 and used["output_tokens"] >= end["tokens"] > 0, used


def refused(**environment):
    done = subprocess.run([CERIUM, "serve", "-m", MODEL, "--port", "0", "--solve"], cwd=ROOT,
                          env={**os.environ, **environment}, capture_output=True, text=True,
                          timeout=60 * PATIENCE)
    return done.returncode, done.stderr


def main():
    report = Report("solve_route")
    folder = tempfile.TemporaryDirectory(prefix="cerium-route-")
    os.environ["TMPDIR"] = folder.name
    with report.check("without a strict sandbox the server does not start, and one line says why"):
        status, said = refused(PATH="/nonexistent")
        assert status == 1 and said.count("\n") == 1 and "--solve: " in said, (status, said)
    with Server() as server:
        with report.check("off by default", server):
            error = solve(server, want=403)["error"]
            assert error["code"] == "solve_not_allowed" and "--solve" in error["message"], error
    try:
        server = Server(replay=SCRIPT, args=["--solve"])
    except AssertionError as why:
        assert "--solve: " in str(why), why
        report.skip("POST /v1/solve", "no sandbox here: %s" % str(why)[:300])
        report.end()
    with server:
        check_found(report, server)
        check_model(report, server)
        check_bad(report, server)
        check_turns(report, server)
    check_ends(report)
    check_keys(report)
    report.end()


if __name__ == "__main__":
    main()
