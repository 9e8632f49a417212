#!/usr/bin/env python3
"""The time that a proxy adds to the first token: the same request directly and through it, in
pairs.

    bench/proxy.py [--cerium ./cerium] [--pairs 2000] [--envoy build/cluster/envoy]

HAProxy runs examples/deploy/haproxy.cfg, Envoy envoy.yaml; only names and ports differ.  Both ways
keep their connection, which of a pair is first changes, and each request is a streamed chat of its
own session: the time is from its first byte sent to the first byte of text."""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import machine

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "clients"))

from harness import MODEL, free_port, wait_for  # noqa: E402

GOAL_MS = 1.0
WARM = 50


def first_token(connection, session):
    """Milliseconds."""
    body = json.dumps({"model": "cerium-line", "max_tokens": 4, "stream": True, "messages": [
        {"role": "user", "content": "in session %06d: def add(a, b):" % session}]})
    begun = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", body, {
        "Content-Type": "application/json", "session-id": "session-%d" % session})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    took = None
    while line := answer.readline():
        if took is None and b'"content":"' in line and b'"content":""' not in line:
            took = (time.perf_counter() - begun) * 1e3
    assert took is not None, "no text arrived"
    return took


def adapted(text, ports):
    """A recipe with our server behind each name, and free ports."""
    text = re.sub(r"(address: )cerium-[123](, port_value: )8383", r"\g<1>127.0.0.1\g<2>%d" % (
        ports["server"]), text)
    text = re.sub(r"cerium-[123]:8383", "127.0.0.1:%d" % ports["server"], text)
    for old, name in (("9383", "metrics"), ("8080", "proxy"), ("8404", "state"),
                      ("9901", "state")):
        text = re.sub(r"\b%s\b" % old, str(ports[name]), text)
    return text


@contextlib.contextmanager
def running(command, port, log):
    with open(log, "wb") as f:
        process = subprocess.Popen([str(c) for c in command], stdout=f, stderr=f)

    def answers():
        if process.poll() is not None:
            sys.exit("proxy: %s ended: %s" % (command[0], pathlib.Path(log).read_text()[-500:]))
        with contextlib.suppress(OSError, http.client.HTTPException):
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            c.request("GET", "/v1/models")
            return c.getresponse().status == 200
    try:
        wait_for(answers)
        yield
    finally:
        process.kill()
        process.wait()


def compare(name, ports, n):
    ways = [http.client.HTTPConnection("127.0.0.1", ports[w]) for w in ("server", "proxy")]
    pairs = []
    for i in range(n + WARM):
        both = [0.0, 0.0]
        for way in ((0, 1), (1, 0))[i % 2]:
            both[way] = first_token(ways[way], 2 * i + way)
        pairs.append(both)
    pairs = pairs[WARM:]
    direct, through = (statistics.median(p[way] for p in pairs) for way in (0, 1))
    added = statistics.median(p[1] - p[0] for p in pairs)
    print("%s: first token p50 %.3f ms, directly %.3f ms; of %d pairs the median difference is"
          " %.3f ms: %s" % (name, through, direct, n, added,
                            "ok" if added <= GOAL_MS else "more than %.0f ms" % GOAL_MS))
    return added <= GOAL_MS


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cerium", default=ROOT / "cerium")
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--envoy", default=ROOT / "build" / "cluster" / "envoy")
    args = parser.parse_args()
    print(machine.here())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cerium-proxy-"))
    ports = {name: free_port() for name in ("server", "metrics", "proxy", "state")}
    server = [args.cerium, "serve", "-m", MODEL, "--port", ports["server"], "--metrics-listen",
              "127.0.0.1:%d" % ports["metrics"], "--chat-form", "chatml", "--guard", "off"]
    proxies = [("HAProxy", "haproxy.cfg", shutil.which("haproxy"), ["-db", "-f"]),
               ("Envoy", "envoy.yaml", os.access(args.envoy, os.X_OK) and args.envoy,
                ["--concurrency", "1", "--disable-hot-restart", "--log-level", "error", "-c"])]
    good = True
    with running(server, ports["server"], folder / "cerium.log"):
        for name, recipe, program, options in proxies:
            if not program:
                print("skipped: %s: it is not there" % name)
                continue
            own = folder / recipe
            own.write_text(adapted((ROOT / "examples" / "deploy" / recipe).read_text(), ports))
            with running([program, *options, own], ports["proxy"], folder / (name + ".log")):
                good &= compare(name, ports, args.pairs)
    shutil.rmtree(folder)
    print("load %.1f at the end" % os.getloadavg()[0])
    sys.exit(not good)


main()
