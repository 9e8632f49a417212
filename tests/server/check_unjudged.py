"""check_unjudged.py - a server whose watchdog lacks its grammars: the log, /health and the answer's
findings say so, and under `block` unjudged lines are held."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

import harness  # noqa: E402
from harness import Report, Server, line, wait_for  # noqa: E402
from rawsocket import RawSocket  # noqa: E402

HEAD = "Here:\n\n```python\nimport os\n\n\ndef show(path):\n"
WEAK = "    os.system('ls -l ' + path)\n"
TAIL = "```\n\nThat is all.\n"
LANGUAGES = ["python", "javascript", "typescript", "tsx", "java", "go", "c", "cpp", "php", "ruby"]


def script():
    weak = line(HEAD + WEAK + TAIL, repeat=True, last="show a folder")
    weak["corrected"] = [WEAK + TAIL] * 4
    return [weak, line("def twice(n):\n    return 2 * n\n", repeat=True, last="double it")]


def ask(server, text, guard=None):
    headers = {"X-Cerium-Guard": guard} if guard else None
    body = {"input": text, "store": False, "cerium_guard_end": "incomplete"}
    status, _, data = server.request("POST", "/v1/responses", body, headers, timeout=60)
    assert status == 200, data
    answer = json.loads(data)
    said = "".join(part["text"] for item in answer["output"] for part in item.get("content", []))
    return answer, said, answer.get("cerium", {}).get("findings", [])


def check_blind(report):
    with Server(script()) as server:
        with report.check("the log names the languages", server):
            # The log line is written after the port answers.
            wait_for(lambda: "no grammar for python, javascript" in server.log())
        with report.check("/health, too", server):
            for path in ("/health", "/health/ready", "/health/live"):
                guard = server.json("GET", path)["guard"]
                assert guard == {"on": True, "unjudged": LANGUAGES}, guard
        with report.check("under block the line is held, and the answer ends before it", server):
            answer, said, found = ask(server, "show a folder")
            assert answer["status"] == "incomplete", answer["status"]
            assert answer["incomplete_details"]["reason"] == "content_filter", answer
            assert "os.system" not in said, said
            assert [f["deed"] for f in found] == ["blocked"], found
            assert found[0]["weakness"] == "late" and found[0]["rule"] == "blind", found
            assert "no grammar" in found[0]["message"], found
            assert found[0]["language"] == "python" and found[0]["line"] == 8, found
        with report.check("a line that no rule needs to check passes", server):
            answer, said, found = ask(server, "double it")
            assert answer["status"] == "completed" and not found, (answer["status"], found)
    with Server(script(), args=["--guard", "warn"]) as server:
        with report.check("under warn it is released with a finding", server):
            answer, said, found = ask(server, "show a folder")
            assert answer["status"] == "completed" and "os.system" in said, said
            assert [(f["deed"], f["rule"]) for f in found] == [("warned", "blind")], found
    with Server(script(), args=["--guard-late", "open"]) as server:
        with report.check("so it is with --guard-late open", server):
            answer, said, found = ask(server, "show a folder")
            assert answer["status"] == "completed" and "os.system" in said, said
            assert [(f["deed"], f["rule"]) for f in found] == [("warned", "blind")], found
    with Server(script(), args=["--guard", "off"]) as server:
        with report.check("without a watchdog /health says that", server):
            assert server.json("GET", "/health")["guard"] == {"on": False, "unjudged": []}


def check_completions(report):
    """Python, by its path, after a given prefix."""
    with Server([line("    os.system('ls ' + path)\n", repeat=True)]) as server:
        with report.check("a completion is held, too", server):
            with RawSocket(server.port, timeout=30) as socket:
                socket.send_json({"type": "completion.create", "id": "a", "path": "show.py",
                                  "prefix": "import os\ndef show(path):\n"})
                events = []
                while not events or events[-1]["type"] not in ("completion.done", "error"):
                    events.append(socket.read_json())
            said = "".join(e["delta"] for e in events if e["type"] == "completion.delta")
            found = [e["finding"] for e in events if e["type"] == "completion.finding"]
            assert "os.system" not in said, said
            assert found[-1]["deed"] == "blocked" and found[-1]["rule"] == "blind", found
            assert events[-1]["reason"] == "content_filter", events[-1]


def main():
    report = Report("a watchdog without grammars")
    harness.CERIUM = os.environ["CERIUM_BLIND"]
    if not os.path.exists(harness.CERIUM):
        report.skip("a watchdog without grammars", harness.CERIUM + " was not built")
        report.end()
    check_blind(report)
    check_completions(report)
    report.end()


main()
