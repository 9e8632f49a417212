"""books.py - what an answer cost by each count: its client, the log, the metrics, the journal
of usage and the minute of its key.  Also another server, which answers as a test wants.

Minutes are read from the file that servers share.  A test sets the key's buckets first, so the
words move by what was taken, independent of the time (bucket.h)."""

import contextlib
import json
import mmap
import os
import re
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from fake_upstream import REFUSAL, ReadingUpstream, chunk  # noqa: E402
from harness import CERIUM, PATIENCE, Report, Server, TooSlow, line, wait_for  # noqa: E402
from rawsocket import RawSocket  # noqa: E402

LONG = " ".join("word%d" % i for i in range(6000))
HALF = 30_000_000_000  # half a bucket, as bucket.h counts
RATE, REQUESTS = 60_000, 600  # a minute: a token is 1 ms of it, a request 100 ms
CONFIG = """
[limits]
load-floor = 100
[tier metered]
tokens-per-minute = %(rate)d
requests-per-minute = %(requests)d
deep-tokens-per-minute = %(rate)d
deep-requests-per-minute = %(requests)d
guard = block
[tier free]
streams = 64
[upstream fake]
url = http://127.0.0.1:%(port)d/v1
models = big
responses = no
retries = 0
failures = 1000
health-time = 0
"""
PLACES, PLACE = 4096, 64  # where buckets are in the shared file: live.c


def cli(*args):
    done = subprocess.run([CERIUM, *args], capture_output=True, text=True, timeout=60 * PATIENCE)
    assert done.returncode == 0, (args, done.stderr)
    return done.stdout.strip()


USED = b"data: " + json.dumps({"choices": [], "usage": {
    "prompt_tokens": 70, "completion_tokens": 9, "total_tokens": 79,
    "prompt_tokens_details": {"cached_tokens": 30}}}).encode() + b"\n\ndata: [DONE]\n\n"


class Upstream(ReadingUpstream):
    """The ways in which it answers."""

    def __init__(self):
        super().__init__()
        self.go_on = threading.Event()

    def head(self, s):
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")

    def answers(self, s):
        self.head(s)
        s.sendall(chunk("deep") + chunk("", finish_reason="stop") + USED)

    def counts_nothing(self, s):
        self.head(s)
        s.sendall(chunk("deep" * 200) + chunk("", finish_reason="stop") + b"data: [DONE]\n\n")

    def pauses(self, s):
        self.head(s)
        s.sendall(chunk("deep" * 200))
        self.go_on.wait(60 * PATIENCE)

    def breaks_off(self, s):
        self.head(s)
        s.sendall(chunk("deep" * 200))

    def refuses(self, s):
        s.sendall(REFUSAL)


class Used:
    """Tokens of prompts, how many of them were cached, tokens generated, and requests."""

    def __init__(self, prompt=0, cached=0, said=0, requests=0):
        self.all = (int(prompt), int(cached), int(said), int(requests))

    def __sub__(self, other):
        return Used(*(a - b for a, b in zip(self.all, other.all)))

    def __add__(self, other):
        return Used(*(a + b for a, b in zip(self.all, other.all)))

    def __eq__(self, other):
        return self.all == other.all

    def __repr__(self):
        return "prompt %d, cached %d, said %d, requests %d" % self.all


def told_by(usage):
    """A usage of any API, of a request that counts if it used anything."""
    details = usage.get("input_tokens_details") or usage.get("prompt_tokens_details") or usage
    numbers = (usage.get("input_tokens", usage.get("prompt_tokens")),
               details.get("cached_tokens", 0),
               usage.get("output_tokens", usage.get("completion_tokens")))
    return Used(*numbers, any(numbers))


def add_keys(store, config):
    """Before the server runs: the server lets no one in without a key."""
    return {name: cli("keys", "add", name, "--tier", tier, "--store", store, "--config", config)
            for name, tier in (("ann", "metered"), ("other", "free"), ("last", "free"))}


class Books:
    def __init__(self, server, store, keys):
        self.server, self.store, self.keys = server, store, keys
        server.key = keys["ann"]
        with sqlite3.connect(store) as db:
            rows = db.execute("SELECT name, id FROM keys").fetchall()
            self.tenants = {name: 2 * id_ for name, id_ in rows}
        self.say()  # the key now has a place in the file

    def ask(self, path, body, method="POST", want=None, key="ann"):
        status, _, data = self.server.request(
            method, path, body, {"Authorization": "Bearer " + self.keys[key]}, timeout=120)
        assert want is None or status == want, (status, data[:300])
        return status, data

    def say(self, key="ann"):
        self.ask("/v1/responses", {"input": "say", "store": False}, want=200, key=key)

    def socket(self, name="ann"):
        return RawSocket(self.server.port, key=self.keys[name], timeout=120 * PATIENCE)

    # ---- reading the books ----

    def words(self, *values):
        """The key's four words in the shared file, requests and tokens, here and upstream; set
        if values are given."""
        with open(self.store + "-live", "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
            at = PLACES
            while struct.unpack_from("<Q", m, at)[0] != self.tenants["ann"] + 1:
                at += PLACE
            if values:
                struct.pack_into("<4Q", m, at + 8, *values)
            return struct.unpack_from("<4Q", m, at + 8)

    def metrics(self):
        _, _, data = self.server.request("GET", "/metrics")
        sums = {}
        for sample in data.decode().splitlines():
            name = re.match(r"cerium_(\w+)_total[ {]", sample)
            if name:
                sums[name[1]] = sums.get(name[1], 0) + float(sample.rsplit(" ", 1)[1])
        return Used(sums["prompt_tokens"], sums["reused_tokens"], sums["new_tokens"],
                    sums["answers"])

    def logged(self, begin):
        with open(self.server.log_path, errors="replace") as f:
            f.seek(begin)
            lines = [dict(pair.split("=", 1) for pair in row.split() if "=" in pair)
                     for row in f if " event=answer " in row]
        return sum((Used(row["prompt"], row["cached"], row["tokens"], row.get("requests", 1))
                    for row in lines), Used())

    def journal(self, key="ann"):
        with sqlite3.connect(self.store) as db:
            row = db.execute("SELECT sum(input_tokens), sum(cached_tokens), sum(output_tokens),"
                             " sum(requests) FROM usage WHERE tenant = ?",
                             (self.tenants[key],)).fetchone()
        return Used(*(n or 0 for n in row))

    def settle(self):
        """All answers so far are in the journal, because a later one is."""
        before = self.journal("last").all
        self.say("last")
        wait_for(lambda: self.journal("last").all != before, 60)

    # ---- one way to end ----

    def once(self, act, left):
        """Usage by each book, or None if it took so long that a bucket was full."""
        self.settle()
        journal, metrics, begin = self.journal(), self.metrics(), self.server.log_end()
        now = time.monotonic_ns()
        before = (now + HALF, now + 2 * HALF - left * 1_000_000) * 2
        self.words(*before)
        told, beside = act()
        wait_for(lambda: self.server.running() == 0)
        after = self.words()
        self.words(0, 0, 0, 0)
        if min(after) < time.monotonic_ns():
            return None
        took = [n - word for n, word in zip(after, before)]
        books = {"metrics": self.metrics() - metrics - beside,
                 "log": self.logged(begin) - beside}
        self.settle()
        books["journal"] = self.journal() - journal
        prompt, cached, output, _ = books["journal"].all
        books["minute"] = Used(prompt, cached, took[1] // 1_000_000 + took[3] // 1_000_000 -
                               (prompt - cached), took[0] // 100_000_000 + took[2] // 100_000_000)
        if told is not None:
            books["answer"] = told
        return books

    def check(self, report, name, act, costs, left=HALF // 1_000_000):
        """act(): (the client's usage, or None; what others used meanwhile).  costs: what must
        hold of what it used.  left: tokens in the key's bucket before."""
        with report.check(name, self.server):
            for _ in range(5):
                books = self.once(act, left)
                if books:
                    break
            else:
                raise TooSlow
            first = books["journal"]
            assert all(book == first for book in books.values()), books
            assert costs(*first.all), first


def events_of(data):
    return [json.loads(part[6:]) for part in data.decode().split("\n")
            if part.startswith("data: {")]


def last_usage(events):
    used = [e.get("response", e).get("usage") for e in events]
    return told_by([u for u in used if u][-1])


def write_config(folder, fake):
    path = os.path.join(folder, "team.ini")
    with open(path, "w") as f:
        f.write(CONFIG % {"rate": RATE, "requests": REQUESTS, "port": fake.port})
    return path


@contextlib.contextmanager
def metered(books, script, *args):
    """Books (or a subclass) of a server with keys and an upstream."""
    fake = Upstream()
    with tempfile.TemporaryDirectory(prefix="cerium-books-") as folder:
        store, config = os.path.join(folder, "team.db"), write_config(folder, fake)
        keys = add_keys(store, config)
        with Server(replay=script, context=16384,
                    args=["--config", config, "--store", store, *args]) as server:
            yield books(server, store, keys), fake


__all__ = ["Books", "HALF", "LONG", "PATIENCE", "RATE", "RawSocket", "Report", "USED", "Used",
           "chunk", "events_of", "last_usage", "line", "metered", "told_by", "wait_for"]
