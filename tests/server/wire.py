"""wire.py - raw HTTP/1.1 for tests: bytes sent as they are, answers read as
RFC 9112 frames them; faults raise an error."""

import contextlib
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from harness import HANG_S, PATIENCE, SANITIZED, Report, Server, line  # noqa: E402
from rawsocket import PING, Closed, RawSocket, frame  # noqa: E402

WAIT_S = HANG_S  # for bytes that must come; never a measure of speed
HOST = b"Host: localhost\r\n"
LONG = " ".join("word%d" % i for i in range(3000))
SCRIPT = [line(LONG, repeat=True, last="talk for long"),
          line(" ".join("item%d" % i for i in range(40)), repeat=True, last="say medium"),
          line("first", repeat=True, last="say first"),
          line("second", repeat=True, last="say second")]


class Ended(Exception):
    """The server closed before an expected answer."""


class Answer:
    def __init__(self, status, version, headers, body):
        self.status, self.version, self.headers, self.body = status, version, headers, body

    def closes(self):
        return "close" in self.headers.get("connection", "").lower()

    def json(self):
        return json.loads(self.body)


def check_error(answer):
    """An error is JSON in the form of OpenAI."""
    assert answer.headers.get("content-type", "").startswith("application/json"), answer.headers
    error = answer.json()["error"]
    assert isinstance(error["message"], str) and isinstance(error["type"], str), error


class Wire:
    """One connection.  source: the last byte of the address it comes from: ports of one address run
    out when many thousand connections are closed within a minute."""

    def __init__(self, port, source=1, receive=None, tls=None, timeout=WAIT_S):
        self.socket = socket.socket()
        if receive:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        self.socket.settimeout(timeout)
        if source != 1:
            self.socket.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
            self.socket.bind(("127.0.0.%d" % source, 0))
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.data = b""

    def send(self, data):
        self.socket.sendall(data)

    def push(self, data):
        """Send bytes that the server may no longer read."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def end_writing(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def reset(self):
        """Leave with RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def fill(self, n=65536):
        try:
            more = self.socket.recv(n)
        except TimeoutError:
            raise AssertionError("nothing came in %d s; before: %r" % (WAIT_S, self.data[-200:]))
        except ConnectionResetError:
            raise AssertionError("reset; before: %r" % self.data[-200:])
        if not more:
            raise Ended("the end; before: %r" % self.data[-200:])
        self.data += more

    def until(self, mark):
        """Everything up to the mark, which is consumed, too."""
        while mark not in self.data:
            self.fill()
        before, self.data = self.data.split(mark, 1)
        return before

    def take(self, n):
        while len(self.data) < n:
            self.fill(max(65536, n - len(self.data)))
        taken, self.data = self.data[:n], self.data[n:]
        return taken

    def read_chunks(self):
        body = []
        while True:
            size = int(self.until(b"\r\n").split(b";")[0], 16)
            if not size:
                break
            body.append(self.take(size))
            assert self.take(2) == b"\r\n", "a chunk is longer than it says"
        while self.until(b"\r\n"):
            pass
        return b"".join(body)

    def read_answer(self, head=False):
        """The next answer; 100 (Continue) is passed over.  head: it answers HEAD."""
        while True:
            lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
            version, status = lines[0].split(" ")[:2]
            assert version in ("HTTP/1.1", "HTTP/1.0"), "no status line: %r" % lines[0]
            if status != "100":
                break
        headers = {}
        for field in lines[1:]:
            name, value = field.split(":", 1)
            assert name == name.strip() and name.lower() not in headers, field
            headers[name.lower()] = value.strip()
        answer = Answer(int(status), version, headers, b"")
        assert answer.status != 405 or headers.get("allow"), "RFC 9110, 15.5.6: %r" % headers
        if head or answer.status in (101, 204, 304):
            pass
        elif headers.get("transfer-encoding", "") == "chunked":
            assert "content-length" not in headers, headers
            answer.body = self.read_chunks()
        elif "content-length" in headers:
            answer.body = self.take(int(headers["content-length"]))
        else:
            assert answer.closes() or version == "HTTP/1.0", "no length and no close: %r" % headers
            answer.body = self.rest()
        return answer

    def rest(self):
        """All that comes until the end."""
        with contextlib.suppress(Ended):
            while True:
                self.fill()
        rest, self.data = self.data, b""
        return rest

    def expect_end(self):
        """Nothing more, and an orderly end."""
        rest = self.rest()
        assert not rest, "bytes of no answer: %r" % rest[:200]

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def ask(port, method, path, body=None, headers=b""):
    """A whole request and its answer over a connection of its own."""
    with Wire(port) as w:
        w.send(request(method, path, body, headers))
        return w.read_answer(method == "HEAD")


def request(method, path, body=None, headers=b""):
    """The bytes of a request; a body that is no bytes is sent as JSON."""
    head = ("%s %s HTTP/1.1\r\n" % (method, path)).encode() + HOST + headers
    if body is None:
        return head + b"\r\n"
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def serves(server):
    """Whether it answers a new client."""
    try:
        with Wire(server.port, timeout=10 * PATIENCE) as w:
            w.send(request("GET", "/health/live", None, b"Connection: close\r\n"))
            return w.read_answer().status == 200
    except (OSError, AssertionError, Ended):
        return False


def cpu_s(server):
    """Processor time of the server so far."""
    with open("/proc/%d/stat" % server.process.pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until(what, seconds=30):
    """Whether what() comes true; asked ten times a second."""
    end = time.monotonic() + max(seconds * PATIENCE, HANG_S)
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.1)
    return False


class Checks(Report):
    """A report whose checks end by testing that the server still serves.  One that does not is
    ended and started again, so that checks are independent."""

    @contextlib.contextmanager
    def serving(self, name, server):
        with super().check(name, server):
            try:
                yield
            finally:
                if server.process.poll() is not None:
                    status = server.process.returncode
                    server.start()
                    raise AssertionError("the server ended with status %d" % status)
                if not serves(server):
                    server.process.send_signal(signal.SIGKILL)
                    server.process.wait()
                    server.start()
                    raise AssertionError("the server answers no one any more")


def certificate(folder):
    """(certificate, key) for localhost, made by openssl."""
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                    "-subj", "/CN=localhost"], check=True, capture_output=True)
    return cert, key


def tls_client():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


__all__ = ["Answer", "Checks", "Closed", "Ended", "HOST", "LONG", "PATIENCE", "PING", "RawSocket",
           "Report", "SANITIZED", "SCRIPT", "Server", "WAIT_S", "Wire", "ask", "certificate",
           "check_error", "cpu_s", "frame", "line", "request", "serves", "tls_client", "wait_until"]
