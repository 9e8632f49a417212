"""check_guard.py - the watchdog in the server: what it retracts in streams, tool calls and
several choices, who may change it, and what it reports."""

import ast
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from harness import CERIUM, PATIENCE, Report, Server, call, line  # noqa: E402

HEAD = "Here:\n\n```python\nimport os\n\n\ndef show(path):\n"
WEAK = "    os.system('ls -l ' + path)\n"
SAFE = "    print(os.listdir(path))\n"
TAIL = "```\n\nThat is all.\n"
# A line that nothing can replace: the class needs a base, and a block follows.
STUCK = "    class Shown(exec(path)):\n"
FORM = "import subprocess\n    subprocess.call([\"ls\", \"-l\", path])\n"
BOUND = "import sqlite3\n\n\ndef find(cur, name):\n    %s\n    return cur.fetchone()\n"
CONFIG = """
[tier strict]
guard = block
[tier told]
guard = command=warn
[tier loose]
guard-loosens = yes
"""
WRITE = {"type": "function", "name": "write", "strict": False, "parameters": {
    "type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
    "required": ["path", "text"]}}
PATCH = {"type": "custom", "name": "apply_patch", "description": "edits files"}
FILE = "import os\n\n\ndef show(path):\n"
SCHEMA = {"type": "object", "additionalProperties": False, "required": ["language", "code"],
          "properties": {"language": {"enum": ["python"]}, "code": {"type": "string"}}}
# A function of Python whose body is one call.
LARK = r"""
start: "import os\n\n\ndef show(path):\n" body
body: "    " NAME "." NAME "(" ARG ")\n" | "    print(" NAME "." NAME "(" ARG "))\n"
NAME: /[a-z]+/
ARG: /[^()\n]+/
"""
SNIPPET = {"type": "custom", "name": "snippet", "description": "a function",
           "format": {"type": "grammar", "syntax": "lark", "definition": LARK}}


def script():
    told = line(HEAD + WEAK + TAIL, repeat=True, last="show a folder")
    told["corrected"] = [SAFE + TAIL]
    stubborn = line(HEAD + WEAK + TAIL, repeat=True, last="insist")
    stubborn["corrected"] = [WEAK + TAIL] * 4
    remarks = line(HEAD + WEAK + TAIL, repeat=True, last="remark")
    remarks["corrected"] = ["    # CWE-78: no shell here\n" + SAFE + TAIL, SAFE + TAIL]
    stuck = line(HEAD + STUCK + TAIL, repeat=True, last="be stuck")
    stuck["corrected"] = [STUCK + TAIL] * 4
    mule = line("I write it.\n" + call("write", path="a.py", text=FILE + STUCK),
                repeat=True, last="write it anyhow")
    mule["corrected"] = [json.dumps(STUCK)[1:-1] + '"}}\n</tool_call>'] * 4
    shape_mule = line(json.dumps({"language": "python", "code": FILE + STUCK}), repeat=True,
                      last="in a shape anyhow")
    shape_mule["corrected"] = [json.dumps(STUCK)[1:-1] + '"}'] * 4
    tool = line(call("write", path="a.py", text=FILE + WEAK), repeat=True, last="write it")
    tool["corrected"] = [json.dumps(SAFE)[1:-1] + '"}}\n</tool_call>']
    shaped = line(json.dumps({"language": "python", "code": FILE + WEAK}), repeat=True,
                  last="in a shape")
    shaped["corrected"] = [json.dumps(SAFE)[1:-1] + '"}']
    # Nothing is recorded after the halt: a line is inserted there, in the same shape.
    free = line(json.dumps({"language": "python", "code": FILE + WEAK}), repeat=True,
                last="by itself")
    grammar = line(call("snippet", input=FILE + WEAK), repeat=True, has_tool="snippet")
    grammar["corrected"] = [json.dumps(SAFE)[1:-1] + '"}}\n</tool_call>']
    repeated = line(HEAD + WEAK + TAIL, repeat=True, last="keep my code")
    repeated["corrected"] = [SAFE + TAIL]
    bound = line(BOUND % "cur.execute(\"SELECT * FROM t WHERE n = '\" + name + \"'\")", repeat=True,
                 last="with a form")
    after = line("Then I list it myself.", repeat=True, last="go on then")
    return [told, stubborn, stuck, remarks, mule, shape_mule, after, tool, shaped, free, grammar,
            repeated, bound]


def stream(server, asked, headers=None, **fields):
    """(text, findings, last event) of a streamed answer of Responses."""
    body = {"input": asked, "stream": True, "store": False, **fields}
    status, _, data = server.request("POST", "/v1/responses", body, headers, timeout=60)
    assert status == 200, data
    events = [json.loads(part[6:]) for part in data.decode().split("\n")
              if part.startswith("data: {")]
    said = "".join(e["delta"] for e in events if e["type"].endswith(".delta"))
    found = [e["finding"] for e in events if e["type"] == "response.cerium.finding"]
    return said, found, events[-1]


def deeds(found):
    return [f["deed"] for f in found]


def check_streams(report, server):
    with report.check("a weak line that is in the request is released", server):
        said, found, last = stream(server, "keep my code\n\n" + FILE + WEAK)
        assert WEAK in said and last["type"] == "response.completed", (said, last["type"])
        assert "blocked" not in deeds(found) and "taken_back" not in deeds(found), found
        said, found, last = stream(server, "keep my code")
        assert WEAK not in said and deeds(found) == ["taken_back", "rewritten"], found
    with report.check("a weak line is retracted, hinted at, and written again", server):
        said, found, last = stream(server, "show a folder")
        assert said == HEAD + SAFE + TAIL, said
        assert deeds(found) == ["taken_back", "rewritten"], found
        assert all(f["cwe"] == 78 and f["weakness"] == "command" for f in found), found
        assert last["type"] == "response.completed", last
        assert deeds(last["response"]["cerium"]["findings"]) == ["rewritten"], last
    with report.check("a remark on the correction is not shown", server):
        said, found, _ = stream(server, "remark")
        assert said == HEAD + SAFE + TAIL, said
        assert deeds(found) == ["taken_back", "rewritten"], found
    with report.check("a model that insists gets the safe form, and continues", server):
        said, found, last = stream(server, "insist")
        assert said.startswith(HEAD + "    " + FORM) and said.endswith(TAIL), said
        assert deeds(found) == ["taken_back", "taken_back", "replaced"], found
        assert last["type"] == "response.completed", last
        ast.parse(said.split("```python\n")[1].split("```")[0])
    with report.check("a line without a recorded correction gets its safe form", server):
        said, found, last = stream(server, "with a form")
        assert said == BOUND % "cur.execute(\"SELECT * FROM t WHERE n = ?\", (name,))", said
        assert deeds(found) == ["taken_back", "replaced"], found
        assert last["type"] == "response.completed", last
    with report.check("every choice of several is watched", server):
        answer = server.json("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "show a folder"}], "n": 3})
        assert len(answer["choices"]) == 3
        for c in answer["choices"]:
            assert c["message"]["content"] == HEAD + SAFE + TAIL, c
    with report.check("findings are counted", server):
        want = 'cerium_guard_findings_total{class="command",action="rewritten"}'
        _, _, data = server.request("GET", "/metrics")
        counted = [row for row in data.decode().splitlines() if row.startswith(want)]
        assert counted and float(counted[0].rsplit(" ", 1)[1]) >= 5, counted


def chat_tools():
    return [{"type": "function", "function": {k: WRITE[k] for k in ("name", "parameters")}}]


def asked_of(api, asked, **more):
    """(path, body) of one question in each dialect that talks, with a tool."""
    messages = [{"role": "user", "content": asked}]
    if api == "responses":
        return "/v1/responses", {"input": asked, "tools": [WRITE], **more}
    if api == "chat":
        return "/v1/chat/completions", {"messages": messages, "tools": chat_tools(), **more}
    if api == "messages":
        tool = {"name": "write", "input_schema": WRITE["parameters"]}
        return "/v1/messages", {"max_tokens": 400, "messages": messages, "tools": [tool], **more}
    return "/api/chat", {"model": "m", "messages": messages, "tools": chat_tools(), **more}


def read_answer(api, data):
    """(text, names of calls, finish reason, the extension) of a whole answer."""
    if api == "responses":
        texts = [o["content"][0]["text"] for o in data["output"] if o["type"] == "message"]
        calls = [o["name"] for o in data["output"] if o["type"] == "function_call"]
        return "\n".join(texts), calls, data["status"], data["cerium"]
    if api == "chat":
        said = data["choices"][0]["message"]
        calls = [c["function"]["name"] for c in said.get("tool_calls") or []]
        return said["content"], calls, data["choices"][0]["finish_reason"], data["cerium"]
    if api == "messages":
        texts = [b["text"] for b in data["content"] if b["type"] == "text"]
        calls = [b["name"] for b in data["content"] if b["type"] == "tool_use"]
        return "\n".join(texts), calls, data["stop_reason"], data["cerium"]
    said = data["message"]
    calls = [c["function"]["name"] for c in said.get("tool_calls") or []]
    return said["content"], calls, data["done_reason"], data["cerium"]


WELL = {"responses": "completed", "chat": "stop", "messages": "end_turn", "ollama": "stop"}


def check_ends(report, server):
    """An answer that the watchdog ends says so, and ends well."""
    for api, well in WELL.items():
        with report.check("a model that insists: the answer's end says why: " + api, server):
            path, body = asked_of(api, "be stuck", stream=False)
            text, calls, how, more = read_answer(api, server.json("POST", path, body))
            assert how == well and not calls and more["end"] == "blocked", (how, calls, more)
            assert text.startswith(HEAD + "```\n\n[watchdog] Line "), text
            assert "CWE-95" in text and "Safe form: " in text and "exec(path)" not in text, text
        with report.check("a withheld call does not appear: " + api, server):
            path, body = asked_of(api, "write it anyhow", stream=False)
            text, calls, how, more = read_answer(api, server.json("POST", path, body))
            assert how == well and not calls and more["end"] == "blocked", (how, calls, more)
            assert text.startswith("I write it.") and "[watchdog] Line 5 of python" in text, text
            assert "CWE-95" in text and "The call of write" in text, text
        with report.check("the same, incomplete on request: " + api, server):
            path, body = asked_of(api, "be stuck", stream=False, cerium_guard_end="incomplete")
            text, _, how, more = read_answer(api, server.json("POST", path, body))
            assert "[watchdog]" not in text and more["end"] == "blocked", (text, more)
            want = {"responses": "incomplete", "chat": "content_filter", "messages": "refusal",
                    "ollama": "stop"}
            assert how == want[api], how
    with report.check("a withheld streamed call is never done", server):
        status, _, data = server.request("POST", "/v1/responses", {
            "input": "write it anyhow", "tools": [WRITE], "stream": True})
        events = [json.loads(part[6:]) for part in data.decode().split("\n")
                  if part.startswith("data: {")]
        kinds = [e["type"] for e in events]
        assert "response.function_call_arguments.done" not in kinds, kinds
        done = [e["item"]["type"] for e in events if e["type"] == "response.output_item.done"]
        added = [e["output_index"] for e in events if e["type"] == "response.output_item.added"]
        assert done == ["message", "message"] and added == [0, 1, 2], (done, added)
        last = events[-1]["response"]
        assert last["status"] == "completed" and len(last["output"]) == 2, last
        assert last["incomplete_details"] is None and last["error"] is None
    with report.check("the next turn sees it, and continues", server):
        first = server.json("POST", "/v1/responses", {"input": "write it anyhow", "tools": [WRITE]})
        body = {"input": "go on then", "previous_response_id": first["id"], "tools": [WRITE]}
        then = server.json("POST", "/v1/responses", body)
        assert then["output"][0]["content"][0]["text"] == "Then I list it myself.", then
        verdict = first["output"][-1]["content"][0]["text"]
        n = len(server.json("POST", "/tokenize", {"content": verdict})["tokens"])
        used = first["usage"]["input_tokens"] + first["usage"]["output_tokens"] + n
        assert then["usage"]["input_tokens"] > used, (then["usage"], first["usage"], n)
        whole = [{"role": "user", "content": "write it anyhow"}, *first["output"],
                 {"role": "user", "content": "go on then"}]
        again = server.json("POST", "/v1/responses", {"input": whole, "tools": [WRITE]})
        assert again["usage"] == {**then["usage"], "input_tokens_details":
                                  again["usage"]["input_tokens_details"]}, again["usage"]
    with report.check("output in a schema gets no words of ours", server):
        schema = {"type": "json_schema", "name": "code", "strict": True, "schema": SCHEMA}
        said, found, last = stream(server, "in a shape anyhow", text={"format": schema})
        assert last["type"] == "response.incomplete" and "watchdog" not in said, last["type"]
        assert last["response"]["incomplete_details"]["reason"] == "content_filter", last
    with report.check("cerium_guard_end takes one of two words", server):
        for value in ("loud", 1, ""):
            server.json("POST", "/v1/responses", {"input": "insist", "cerium_guard_end": value},
                        want=400)


def check_tools(report, server):
    for choice in ("auto", "required", {"type": "function", "name": "write"}):
        with report.check("the arguments of a call, tool_choice %s" % json.dumps(choice), server):
            said, found, last = stream(server, "write it", tools=[WRITE], tool_choice=choice)
            assert deeds(found) == ["taken_back", "rewritten"], (found, said)
            calls = [o for o in last["response"]["output"] if o["type"] == "function_call"]
            assert len(calls) == 1, last
            assert json.loads(calls[0]["arguments"])["text"] == FILE + SAFE, calls
            assert said == calls[0]["arguments"], said


def check_shapes(report, server):
    schema = {"type": "json_schema", "name": "code", "strict": True, "schema": SCHEMA}
    with report.check("the code in an answer of a JSON schema", server):
        said, found, last = stream(server, "in a shape", text={"format": schema})
        assert deeds(found) == ["taken_back", "rewritten"], (found, said)
        assert json.loads(said) == {"language": "python", "code": FILE + SAFE}, said
        assert last["type"] == "response.completed", last
    with report.check("every choice of several in such a shape", server):
        answer = server.json("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "in a shape"}], "n": 3,
            "response_format": {"type": "json_schema", "json_schema": {
                "name": "code", "strict": True, "schema": SCHEMA}}})
        assert len(answer["choices"]) == 3
        for c in answer["choices"]:
            assert json.loads(c["message"]["content"])["code"] == FILE + SAFE, c
            assert c["finish_reason"] == "stop", c
        assert len(answer["cerium"]["findings"]) == 3, answer
    with report.check("and the inserted text", server):
        answer = server.json("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "by itself"}], "n": 4, "max_tokens": 160,
            "response_format": {"type": "json_schema", "json_schema": {
                "name": "code", "strict": True, "schema": SCHEMA}}})
        for c in answer["choices"]:
            code = json.loads(c["message"]["content"])["code"]
            assert code == FILE + "    " + FORM, c
            ast.parse(code)
    with report.check("the input of a tool with a grammar of Lark", server):
        said, found, last = stream(server, "a function", tools=[SNIPPET], tool_choice="required")
        assert deeds(found) == ["taken_back", "rewritten"], (found, said)
        calls = [o for o in last["response"]["output"] if o["type"] == "custom_tool_call"]
        assert [c["input"] for c in calls] == [FILE + SAFE], last


def check_asked(report, server):
    with report.check("a request cannot ask for less", server):
        for headers, fields in (({"X-Cerium-Guard": "off"}, {}), (None, {"cerium_guard": "warn"})):
            said, found, _ = stream(server, "show a folder", headers, **fields)
            assert WEAK not in said and deeds(found) == ["taken_back", "rewritten"], found
    with report.check("unknown values are refused"):
        for headers, fields in (({"X-Cerium-Guard": "maybe"}, {}),
                                (None, {"cerium_guard": "x=off"})):
            status, _, data = server.request("POST", "/v1/responses",
                                             {"input": "x", **fields}, headers)
            assert status == 400 and b"block, warn or off" in data, (status, data)


def check_off(report):
    with Server(replay=script(), context=4096, args=["--guard", "off"]) as server:
        with report.check("a server without a watchdog passes the model's text on", server):
            said, found, _ = stream(server, "show a folder")
            assert said == HEAD + WEAK + TAIL and not found, (said, found)
        with report.check("there, a request for it is refused", server):
            for headers, fields in (({"X-Cerium-Guard": "command=block"}, {}),
                                    (None, {"cerium_guard": "warn"})):
                status, _, data = server.request("POST", "/v1/responses",
                                                 {"input": "show a folder", **fields}, headers)
                assert status == 400 and b"--guard off" in data, (status, data)
        with report.check("off is off", server):
            said, found, _ = stream(server, "show a folder", {"X-Cerium-Guard": "off"})
            assert said == HEAD + WEAK + TAIL and not found, (said, found)
    one = ["--guard", "off", "--guard", "sql=block"]
    with Server(replay=script(), context=4096, args=one) as s:
        with report.check("a request can ask for more, by header and by field", s):
            for headers, fields in (({"X-Cerium-Guard": "command=block"}, {}),
                                    (None, {"cerium_guard": "block"})):
                said, found, _ = stream(s, "show a folder", headers, **fields)
                assert said == HEAD + SAFE + TAIL, said
                assert deeds(found) == ["taken_back", "rewritten"], found
            said, found, _ = stream(s, "show a folder")
            assert said == HEAD + WEAK + TAIL and not found, (said, found)


def check_tiers(report):
    with tempfile.TemporaryDirectory() as folder:
        config, store = os.path.join(folder, "a.ini"), os.path.join(folder, "store.db")
        with open(config, "w") as f:
            f.write(CONFIG)
        keys = {}
        for tier in ("strict", "told", "loose"):
            done = subprocess.run(
                [CERIUM, "keys", "add", tier, "--tier", tier, "--store", store, "--config", config],
                capture_output=True, text=True, check=True, timeout=60 * PATIENCE)
            keys[tier] = {"Authorization": "Bearer " + done.stdout.strip()}
        more = ["--config", config, "--store", store]
        with Server(replay=script(), context=4096, args=more) as server:
            with report.check("a tier's value overrides the server's", server):
                said, found, _ = stream(server, "show a folder", keys["told"])
                assert said == HEAD + WEAK + TAIL and deeds(found) == ["warned"], (said, found)
            with report.check("only a tier with guard-loosens lets a request ask for less", server):
                for tier, weak in (("strict", False), ("loose", True)):
                    ask = {**keys[tier], "X-Cerium-Guard": "off"}
                    said, found, _ = stream(server, "show a folder", ask)
                    assert (WEAK in said) == weak and (not found) == weak, (tier, said, found)
            with report.check("and then for more again", server):
                ask = {**keys["told"], "X-Cerium-Guard": "block"}
                said, found, _ = stream(server, "show a folder", ask)
                assert said == HEAD + SAFE + TAIL, said


MADE = "Here:\n\n```python\nimport made\n\nprint(made.total(1))\nprint(made.totl(2))\n```\n"


def make_workspace(folder):
    """A virtual environment with one package; its code must not run."""
    package = os.path.join(folder, ".venv/lib/python3.11/site-packages/made")
    os.makedirs(package)
    with open(os.path.join(folder, ".venv/pyvenv.cfg"), "w") as f:
        f.write("include-system-site-packages = false\n")
    with open(os.path.join(package, "__init__.py"), "w") as f:
        f.write("open(%r, 'w').close()\n\n\ndef total(n):\n    return n\n"
                % os.path.join(folder, "it ran"))


def check_names(report):
    told = line(MADE, repeat=True, last="add them")
    told["corrected"] = ["print(made.total(2))\n```\n"]
    stubborn = line(MADE, repeat=True, last="insist on it")
    stubborn["corrected"] = ["print(made.totle(2))\n```\n"] * 4
    with tempfile.TemporaryDirectory() as folder:
        make_workspace(folder)
        subprocess.run([CERIUM, "scan", "--exists", "--env", folder, folder],
                       stdout=subprocess.DEVNULL, check=True, timeout=120 * PATIENCE)
        with Server(replay=[told, stubborn], context=4096, args=["--workspace", folder]) as server:
            with report.check("a name that does not exist is corrected", server):
                for _ in range(int(400 * PATIENCE)):  # until the names are read
                    said, found, _ = stream(server, "add them")
                    if found:
                        break
                    time.sleep(0.05)
                assert "made.total(2)" in said and "totl" not in said, said
                assert "rewritten" in deeds(found), found
                assert found[-1]["message"] == "made has no totl", found
            with report.check("and reported as a warning after two tries", server):
                said, found, _ = stream(server, "insist on it")
                assert "made.totle(2)" in said and said.endswith("```\n"), said
                assert deeds(found)[-1] == "warned" and "blocked" not in deeds(found), found
            with report.check("a name from the request is only reported", server):
                said, found, _ = stream(server, "made.totl(2): add them")
                assert "made.totl(2)" in said and deeds(found) == ["warned"], (said, found)
            with report.check("nothing of the workspace runs", server):
                assert not os.path.exists(os.path.join(folder, "it ran"))


def main():
    report = Report("guard in the server")
    with Server(replay=script(), context=4096) as server:
        check_streams(report, server)
        check_ends(report, server)
        check_tools(report, server)
        check_shapes(report, server)
        check_asked(report, server)
    check_off(report)
    check_tiers(report)
    check_names(report)
    report.end()


main()
