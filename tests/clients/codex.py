"""codex.py - the real Codex CLI: exec over WebSocket and over HTTP, resume, and app-server."""

import http.server
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import harness
from harness import HANG_S, NODE_BIN, MODEL_ID, PATIENCE, Report, Server, call, line

CONFIG = """
model = "%(model)s"
model_provider = "cerium"
approval_policy = "never"
sandbox_mode = "danger-full-access"
web_search = "disabled"
check_for_update_on_startup = false
[analytics]
enabled = false
%(more)s
[features]
plugins = false
multi_agent = false
goals = false
[model_providers.cerium]
name = "Cerium"
base_url = "%(url)s/v1"
wire_api = "responses"
env_key = "CERIUM_KEY"
supports_websockets = %(websockets)s
model_catalog_url = "%(url)s/v1/models"
"""



def readme_config():
    """The README's configuration; everything else is Codex's default."""
    with open(os.path.join(harness.ROOT, "README.md")) as f:
        lines = f.read().split("```toml\n")[1].split("```")[0]
    assert lines.count("http://127.0.0.1:8383") == 2, lines
    return lines.replace("http://127.0.0.1:8383", "%(url)s")


KEY = "sk-clients-0123456789"
LONG = " ".join("word%d" % i for i in range(3000))


class Home:
    """A CODEX_HOME and a working folder of their own."""

    def __init__(self, server, websockets=True, config=CONFIG, more=""):
        self.folder = tempfile.mkdtemp(prefix="codex-", dir=server.folder)
        self.work = os.path.join(self.folder, "work")
        os.mkdir(self.work)
        with open(os.path.join(self.folder, "config.toml"), "w") as f:
            f.write(config % {"url": server.url, "model": MODEL_ID,
                              "websockets": "true" if websockets else "false",
                              "more": more})
        # Codex runs commands in a login shell: a person's profile must not print among them.
        self.env = {"CODEX_HOME": self.folder, "HOME": self.folder, "CERIUM_KEY": KEY,
                    "RUST_LOG": "error"}
        for name in ("OPENAI_API_KEY", "CODEX_API_KEY", "HTTPS_PROXY", "https_proxy"):
            self.env[name] = ""

    def exec(self, *args, seconds=60):
        """The events that `codex exec --json` gives, and its exit status."""
        command = [os.path.join(NODE_BIN, "codex"), "exec", "--skip-git-repo-check", "--json"]
        command += args
        status, out, err = harness.run(command, cwd=self.work, env=self.env, seconds=seconds)
        events = [json.loads(text) for text in out.splitlines() if text.startswith("{")]
        return events, status, out + err


def said(events):
    return [e["item"]["text"] for e in events
            if e.get("type") == "item.completed" and e["item"].get("type") == "agent_message"]


def done(events, kind):
    return [e["item"] for e in events
            if e.get("type") == "item.completed" and e["item"].get("type") == kind]


def ran(events):
    return done(events, "command_execution")


def fails(events):
    return [e for e in events if e.get("type") in ("error", "turn.failed")]


class AppServer:
    """`codex app-server` over its standard input and output: JSON-RPC, one line per message."""

    def __init__(self, home):
        self.process = subprocess.Popen(
            [os.path.join(NODE_BIN, "codex"), "app-server"], cwd=home.work,
            env={**os.environ, **home.env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        self.lines, self.seen, self.next_id = queue.Queue(), [], 0
        threading.Thread(target=self.read, daemon=True).start()
        self.ask("initialize", clientInfo={"name": "cerium-tests", "title": None, "version": "1"})
        self.send({"method": "initialized"})

    def read(self):
        for text in self.process.stdout:
            self.lines.put(json.loads(text))

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def wait(self, found, seconds=40):
        """The first new message for which found(message) is true; all are kept in seen."""
        end = time.monotonic() + max(seconds * PATIENCE, HANG_S)
        while time.monotonic() < end:
            try:
                message = self.lines.get(timeout=0.2)
            except queue.Empty:
                continue
            self.seen.append(message)
            if found(message):
                return message
        raise AssertionError("no answer of the app server; the last: %s"
                             % [m.get("method") or m for m in self.seen[-8:]])

    def ask(self, method, **params):
        self.next_id += 1
        number = self.next_id
        self.send({"id": number, "method": method, "params": params})
        answer = self.wait(lambda m: m.get("id") == number and "method" not in m)
        assert "result" in answer, "%s: %s" % (method, answer)
        return answer["result"]

    def start_turn(self, thread, text):
        turn = self.ask("turn/start", threadId=thread, input=[{"type": "text", "text": text}])
        return turn["turn"]["id"]

    def end_turn(self):
        """Status and texts of the turn that ends next."""
        before = len(self.seen)
        done = self.wait(lambda m: m.get("method") == "turn/completed")["params"]["turn"]
        texts = [m["params"]["item"]["text"] for m in self.seen
                 if m.get("method") == "item/completed"
                 and m["params"]["item"].get("type") == "agentMessage"
                 and m["params"].get("turnId") == done["id"]]
        errors = [m["params"] for m in self.seen[before:] if m.get("method") == "error"]
        assert not errors, errors
        return done["status"], texts

    def turn(self, thread, text):
        self.start_turn(thread, text)
        return self.end_turn()

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)  # the program is a child of a script
        self.process.wait()


def check_exec(report, transport, websockets):
    script = [
        line("Hello from the replay.", last="say hello"),
        line("I run it.\n" + call("exec_command", cmd="echo tool-ran-$((6*7))"),
             last="run the echo"),
        line("The tool said 42.", role="tool", last="tool-ran-42"),
        line("You said hello before.", last="what did I say"),
    ]
    with Server(replay=script, context=32768, key=KEY) as server:
        home = Home(server, websockets)
        with report.check("codex exec over %s: a turn" % transport, server):
            events, status, text = home.exec("say hello")
            assert status == 0 and not fails(events), text[-600:]
            assert said(events) == ["Hello from the replay."], said(events)
            usage = [e["usage"] for e in events if e.get("type") == "turn.completed"][0]
            assert usage["input_tokens"] > 0 and usage["output_tokens"] > 0, usage
        with report.check("codex exec over %s: resume" % transport, server):
            events, status, text = home.exec("resume", "--last", "what did I say")
            assert status == 0 and said(events) == ["You said hello before."], text[-600:]
            usage = [e["usage"] for e in events if e.get("type") == "turn.completed"][0]
            assert usage["cached_input_tokens"] > 0, usage
        with report.check("codex exec over %s: a shell call" % transport, server):
            events, status, text = home.exec("run the echo")
            assert status == 0 and not fails(events), text[-600:]
            assert [c["exit_code"] for c in ran(events)] == [0], text[-600:]
            assert "tool-ran-42" in ran(events)[0]["aggregated_output"], ran(events)
            assert said(events)[-1] == "The tool said 42.", said(events)
        with report.check("codex over %s uses only that transport" % transport, server):
            sockets = server.metric("cerium_websockets_total")
            posts = server.metric('cerium_requests_total{route="/v1/responses",status="200"}')
            assert (sockets > 0, posts > 0) == (websockets, not websockets), (sockets, posts)
        with report.check("codex over %s leaves no answers running" % transport, server):
            harness.wait_for(lambda: server.running() == 0)


MCP = """
[mcp_servers.metals]
command = "%s"
args = ["%s"]
""" % (sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "mcp_server.py"))
PATCH = """*** Begin Patch
*** Add File: notes/metal.txt
+cerium melts at 795 \u00b0C
+"quoted\\n" <tool_call>
*** Update File: old.txt
@@
 one
-two
+zwei
*** End Patch
"""
SCHEMA = {"type": "object", "properties": {"metal": {"type": "string"}, "degrees": {
    "type": "integer"}}, "required": ["metal", "degrees"], "additionalProperties": False}


def check_patch(report, server, home):
    """A freeform tool: its input is text, not JSON, which Codex applies unchanged."""
    with open(os.path.join(home.work, "old.txt"), "w") as f:
        f.write("one\ntwo\n")
    with report.check("codex tools: apply_patch, freeform", server):
        events, status, text = home.exec("patch the files")
        assert status == 0 and not fails(events), text[-600:]
        changes = [c["kind"] for item in done(events, "file_change") for c in item["changes"]]
        assert sorted(changes) == ["add", "update"], changes
        with open(os.path.join(home.work, "notes/metal.txt"), encoding="utf-8") as f:
            assert f.read() == "cerium melts at 795 \u00b0C\n\"quoted\\n\" <tool_call>\n"
        with open(os.path.join(home.work, "old.txt")) as f:
            assert f.read() == "one\nzwei\n"
        assert said(events)[-1] == "Patched.", said(events)


def check_tools(report, transport, websockets):
    script = [
        line("I patch.\n" + call("apply_patch", input=PATCH), last="patch the files",
             has_tool="apply_patch"),
        line("Patched.", role="tool", last="Updated the following files"),
        line("All at once.\n" + "\n".join(call("exec_command", cmd="echo part-$((%d*7))" % i)
                                          for i in (1, 2, 3)), last="run three"),
        line("All ran.", role="tool", last="part-21"),
        line('{"metal": "cerium", "degrees": 795}', last="as a record"),
        line(call("mcp__metals__look_up", metal="cerium"), last="ask the metals",
             has_tool="mcp__metals__look_up"),
        line("795 it is.", role="tool", last="it melts at 795 degrees"),
        line(call("no_such_tool", x=1), last="call what is not there"),
        line("There is none.", role="tool", last="no_such_tool"),
    ]
    with Server(replay=script, context=32768, key=KEY) as server:
        home = Home(server, websockets, more=MCP)
        check_patch(report, server, home)
        with report.check("codex tools: three calls in one turn over " + transport, server):
            events, status, text = home.exec("run three")
            assert status == 0 and not fails(events), text[-600:]
            outputs = sorted(c["aggregated_output"].strip() for c in ran(events))
            assert outputs == ["part-14", "part-21", "part-7"], outputs
            assert said(events) == ["All at once.", "All ran."], said(events)
        with report.check("codex tools: an MCP server's, in a namespace, over " + transport,
                          server):
            events, status, text = home.exec("ask the metals")
            assert status == 0 and not fails(events), text[-600:]
            calls = done(events, "mcp_tool_call")
            assert [(c["server"], c["tool"], c["status"]) for c in calls] == \
                [("metals", "look_up", "completed")], calls
            assert calls[0]["arguments"] == {"metal": "cerium"}, calls
            assert said(events)[-1] == "795 it is.", said(events)
        if not websockets:
            return
        with report.check("codex tools: an output schema", server):
            path = os.path.join(home.folder, "schema.json")
            with open(path, "w") as f:
                json.dump(SCHEMA, f)
            events, status, text = home.exec("--output-schema", path, "as a record")
            assert status == 0 and not fails(events), text[-600:]
            assert json.loads(said(events)[-1]) == {"metal": "cerium", "degrees": 795}
        with report.check("codex tools: one that does not exist", server):
            events, status, text = home.exec("call what is not there")
            assert status == 0 and said(events)[-1] == "There is none.", text[-600:]


SOLVE = """
[mcp_servers.cerium]
command = "%s"
args = ["mcp"]
tool_timeout_sec = 600
[mcp_servers.cerium.env]
CERIUM_RULES = "%s"
""" % (os.path.abspath(harness.CERIUM), os.path.join(harness.ROOT, "rules"))
SOLVED = """*** Begin Patch
*** Update File: add.py
@@
 def add(a, b):
-    return a - b
+    return a + b
*** End Patch
"""


def check_solve(report):
    """Codex gives a hole with tests to `cerium mcp`, applies its solution, and tests it."""
    script = [
        line(call("mcp__cerium__solve", path="add.py", line=2, test_file="tests.py",
                  makers="mutate"), last="mend the sum", has_tool="mcp__cerium__solve"),
        line(call("apply_patch", input=SOLVED), role="tool", last="+    return a + b"),
        line(call("exec_command", cmd="cat add.py tests.py | python3 - && echo sum-$((6*7))"),
             role="tool", last="Updated the following files"),
        line("It passes.", role="tool", last="sum-42"),
        line("No sandbox.", role="tool"),
    ]
    with Server(replay=script, context=32768, key=KEY) as server:
        home = Home(server, more=SOLVE)
        for name, text in (("add.py", "def add(a, b):\n    return a - b\n"),
                           ("tests.py", "assert add(2, 3) == 5\nassert add(0, 7) == 7\n")):
            with open(os.path.join(home.work, name), "w") as f:
                f.write(text)
        with report.check("codex solves by cerium mcp, applies the diff, and the test passes",
                          server):
            events, status, text = home.exec("mend the sum", seconds=120)
            assert status == 0 and not fails(events), text[-600:]
            calls = done(events, "mcp_tool_call")
            if said(events)[-1] == "No sandbox." and "no strict sandbox here" in json.dumps(calls):
                print("skipped: codex and solve: no sandbox here")
                return
            assert [(c["server"], c["tool"], c["status"]) for c in calls] == \
                [("cerium", "solve", "completed")], calls
            assert said(events)[-1] == "It passes.", (said(events), calls)


def check_app_server(report):
    script = [
        line("First answer.", last="first question"),
        line("Second answer.", last="second question"),
        line(LONG, last="talk for long"),
        line("After the interrupt.", last="are you there"),
        line(LONG, last="begin the report"),
        line("Redirected.", last="stop that, be brief"),
        line(call("exec_command", cmd="sleep 3; echo slept"), last="sleep a little"),
        line("Steered.", last="and then say steered"),
        line("Steered.", role="tool"),
    ]
    with Server(replay=script, context=32768, key=KEY) as server:
        app = AppServer(Home(server))
        thread = app.ask("thread/start")["thread"]["id"]
        with report.check("codex app-server: a turn and a follow-up", server):
            assert app.turn(thread, "first question") == ("completed", ["First answer."])
            before = server.metric("cerium_reused_tokens_total")
            assert app.turn(thread, "second question") == ("completed", ["Second answer."])
            assert server.metric("cerium_reused_tokens_total") > before + 500
        with report.check("codex app-server: both on one socket", server):
            assert server.metric("cerium_websockets_total") == 1
            assert server.metric("cerium_websocket_messages_total") == 3  # one is the warm-up
        with report.check("codex app-server: interrupt stops the computation", server):
            turn = app.start_turn(thread, "talk for long")
            app.wait(lambda m: m.get("method") == "item/agentMessage/delta")
            app.ask("turn/interrupt", threadId=thread, turnId=turn)
            status, _ = app.end_turn()
            assert status == "interrupted", status
            harness.wait_for(lambda: server.running() == 0)
        with report.check("codex app-server: a turn after the interrupt", server):
            assert app.turn(thread, "are you there") == ("completed", ["After the interrupt."])
        with report.check("codex app-server: redirect in the middle of an answer", server):
            turn = app.start_turn(thread, "begin the report")
            app.wait(lambda m: m.get("method") == "item/agentMessage/delta")
            app.ask("turn/interrupt", threadId=thread, turnId=turn)
            assert app.end_turn()[0] == "interrupted"
            assert app.turn(thread, "stop that, be brief") == ("completed", ["Redirected."])
        with report.check("codex app-server: steer while a tool runs", server):
            turn = app.start_turn(thread, "sleep a little")
            app.wait(lambda m: m.get("method") == "item/started"
                     and m["params"]["item"].get("type") == "commandExecution")
            app.ask("turn/steer", threadId=thread, expectedTurnId=turn,
                    input=[{"type": "text", "text": "and then say steered"}])
            status, texts = app.end_turn()
            assert status == "completed" and texts[-1] == "Steered.", (status, texts)
        app.close()
        with report.check("codex app-server: no answer runs on when it is killed", server):
            harness.wait_for(lambda: server.running() == 0)
            harness.wait_for(lambda: server.metric('cerium_open{what="websockets"}') == 0)


def check_faults(report):
    with Server(replay=[line("Few lines are enough.", last="say hello")], context=65536) as server:
        with report.check("codex exec with the README's configuration", server):
            home = Home(server, config=readme_config())
            events, status, text = home.exec("say hello", seconds=90)
            assert status == 0 and said(events) == ["Few lines are enough."], text[-600:]
            assert "metadata" not in text, text[-600:]  # it has read our catalog of models
    with Server(replay=[], context=32768, key=KEY + "x") as server:
        with report.check("codex exec with a wrong key gets the error", server):
            events, status, text = Home(server).exec("say hello", seconds=90)
            assert status != 0 and "401" in text, text[-600:]
    with Server(replay=[], context=1024, key=KEY) as server:
        with report.check("codex exec with too long a prompt gets the error at once", server):
            events, status, text = Home(server).exec("say hello")
            assert status != 0 and "context" in text, text[-600:]


WEAK = "    os.system('ls -l ' + path)\n"
STUCK = "    class Shown(exec(path)):\n"  # a line that nothing can replace


def code_with(weak):
    return "import os\n\n\ndef show(path):\n" + weak + "        pass\n" * (weak == STUCK)


def insisting(output, weak, rest, **when):
    """A model that repeats the weak line each time it is retracted."""
    entry = line(output, repeat=True, **when)
    entry["corrected"] = [weak + rest] * 8
    return entry


def insisting_patch(weak, **when):
    added = "".join("+%s\n" % text for text in code_with(weak).splitlines())
    patch = "*** Begin Patch\n*** Add File: show.py\n%s*** End Patch\n" % added
    rest = added[added.index(weak) + len(weak):] + "*** End Patch\n"
    return insisting("I write it.\n" + call("apply_patch", input=patch),
                     json.dumps("+" + weak)[1:-1], json.dumps(rest)[1:-1] + '"}}\n</tool_call>',
                     has_tool="apply_patch", **when)


def check_watchdog(report, transport, websockets):
    """A line that the watchdog always blocks ends the turn with an explanation, without repetition;
    a line with a safe form is replaced by it, and the call continues."""
    script = [
        line("It is written.", repeat=True, role="tool"),
        insisting_patch(STUCK, last="patch it in"),
        insisting_patch(WEAK, last="patch it safely"),
        insisting("Here it is:\n\n```python\n" + code_with(STUCK) + "```\n", STUCK,
                  "        pass\n```\n", last="show me how"),
        line("Then in the safe form.", last="do it safely"),
    ]
    with Server(replay=script, context=32768, key=KEY) as server:
        home = Home(server, websockets)
        shown = os.path.join(home.work, "show.py")
        for asked, call_of in (("patch it in", True), ("show me how", False)):
            what = "codex over %s: a withheld %s" % (transport, "patch" if call_of else "line")
            with report.check(what + " ends in an explanation", server):
                before = server.metric("cerium_replayed_total")
                events, status, text = home.exec(asked, seconds=120)
                assert status == 0 and not fails(events), text[-600:]
                asked_for = server.metric("cerium_replayed_total") - before
                assert asked_for <= 2, asked_for
                last = said(events)[-1]
                assert re.search(r"Line \d+ of python .*CWE-95", last) and "Safe form" in last, last
                assert not done(events, "file_change") and not os.path.exists(shown), events
        with report.check("codex over %s continues after that" % transport, server):
            events, status, text = home.exec("resume", "--last", "do it safely")
            assert status == 0 and said(events) == ["Then in the safe form."], text[-600:]
        with report.check("codex over %s: a weak line of a patch is replaced" % transport, server):
            events, status, text = home.exec("patch it safely", seconds=120)
            assert status == 0 and said(events)[-1] == "It is written.", text[-600:]
            with open(shown) as f:
                written = f.read()
            assert "os.system" not in written and "subprocess" in written, written
            compile(written, "show.py", "exec")


class Cluster:
    """A deeper tier that only has Chat Completions: calls a tool, then reports its result."""

    def __init__(self):
        cluster = self
        self.requests, self.dies = [], False

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                cluster.requests.append((self.path, body))
                self.send_response(200)
                self.end_headers()
                for delta, reason in cluster.answer(body):
                    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
                    self.wfile.write(b"data: %s\n\n" % json.dumps(chunk).encode())
                    if cluster.dies:
                        cluster.dies = False
                        return
                usage = {"prompt_tokens": 1000, "completion_tokens": 20}
                self.wfile.write(b"data: %s\n\ndata: [DONE]\n\n" %
                                 json.dumps({"choices": [], "usage": usage}).encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d/v1" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @staticmethod
    def answer(body):
        last = body["messages"][-1]
        if last["role"] == "tool":
            yield {"content": "It says "}, None
            yield {"content": last["content"].split("Output:\n")[-1].strip() + "."}, "stop"
        else:
            function = {"name": "exec_command",
                        "arguments": json.dumps({"cmd": "echo deep-$((6*7))"})}
            yield {"content": "Let me see."}, None
            yield {"tool_calls": [{"index": 0, "id": "c1", "type": "function",
                                   "function": function}]}, "tool_calls"


def check_upstream(report):
    cluster = Cluster()
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as config:
        config.write("[upstream cluster]\nurl = %s\nmodels = %s\nmodel = deep\nresponses = no\n"
                     "[limits]\nkey-tier = pro\n[tier pro]\ndeep-tokens-per-minute = 1000000\n"
                     % (cluster.url, MODEL_ID))
        config.flush()
        with Server(key=KEY, args=["--config", config.name]) as server:
            for kind, websockets in (("websocket", True), ("http", False)):
                with report.check("codex over %s works with an upstream's model" % kind, server):
                    del cluster.requests[:]
                    events, status, text = Home(server, websockets).exec("look", seconds=90)
                    assert status == 0 and not fails(events), text[-600:]
                    assert ran(events)[0]["aggregated_output"] == "deep-42\n", events
                    assert said(events) == ["Let me see.", "It says deep-42."], events
                    assert [path for path, _ in cluster.requests] == ["/v1/chat/completions"] * 2
                    assert cluster.requests[0][1]["model"] == "deep"
                with report.check("codex over %s continues when an upstream dies" % kind, server):
                    cluster.dies = True
                    events, status, text = Home(server, websockets).exec("look", seconds=120)
                    assert status == 0 and said(events)[-1] == "It says deep-42.", text[-600:]
            with report.check("codex shows the remaining limits", server):
                app = AppServer(Home(server))
                thread = app.ask("thread/start")["thread"]["id"]
                assert app.turn(thread, "look")[0] == "completed"
                told = [m["params"]["rateLimits"] for m in app.seen
                        if m.get("method") == "account/rateLimits/updated"]
                assert told and 0 <= told[-1]["primary"]["usedPercent"] < 100, app.seen[-5:]
                assert told[-1]["primary"]["windowDurationMins"] == 1, told
                app.close()


def check_silence(report):
    """Its timeout for a silent stream is 3 s, and the one place is taken for longer."""
    quick = CONFIG.replace('env_key =', 'stream_idle_timeout_ms = 3000\nstream_max_retries = 1\n'
                                        'env_key =')
    hold = json.dumps({"prompt": "hold", "n": 64, "max_tokens": 6000}).encode()
    script = [line("word " * 6000, repeat=True, last="hold"),
              line("patient", repeat=True, last="say patient")]
    with Server(replay=script, context=65536, key=KEY,
                args=["--running", "1", "--keep-alive", "1"]) as server:
        for websockets in (True, False):
            name = "websocket" if websockets else "http"
            with report.check("it waits for a busy server (%s)" % name, server):
                before = server.metric("cerium_canceled_total")
                with socket.create_connection(("127.0.0.1", server.port)) as holder:
                    holder.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                                   b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n"
                                   % (KEY.encode(), len(hold)) + hold)
                    harness.wait_for(lambda: server.running() == 1)
                    leave = threading.Timer(10, lambda: holder.shutdown(socket.SHUT_RDWR))
                    leave.start()
                    home = Home(server, websockets, config=quick)
                    events, status, out = home.exec("say patient", seconds=90)
                    leave.join()
                assert status == 0 and said(events) == ["patient"], out
                assert "econnecting" not in out and "Falling back" not in out, out
                assert server.metric("cerium_canceled_total") == before + 1  # only the holder


def main():
    report = Report("codex")
    if not report.missing("codex"):
        check_exec(report, "websocket", True)
        check_exec(report, "http", False)
        check_tools(report, "websocket", True)
        check_tools(report, "http", False)
        check_watchdog(report, "websocket", True)
        check_watchdog(report, "http", False)
        check_solve(report)
        check_app_server(report)
        check_faults(report)
        check_silence(report)
        check_upstream(report)
    report.end()


if __name__ == "__main__":
    main()
