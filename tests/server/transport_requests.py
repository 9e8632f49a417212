"""transport_requests.py - pipelined requests on a connection (RFC 9112, 9.3.2): every
order of two and of three kinds at once, and every order of two cut at every byte.

Each request knows its own answer, marked with its own number, so
that bytes of one in another's answer are noticed."""

import itertools
import json

from wire import HOST, PATIENCE, Ended, Wire, check_error, serves

BATCH = 64
FAILURES_MAX = 5


class Asked:
    """A request and its right answers: one of statuses, with a body that check accepts."""

    def __init__(self, data, statuses, check, head=False, closes=False):
        self.data, self.statuses, self.check = data, statuses, check
        self.head, self.closes = head, closes


def tokens_of(content):
    def check(answer):
        pieces = [token["piece"] for token in answer.json()["tokens"]]
        assert "".join(pieces) == content, (content, pieces)
    return check


def error_with(text):
    def check(answer):
        check_error(answer)
        assert text in answer.json()["error"]["message"], (text, answer.body)
    return check


def post(n, headers=b""):
    body = json.dumps({"content": "word%d" % n, "with_pieces": True}).encode()
    return Asked(b"POST /tokenize HTTP/1.1\r\n" + HOST + headers +
                 b"Content-Length: %d\r\n\r\n" % len(body) + body, [200],
                 tokens_of("word%d" % n))


def chunked(n):
    body = json.dumps({"content": "chunk%d" % n, "with_pieces": True}).encode()
    head = b"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + HOST + b"\r\n"
    chunks = b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part, extension in (
        (body[:5], b";a=b"), (body[5:21], b""), (body[21:], b';c="d e"')))
    return Asked(head + chunks + b"0;last\r\nX-Sum: 1\r\n\r\n", [200], tokens_of("chunk%d" % n))


def missing(n, headers=b"", closes=False):
    path = "/nothing/%d" % n
    return Asked(b"GET %s HTTP/1.1\r\n" % path.encode() + HOST + headers + b"\r\n", [404],
                 error_with(path), closes=closes)


def live(answer):
    assert answer.json()["status"] == "ok", answer.body


def refused(n):
    body = b'{"input": "x", "store": false, "max_output_tokens": "%d"}' % n
    return Asked(b"POST /v1/responses HTTP/1.1\r\n" + HOST +
                 b"Content-Length: %d\r\n\r\n" % len(body) + body, [400],
                 error_with("max_output_tokens"))


def listed(answer):
    assert int(answer.headers["content-length"]) > 0 and not answer.body, answer.headers


def nothing(answer):
    assert not answer.body, answer.body


KINDS = {
    "get": lambda n: Asked(b"GET /health/live HTTP/1.1\r\n" + HOST + b"\r\n", [200], live),
    "missing": missing,
    "post": post,
    "chunked": chunked,
    "bare": lambda n: Asked(b"POST /tokenize HTTP/1.1\r\n" + HOST + b"\r\n", [400],
                            error_with("a JSON object")),
    "head": lambda n: Asked(b"HEAD /v1/models HTTP/1.1\r\n" + HOST + b"\r\n", [200], listed,
                            head=True),
    "options": lambda n: Asked(b"OPTIONS /v1/models HTTP/1.1\r\n" + HOST + b"\r\n", [200, 204],
                               nothing),
    "refused": refused,
    "close": lambda n: missing(n, b"Connection: close\r\n", True),
    "expect": lambda n: post(n, b"Expect: 100-continue\r\n"),
}


def answered(wire, asked):
    """All of them in order, up to the first after which the connection ends."""
    for i, one in enumerate(asked):
        try:
            answer = wire.read_answer(one.head)
        except Ended as end:
            raise AssertionError("request %d: %s" % (i + 1, end))
        assert answer.status in one.statuses, (i + 1, answer.status, answer.body[:200])
        one.check(answer)
        assert answer.closes() or not one.closes, "close was requested, and is missing"
        if answer.closes():
            assert one.closes or answer.status >= 400, "it closes after a good request"
            break
    else:
        wire.end_writing()
    wire.expect_end()


class Orders:
    """Sends orders of requests in batches, so that the server has read the bytes before a cut when
    the rest is sent: by then it has answered a later client."""

    def __init__(self, server):
        self.server, self.number, self.batch, self.failures, self.done = server, 100, [], [], 0

    def add(self, kinds, cut=None, each=False):
        """each: every byte by itself."""
        asked = []
        for kind in kinds:
            self.number += 1
            asked.append(KINDS[kind](self.number))
        self.batch.append((kinds, cut, each, asked))
        if len(self.batch) == BATCH:
            self.flush()

    def flush(self):
        if len(self.failures) >= FAILURES_MAX:
            self.batch = []
        wires = []
        for kinds, cut, each, asked in self.batch:
            data = b"".join(one.data for one in asked)
            wires.append(Wire(self.server.port, 2 + self.done // 4096, timeout=10 * PATIENCE))
            for byte in range(len(data) if each else 0):
                wires[-1].push(data[byte : byte + 1])
            if not each:
                wires[-1].send(data[:cut])
            self.done += 1
        cuts = any(cut for _, cut, _, _ in self.batch)
        if cuts and not serves(self.server):
            self.failures.append("others are not answered; %s among them" % (self.batch[0][:2],))
        for wire, (kinds, cut, _, asked) in zip(wires, self.batch):
            if cut:
                wire.push(b"".join(one.data for one in asked)[cut:])
        for wire, (kinds, cut, _, asked) in zip(wires, self.batch):
            if len(self.failures) < FAILURES_MAX:
                try:
                    answered(wire, asked)
                except (AssertionError, OSError, ValueError, KeyError) as error:
                    self.failures.append("%s cut at %s: %s" % (" ".join(kinds), cut, error))
            wire.close()
        self.batch = []

    def end(self):
        self.flush()
        assert not self.failures, " | ".join(self.failures)


def check_requests(report, server):
    with report.serving("requests: each kind alone, whole and byte by byte", server):
        orders = Orders(server)
        for kind in KINDS:
            orders.add([kind])
            orders.flush()
            orders.add([kind], each=True)
        orders.end()
    for n in (2, 3):
        with report.serving("requests: every order of %d in one segment" % n, server):
            orders = Orders(server)
            for kinds in itertools.product(KINDS, repeat=n):
                orders.add(kinds)
            orders.end()
    with report.serving("requests: every order of 2, cut at every byte", server):
        orders = Orders(server)
        for kinds in itertools.product(KINDS, repeat=2):
            for cut in range(1, sum(len(KINDS[kind](100).data) for kind in kinds)):
                orders.add(kinds, cut)
        orders.end()
    with report.serving("requests: a hundred in a row", server):
        orders = Orders(server)
        kinds = [kind for kind in KINDS if kind not in ("close", "bare", "refused")]
        for first in range(len(kinds)):
            orders.add([kinds[(first + i) % len(kinds)] for i in range(100)])
        orders.end()
