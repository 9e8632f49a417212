"""check_kv_events.py - KV events as routers read them: libzmq's own sockets, and the classes that
vLLM publishes (fields in its order, arrays)."""

import os
import sys
import time
from typing import Optional, Union

import msgspec
import zmq

from wire import HANG_S, Report, Server, Wire, ask

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))
from harness import free_port  # noqa: E402

PAGE = 64
END = 2**64 - 1


class Event(msgspec.Struct, array_like=True, omit_defaults=True, gc=False, tag=True):
    pass


class BlockStored(Event):
    block_hashes: list[Union[int, bytes]]
    parent_block_hash: Optional[Union[int, bytes]]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str] = None
    lora_name: Optional[str] = None
    extra_keys: Optional[list[Optional[tuple]]] = None


class BlockRemoved(Event):
    block_hashes: list[Union[int, bytes]]
    medium: Optional[str] = None


class AllBlocksCleared(Event):
    pass


class Batch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    ts: float
    events: list[Union[BlockStored, BlockRemoved, AllBlocksCleared]]
    data_parallel_rank: Optional[int] = None


READ = msgspec.msgpack.Decoder(Batch)


class Router:
    """What a router knows: blocks by their hash."""

    def __init__(self):
        self.blocks, self.next, self.gaps, self.stored = {}, None, 0, []

    def take(self, number, batch):
        self.gaps += self.next is not None and number != self.next
        self.next = number + 1
        for event in READ.decode(batch).events:
            if isinstance(event, BlockStored):
                assert len(event.token_ids) == event.block_size * len(event.block_hashes)
                assert event.block_size == PAGE and event.medium is None
                assert event.parent_block_hash is None or event.parent_block_hash in self.blocks
                for block in event.block_hashes:
                    self.blocks[block] = event
                self.stored.append(event)
            elif isinstance(event, BlockRemoved):
                for block in event.block_hashes:
                    del self.blocks[block]
            else:
                self.blocks.clear()

    def tokens_known(self, tokens):
        """How many of them the whole blocks from the beginning cover."""
        n, before = 0, None
        while True:
            next_one = [h for h, e in self.blocks.items() if e.parent_block_hash == before and
                        e.token_ids == tokens[n:n + PAGE]]
            if not next_one:
                return n
            n, before = n + PAGE, next_one[0]


def subscriber(context, port, topic=b"kv@"):
    s = context.socket(zmq.SUB)
    s.setsockopt(zmq.SUBSCRIBE, topic)
    s.connect("tcp://127.0.0.1:%d" % port)
    return s


def receive(s, router, topics=None, quiet=0.5):
    """Messages until none arrives for a while; at least one."""
    patience = HANG_S * 1000
    while s.poll(patience):
        topic, number, batch = s.recv_multipart()
        if topics is not None:
            topics.add(topic)
        router.take(int.from_bytes(number, "big"), batch)
        patience = quiet * 1000


def replay(context, port, first):
    s = context.socket(zmq.DEALER)
    s.connect("tcp://127.0.0.1:%d" % port)
    s.send_multipart([b"", first.to_bytes(8, "big")])
    found = []
    while True:
        assert s.poll(HANG_S * 1000), "no end of a replay"
        parts = s.recv_multipart()
        assert len(parts) == 4 and parts[0] == b"", parts
        number = int.from_bytes(parts[2], "big")
        if number == END:
            assert parts[1] == parts[3] == b""
            s.close(0)
            return found
        found.append((parts[1], number, parts[3]))


def complete(s, text, headers=b""):
    body = {"model": "cerium-line", "prompt": text, "max_tokens": 1}
    answer = ask(s.port, "POST", "/v1/completions", body, headers)
    assert answer.status == 200, answer.body
    return answer.json()


def tokens_of(s, text):
    answer = ask(s.port, "POST", "/v1/completions/render",
                 {"model": "cerium-line", "prompt": text, "max_tokens": 1}).json()
    return answer[0]["token_ids"]


def text(seed, n=220):
    return "\n".join("value_%d_%d = compute(%d)" % (seed, i, i * seed) for i in range(n // 10))


def check_events(report, context):
    events, again = free_port(), free_port()
    args = ["--kv-events", "127.0.0.1:%d" % events, "--kv-events-replay", "127.0.0.1:%d" % again,
            "--kv-events-pod", "10.0.0.7:8383", "--running", "1",
            "--context", "512"]
    with Server(args=args) as s:
        router, topics = Router(), set()
        with report.check("a prompt's pages are stored, in order, for a subscriber to kv@", s):
            sub = subscriber(context, events)
            time.sleep(0.5)
            complete(s, text(1))
            receive(sub, router, topics)
            tokens = tokens_of(s, text(1))
            assert router.tokens_known(tokens) == len(tokens) // PAGE * PAGE > 0
            assert router.gaps == 0
        with report.check("topics name the server and the model", s):
            assert topics == {b"kv@10.0.0.7:8383@cerium-line"}, topics
        with report.check("the same prompt again stores nothing", s):
            n = len(router.stored)
            complete(s, text(1))
            assert not sub.poll(500) and len(router.stored) == n
        with report.check("evicted pages are removed, and the rest is what is cached", s):
            seed = 2
            while len(router.stored) < 3 * len(router.blocks) and seed < 200:
                complete(s, text(seed))
                receive(sub, router, quiet=0.05)
                seed += 1
            assert seed < 200, (len(router.stored), len(router.blocks))
            receive(sub, router) if sub.poll(500) else None
            for i in (1, seed - 1):
                known = router.tokens_known(tokens_of(s, text(i)))
                cached = complete(s, text(i))["usage"]["prompt_tokens_details"]["cached_tokens"]
                assert abs(known - cached) <= PAGE, (i, known, cached)
                receive(sub, router, quiet=0.2) if sub.poll(300) else None
        with report.check("a subscriber to another topic gets nothing", s):
            other = subscriber(context, events, b"kv@10.0.0.8")
            time.sleep(0.3)
            complete(s, text(500))
            receive(sub, router)
            assert not other.poll(100)
        with report.check("a late subscriber gets all of it, without gaps", s):
            late = Router()
            for _, number, batch in replay(context, again, 0):
                late.take(number, batch)
            assert late.gaps == 0 and set(late.blocks) == set(router.blocks)
        with report.check("or all from a number", s):
            found = replay(context, again, router.next - 2)
            assert [n for _, n, _ in found] == [router.next - 2, router.next - 1]
            assert replay(context, again, router.next + 1000) == []
        with report.check("a peer that is no subscriber is disconnected, and others stay", s):
            for kind in (zmq.PUSH, zmq.REQ):
                wrong = context.socket(kind)
                wrong.connect("tcp://127.0.0.1:%d" % events)
                wrong.send(b"x", zmq.NOBLOCK) if wrong.poll(300, zmq.POLLOUT) else None
                wrong.close(0)
            with Wire(events) as w:
                w.send(b"GET / HTTP/1.1\r\n\r\n")
                while w.socket.recv(4096):  # our greeting, and the end
                    pass
            complete(s, text(501))
            receive(sub, router)
        sub.close(0)


def check_slow(report, context):
    events, again = free_port(), free_port()
    with Server(args=["--kv-events", "127.0.0.1:%d" % events, "--kv-events-replay",
                      "127.0.0.1:%d" % again]) as s:
        with report.check("without --kv-events-pod topics have the replica's name and the port", s):
            sub, topics = subscriber(context, events), set()
            time.sleep(0.5)
            complete(s, text(1))
            receive(sub, Router(), topics)
            assert len(topics) == 1 and topics.pop().endswith(b":%d@cerium-line" % s.port)


def check_keys(report, context):
    events = free_port()
    with Server(key="one", args=["--api-key", "two", "--kv-events", "127.0.0.1:%d" % events]) as s:
        with report.check("each key has blocks of its own, marked by a salt", s):
            sub, router = subscriber(context, events), Router()
            time.sleep(0.5)
            for key in (b"one", b"two"):
                complete(s, text(1), b"Authorization: Bearer %s\r\n" % key)
            receive(sub, router)
            firsts = [e for e in router.stored if e.parent_block_hash is None]
            assert len(firsts) == 2 and firsts[0].token_ids == firsts[1].token_ids
            assert firsts[0].block_hashes != firsts[1].block_hashes
            assert firsts[0].extra_keys != firsts[1].extra_keys and firsts[0].extra_keys[0]


def main():
    report = Report("kv_events")
    context = zmq.Context()
    check_events(report, context)
    check_slow(report, context)
    check_keys(report, context)
    context.destroy(0)
    report.end()


if __name__ == "__main__":
    main()
