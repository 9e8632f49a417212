"""client.py - a language client for tests: messages over the pipes of a real `cerium lsp`."""

import atexit
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

# What is counted of completions is the test's, not the user's.
STATE = tempfile.mkdtemp(prefix="cerium-state-")
atexit.register(shutil.rmtree, STATE, ignore_errors=True)


class Client:
    def __init__(self, *args, env=None, program="./cerium"):
        self.process = subprocess.Popen(
            [program, "lsp", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "XDG_STATE_HOME": STATE, **(env or {})})
        self.pid = self.process.pid
        self.buffer = b""
        self.last_id = 0
        self.answers = {}  # id -> message
        self.notes = []    # notifications and requests of the server
        self.texts, self.versions = {}, {}
        self.log = []      # all that came, in order
        self.asked = {}    # id -> method

    # ---- bytes ----

    def send_bytes(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        body = json.dumps(message).encode()
        self.send_bytes(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def _take(self):
        """The next whole message of the buffer, or None."""
        head, sep, rest = self.buffer.partition(b"\r\n\r\n")
        if not sep:
            return None
        lines = dict(line.split(b": ") for line in head.split(b"\r\n"))
        n = int(lines[b"Content-Length"])
        if len(rest) < n:
            return None
        self.buffer = rest[n:]
        return json.loads(rest[:n].decode())

    def read(self, seconds=120):
        """The next message; None when none comes."""
        end = time.monotonic() + seconds
        while True:
            message = self._take()
            if message is not None:
                self.log.append(message)
                if "id" in message and "method" not in message:
                    self.answers[json.dumps(message["id"])] = message
                else:
                    self.notes.append(message)
                    if "id" in message:
                        self.answer_server(message)
                return message
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                return None
            self.buffer += more

    configuration = None
    applied = True

    def answer_server(self, message):
        result = None
        if message["method"] == "workspace/configuration":
            result = [self.configuration]
        if message["method"] == "window/showDocument":
            result = {"success": True}
        if message["method"] == "workspace/applyEdit":
            result = {"applied": self.applied}
        self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    # ---- messages ----

    def notify(self, method, params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def request(self, method, params, id_=None):
        if id_ is None:
            self.last_id += 1
            id_ = self.last_id
        self.asked[json.dumps(id_)] = method
        self.send({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        return id_

    def wait(self, id_, seconds=120):
        """The answer to a request, as a whole message."""
        key = json.dumps(id_)
        while key not in self.answers:
            if self.read(seconds) is None:
                raise AssertionError(f"no answer to {id_}")
        return self.answers[key]

    def ask(self, method, params, seconds=120):
        answer = self.wait(self.request(method, params), seconds)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def wait_note(self, method, seconds=120):
        """The next notification or request of that name that was not taken yet."""
        while True:
            for i, note in enumerate(self.notes):
                if note["method"] == method:
                    return self.notes.pop(i)
            if self.read(seconds) is None:
                raise AssertionError(f"no {method} came")

    # ---- an editor ----

    def initialize(self, capabilities=None, options=None, encoding="utf-16", **more):
        capabilities = capabilities if capabilities is not None else {}
        capabilities.setdefault("general", {"positionEncodings": [encoding]})
        params = {"processId": None, "rootUri": None, "capabilities": capabilities,
                  "initializationOptions": options or {}, **more}
        result = self.ask("initialize", params)
        self.notify("initialized", {})
        return result

    def open(self, uri, text, language="python", version=1):
        self.texts[uri], self.versions[uri] = text, version
        self.notify("textDocument/didOpen", {"textDocument": {
            "uri": uri, "languageId": language, "version": version, "text": text}})

    @staticmethod
    def position(text, offset):
        """Of a place in the text, in UTF-16 units; lines end with LF or CR LF."""
        line = text.count("\n", 0, offset)
        begin = text.rfind("\n", 0, offset) + 1
        return {"line": line,
                "character": len(text[begin:offset].encode("utf-16-le")) // 2}

    def change(self, uri, start, end, new):
        """Replace text[start:end], and tell."""
        text = self.texts[uri]
        change = {"range": {"start": self.position(text, start), "end": self.position(text, end)},
                  "text": new}
        self.texts[uri] = text[:start] + new + text[end:]
        self.versions[uri] += 1
        self.notify("textDocument/didChange", {
            "textDocument": {"uri": uri, "version": self.versions[uri]},
            "contentChanges": [change]})

    def inline_params(self, uri, offset, kind=2, **context):
        return {"textDocument": {"uri": uri},
                "position": self.position(self.texts[uri], offset),
                "context": {"triggerKind": kind, **context}}

    def inline(self, uri, offset, kind=2, **context):
        """Items at a place."""
        result = self.ask("textDocument/inlineCompletion",
                          self.inline_params(uri, offset, kind, **context))
        return result["items"] if result else []

    def ready(self, seconds=300):
        """Wait until the model is loaded."""
        end = time.monotonic() + seconds
        while True:
            status = self.ask("cerium/status", None)
            if not status["busy"]:
                return status
            assert time.monotonic() < end, "the model does not get loaded"
            time.sleep(0.05)

    def cpu_ms(self):
        with open(f"/proc/{self.pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 // os.sysconf("SC_CLK_TCK")

    def switches(self):
        """Context switches of all threads: those that sleep make none."""
        total = 0
        for task in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{task}/status") as f:
                total += sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)
        return total

    def shutdown(self):
        self.ask("shutdown", None)
        self.notify("exit", None)
        return self.process.wait(120)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()
