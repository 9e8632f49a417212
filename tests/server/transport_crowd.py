"""transport_crowd.py - many clients, and clients that never end: all others are served.

Waiting is counted in turns of the event loop and passes of the model: other load on the
machine changes neither."""

import contextlib
import os
import re
import resource
import socket
import tempfile
import threading
import time

from transport_ends import UPGRADE
from wire import (PATIENCE, PING, SANITIZED, SCRIPT, WAIT_S, Ended, RawSocket, Server, Wire,
                  certificate, cpu_s, frame, request, serves, wait_until)

CONNECTIONS = 4096  # the default of --connections
FILES = 2 * CONNECTIONS + 1000
READERS = 8 if SANITIZED else 64  # each with a key; a sanitizer takes minutes for more
TURNS_MAX = 10  # of the loop, for four small requests in a row: each takes one


def bearer(key):
    return b"Authorization: Bearer %s\r\n" % key.encode() if key else b""


def talk(key=None, **fields):
    """A long stream of large events: its reader is parked after a few hundred tokens."""
    return request("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": "talk for long"}], "stream": True,
        "logprobs": True, "top_logprobs": 20, **fields}, bearer(key))


def turns(server, key=None):
    """Number of turns that the loop needs for three requests: one each, whatever others do, as each
    client is served in every turn."""
    metrics = request("GET", "/metrics", None, bearer(key))
    with Wire(server.port) as w:
        w.send(metrics + request("GET", "/nothing/1", None, bearer(key)) * 3 + metrics)
        answers = [w.read_answer() for _ in range(5)]
    first, last = (float(re.search(rb"cerium_loop_turn_seconds_count (\S+)", answers[i].body)[1])
                   for i in (0, 4))
    return last - first


def check_turns(server, key=None):
    n = turns(server, key)
    assert n <= TURNS_MAX, "three requests took %d turns of the loop" % n


def stuck(server, n, over_socket=False):
    """n readers that read nothing of a long answer."""
    held = []
    for i in range(n):
        if over_socket:
            held.append(RawSocket(server.port, timeout=WAIT_S))
            held[-1].send_json({"type": "response.create", "input": "talk for long",
                                "store": False, "stream_id": "s", "top_logprobs": 20,
                                "include": ["message.output_text.logprobs"]})
        else:
            held.append(Wire(server.port, receive=4096))
            held[-1].send(talk())
    return held


def served(server, text="say first", want="first"):
    answer = server.json("POST", "/v1/responses", {"input": text, "store": False},
                         timeout=WAIT_S)
    assert answer["output"][0]["content"][0]["text"] == want, answer


def close_all(held):
    for one in held:
        with contextlib.suppress(OSError):
            one.close()


def check_stuck(report):
    for n, running, over_socket in ((1, 1, False), (1, 1, True), (64, 64, False), (8, 4, True),
                                    (64, 4, False)):
        with Server(replay=SCRIPT, context=16384, args=["--running", str(running)]) as server:
            what = "WebSockets" if over_socket else "streams"
            with report.serving("%d stuck readers of %s, %d places" % (n, what, running), server):
                held = stuck(server, n, over_socket)
                served(server)
                assert wait_until(lambda: rests(server), 60), "it still computes"
                served(server)
                close_all(held)
                assert wait_until(lambda: server.running() == 0), "theirs run on"
                served(server)


def idles(server):
    """No work for half a second: nothing computes, nothing spins."""
    before = cpu_s(server)
    time.sleep(0.5)
    return cpu_s(server) - before < 0.1 * min(PATIENCE, 2)


def passes(server):
    return server.metric("cerium_passes_total")


def rests(server):
    """The model computes nothing for half a second."""
    before = passes(server)
    time.sleep(0.5)
    return passes(server) == before


def first_token(server, key):
    """Passes of the model until another client has its whole answer, of a few tokens."""
    before = passes(server)
    with Wire(server.port) as w:
        w.send(request("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "say first"}], "stream": True,
            "max_tokens": 2}, bearer(key)))
        answer = w.read_answer()
    assert answer.status == 200 and answer.body.endswith(b"[DONE]\n\n"), answer.body[-300:]
    return passes(server) - before


def check_stuck_keys(report):
    """Readers that read nothing, each with a key of its own and a place of its own."""
    *keys, other = ["key-of-reader-%d" % i for i in range(READERS + 1)]
    long = {"type": "json_schema", "json_schema": {"name": "long", "schema": {
        "type": "string", "minLength": 5000}}}
    for what, replay, fields in (("a script's answers", SCRIPT, {}),
                                 ("the model's", None, {"response_format": long})):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "keys")
            with open(path, "w") as f:
                f.write("\n".join(keys + [other]))
            with Server(replay=replay, context=16384, key=other,
                        args=["--running", str(READERS), "--stall-time", "600",
                              "--api-key-file", path]) as server:
                with report.serving("%d stuck readers of %s, a key each" % (READERS, what), server):
                    alone = max(first_token(server, other) for _ in range(2))
                    held = []
                    for key in keys:
                        held.append(Wire(server.port, receive=4096))
                        held[-1].send(talk(key, **fields))
                    for w in held:
                        w.until(b"\r\n\r\n")
                    check_turns(server, other)
                    first_token(server, other)
                    assert wait_until(lambda: not server.metric('cerium_open{what="streams"}'),
                                      240), "they hold places"
                    assert wait_until(lambda: rests(server), 60), "it still computes"
                    beside = first_token(server, other)
                    assert beside <= 2 * alone + 2, "%d passes, alone %d" % (beside, alone)
                    check_turns(server, other)
                    close_all(held)
                    assert wait_until(lambda: server.running() == 0), "theirs run on"


def check_stuck_answers(report, server):
    """Unread answers of 1 MB, several in a row on each connection."""
    body = {"content": "".join("%06d " % i for i in range(6000)), "with_pieces": True}
    with report.serving("64 readers that read nothing of 4 large answers each", server):
        held = []
        for _ in range(64):
            held.append(Wire(server.port, receive=4096))
            held[-1].send(request("POST", "/tokenize", body) * 4)
        assert serves(server), "no other client is answered"
        assert wait_until(lambda: idles(server), 60), "it spins"
        for w in held[::8]:
            for _ in range(4):
                assert w.read_answer().status == 200
        close_all(held)


def check_stuck_errors(report, server):
    """WebSockets that read nothing of 200 KB: too little for their answers to be parked."""
    with report.serving("4 WebSockets that read nothing of 1,000 short answers", server):
        held = [RawSocket(server.port, timeout=WAIT_S) for _ in range(4)]
        for s in held:
            s.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for i in range(1000):
                s.send_json({"type": "response.create", "previous_response_id": "resp_%d" % i,
                             "input": "x"})
        assert serves(server), "no other client is answered"
        assert wait_until(lambda: idles(server), 20), "it spins"
        close_all(held)


def check_idle(report, server):
    """The 4,097th connection is served; the oldest idle one is closed."""
    with report.serving("%d idle connections, and one more" % CONNECTIONS, server):
        held = []
        try:
            for i in range(CONNECTIONS):
                held.append(Wire(server.port, source=2 + i // 1024))
                if i % 2:
                    held[-1].send(request("GET", "/health/live"))
                    assert held[-1].read_answer().status == 200
            for _ in range(3):
                assert serves(server), "the next one is not served"
            check_turns(server)
            served(server)
            assert held[0].rest() == b"", "the oldest one is still there"
            held[-1].send(request("GET", "/nothing/1"))
            assert held[-1].read_answer().status == 404, "the newest one was closed"
        finally:
            close_all(held)
        assert wait_until(lambda: server.metric('cerium_open{what="connections"}') < 10)


# ---- writers without end ----

WRITERS = {
    "a head": (b"GET /v1/models HTTP/1.1\r\n", b"X"),
    "fields": (b"GET /v1/models HTTP/1.1\r\n", b"X: y\r\n"),
    "empty lines": (b"", b"\r\n"),
    "a body": (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", b"{"),
    "chunks": (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
               b"1\r\n \r\n"),
    "a chunk's extension": (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                            b"Transfer-Encoding: chunked\r\n\r\n1;", b"a"),
    "trailers": (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                 b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n"),
    "a body that is not read": (b"POST /nothing HTTP/1.1\r\nHost: localhost\r\n"
                                b"Content-Length: 1000\r\n\r\n", b"{"),
}


def write_on(wires):
    """One more piece to each, until the server has closed them; the names of those it has not."""
    end = time.monotonic() + 30 * PATIENCE
    while wires and time.monotonic() < end:
        for name, (wire, more) in list(wires.items()):
            wire.socket.settimeout(0.01)
            try:
                wire.socket.sendall(more)
                wire.data = b""
                wire.fill()
            except (OSError, Ended):
                del wires[name]
                wire.close()
            except AssertionError as error:  # no bytes: it is still open
                if str(error).startswith("reset"):
                    del wires[name]
        time.sleep(0.2)
    return list(wires)


def check_writers(report):
    limits = ["--header-time", "1", "--body-time", "2", "--idle-time", "3"]
    with Server(args=limits) as server, tempfile.TemporaryDirectory() as folder:
        cert, key = certificate(folder)
        with report.serving("writers that never end, a piece at a time", server):
            wires = {}
            for name, (begin, more) in WRITERS.items():
                wires[name] = (Wire(server.port), more)
                wires[name][0].send(begin)
            left = write_on(wires)
            assert not left, "still open: %s" % ", ".join(left)
        with report.serving("a silent connection is closed", server):
            with Wire(server.port) as w, Wire(server.port) as other:
                other.send(request("GET", "/health/live"))
                assert other.read_answer().status == 200
                w.rest()
                other.expect_end()
        for name in ("fields", "a chunk's extension", "trailers", "empty lines"):
            with report.serving("%s without end, as fast as they go" % name, server):
                begin, more = WRITERS[name]
                with Wire(server.port) as w:
                    w.push(begin)
                    end = time.monotonic() + WAIT_S
                    with contextlib.suppress(OSError):  # bytes sent after the end may be read
                        while time.monotonic() < end:
                            w.socket.sendall(more * 10000)
                        raise AssertionError("it is read for ever")
        with Server(args=[*limits, "--tls-cert", cert, "--tls-key", key]) as secure:
            with report.check("a handshake of TLS that never ends"):
                with Wire(secure.port) as w:
                    w.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
                    w.rest()
            with report.check("plain text and noise to a TLS port end at once"):
                for data in (request("GET", "/health/live"), bytes(range(256)) * 10):
                    with Wire(secure.port) as w:
                        w.push(data)
                        with contextlib.suppress(AssertionError):
                            w.rest()
                assert secure.process.poll() is None and secure.stop() == 0


def flood(server, stopped, begin, more, counts, i):
    """Write on, and read what comes; both are counted.  Over a new connection when the server has
    ended one."""
    while not stopped.is_set():
        with contextlib.suppress(OSError), Wire(server.port, timeout=0.05) as w:
            w.send(begin)
            w.socket.setblocking(False)
            sent, data = 0, more
            while not stopped.is_set():
                with contextlib.suppress(BlockingIOError):
                    sent = w.socket.send(data)
                    counts[i] += sent
                    data = data[sent:] or more
                with contextlib.suppress(BlockingIOError):
                    got = len(w.socket.recv(1 << 16))
                    counts[i] += got
                    if not got:
                        break


FLOODS = {
    "requests": (b"", request("GET", "/health/live") * 200),
    "requests of one byte's body": (b"", request("POST", "/tokenize", b"x") * 200),
    "a body in chunks": (WRITERS["chunks"][0], b"400\r\n" + b" " * 1024 + b"\r\n"),
    "fields": (WRITERS["fields"][0], b"X: y\r\n" * 1000),
    "messages": (request("GET", "/v1/responses", None, UPGRADE), frame("x") * 1000),
    "pings": (request("GET", "/v1/responses", None, UPGRADE), frame("p", PING) * 1000),
}


def check_floods(report, server):
    """Writers that never end, as fast as they go, all at once, and how another client fares."""
    with report.serving("writers that never end, as fast as they go: others get their turn",
                        server):
        stopped, counts = threading.Event(), [0] * len(FLOODS)
        threads = [threading.Thread(target=flood, args=(server, stopped, *data, counts, i))
                   for i, data in enumerate(FLOODS.values())]
        for t in threads:
            t.start()
        try:
            assert wait_until(lambda: all(counts)), "they do not write"
            for _ in range(2 if SANITIZED else 10):
                before = list(counts)
                check_turns(server)
                served(server)
                assert wait_until(lambda: all(a > b for a, b in zip(counts, before))), [
                    name for name, a, b in zip(FLOODS, counts, before) if a == b]
        finally:
            stopped.set()
            for t in threads:
                t.join()


# ---- out of files, and the end ----

class Short(Server):
    """A server that may open 64 files."""

    def start(self):
        if self.command[0] != "sh":
            self.command = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", *self.command]
        super().start()


def check_files(report):
    with Short(replay=SCRIPT) as server:
        with report.serving("64 files: connected clients are served, and nothing spins", server):
            first = Wire(server.port)
            first.send(request("GET", "/health/live"))
            assert first.read_answer().status == 200
            held = [Wire(server.port) for _ in range(200)]
            held[-1].send(request("GET", "/nothing/1"))
            assert wait_until(lambda: idles(server), 20), "it spins"
            first.send(request("POST", "/tokenize", {"content": "x"}))
            with contextlib.suppress(Ended):  # it was the oldest idle one, and may have been closed
                assert first.read_answer().status == 200
            close_all([first, *held])
            assert wait_until(lambda: serves(server)), "no new client is served"
            served(server)


def check_end(report):
    for how in ("close", "stay"):
        with Server(replay=SCRIPT, context=16384, args=["--drain", "1"]) as server:
            with report.check("SIGTERM among stuck readers, half requests and WebSockets: " + how):
                held = stuck(server, 8) + stuck(server, 8, True)
                held += [RawSocket(server.port) for _ in range(8)]
                for data in (b"", b"GET / HT", request("POST", "/x", {})[:-2]):
                    held.append(Wire(server.port))
                    held[-1].send(data)
                served(server)
                if how == "close":
                    close_all(held)
                assert server.stop() == 0
                close_all(held)


def check_crowd(report, server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES:
        report.skip("%d idle connections" % CONNECTIONS, "only %d files may be open" % hard)
    else:
        check_idle(report, server)
    check_stuck_answers(report, server)
    check_stuck_errors(report, server)
    check_stuck(report)
    check_stuck_keys(report)
    check_floods(report, server)
    check_writers(report)
    check_files(report)
    check_end(report)


def raise_limit():
    """For this process and its servers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    want = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, want), hard))
