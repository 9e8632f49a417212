"""transport_dialects.py - the same for every API's streams: signs of life, a slow
reader, one that reads nothing, FIN after a request, clients that leave."""

import json
import time

from wire import LONG, SCRIPT, WAIT_S, Server, Wire, request, wait_until

PIECE_BYTES, SLOW_PIECES = 20000, 50
WORDS = 1500  # the least number of tokens, of an answer with large events


def user(text):
    return [{"role": "user", "content": text}]


def sse(body):
    return [json.loads(data) for data in (
        line[6:] for line in body.decode().split("\n") if line.startswith("data: "))
        if data != "[DONE]"]


def lines(body):
    return [json.loads(one) for one in body.splitlines()]


class Dialect:
    """path: of the request; fields: its body for a text; text: of an event; end: the last bytes;
    life: a sign of life; large: fields that make its answer large."""

    def __init__(self, path, fields, read, text, end, life, **large):
        self.path, self.fields, self.read, self.text = path, fields, read, text
        self.end, self.life, self.large = end, life, large

    def ask(self, text, headers=b"", **fields):
        return request("POST", self.path, {**self.fields(text), **fields}, headers)

    def said(self, body):
        assert body.rstrip().endswith(self.end), body[-300:]
        return "".join(self.text(event) for event in self.read(body))


def choice_text(event):
    return "".join(c.get("text") or c.get("delta", {}).get("content") or ""
                   for c in event["choices"])


DIALECTS = {
    "Responses": Dialect(
        "/v1/responses", lambda t: {"input": t, "store": False, "stream": True}, sse,
        lambda e: e["delta"] if e["type"] == "response.output_text.delta" else "",
        b"", b'event: keepalive\ndata: {"type":"keepalive"', top_logprobs=20,
        include=["message.output_text.logprobs"], max_output_tokens=WORDS),
    "chat": Dialect(
        "/v1/chat/completions", lambda t: {"messages": user(t), "stream": True}, sse,
        choice_text, b"data: [DONE]", b": keep-alive\n\n", logprobs=True, top_logprobs=20,
        max_tokens=WORDS),
    "completions": Dialect(
        "/v1/completions", lambda t: {"prompt": t, "stream": True, "max_tokens": 100000}, sse,
        choice_text, b"data: [DONE]", b": keep-alive\n\n", logprobs=5,
        max_tokens=WORDS),
    "Messages": Dialect(
        "/v1/messages", lambda t: {"messages": user(t), "max_tokens": 100000, "stream": True}, sse,
        lambda e: e["delta"].get("text", "") if e["type"] == "content_block_delta" else "",
        b'data: {"type":"message_stop"}', b'event: ping\ndata: {"type":"ping"}\n\n'),
    "Ollama's chat": Dialect(
        "/api/chat", lambda t: {"messages": user(t)}, lines, lambda e: e["message"]["content"],
        b"}", b'"message":{"role":"assistant","content":""},"done":false}\n'),
    "Ollama's generate": Dialect(
        "/api/generate", lambda t: {"prompt": t}, lines, lambda e: e["response"], b"}",
        b'"response":"","done":false}\n'),
    "llama.cpp's completion": Dialect(
        "/completion", lambda t: {"prompt": t, "stream": True, "n_predict": 100000}, sse,
        lambda e: e["content"], b"}", b": keep-alive\n\n", n_probs=20,
        n_predict=WORDS),
}


class Holder:
    """The only place is taken until this ends, by unread choices."""

    def __init__(self, server):
        self.wire = Wire(server.port)
        self.wire.send(request("POST", "/v1/completions", {
            "prompt": "talk for long", "n": 64, "max_tokens": 6000}))
        assert wait_until(lambda: server.running() == 1), "it does not run"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wire.close()


def check_life(report, server):
    for name, dialect in DIALECTS.items():
        with report.serving("signs of life while it waits: " + name, server):
            with Wire(server.port) as w:
                with Holder(server):
                    w.send(dialect.ask("say first"))
                    for _ in range(2):
                        w.until(dialect.life)
                assert b"first" in w.until(b"\r\n0\r\n\r\n")


def check_ends_of_streams(report, server):
    """FIN after streams, and clients that leave them."""
    for name, dialect in DIALECTS.items():
        with report.serving("FIN after streams: " + name, server):
            with Wire(server.port) as w:
                w.send(dialect.ask("say first") * 2 + request("GET", "/nothing/1"))
                w.end_writing()
                for _ in range(2):
                    assert dialect.said(w.read_answer().body) == "first"
                assert w.read_answer().status == 404
                w.expect_end()
        for leave in ("close", "reset"):
            with report.serving("%s in the middle of a stream: %s" % (leave, name), server):
                canceled = server.metric("cerium_canceled_total")
                w = Wire(server.port)
                w.send(dialect.ask("talk for long"))
                w.until(b"word3")
                getattr(w, leave)()
                assert wait_until(lambda: server.running() == 0), "it runs on"
                assert server.metric("cerium_canceled_total") == canceled + 1, "not canceled"


def read_body(w):
    """Chunks until their end, slowly at first."""
    parts, end = [w.data], w.data
    w.data = b""
    while not end.endswith(b"\r\n0\r\n\r\n"):
        part = w.socket.recv(PIECE_BYTES)
        assert part, "it ends within a chunk"
        parts.append(part)
        end = (end + part)[-7:]
        if len(parts) < SLOW_PIECES:
            time.sleep(0.01)
    data, at, body = b"".join(parts), 0, []
    while True:
        line_end = data.index(b"\r\n", at)
        size = int(data[at:line_end], 16)
        if not size:
            return b"".join(body)
        body.append(data[line_end + 2 : line_end + 2 + size])
        at = line_end + 4 + size


def check_slow(report, server):
    """A reader that reads nothing gives its place to others; the whole answer is there when it
    reads at last."""
    for name, dialect in DIALECTS.items():
        if name == "Ollama's generate":
            continue  # the same as its chat, which takes long
        with report.serving("a stream that is not read, then slowly: " + name, server):
            with Wire(server.port, receive=4096) as w:
                w.send(dialect.ask("talk for long", **dialect.large))
                w.until(b"\r\n\r\n")
                answer = server.json("POST", "/v1/responses", {"input": "say first",
                                                               "store": False}, timeout=WAIT_S)
                assert answer["output"][0]["content"][0]["text"] == "first", answer
                said = dialect.said(read_body(w))
                assert LONG.startswith(said) and len(said) > WORDS, (len(said), said[-100:])


def check_dialects(report, _):
    with Server(replay=SCRIPT, context=16384,
                args=["--running", "1", "--keep-alive", "1", "--stall-time", "600",
                      "--quiet"]) as server:
        check_life(report, server)
        check_ends_of_streams(report, server)
        check_slow(report, server)
