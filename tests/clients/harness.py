"""harness.py - shared by the tests of real clients: a server, replay scripts, a report.

A test prints one line for each check, `ok NAME` or `FAIL NAME: why`, `skipped: NAME: why` if
something is missing, and ends with `NAME: N passed, M failed`, for tools/run_tests.sh.

Environment: CERIUM, the program; CLIENTS, the folder that install.sh filled."""

import contextlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CERIUM = os.environ.get("CERIUM", os.path.join(ROOT, "cerium"))
CLIENTS = os.environ.get("CLIENTS", os.path.join(ROOT, "build", "clients"))
NODE_BIN = os.path.join(CLIENTS, "node", "node_modules", ".bin")
MODEL = os.path.join(ROOT, "models", "cerium-line.gguf")
MODEL_ID = "cerium-line"
# The start scripts of clients need the Node that was installed for them.
os.environ["PATH"] = NODE_BIN + os.pathsep + os.environ["PATH"]
# Sanitizers make everything slower, and nothing else.
SANITIZED = os.environ.get("BUILD") in ("asan", "tsan")
PATIENCE = float(os.environ.get("CLIENT_PATIENCE", "1"))
# Ends endless waits.  It never measures speed: the machine may be busy otherwise.
HANG_S = 300 * PATIENCE


def call(name, **arguments):
    """A tool call in the bundled model's form."""
    return "<tool_call>\n%s\n</tool_call>" % json.dumps({"name": name, "arguments": arguments})


def line(output, repeat=False, **when):
    """One line of a replay script."""
    return {"when": when, "output": output, "repeat": repeat}


def stretched_model(tokens):
    """The bundled model with room for the prompts of agents: only its context length differs.
    Its own output at that length is useless; replay replaces it."""
    os.makedirs(CLIENTS, exist_ok=True)
    path = os.path.join(CLIENTS, "context-%d.gguf" % tokens)
    with open(MODEL, "rb") as f:
        data = f.read()
    key = re.search(rb"[a-z0-9]+\.context_length\x04\x00\x00\x00", data)
    assert key, "the model does not say its context length"
    data = data[: key.end()] + struct.pack("<I", tokens) + data[key.end() + 4 :]
    with tempfile.NamedTemporaryFile(dir=CLIENTS, delete=False) as f:
        f.write(data)
    os.replace(f.name, path)
    return path


def free_port():
    """A free port, below those that the kernel assigns to clients: it must stay
    free until the server binds it."""
    while True:
        port = random.SystemRandom().randrange(10000, 32000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


def wait_for(what, seconds=0):
    """Waits until what() is true; an error after HANG_S, or after `seconds` if that is longer."""
    end = time.monotonic() + max(seconds * PATIENCE, HANG_S)
    while time.monotonic() < end:
        value = what()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("waited %.0f seconds in vain" % HANG_S)


class Server:
    """`cerium serve` on a free port of its own, with a folder of its own."""

    def __init__(self, replay=None, context=None, args=(), key=None, tls=False, model=None):
        self.folder = tempfile.mkdtemp(prefix="cerium-clients-")
        self.port = free_port()
        self.key = key
        self.url = "%s://127.0.0.1:%d" % ("https" if tls else "http", self.port)
        self.ws_url = self.url.replace("http", "ws", 1) + "/v1/responses"
        model = stretched_model(context) if context else model or MODEL
        command = [CERIUM, "serve", "-m", model, "--port", str(self.port)]
        command += ["--store", os.path.join(self.folder, "store.db")]
        if replay is not None:
            script = os.path.join(self.folder, "replay.jsonl")
            with open(script, "w") as f:
                f.writelines(json.dumps(entry) + "\n" for entry in replay)
            command += ["--replay", script]
        if key:
            command += ["--api-key", key]
        self.log_path = os.path.join(self.folder, "log")
        self.command = command + list(args)
        self.process = None
        self.start()

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, cwd=ROOT)

        def ready():
            if self.process.poll() is not None:
                raise AssertionError("the server ended: " + self.log())
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return True

        wait_for(ready, 20)

    def log(self, begin=0):
        with open(self.log_path, errors="replace") as f:
            f.seek(begin)
            return f.read()[-3000:]

    def log_end(self):
        return os.path.getsize(self.log_path)

    def memory_kb(self):
        """In use, without the KV cache, which fills up to its maximum; 0 if a sanitizer keeps
        freed memory."""
        if SANITIZED:
            return 0
        with open("/proc/%d/status" % self.process.pid) as f:
            rss = int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))
        pages = self.metric("cerium_kv_pages") * self.metric("cerium_kv_page_bytes")
        return rss - int(pages / 1024)

    def stop(self, how=signal.SIGTERM, seconds=15):
        """The exit status; the server must end by itself."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(max(seconds * PATIENCE, HANG_S))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the server did not end on signal %d" % how)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- plain HTTP ----

    def request(self, method, path, body=None, headers=None, timeout=30):
        """(status, headers, body bytes) over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port,
                                                timeout=max(timeout * PATIENCE, HANG_S))
        headers = dict(headers or {})
        if self.key:
            headers.setdefault("Authorization", "Bearer " + self.key)
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def json(self, method, path, body=None, want=200, **more):
        status, _, data = self.request(method, path, body, **more)
        assert status == want, "%s %s: %d: %s" % (method, path, status, data[:300])
        return json.loads(data)

    def metric(self, name):
        """Sum of a metric's samples whose line begins with name."""
        _, _, data = self.request("GET", "/metrics")
        return sum(
            float(sample.rsplit(" ", 1)[1])
            for sample in data.decode().splitlines()
            if re.match(re.escape(name) + r"[ {]", sample) or sample.startswith(name + " ")
        )

    def running(self):
        return self.metric("cerium_requests_running") + self.metric("cerium_requests_waiting")


class TooSlow(Exception):
    """The machine took so long that the check would show nothing: it is skipped."""


class Report:
    """Counts checks, and reports each in one line."""

    def __init__(self, name):
        self.name, self.passed, self.failed = name, 0, 0
        self.only = sys.argv[1:]

    @contextlib.contextmanager
    def check(self, name, server=None):
        """A block that passes unless it raises; the exception is the reason."""
        begin = server.log_end() if server else 0
        try:
            yield
        except TooSlow:
            self.skip(name, "this machine was too slow, each time")
            return
        except Exception as error:  # every outcome is a result
            here = os.path.dirname(os.path.abspath(__file__))
            at = [f for f in traceback.extract_tb(error.__traceback__) if here in f.filename]
            why = str(error).strip() or (at and at[-1].line) or type(error).__name__
            why = why if isinstance(error, AssertionError) else "%r: %s" % (type(error), why)
            where = " (line %d)" % at[-1].lineno if at else ""
            self.fail(name, " ".join(why.split())[:700] + where)
            if server:
                print("      log: " + server.log(begin)[-900:].strip().replace("\n", "\n      "))
            return
        self.ok(name)

    def ok(self, name):
        self.passed += 1
        print("  ok " + name, flush=True)

    def fail(self, name, why):
        self.failed += 1
        print("  FAIL %s: %s" % (name, why), flush=True)

    def skip(self, name, why):
        print("skipped: %s: %s" % (name, why), flush=True)

    def missing(self, client):
        """True if install.sh could not install it; prints that."""
        path = os.path.join(CLIENTS, "missing", client)
        if not os.path.exists(path):
            return False
        with open(path) as f:
            self.skip(client, f.read().strip())
        return True

    def end(self):
        print("%s: %d passed, %d failed" % (self.name, self.passed, self.failed))
        sys.exit(self.failed != 0)


def run(command, cwd=None, env=None, seconds=60, stdin=None):
    """(status, standard output, standard error) of a client that should end by itself."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            timeout=max(seconds * PATIENCE, HANG_S),
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"")[-500:] + (late.stderr or b"")[-500:]
        raise AssertionError("still running after %d seconds: %r" % (
            max(seconds * PATIENCE, HANG_S), said))
    return done.returncode, done.stdout, done.stderr
