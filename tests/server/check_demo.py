"""check_demo.py - what `make run` shows a new user: a completion as it streams, its speed, and the
address to open, whatever the model writes; and what is shown unasked."""

import contextlib
import http.client
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from harness import CERIUM, MODEL, ROOT, Report, Server, free_port, line, wait_for  # noqa: E402
from rawsocket import RawSocket  # noqa: E402

SPEED = re.compile(r"^first token after [0-9.]+ ms, (\d+) tokens at (\d+) tokens/s, over ws://",
                   re.M)
PLACES = 3  # of src/server/demo.c


@contextlib.contextmanager
def started(command, port):
    """(output, error) of a server once it has printed the address to open."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("out", "err")]
        with open(paths[0], "wb") as out, open(paths[1], "wb") as err:
            process = subprocess.Popen(command, stdout=out, stderr=err, cwd=ROOT)
        try:
            def read():
                assert process.poll() is None, "the server ended: " + open(paths[1]).read()
                texts = [open(path, errors="replace").read() for path in paths]
                return texts if re.search(r"\nOpen http.*\n$", texts[0]) else None

            yield wait_for(read, 60)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", "/health")
            assert connection.getresponse().status == 200, "it does not continue to serve"
            connection.close()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def serve(text, replay=None):
    port = free_port()
    command = [CERIUM, "serve", "-m", MODEL, "--port", str(port), "--demo", text]
    return port, command + (["--replay", replay] if replay else [])


def check_sentence(out, port):
    want = "\nOpen http://127.0.0.1:%d in a browser; Ctrl+C here stops cerium.\n" % port
    assert out.endswith(want), out


def make_run_text():
    """The text of `make run`: the recipe is expanded by make itself and by a shell."""
    recipe = subprocess.run(["make", "-n", "--no-print-directory", "run"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout
    serving = [text for text in recipe.splitlines() if "./cerium serve --demo" in text]
    assert len(serving) == 1, recipe
    printed = serving[0].replace("./cerium serve --demo", "printf %s")
    return subprocess.run(printed, shell=True, cwd=ROOT, check=True, capture_output=True,
                          text=True).stdout


def check_bundled(report):
    with report.check("make run: the bundled model completes code"):
        text = make_run_text()
        port, command = serve(text)
        with started(command, port) as (out, err):
            assert out.startswith(text), out
            added = out[len(text):].split("\n\nOpen ")[0]
            assert len(added.split()) >= 3, "it adds %r" % added
            assert "nothing to add" not in out, out
            tokens, speed = SPEED.search(err).groups()
            assert int(tokens) > 8 and int(speed) > 0, err
            check_sentence(out, port)


def script(folder, outputs):
    path = os.path.join(folder, "replay.jsonl")
    with open(path, "w") as f:
        f.writelines(json.dumps(line(text)) + "\n" for text in outputs)
    return path


def check_others(report):
    with tempfile.TemporaryDirectory() as folder:
        with report.check("a model with nothing to add: it says so, and another place is shown"):
            port, command = serve("int x", script(folder, ["\n", "(self, other):\n        pass"]))
            with started(command, port) as (out, err):
                assert "nothing to add" in out and "int x" in out, out
                assert "    def __sub__(self, other):\n        pass" in out, out
                assert SPEED.search(err), err
                check_sentence(out, port)
        with report.check("blanks alone count as nothing"):
            port, command = serve("int x", script(folder, ["  \n \n", " ", "n = 0;;)"]))
            with started(command, port) as (out, err):
                assert out.count("nothing to add") == 2 and "for (n = 0;;)" in out, out
                check_sentence(out, port)
        with report.check("blanks before code are shown, after the text itself"):
            port, command = serve("int x", script(folder, ["\n\n   = 4;"]))
            with started(command, port) as (out, err):
                assert out.startswith("int x\n\n   = 4;\n"), out
        with report.check("nothing at any place: it says so and what to try"):
            port, command = serve("int x", script(folder, ["\n"] * (PLACES + 1)))
            with started(command, port) as (out, err):
                assert "adds nothing at any of %d places" % (PLACES + 1) in out, out
                assert "cerium pull --list" in out, out
                check_sentence(out, port)


# A place that the bundled model is sure of, and one that it is not.
SURE = ("package main\n\nimport \"os\"\n\n// read returns a file's content.\n"
        "func read(path string) ([]byte, error) {\n\tdata, err := os.ReadFile(path)\n\tif err",
        "\n\t\treturn nil, err\n\t}\n\treturn data, nil\n}\n", "read.go")
UNSURE = ("static void clear(int *values, int n)\n{\n    int i;\n\n    for (i = 0;", "", "clear.c")


def complete(socket, place, **fields):
    """(text, last event) of an inline completion."""
    prefix, suffix, path = place
    socket.send_json({"type": "completion.create", "id": "a", "prefix": prefix, "suffix": suffix,
                      "path": path, **fields})
    said = ""
    while True:
        event = socket.read_json()
        if event["type"] in ("completion.done", "error"):
            return said, event
        said += event.get("delta", "")


def check_terminal(report):
    """On a terminal the log and the text share one screen."""
    port, command = serve(make_run_text())
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT)
    os.close(theirs)
    seen = b""
    try:
        with report.check("on a terminal no event of the log is printed within the text"):
            while b"here stops cerium." not in seen:
                seen += os.read(ours, 4096)
            text = seen[seen.index(make_run_text()[:10].encode()):]
            assert b"tokens/s" in text and b"event=" not in text, text
        with report.check("and afterwards requests are logged"):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", "/nowhere")
            connection.getresponse().read()
            while b"path=\"/nowhere\"" not in seen:
                seen += os.read(ours, 4096)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        os.close(ours)


def check_unasked(report):
    """Unasked completions are shown only when they are probably right."""
    with Server() as server, RawSocket(server.port, timeout=60) as socket:
        def infill(place, **fields):
            return server.json("POST", "/infill", {"input_prefix": place[0], "n_predict": 64,
                                                   "input_suffix": place[1], **fields})["content"]
        with report.check("the bundled model says that it only completes", server):
            assert server.json("GET", "/v1/models")["data"][0]["completes_only"] is True
        with report.check("where it is sure, a completion is shown", server):
            said, end = complete(socket, SURE)
            assert said.strip() and end["confidence"] >= 0.35, (said, end)
            assert infill(SURE).strip()
        with report.check("the page opens at that place", server):
            _, _, data = server.request("GET", "/app.js")
            page = data.decode().split("const SAMPLE = `")[1].split("`;")[0].replace("\\t", "\t")
            assert page == SURE[0] + "^" + SURE[1], page
        with report.check("where it is not, nothing is, and the reason says so", server):
            said, end = complete(socket, UNSURE)
            assert said == "" and end["reason"] == "unsure", (said, end)
            assert infill(UNSURE) == ""
        with report.check("a request may turn the bound off", server):
            said, end = complete(socket, UNSURE, min_confidence=0)
            assert said.strip() and end["reason"] != "unsure", (said, end)
            assert infill(UNSURE, min_confidence=0).strip()
    with Server(args=["--min-confidence", "0"]) as server:
        with report.check("so may the server's option", server):
            with RawSocket(server.port, timeout=60) as socket:
                assert complete(socket, UNSURE)[0].strip()


def main():
    report = Report("the first completion")
    check_bundled(report)
    check_others(report)
    check_terminal(report)
    check_unasked(report)
    report.end()


main()
