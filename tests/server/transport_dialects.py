"""transport_dialects.py - what holds for one API's streams holds for each: signs of life, a reader
that is slow, one that takes nothing, FIN behind a request, clients that leave."""

import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from transport_ends import RECEIVE_BYTES, held, waiting
from wire import (PATIENCE, SCRIPT, Server, Wire, certificate, cpu_s, request, tls_client,
                  wait_until)

LARGE_S = 2  # a slow reader takes at least as long
PIECE_BYTES = 20000


def user(text):
    return [{"role": "user", "content": text}]


def sse(body):
    return [json.loads(data) for data in (
        line[6:] for line in body.decode().split("\n") if line.startswith("data: "))
        if data != "[DONE]"]


def lines(body):
    return [json.loads(one) for one in body.splitlines()]


class Dialect:
    """path: of the request; fields: it with a text; text: what events say; end: the last bytes;
    life: a sign of life; large: what makes each of its events large."""

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
        include=["message.output_text.logprobs"]),
    "chat": Dialect(
        "/v1/chat/completions", lambda t: {"messages": user(t), "stream": True}, sse,
        choice_text, b"data: [DONE]", b": keep-alive\n\n", logprobs=True, top_logprobs=20),
    "completions": Dialect(
        "/v1/completions", lambda t: {"prompt": t, "stream": True, "max_tokens": 100000}, sse,
        choice_text, b"data: [DONE]", b": keep-alive\n\n", logprobs=5),
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
        lambda e: e["content"], b"}", b": keep-alive\n\n", n_probs=20),
}


def check_life(report):
    with Server(replay=SCRIPT, context=16384,
                args=["--running", "1", "--keep-alive", "1"]) as server:
        for name, dialect in DIALECTS.items():
            with report.serving("signs of life while it waits: " + name, server):
                with Wire(server.port) as w:
                    with held(server):
                        w.send(dialect.ask("say first"))
                        for _ in range(2):
                            w.until(dialect.life)
                    answer = w.read_chunks_on()
                    assert dialect.text and "first" in answer, answer[-300:]


def check_slow(report):
    """A long answer of large events, read slowly: it is whole, and the processor rests."""
    with Server(replay=SCRIPT, context=16384) as server:
        want = "".join("")


def check_half_closed(report, server):
    for name, dialect in DIALECTS.items():
        with report.serving("FIN behind a stream: " + name, server):
            with Wire(server.port) as w:
                w.send(dialect.ask("say first") * 2 + request("GET", "/nothing/1"))
                w.end_writing()
                for _ in range(2):
                    assert dialect.said(w.read_answer().body) == "first"
                assert w.read_answer().status == 404
                w.expect_end()
