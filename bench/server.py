#!/usr/bin/env python3
"""The server's overhead over the engine, measured from outside, on this machine, in one run.

    bench/server.py --cerium ./cerium --client build/release/bench_server \\
        --make-model build/release/tool_make_model [--llama-server PATH] [--quick]

    round trips   first event of a request that computes nothing: over an open WebSocket, over a
                  fresh HTTP and a fresh HTTPS connection to the same server
    one stream    tokens per second over a WebSocket and by `cerium bench`, on the bundled model and
                  on the 0.5B shape with random weights; the extra cost of a token
    a crowd       1,000 idle WebSockets and 64 that stream: memory, fairness, gaps
    agents        from a steer to its first token; 20 tool calls over the socket and over HTTP;
                  a conversation of three clients: computed tokens and new tokens
    llama.cpp     its own server on the same model (LLAMA_SERVER or --llama-server): the extra cost
                  of a token over its own bench, and the first token of a warm conversation

Runs alternate if two programs are compared.  A figure is the median of its rounds.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import agents
import machine

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models" / "cerium-line.gguf"
TINY = ROOT / "tests" / "golden" / "fixtures" / "llama.gguf"
TOKENS = 400
WORDS = "the quick brown fox jumps over the lazy dog and runs back home again "


def median(values):
    return statistics.median(values) if values else 0.0


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def serving(command, port, folder):
    """A server until the end of the block; yields its process."""
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            end = time.monotonic() + 120
            while time.monotonic() < end and process.poll() is None:
                with contextlib.suppress(OSError):
                    urllib.request.urlopen("http://127.0.0.1:%d/health" % port, timeout=2).read()
                    break
                time.sleep(0.05)
            else:
                sys.exit("%s does not start: %s" % (command[0],
                                                    (folder / "server.log").read_text()[-500:]))
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder, self.results = args, folder, []

    def client(self, *words):
        """The lines printed by the C client."""
        out = subprocess.run([self.args.client, *map(str, words)], capture_output=True, text=True,
                             timeout=900)
        if out.returncode:
            sys.exit("the client failed: " + out.stderr)
        return [json.loads(text) for text in out.stdout.splitlines()]

    def say(self, what, value, unit, goal=None):
        """A line of the table; goal: (test, text)."""
        verdict = "" if goal is None else ("reached" if goal[0](value) else "MISSED")
        print("| %s | %s %s | %s | %s |" % (what, "%.4g" % value, unit, goal[1] if goal else "",
                                            verdict), flush=True)
        self.results.append({"what": what, "value": value, "unit": unit,
                             "goal": goal[1] if goal else None, "verdict": verdict})

    def file(self, name, *requests):
        path = self.folder / name
        path.write_text("".join(json.dumps(r) + "\n" for r in requests))
        return path

    def cerium(self, model, port, *more):
        return [self.args.cerium, "serve", "-m", str(model), "--port", str(port), "--store",
                ":memory:", *more]

    # ---- round trips ----

    def tls_files(self):
        cert, key = self.folder / "cert.pem", self.folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert, "-days",
                        "2", "-subj", "/CN=localhost"], check=True, capture_output=True)
        return ["--tls-cert", str(cert), "--tls-key", str(key)]

    def ask_roundtrips(self, model, n):
        body = json.dumps({"type": "response.create", "input": "x", "generate": False,
                           "store": False})
        port, tls_port = free_port(), free_port()
        with serving(self.cerium(model, port), port, self.folder), \
                contextlib.ExitStack() as stack:
            # The same program with a certificate: one port speaks one of the two.
            command = self.cerium(model, tls_port, *self.tls_files())
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            time.sleep(2)
            return self.client("roundtrip", port, tls_port, n, body)

    def roundtrips(self):
        """With a tiny model the time is the server's own: if two cores
        serve and ask, other processes run in the middle of one exchange in a hundred."""
        n = 400 if self.args.quick else 4000
        rows = self.ask_roundtrips(TINY, n)

        def figure(name, after_ms, key, rows=rows):
            return statistics.median(r[key] for r in rows
                                     if r["roundtrip"] == name and r.get("after_ms") == after_ms)

        self.say("time that the machine takes from a spinning thread", rows[0]["share"], "")

        for after_ms, goals in (1, (150, 500)), (4, (None, None)):
            for key, goal in zip(("p50_us", "p99_us"), goals):
                what = "%s, %d ms after the last" % (key[:3], after_ms)
                self.say("round trip, open WebSocket, " + what, figure("websocket", after_ms, key),
                         "us", goal and (lambda v: v < goal, "under %d" % goal))
                self.say("a bare echo, " + what, figure("echo", after_ms, key), "us")
        https = figure("fresh https", 4, "p50_us")
        self.say("round trip, fresh HTTP, p50", figure("fresh http", 4, "p50_us"), "us")
        self.say("round trip, fresh HTTPS, p50", https, "us")
        self.say("WebSocket / fresh HTTPS, p50", figure("websocket", 4, "p50_us") / https, "",
                 (lambda v: v <= 0.2, "at most 0.2"))
        rows = self.ask_roundtrips(MODEL, n)
        for key in "p50_us", "p99_us":
            self.say("the bundled model computes in between: open WebSocket, %s, 1 ms after the "
                     "last" % key[:3], figure("websocket", 1, key, rows), "us")

    # ---- one stream ----

    def engine_rate(self, model, tokens):
        out = subprocess.run([self.args.cerium, "bench", "-m", str(model), "--prefill", "32",
                              "--decode", str(tokens), "--depth", "0", "--runs", "1", "--json"],
                             capture_output=True, text=True, check=True)
        return json.loads(out.stdout)["decode_tokens_per_s"]

    def replay_long(self):
        """A script with answers that never end before their cap."""
        return self.file("long.jsonl", {"output": WORDS * 400, "repeat": True})

    def one_stream(self, name, model, share, tokens, rounds):
        port = free_port()
        request = self.file("one.jsonl", {"type": "response.create", "input": "say something",
                                          "max_output_tokens": tokens, "store": False})
        served, own = [], []
        # Its text is repetitive, and the engine's own speed is without drafts.
        command = self.cerium(model, port, "--replay", str(self.replay_long()), "--no-speculation")
        for _ in range(2 if self.args.quick else rounds):
            own.append(self.engine_rate(model, tokens))
            with serving(command, port, self.folder):
                self.client("stream", port, "ws", request)  # warms up
                answers = self.client("stream", port, "ws", request)
                assert answers[0]["tokens"] == tokens, answers
                served.append(answers[0]["tokens_per_s"])
        ratios = [a / b for a, b in zip(served, own)]
        self.say("%s: the engine's own" % name, median(own), "tokens/s")
        self.say("%s: one stream" % name, median(served), "tokens/s")
        self.say("%s: stream / engine" % name, median(ratios), "",
                 (lambda v: v >= share, "at least %.2f" % share))
        overhead = [1e6 / a - 1e6 / b for a, b in zip(served, own)]
        self.say("%s: a token costs more" % name, median(overhead), "us")
        return median(overhead)

    # ---- a crowd ----

    def crowd(self):
        port = free_port()
        request = self.file("crowd.jsonl", {"type": "response.create", "input": "say something",
                                            "max_output_tokens": 200, "store": False})
        command = self.cerium(MODEL, port, "--replay", str(self.replay_long()))
        idle, streams = (200, 16) if self.args.quick else (1000, 64)
        with serving(command, port, self.folder) as process:
            self.client("crowd", port, process.pid, 0, 8, request)  # warms up
            r = self.client("crowd", port, process.pid, idle, streams, request)[0]
        self.say("memory of an idle WebSocket", r["kb_per_idle"], "KiB",
                 (lambda v: v < 64, "under 64"))
        self.say("%d streams together" % streams, r["tokens_per_s"], "tokens/s")
        self.say("slowest / median stream", r["rate_min"] / (r["rate_p50"] or 1), "",
                 (lambda v: v > 0.5, "no stream starves: over 0.5"))
        self.say("longest gap of any stream", r["gap_max_ms"], "ms")
        self.say("first token, median of all streams", r["first_p50_ms"], "ms")

    # ---- beside llama.cpp ----

    def llama_overhead(self, model):
        """Extra us per token of llama.cpp's server over its own bench, and its warm first
        token in ms."""
        server = self.args.llama_server
        bench = pathlib.Path(server).with_name("llama-bench")
        threads = str(os.cpu_count())
        port = free_port()
        body = {"prompt": "say something", "max_tokens": TOKENS, "stream": True, "ignore_eos": True,
                "temperature": 0, "stream_options": {"include_usage": True}}
        request = self.file("llama.jsonl", body)
        chat = [{"role": "user", "content": WORDS * 15}]
        turns = [{"messages": chat, "max_tokens": 16, "stream": True, "ignore_eos": True,
                  "temperature": 0, "cache_prompt": True}]
        turns.append({**turns[0], "messages": chat + [{"role": "assistant", "content": "yes"},
                                                      {"role": "user", "content": "go on"}]})
        talk = self.file("llama-chat.jsonl", *turns)
        overheads, firsts, own_rates, rates = [], [], [], []
        command = [server, "-m", str(model), "--port", str(port), "-t", threads, "-c", "4096",
                   "--log-disable", "-np", "1"]
        for _ in range(2 if self.args.quick else 5):
            out = subprocess.run([bench, "-m", model, "-t", threads, "-p", "0", "-n", str(TOKENS),
                                  "-r", "1", "-o", "json"], capture_output=True, text=True)
            own = json.loads(out.stdout)[0]["avg_ts"]
            with serving(command, port, self.folder):
                self.client("stream", port, "/v1/completions", request)
                answer = self.client("stream", port, "/v1/completions", request)[0]
                firsts.append(self.client("stream", port, "/v1/chat/completions",
                                          talk)[1]["first_ms"])
            rate = answer["tokens_per_s"]
            overheads.append(1e6 / rate - 1e6 / own)
            own_rates.append(own)
            rates.append(rate)
        self.say("llama.cpp: its bench", median(own_rates), "tokens/s")
        self.say("llama.cpp: its server", median(rates), "tokens/s")
        return median(overheads), median(firsts)

    def warm_first_token(self, model):
        port = free_port()
        talk = self.file(
            "warm.jsonl",
            {"type": "response.create", "input": WORDS * 15, "max_output_tokens": 16},
            {"type": "response.create", "input": "go on", "max_output_tokens": 16,
             "previous_response_id": "$PREV"})
        firsts = []
        command = self.cerium(model, port, "--replay", str(self.replay_long()))
        for _ in range(2 if self.args.quick else 5):
            with serving(command, port, self.folder):
                firsts.append(self.client("stream", port, "ws", talk)[1]["first_ms"])
        return median(firsts)

    def beside_llama(self, name, model, ours):
        theirs, their_first = self.llama_overhead(model)
        first = self.warm_first_token(model)
        self.say("%s: a token costs more in llama.cpp's server" % name, theirs, "us")
        if theirs > 0:
            self.say("%s: ours / llama.cpp's" % name, ours / theirs, "",
                     (lambda v: v <= 0.5, "at most 0.5"))
        self.say("%s: first token, warm conversation" % name, first, "ms")
        self.say("%s: the same in llama.cpp's server" % name, their_first, "ms")
        self.say("%s: ours / llama.cpp's" % name, first / their_first, "",
                 (lambda v: v <= 0.5, "at most 0.5"))


def streams(bench, half):
    first = bench.one_stream("bundled model", MODEL, 0.90, 1000, 11)
    second = bench.one_stream("0.5B shape", half, 0.97, 400, 5)
    if bench.args.llama_server and os.access(bench.args.llama_server, os.X_OK):
        bench.beside_llama("bundled model", MODEL, first)
        bench.beside_llama("0.5B shape", half, second)
    else:
        print("\nskipped: llama.cpp's server: name one by LLAMA_SERVER or --llama-server")


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cerium", default=str(ROOT / "cerium"))
    p.add_argument("--client", required=True)
    p.add_argument("--make-model", required=True)
    p.add_argument("--llama-server", default=os.environ.get("LLAMA_SERVER"))
    p.add_argument("--quick", action="store_true", help="fewer rounds, to see that it works")
    p.add_argument("--agents", action="store_true", help="only the agents' part: two minutes")
    p.add_argument("--json", help="write the figures to this file too")
    args = p.parse_args()
    args.cerium, args.client = (str(pathlib.Path(x).resolve()) for x in (args.cerium, args.client))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cerium-bench-"))
    print(machine.here() + "\n")
    print("| measured | value | goal | |\n|---|---|---|---|")
    bench = Bench(args, folder)
    half = ROOT / "build" / "qwen2.5-coder-0.5b-random.gguf"
    try:
        if not half.exists():
            subprocess.run([args.make_model, "--shape", "qwen2.5-coder-0.5b", "--type", "q4_0",
                            "-o", str(half)], check=True)
        if not args.agents:
            bench.roundtrips()
            bench.crowd()
        agents.steering(bench, serving, free_port, half)
        agents.chain(bench, serving, free_port, MODEL)
        agents.conversation(bench, serving, free_port, MODEL)
        if not args.agents:
            streams(bench, half)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(bench.results, indent=1) + "\n")
    sys.exit(any(r["verdict"] == "MISSED" for r in bench.results))


if __name__ == "__main__":
    main()
