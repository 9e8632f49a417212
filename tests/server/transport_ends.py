"""transport_ends.py - half-closed clients, clients that leave, and large answers read slowly."""

import contextlib
import json
import socket
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from wire import (PATIENCE, SCRIPT, WAIT_S, Ended, RawSocket, Server, Wire, certificate,
                  check_error, cpu_s, request, tls_client, wait_until)

RECEIVE_BYTES = 65536
LARGE_BYTES = 4 << 20
PACE_S = 3  # the least time of a slow reader
PIECE_BYTES = 40000
UPGRADE = (b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
           b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n")


def ask(text, **fields):
    return request("POST", "/v1/responses", {"input": text, "store": False, **fields})


def said(answer):
    return answer.json()["output"][0]["content"][0]["text"]


def events_of(body):
    return [json.loads(event.split("\ndata: ", 1)[1]) for event in body.decode().split("\n\n")
            if event.startswith("event: ")]


# ---- FIN after a request ----

def check_half_closes(report, server):
    def half_closed(data):
        w = Wire(server.port)
        w.send(data)
        w.end_writing()
        return w

    with report.serving("FIN after a request: a whole answer", server):
        with half_closed(ask("say first")) as w:
            answer = w.read_answer()
            assert answer.status == 200 and said(answer) == "first", answer.body[:300]
            w.expect_end()
    with report.serving("FIN after a request: a whole stream", server):
        with half_closed(ask("say medium", stream=True)) as w:
            events = events_of(w.read_answer().body)
            assert events[-1]["type"] == "response.completed", events[-1]
            w.expect_end()
    with report.serving("FIN after three requests: three answers", server):
        with half_closed(ask("say first") + request("GET", "/nothing/1") +
                         ask("say second", stream=True)) as w:
            assert said(w.read_answer()) == "first"
            assert b"/nothing/1" in w.read_answer().body
            assert events_of(w.read_answer().body)[-1]["type"] == "response.completed"
            w.expect_end()
    for n in (2, 3, 20):
        with report.serving("FIN after %d requests that are answered at once" % n, server):
            with half_closed(b"".join(request("GET", "/nothing/%d" % i) for i in range(n))) as w:
                for i in range(n):
                    assert b"/nothing/%d" % i in w.read_answer().body
                w.expect_end()
    with report.serving("FIN after a request in chunks", server):
        with half_closed(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
                         b"chunked\r\n\r\n11\r\n{\"content\":\"abc\"}\r\n0\r\n\r\n") as w:
            assert w.read_answer().status == 200
            w.expect_end()
    with report.serving("FIN after the handshake of a WebSocket: the end", server):
        wires = [half_closed(request("GET", "/v1/responses", None, UPGRADE)) for _ in range(50)]
        for w in wires:
            assert w.read_answer().status == 101
            with contextlib.suppress(AssertionError):  # no closing frame: lost
                w.rest()
            w.close()
        assert wait_until(lambda: server.metric('cerium_open{what="websockets"}') == 0), "it stays"
    whole = ask("say first")
    for name, cut in (("a head", 20), ("a line end", whole.index(b"\r\n\r\n") + 2),
                      ("a body", len(whole) - 5)):
        with report.serving("FIN within %s: 400 or nothing, then the end" % name, server):
            with half_closed(whole[:cut]) as w:
                try:
                    answer = w.read_answer()
                except Ended:
                    continue
                assert answer.status in (400, 408), answer.status
                check_error(answer)
                w.expect_end()
    with report.serving("FIN of a connection that asks nothing", server):
        with half_closed(b"") as w:
            w.expect_end()
    with report.serving("FIN while it waits for its turn", server):
        wires = [half_closed(ask("say first", stream=i % 2 == 1)) for i in range(100)]
        for i, w in enumerate(wires):
            answer = w.read_answer()
            assert answer.status == 200 and b"first" in answer.body, (i, answer.body[:300])
            w.expect_end()
            w.close()


# ---- clients that leave ----

def check_leavers(report):
    """A long answer whose reader leaves is canceled, and the metric counts it."""
    def leave_stream(server, leave, over_socket):
        canceled = server.metric("cerium_canceled_total")
        if over_socket:
            s = RawSocket(server.port, timeout=WAIT_S)
            s.send_json({"type": "response.create", "input": "talk for long", "store": False})
            while s.read_json()["type"] != "response.output_text.delta":
                pass
            w = Wire.__new__(Wire)
            w.socket = s.socket
        else:
            w = Wire(server.port)
            w.send(ask("talk for long", stream=True))
            w.until(b"output_text.delta")
        getattr(w, leave)()
        assert wait_until(lambda: server.running() == 0), "it runs on"
        assert server.metric("cerium_canceled_total") == canceled + 1, "it was not canceled"

    with Server(replay=SCRIPT, context=16384, args=["--running", "1"]) as server:
        for over_socket in (False, True):
            for leave in ("close", "reset"):
                with report.serving("%s in the middle of a %s" % (
                        leave, "WebSocket" if over_socket else "stream"), server):
                    leave_stream(server, leave, over_socket)
        with report.serving("FIN while it waits for its turn: asked whether it is there", server):
            with held(server):
                w = Wire(server.port)
                w.send(ask("say first"))
                w.end_writing()
                assert wait_until(lambda: waiting(server) == 1), "it is not there"
                waiting(server)  # its FIN came before this request
            assert w.take(12) == b"HTTP/1.1 100", "it was not asked"
            w.until(b"\r\n\r\n")
            assert said(w.read_answer()) == "first"
            w.close()
        for stream in (b"event: ", b"{"):
            with report.serving("FIN in the middle of a stream of %s: it continues" % (
                    "events" if stream != b"{" else "lines"), server), Wire(server.port) as w:
                check_goes_on(w, stream)
                w.reset()
            assert wait_until(lambda: server.running() == 0), "it runs on"
        for body in (ask("say first"), ask("say first", stream=True)):
            with report.serving("a reset while it waits for its turn", server), held(server):
                waits = Wire(server.port)
                waits.send(body)
                assert wait_until(lambda: waiting(server) == 1), "it is not there"
                waits.reset()
                assert wait_until(lambda: waiting(server) == 0), "it still waits"
        with report.serving("a close while it waits for its turn", server):
            with held(server):
                for _ in range(20):
                    with Wire(server.port) as w:
                        w.send(ask("talk for long", stream=True))
            assert wait_until(lambda: server.running() == 0, 60), "it runs on"


def check_goes_on(w, begins):
    """The chunk that tests whether the client left is one that readers ignore."""
    if begins == b"{":
        w.send(request("POST", "/api/chat", {"messages": [{"role": "user",
                                                           "content": "talk for long"}]}))
    else:
        w.send(ask("talk for long", stream=True))
    w.until(b"\r\n\r\n")
    w.until(begins)
    w.end_writing()
    w.until(b"\r\n \r\n" if begins == b"{" else b"\r\n:\n\n\r\n")
    for _ in range(3):
        size = int(w.until(b"\r\n"), 16)
        more = w.take(size)
        assert w.take(2) == b"\r\n" and more.startswith(begins), more
        if begins == b"{":
            json.loads(more)


def waiting(server):
    """Answers in the server's own queue; the engine's metric counts those that the engine has."""
    return server.json("GET", "/health/live")["waiting"]


def drain(wire):
    """Read until this end is shut."""
    with contextlib.suppress(OSError):
        while wire.socket.recv(1 << 20):
            pass


@contextlib.contextmanager
def held(server):
    """The only place is taken by a stream that is read."""
    holder = Wire(server.port)
    holder.send(ask("talk for long", stream=True))
    holder.until(b"output_text.delta")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(drain, holder)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                holder.socket.shutdown(socket.SHUT_RDWR)
    holder.reset()
    assert wait_until(lambda: server.running() == 0), "it runs on"


# ---- large answers ----

def read_slowly(read, total):
    """Everything, at a pace that a spinning server would fill with work."""
    parts, have = [], 0
    while have < total:
        part = read(min(PIECE_BYTES, total - have))
        parts.append(part)
        have += len(part)
        time.sleep(PACE_S * PIECE_BYTES / total)
    return b"".join(parts)


def large_http(server, slow, tls=None):
    """The server's processor time while an answer of 4 MB is read, which is computed when its head
    arrives."""
    content = "".join("%06d " % i for i in range(LARGE_BYTES // 175))
    w = Wire(server.port, receive=RECEIVE_BYTES if slow else None, tls=tls and tls_client())
    w.send(request("POST", "/tokenize", {"content": content, "with_pieces": True}))
    head = w.until(b"\r\n\r\n").decode()
    began = cpu_s(server)
    total = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
    assert total > 3 << 20, total
    body = read_slowly(w.take, total) if slow else w.take(total)
    took = cpu_s(server) - began
    assert "".join(token["piece"] for token in json.loads(body)["tokens"]) == content
    w.send(request("GET", "/nothing/9"))
    assert b"/nothing/9" in w.read_answer().body, "the connection ends"
    w.close()
    return took


def large_socket(server, slow):
    """Processor time for the events of one response, 4 MB of them, over a WebSocket."""
    metadata = {"a": "y" * (LARGE_BYTES // 3)}
    with RawSocket(server.port, timeout=WAIT_S) as s:
        if slow:
            s.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        s.send_json({"type": "response.create", "input": "say first", "store": False,
                     "metadata": metadata})
        s.fill()
        if slow:  # by then the answer is computed
            time.sleep(0.5)
            s.fill = lambda: fill_slowly(s)
        began = cpu_s(server)
        events = s.read_answer()
        took = cpu_s(server) - began
        assert events[-1]["type"] == "response.completed", str(events[-1])[:300]
        echoes = [event["response"]["metadata"] for event in events if "response" in event]
        assert len(echoes) > 1 and all(echo == metadata for echo in echoes), len(echoes)
        return took


def fill_slowly(s):
    time.sleep(PACE_S * PIECE_BYTES / LARGE_BYTES)
    more = s.socket.recv(PIECE_BYTES)
    assert more, "the server hung up"
    s.data += more


def check_large(report, server):
    """At once, then slowly over all three, each from a server of its own whose time is taken."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        cert, key = certificate(folder)
        secure = stack.enter_context(Server(args=["--tls-cert", cert, "--tls-key", key]))
        other = stack.enter_context(Server(replay=SCRIPT))
        with report.serving("4 MB at once over HTTP", server):
            large_http(server, False)
        with report.serving("4 MB at once over HTTPS", server):
            large_http(secure, False, True)
        with report.serving("4 MB at once over a WebSocket", other):
            large_socket(other, False)
        with ThreadPoolExecutor(3) as pool:
            reads = {"HTTP": pool.submit(large_http, server, True),
                     "HTTPS": pool.submit(large_http, secure, True, True),
                     "a WebSocket": pool.submit(large_socket, other, True)}
        for name, read in reads.items():
            with report.check("4 MB slowly over %s, the processor idle" % name):
                took = read.result()
                assert took < PACE_S / 10 * PATIENCE, "%.2f s of %d" % (took, PACE_S)
