"""raw.py - a misbehaving client: broken frames, half requests, slow bytes, floods.

In every case the server answers by the RFCs or hangs up, stays small, and continues to serve
other clients."""

import contextlib
import json
import os
import random
import socket
import threading
import time

from harness import HANG_S, PATIENCE, SANITIZED, Report, Server, line, wait_for
from rawsocket import BINARY, CLOSE, PING, PONG, Closed, RawSocket, frame, text_of

LONG = " ".join("word%d" % i for i in range(3000))
# Allowed answers to a protocol error: the code, or none.
PROTOCOL_ERROR, BAD_TYPE, BAD_TEXT, TOO_BIG = 1002, 1003, 1007, 1009


def alive(server):
    """Another client is served."""
    with RawSocket(server.port) as other:
        events = other.ask("hello", max_output_tokens=4)
        assert events[-1]["type"] in ("response.completed", "response.incomplete"), events[-1]


def talk(server, data, half_close=False, timeout=5):
    """Send bytes to the port; returns the answer until the server closes or time is up."""
    with socket.create_connection(("127.0.0.1", server.port), timeout * PATIENCE) as s:
        received = b""
        try:
            s.sendall(data)
            if half_close:
                s.shutdown(socket.SHUT_WR)
            while True:
                more = s.recv(65536)
                if not more:
                    return received
                received += more
        except OSError:  # time is up, or the server hung up, perhaps before we had finished
            return received


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


def head(method, path, *headers):
    return "\r\n".join(["%s %s HTTP/1.1" % (method, path), "Host: 127.0.0.1", *headers, "", ""]
                       ).encode()


def post(body, *headers, path="/v1/responses"):
    return head("POST", path, "Content-Type: application/json",
                "Content-Length: %d" % len(body), "Connection: close", *headers) + body


# ---- HTTP ----

BAD_HTTP = [
    ("no HTTP at all", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200),
    ("a line of noise", b"\xff\xfe\x00hello\r\n\r\n"),
    ("no version", b"GET /health/live\r\n\r\n"),
    ("HTTP/9.9", b"GET /health/live HTTP/9.9\r\nHost: x\r\n\r\n"),
    ("a header without a colon", b"GET /health/live HTTP/1.1\r\nHost x\r\n\r\n"),
    ("a header of 1 MB", b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * (1 << 20) + b"\r\n\r\n"),
    ("5,000 headers", b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-Many: y\r\n" * 5000 + b"\r\n"),
    ("a path of 1 MB", b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
    ("a negative length", head("POST", "/v1/responses", "Content-Length: -5") + b"{}"),
    ("a length that is no number", head("POST", "/v1/responses", "Content-Length: 9z") + b"{}"),
    ("a huge length", head("POST", "/v1/responses", "Content-Length: 99999999999999999999")),
    ("two lengths", head("POST", "/v1/responses", "Content-Length: 2", "Content-Length: 9")
     + b"{}{}{}{}{}"),
    ("length and chunks", head("POST", "/v1/responses", "Content-Length: 2",
                               "Transfer-Encoding: chunked") + b"{}0\r\n\r\n"),
    ("a chunk size that is no number", head("POST", "/v1/responses", "Transfer-Encoding: chunked")
     + b"zz\r\n{}\r\n0\r\n\r\n"),
    ("a chunk of 2^63", head("POST", "/v1/responses", "Transfer-Encoding: chunked")
     + b"7fffffffffffffff\r\n{}"),
    ("a path that climbs", head("GET", "/../../../../etc/passwd", "Connection: close")),
    ("an encoded path that climbs", head("GET", "/%2e%2e/%2e%2e/etc/passwd", "Connection: close")),
    ("a path with a NUL", head("GET", "/index.html%00.js", "Connection: close")),
]

BAD_BODIES = [
    ("an empty body", b"", 400),
    ("half a body's JSON", b'{"input": "x', 400),
    ("no object", b"[1, 2]", 400),
    ("bad UTF-8", b'{"input": "\xff\xfe"}', 400),
    ("a number for input", b'{"input": 5}', 400),
    ("100,000 brackets", b'{"input": ' + b"[" * 100000 + b"]" * 100000 + b"}", 400),
    ("a number out of range", b'{"input": "x", "temperature": 1e400}', 400),
    ("a negative cap", b'{"input": "x", "max_output_tokens": -3}', 400),
    ("an unknown previous response", b'{"input": "x", "previous_response_id": "resp_no"}', 400),
]


def check_http(report, server):
    for name, data in BAD_HTTP:
        with report.check("http: " + name, server):
            answer = talk(server, data, half_close=True)
            status = status_of(answer)
            # Without a version it is HTTP/0.9, which may be answered.
            assert status is None or 400 <= status < 600 or name == "no version", answer[:200]
            assert b"root:" not in answer
            alive(server)
    for name, body, want in BAD_BODIES:
        with report.check("http body: " + name, server):
            answer = talk(server, post(body))
            assert status_of(answer) == want, answer[:300]
            error = json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]
            assert error["message"] and error["type"], error
    with report.check("http body: a lone surrogate from JavaScript is repaired", server):
        answer = talk(server, post(b'{"input": "\\ud800", "max_output_tokens": 2}'))
        assert status_of(answer) == 200, answer[:300]
    with report.check("http body: one byte over the limit is refused before it is sent", server):
        answer = talk(server, head("POST", "/v1/responses", "Content-Length: 4000000000",
                                   "Content-Type: application/json"))
        assert status_of(answer) == 413, answer[:200]
    with report.check("http body: endless chunks are cut off", server):
        before = server.memory_kb()
        chunk = b"100000\r\n" + b"a" * 0x100000 + b"\r\n"
        answer = talk(server, head("POST", "/v1/responses", "Transfer-Encoding: chunked",
                                   "Content-Type: application/json") + chunk * 96, timeout=20)
        assert status_of(answer) in (411, 413, 501, None), answer[:200]
        assert server.memory_kb() < before + 200000, server.memory_kb()
        alive(server)
    with report.check("http: half a request, then gone", server):
        for cut in (1, 10, 60, 120):
            with socket.create_connection(("127.0.0.1", server.port), 5) as s:
                s.sendall(post(b'{"input": "hello"}')[:cut])
        alive(server)
    with report.check("http: a request a byte at a time", server):
        with socket.create_connection(("127.0.0.1", server.port), HANG_S) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in post(b'{"input": "hello", "max_output_tokens": 3}'):
                s.sendall(bytes([byte]))
            assert s.recv(65536).startswith(b"HTTP/1.1 200"), "no answer"
    with report.check("http: two requests in one packet", server):
        one = head("GET", "/health/live")
        answer = talk(server, one + head("GET", "/v1/models", "Connection: close"))
        assert answer.count(b"HTTP/1.1 200") == 2, answer[:300]
    with report.check("http: unknown routes and methods", server):
        assert server.request("GET", "/nothing")[0] == 404
        assert server.request("HEAD", "/v1/responses")[0] == 405
        assert server.request("DELETE", "/v1/chat/completions")[0] in (404, 405)
        assert status_of(talk(server, head("BREW", "/", "Connection: close"))) in (400, 404, 405,
                                                                                  501, None)


# ---- WebSocket ----

def bad_frames():
    text = json.dumps({"type": "response.create", "input": "x"})
    return [
        ("reserved bits", frame(text, reserved=4), {PROTOCOL_ERROR}),
        ("an unknown opcode", frame(text, opcode=3), {PROTOCOL_ERROR}),
        ("an unknown control opcode", frame("", opcode=11), {PROTOCOL_ERROR}),
        ("a ping in pieces", frame("x", opcode=PING, fin=False), {PROTOCOL_ERROR}),
        ("a ping of 126 bytes", frame("x" * 126, opcode=PING), {PROTOCOL_ERROR}),
        ("a continuation of nothing", frame(text, opcode=0), {PROTOCOL_ERROR}),
        ("a message within a message", frame(text, fin=False) + frame(text), {PROTOCOL_ERROR}),
        ("a close frame of one byte", frame("x", opcode=CLOSE), {PROTOCOL_ERROR}),
        ("a close code that none may send", frame(b"\x03\xed", opcode=CLOSE), {PROTOCOL_ERROR}),
        ("bad UTF-8", frame(b'{"type": "\xff\xfe"}'), {BAD_TEXT}),
        ("a binary frame", frame(text, opcode=BINARY), {BAD_TYPE}),
        ("a frame of 2^62 bytes", frame("x" * 70000, announced=1 << 62), {TOO_BIG, PROTOCOL_ERROR}),
        ("a length with its top bit set", frame("x", announced=(1 << 64) - 1),
         {TOO_BIG, PROTOCOL_ERROR}),
        ("a frame of 4 GB", frame("x" * 70000, announced=1 << 32), {TOO_BIG}),
    ]


BAD_MESSAGES = [
    ("no JSON", "hello"),
    ("an empty message", ""),
    ("an array", "[]"),
    ("no type", "{}"),
    ("an unknown type", '{"type": "response.dance"}'),
    ("a type that is no text", '{"type": 5}'),
    ("no input", '{"type": "response.create"}'),
    ("100,000 brackets", "[" * 100000),
    ("a bad lane", '{"type": "response.create", "input": "x", "stream_id": "a b"}'),
    ("an unknown previous response",
     '{"type": "response.create", "input": "x", "previous_response_id": "resp_no"}'),
]


def check_frames(report, server):
    for name, data, codes in bad_frames():
        with report.check("websocket: " + name, server):
            with RawSocket(server.port) as s:
                s.send(data)
                s.socket.settimeout(5 * PATIENCE)
                code = s.close_code()
                assert code is None or code in codes, "closed with %s" % code
            alive(server)
    for name, text in BAD_MESSAGES:
        with report.check("websocket message: %s, and the socket stays open" % name, server):
            with RawSocket(server.port) as s:
                s.send(frame(text))
                error = s.read_json()
                assert error["type"] == "error" and error["status"] in (400, 404), error
                assert error["error"]["message"] and error["error"]["code"], error
                events = s.ask("hello", max_output_tokens=3)
                assert events[-1]["type"] != "error", events[-1]
    with report.check("websocket: a frame without a mask is refused", server):
        with RawSocket(server.port) as s:
            s.send(frame(json.dumps({"type": "response.create", "input": "x",
                                     "max_output_tokens": 2}), mask=False))
            assert s.close_code() == PROTOCOL_ERROR
        alive(server)
    with report.check("websocket: pings are answered, within a message too", server):
        with RawSocket(server.port) as s:
            text = json.dumps({"type": "response.create", "input": "x", "max_output_tokens": 2})
            s.send(frame(text[:9], fin=False) + frame("inside", opcode=PING)
                   + frame(text[9:20], opcode=0, fin=False) + frame(text[20:], opcode=0))
            # All came in one packet: the pong may come after the first events.
            frames = []
            while (PONG, b"inside") not in frames:
                frames.append(s.read_frame())
                assert len(frames) < 20, frames
            if not any(b'"response.incomplete"' in f[1] for f in frames):
                s.read_answer()
            s.send(frame("", opcode=PING) + frame("unasked", opcode=PONG))
            assert s.read_frame() == (PONG, b"")
    with report.check("websocket: a message of 2 MB in frames of 1,000 bytes", server):
        with RawSocket(server.port) as s:
            text = json.dumps({"type": "response.create", "input": "x", "max_output_tokens": 2,
                               "metadata": {"k": "v" * 400}, "padding": "p" * (2 << 20)}).encode()
            parts = [text[i:i + 1000] for i in range(0, len(text), 1000)]
            s.send(frame(parts[0], fin=False)
                   + b"".join(frame(p, opcode=0, fin=False) for p in parts[1:-1])
                   + frame(parts[-1], opcode=0))
            assert s.read_answer()[-1]["type"] != "error"
    with report.check("websocket: a message a byte at a time", server):
        with RawSocket(server.port) as s:
            text = {"type": "response.create", "input": "x", "max_output_tokens": 2}
            for byte in frame(json.dumps(text)):
                s.send(bytes([byte]))
            assert s.read_answer()[-1]["type"] != "error"
    with report.check("websocket: a close is answered", server):
        with RawSocket(server.port) as s:
            s.send(frame(b"\x03\xe8bye", opcode=CLOSE))
            assert s.close_code() in (1000, None)


def check_upgrades(report, server):
    cases = [
        ("another page's origin", ["Origin: https://evil.example"], {403}),
        ("an origin that looks like ours", ["Origin: http://127.0.0.1.evil.example"], {403}),
        ("no origin", [], {101}),
        ("our own page", ["Origin: http://127.0.0.1:%d" % server.port], {101}),
    ]
    for name, headers, want in cases:
        with report.check("upgrade: " + name, server):
            with RawSocket(server.port, headers=headers) as s:
                assert s.status in want, s.status
    lines = ["Connection: Upgrade", "Upgrade: websocket"]
    key = "Sec-WebSocket-Key: " + "A" * 22 + "=="
    broken = [
        ("no key", lines + ["Sec-WebSocket-Version: 13"]),
        ("version 99", lines + ["Sec-WebSocket-Version: 99", key]),
        ("another path", None),
    ]
    for name, headers in broken:
        with report.check("upgrade: " + name, server):
            path = "/v1/nothing" if headers is None else "/v1/responses"
            headers = headers or lines + ["Sec-WebSocket-Version: 13", key]
            status = status_of(talk(server, head("GET", path, *headers), half_close=True))
            assert status is None or 400 <= status < 500, status


# ---- load ----

def check_parking(report, server):
    with report.check("an answer waits for its reader, and then continues", server):
        with RawSocket(server.port, timeout=60 * PATIENCE) as s:
            # More than the kernel buffers between the two; this end's buffer is small.
            s.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.send_json({"type": "response.create", "input": "talk for long"})
            s.send_json({"type": "response.create", "input": "talk for long"})
            wait_for(lambda: server.metric("cerium_parked_readers_total") >= 1)
            for _ in range(2):
                assert text_of(s.read_answer()) == LONG


def check_load(report, server):
    with report.check("a dropped connection stops its answer", server):
        with RawSocket(server.port) as s:
            s.send_json({"type": "response.create", "input": "talk for long"})
            while s.read_json()["type"] != "response.output_text.delta":
                pass
            assert server.running() == 1
        wait_for(lambda: server.running() == 0)
        s = socket.create_connection(("127.0.0.1", server.port), 5)
        s.sendall(post(b'{"input": "talk for long", "stream": true}'))
        assert s.recv(1000).startswith(b"HTTP/1.1 200")
        s.close()
        wait_for(lambda: server.running() == 0)
    with report.check("a reader that does not read delays no others", server):
        before = server.memory_kb()
        slow = []
        for _ in range(8):
            s = RawSocket(server.port)
            s.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(4):
                s.send_json({"type": "response.create", "input": "talk for long"})
            slow.append(s)
        for _ in range(5):
            alive(server)
        assert server.memory_kb() < before + 64000, (before, server.memory_kb())
        for s in slow:
            s.close()
        wait_for(lambda: server.running() == 0)
    if SANITIZED:
        report.skip("an answer that waits for its reader", "it takes minutes with a sanitizer")
    else:
        check_parking(report, server)
    with report.check("a flood of messages on one socket is bounded", server):
        before = server.memory_kb()
        with RawSocket(server.port, timeout=20 * PATIENCE) as s:
            message = frame(json.dumps({"type": "response.create", "input": "hello",
                                        "max_output_tokens": 1, "padding": "x" * 2000}))
            s.socket.settimeout(3)
            try:
                for _ in range(5000):
                    s.send(message)
            except (socket.timeout, ConnectionError):
                pass
            alive(server)
            assert server.memory_kb() < before + 64000, (before, server.memory_kb())
        wait_for(lambda: server.running() == 0)
    with report.check("600 silent connections", server):
        many = []
        try:
            for _ in range(600):
                many.append(socket.create_connection(("127.0.0.1", server.port), 5))
            alive(server)
        finally:
            for s in many:
                s.close()
        alive(server)
    with report.check("200 clients at once, all answered", server):
        results = []

        def one(i):
            with RawSocket(server.port, timeout=60 * PATIENCE) as s:
                results.append(s.ask("hello %d" % i, max_output_tokens=4)[-1]["type"])

        threads = [threading.Thread(target=one, args=(i,)) for i in range(200)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        # With a full queue it says so; it never hangs up or fails.
        good = [r for r in results if r in ("response.completed", "response.incomplete")]
        assert len(results) == 200 and len(good) >= 100, (len(results), len(good))


def check_time(report):
    limits = ["--header-time", "1", "--body-time", "1", "--idle-time", "1", "--stall-time", "1"]
    cases = [("headers that never end", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "),
             ("a body that never comes", head("POST", "/v1/responses", "Content-Length: 100")),
             ("half a body", head("POST", "/v1/responses", "Content-Length: 100") + b'{"input'),
             ("nothing at all", b""),
             ("a request, and then nothing", head("GET", "/health/live"))]
    with Server(args=limits) as server:
        for name, data in cases:
            with report.check("time: %s: the server hangs up" % name, server):
                with socket.create_connection(("127.0.0.1", server.port), HANG_S) as s:
                    s.sendall(data)
                    while s.recv(4096):
                        pass
        with report.check("time: one header per second", server):
            with socket.create_connection(("127.0.0.1", server.port), HANG_S) as s:
                s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
                for i in range(int(15 * PATIENCE)):
                    time.sleep(0.5)
                    try:
                        s.sendall(b"X-%d: y\r\n" % i)
                    except ConnectionError:
                        break
                else:
                    raise AssertionError("it may continue for ever")
        with report.check("time: an idle WebSocket stays", server):
            with RawSocket(server.port) as s:
                time.sleep(4)
                assert s.ask("x", max_output_tokens=1)[-1]["type"] == "response.incomplete"


def check_end(report):
    script = [line(LONG[:3000], last="talk for long")]
    with report.check("SIGTERM lets an answer end, then the server ends"):
        limits = ["--drain", "%d" % (30 * PATIENCE)]
        with Server(replay=script, context=16384, args=limits) as server:
            with RawSocket(server.port, timeout=30 * PATIENCE) as s:
                s.send_json({"type": "response.create", "input": "talk for long"})
                while s.read_json()["type"] != "response.output_text.delta":
                    pass
                server.process.terminate()
                events = s.read_answer()
                assert events[-1]["type"] == "response.completed", events[-1]
            assert server.process.wait(HANG_S) == 0
    with report.check("SIGTERM with idle connections ends at once"):
        with Server(args=["--drain", "%d" % (10 * HANG_S)]) as server:  # never waited for
            with RawSocket(server.port) as s, socket.create_connection(("127.0.0.1", server.port)):
                server.process.terminate()
                assert s.close_code() in (1001, None)
                assert server.process.wait(HANG_S) == 0
    kills = int(os.environ.get("KILLS", "5"))
    with report.check("kill -9 under load, %d times, loses no acknowledged response" % kills):
        with Server(replay=[line("kept", repeat=True)]) as server:
            check_kills(server, kills)


def keep_asking(server, acknowledged):
    """Runs until the server is gone; acknowledged responses go to the list."""
    with contextlib.suppress(Closed, OSError):
        with RawSocket(server.port) as s:
            while True:
                acknowledged.append(s.ask("hello", store=True)[-1]["response"]["id"])


def check_kills(server, kills):
    moments, everything = random.Random(20261121), []
    for _ in range(kills):
        acknowledged = []
        clients = [threading.Thread(target=keep_asking, args=(server, acknowledged))
                   for _ in range(4)]
        for client in clients:
            client.start()
        time.sleep(moments.random() * 0.4 * PATIENCE)
        server.process.kill()
        server.process.wait()
        for client in clients:
            client.join()
        server.start()
        everything += acknowledged
        for response_id in acknowledged:
            stored = server.json("GET", "/v1/responses/" + response_id)
            assert stored["output"][0]["content"][0]["text"] == "kept", stored
    assert len(everything) >= kills, "only %d answers were acknowledged" % len(everything)
    for response_id in everything:
        server.json("GET", "/v1/responses/" + response_id)


def main():
    report = Report("raw")
    script = [line(LONG, repeat=True, last="talk for long"), line("hi", repeat=True, last="hello")]
    with Server(replay=script, context=16384) as server:
        with report.check("a plain turn", server):
            with RawSocket(server.port) as s:
                events = s.ask("hello")
                assert text_of(events) == "hi" and s.status == 101, events
        rss = server.memory_kb()
        check_http(report, server)
        check_upgrades(report, server)
        check_frames(report, server)
        check_load(report, server)
        with report.check("after all that: alive, small, and quiet", server):
            alive(server)
            assert server.memory_kb() < rss + 100000, (rss, server.memory_kb())
            wait_for(lambda: server.running() == 0)
            assert server.metric("cerium_failed_total") == 0
        with report.check("it shuts down cleanly", server):
            assert server.stop() == 0, server.log()
    check_time(report)
    check_end(report)
    report.end()


main()
