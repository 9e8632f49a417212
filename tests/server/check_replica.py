"""check_replica.py - one server of several behind a balancer: its name, what probes and
scrapers may ask without a key, how it shuts down without a lost request, and `cerium health`."""

import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import sys

from wire import SCRIPT, Ended, Report, Server, Wire, ask, request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))
from harness import CERIUM, HANG_S, MODEL, free_port, wait_for  # noqa: E402
from rawsocket import Closed, RawSocket, frame  # noqa: E402

KEY = "key-of-this-test"
BEARER = b"Authorization: Bearer " + KEY.encode() + b"\r\n"
HELLO = {"model": "cerium-line", "input": "say first", "max_output_tokens": 4, "store": False}
LONG = {"model": "cerium-line", "input": "talk for long", "stream": True, "store": False}


def tag_of(name):
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def get(port, path, headers=b""):
    return ask(port, "GET", path, None, headers)


def health(*args, env=None):
    """(status, output) of `cerium health`."""
    done = subprocess.run([CERIUM, "health", *args], capture_output=True, text=True,
                          timeout=HANG_S, env={**os.environ, **(env or {})}, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def refused(*args):
    """The one line that a server prints when it does not start."""
    done = subprocess.run([CERIUM, "serve", "-m", MODEL, "--port", "0", *args], timeout=HANG_S,
                          capture_output=True, text=True, check=False)
    assert done.returncode in (1, 2), done
    return done.stderr.strip().split("\n")[-1]


def check_names(report):
    with Server(replay=SCRIPT, args=["--replica", "cerium-2"]) as s:
        with report.check("answers, errors and streams name the server", s):
            for answer in (get(s.port, "/v1/models"), get(s.port, "/nowhere"),
                           get(s.port, "/health/live"), ask(s.port, "POST", "/v1/responses", HELLO),
                           ask(s.port, "POST", "/v1/responses", {**HELLO, "stream": True})):
                assert answer.headers["x-cerium-replica"] == "cerium-2", answer.headers
        with report.check("a page of another origin may read it", s):
            assert "x-cerium-replica" in ask(
                s.port, "GET", "/v1/models", None, b"Origin: http://localhost\r\n").headers
        with report.check("so does a WebSocket", s):
            assert "x-cerium-replica: cerium-2" in RawSocket(s.port).headers.lower()
        with report.check("ids of answers begin with the tag of its name", s):
            for path, body, prefix in (
                    ("/v1/responses", HELLO, "resp_"),
                    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}],
                                              "max_tokens": 1}, "chatcmpl-"),
                    ("/v1/completions", {"prompt": "x", "max_tokens": 1}, "cmpl-")):
                answer = ask(s.port, "POST", path, body).json()
                assert answer["id"].startswith(prefix + tag_of("cerium-2")), answer["id"]
                assert len(answer["id"]) == len(prefix) + 32, answer["id"]
        with report.check("a stored response is found by such an id", s):
            stored = ask(s.port, "POST", "/v1/responses", {**HELLO, "store": True}).json()["id"]
            again = ask(s.port, "POST", "/v1/responses", {**HELLO, "store": True}).json()["id"]
            assert stored != again and get(s.port, "/v1/responses/" + stored).status == 200
    with Server(replay=SCRIPT) as s, report.check("its default name is the host name", s):
        name = get(s.port, "/health").headers["x-cerium-replica"]
        assert name == socket.gethostname()[:64], name
    with Server(replay=SCRIPT, args=["--replica", "none"]) as s:
        with report.check("and no name if none is wanted", s):
            assert "x-cerium-replica" not in get(s.port, "/health").headers
    with report.check("a name that cannot be in a header is refused"):
        for name in ("", "a b", "a\r\nb: c", "a" * 65, "é"):
            assert "--replica" in refused("--replica", name), refused("--replica", name)


def check_probes(report):
    port = free_port()
    where = "127.0.0.1:%d" % port
    with Server(replay=SCRIPT, key=KEY, args=["--metrics-listen", where]) as s:
        with report.check("metrics need no key at their own port", s):
            assert get(s.port, "/metrics").status == 401
            answer = get(port, "/metrics")
            assert answer.status == 200 and answer.headers["content-type"].startswith("text/plain")
            for name in (b"vllm:num_requests_waiting", b"vllm:num_requests_running",
                         b"vllm:kv_cache_usage_perc", b"vllm:cache_config_info",
                         b"vllm:lora_requests_info"):
                assert name in answer.body, name
        with report.check("so does health", s):
            for path in ("/health", "/health/ready", "/health/live"):
                assert get(port, path).status == 200
        with report.check("nothing else is served there, with a key or without", s):
            for headers in (b"", BEARER):
                for path in ("/", "/v1/models", "/v1/responses", "/slots", "/props", "/app.js"):
                    assert get(port, path, headers).status == 404, path
                for path in ("/v1/responses", "/v1/chat/completions", "/infill", "/models/load"):
                    assert ask(port, "POST", path, {}, headers).status == 404, path
        with report.check("nor a WebSocket", s), Wire(port) as w:
            w.send(b"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                   b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                   b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n" + BEARER + b"\r\n")
            assert w.read_answer().status == 404
        with report.check("under any host name, but from no web page", s):
            with Wire(port) as w:
                w.send(b"GET /metrics HTTP/1.1\r\nHost: 10.1.2.3:9383\r\n\r\n")
                assert w.read_answer().status == 200
            assert get(port, "/metrics", b"Origin: https://evil.example\r\n").status == 403
        with report.check("many connections there take none from clients", s):
            held = [Wire(port) for _ in range(64)]
            assert get(s.port, "/v1/models", BEARER).status == 200
            served = 0
            for w in held:
                try:
                    w.send(request("GET", "/health/live"))
                    served += w.read_answer().status == 200
                except (Ended, AssertionError, OSError):
                    pass
                w.close()
            assert 0 < served <= 32, served
        with report.check("and later others are served there again", s):
            def answers():
                try:
                    return get(port, "/metrics").status == 200
                except (Ended, AssertionError, OSError):
                    return False
            wait_for(answers)
        with report.check("successful probes are not logged", s):
            begin = s.log_end()
            for _ in range(20):
                get(port, "/metrics")
            assert "path=/metrics" not in s.log(begin)
        with report.check("revoking a key does not end a scraper's connection", s), Wire(port) as w:
            for _ in range(2):
                w.send(request("GET", "/metrics"))
                assert w.read_answer().status == 200
    with report.check("an invalid address is refused in one line"):
        for place in ("9383", ":9383", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "::1:9383",
                      "[::1]", "[]:1", "a:b:1", "127.0.0.1:-1"):
            said = refused("--metrics-listen", place)
            assert "--metrics-listen '%s'" % place in said, said
    with report.check("so is a port in use"), socket.create_server(("127.0.0.1", 0)) as t:
        place = "127.0.0.1:%d" % t.getsockname()[1]
        said = refused("--metrics-listen", place)
        assert "in use: --metrics-listen 127.0.0.1:" in said, said


def check_leaving(report):
    port = free_port()
    args = ["--metrics-listen", "127.0.0.1:%d" % port, "--lame-duck", "3600", "--drain", "600"]
    with Server(replay=SCRIPT, args=args) as s:
        kept = Wire(s.port)
        kept.send(request("GET", "/health/ready"))
        assert kept.read_answer().status == 200
        idle = RawSocket(s.port)
        running = RawSocket(s.port)
        running.send_json({"type": "response.create", **LONG})
        s.process.send_signal(signal.SIGTERM)
        with report.check("after SIGTERM readiness says no, at both ports", s):
            wait_for(lambda: get(s.port, "/health/ready").status == 503)
            answer = get(port, "/health/ready")
            assert answer.status == 503 and answer.json()["status"] == "shutting down"
            assert get(port, "/health/live").status == 200
        with report.check("and everything is served as before, over new connections too", s):
            assert ask(s.port, "POST", "/v1/responses", HELLO).status == 200
            late = RawSocket(s.port)
            assert late.status == 101
            late.send_json({"type": "response.create", **HELLO})
            while late.read_json()["type"] != "response.completed":
                pass
        with report.check("keep-alive connections end with their answer", s):
            kept.send(request("GET", "/v1/models"))
            answer = kept.read_answer()
            assert answer.status == 200 and answer.closes()
            kept.expect_end()
        s.process.send_signal(signal.SIGTERM)
        with report.check("a second signal cuts that short: idle WebSockets are closed", s):
            try:
                while True:
                    idle.read_json()
            except Closed as end:
                assert end.code == 1001, end
        with report.check("no new clients are let in, but probes are", s):
            def is_shut():
                try:
                    Wire(s.port).close()
                except ConnectionRefusedError:
                    return True
                return False
            wait_for(is_shut)
            assert get(port, "/health/live").status == 200
            assert get(port, "/metrics").status == 200
        with report.check("running answers continue", s):
            assert running.read_json()["type"]
            assert s.process.poll() is None
        with report.check("a third signal ends it", s):
            s.process.send_signal(signal.SIGTERM)
            assert s.process.wait(HANG_S) == 0
    with Server(replay=SCRIPT, args=["--drain", "600"]) as s:
        sockets = [RawSocket(s.port) for _ in range(2)]
        for w in sockets:
            w.send_json({"type": "response.create", **LONG})
            assert w.read_json()["type"]
        s.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "event=draining" in s.log())
        with report.check("new requests on a WebSocket are then redirected", s):
            w = sockets[0]
            w.send(frame(json.dumps({"type": "response.cancel"})) +
                   frame(json.dumps({"type": "response.create", **HELLO})))
            try:
                while True:
                    event = w.read_json()
                    assert event["type"] != "error", event
            except Closed as end:
                assert end.code == 1001, end
    with Server(replay=SCRIPT, args=["--lame-duck", "1"]) as s:
        with report.check("without another signal it proceeds by itself", s):
            assert s.stop() == 0
            log = s.log()
            assert log.index("event=leaving") < log.index("event=draining"), log
    with report.check("SIGTERM at the moment when its port answers: it shuts down cleanly"):
        for _ in range(12):
            with Server(replay=SCRIPT) as s:
                assert s.stop() == 0, s.process.returncode
    with Server(replay=SCRIPT) as s, report.check("without --lame-duck it drains at once", s):
        assert s.stop() == 0
        assert "event=leaving" not in s.log()


def check_limits(report):
    with Server(replay=SCRIPT) as s:
        ini = os.path.join(s.folder, "cerium.ini")
        with open(ini, "w") as f:
            f.write("[limits]\nkey-tier = team\nreplicas = 3\n[tier team]\n"
                    "requests-per-minute = 7\ntokens-per-minute = 9000\n")
        with Server(replay=SCRIPT, args=["--config", ini]) as one:
            with report.check("a limit is divided among the replicas", one):
                told = ask(one.port, "POST", "/v1/responses", HELLO).headers
                assert told["x-ratelimit-limit-requests"] == "3", told
                assert told["x-ratelimit-limit-tokens"] == "3000", told


def check_hosts(report):
    def status(s, host):
        with Wire(s.port) as w:
            w.send(b"GET /v1/models HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
            return w.read_answer().status
    args = ["--allow-host", "code.example.org", "--allow-host", "10.0.0.7"]
    with Server(replay=SCRIPT, args=args) as s:
        with report.check("the proxy's host names are accepted, and no others", s):
            for host, want in ((b"code.example.org", 200), (b"CODE.example.org:8080", 200),
                               (b"10.0.0.7", 200), (b"localhost", 200), (b"example.org", 403),
                               (b"code.example.org.evil", 403), (b"10.0.0.70", 403)):
                assert status(s, host) == want, host


def check_health(report):
    port = free_port()
    with Server(replay=SCRIPT, key=KEY, args=["--metrics-listen", "127.0.0.1:%d" % port,
                                              "--lame-duck", "3600"]) as s:
        with report.check("health: a server that takes requests", s):
            for url in (s.url, s.url + "/", s.url + "/health/live", "http://127.0.0.1:%d" % port):
                status, said = health(url)
                assert status == 0 and said.endswith(": ok"), said
            assert health("--quiet", s.url) == (0, "")
            assert health("--wait", "600", s.url)[0] == 0
        with report.check("health: no proxy is asked", s):
            for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
                assert health(s.url, env={name: "http://127.0.0.1:1"})[0] == 0, name
        with report.check("health: an endpoint that is not /health: its status is reported", s):
            status, said = health(s.url + "/v1/models")
            assert status == 1 and "status 401" in said, said
        s.process.send_signal(signal.SIGTERM)
        with report.check("health: a server that shuts down is not ready, but alive", s):
            wait_for(lambda: health(s.url)[0] == 1)
            assert "shutting down" in health(s.url)[1]
            assert health("--live", s.url)[0] == 0
            assert health("--quiet", s.url) == (1, "")
    with report.check("health: no server there"):
        status, said = health("http://127.0.0.1:%d" % free_port())
        assert status == 1 and said.count("\n") == 0 and "onnect" in said, said
    with report.check("health: a server that accepts and never answers runs into the timeout"):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            status, said = health("--timeout", "1", "http://127.0.0.1:%d" % silent.getsockname()[1])
            assert status == 1 and said, said
    with report.check("health: bad usage"):
        for args in (["nowhere"], ["://x"], ["http://"], ["http://a", "http://b"], ["--fly"],
                     ["--timeout", "0"], ["ftp://127.0.0.1:1"]):
            assert health(*args)[0] == 2, args
    with report.check("health: --wait sees a server that starts"):
        port = free_port()
        url = "http://127.0.0.1:%d" % port
        waiting = subprocess.Popen([CERIUM, "health", "--wait", "600", url], text=True,
                                   stdout=subprocess.PIPE)
        server = subprocess.Popen([CERIUM, "serve", "-m", MODEL, "--port", str(port), "--quiet"])
        try:
            assert waiting.wait(HANG_S) == 0
            assert waiting.stdout.read().strip().endswith(": ok")
        finally:
            waiting.kill()
            waiting.stdout.close()
            server.terminate()
            server.wait(HANG_S)


def check_render(report):
    """The tokens of a prompt that routers get equal those of the real call."""
    rng = random.Random(33)
    words = "def return if (a, b): x = y + 1\n    é 漢 <|im_end|> \t for in range {}".split(" ")

    def text():
        return " ".join(rng.choice(words) for _ in range(rng.randrange(1, 60)))
    with Server(replay=SCRIPT, key=KEY, args=["--chat-form", "chatml"]) as s:
        def post(path, body, want=200):
            answer = ask(s.port, "POST", path, body, BEARER)
            assert answer.status == want, (path, answer.status, answer.body[:300])
            return answer.json()
        with report.check("render: a completion's tokens equal those of its text", s):
            for _ in range(100):
                prompt = text()
                ids = post("/v1/completions/render", {"prompt": prompt})[0]["token_ids"]
                assert ids == post("/tokenize", {"content": prompt, "add_special": True})["tokens"]
        with report.check("render: and as many as the call is charged", s):
            for _ in range(20):
                body = {"prompt": text(), "max_tokens": 1}
                ids = post("/v1/completions/render", body)[0]["token_ids"]
                assert post("/v1/completions", body)["usage"]["prompt_tokens"] == len(ids)
        with report.check("render: several prompts, and prompts of tokens", s):
            several = post("/v1/completions/render", {"prompt": ["a b", "c"]})
            one = [post("/v1/completions/render", {"prompt": p})[0] for p in ("a b", "c")]
            assert several == one, several
            assert post("/v1/completions/render", {"prompt": [5, 6, 7]}) == \
                [{"token_ids": [5, 6, 7]}]
        with report.check("render: a conversation's tokens are those of its template", s):
            for n in range(40):
                messages = [{"role": r, "content": text()} for r in
                            ("system", "user", "assistant", "user")[n % 2:]]
                body = {"model": "cerium-line", "messages": messages, "max_tokens": 1}
                ids = post("/v1/chat/completions/render", body)["token_ids"]
                assert post("/chat/completions/input_tokens", body)["input_tokens"] == len(ids)
                if n < 10:
                    used = post("/v1/chat/completions", body)["usage"]["prompt_tokens"]
                    assert used == len(ids), (used, len(ids))
        with report.check("render: it refuses what the call refuses", s):
            post("/v1/completions/render", {}, 400)
            post("/v1/completions/render", {"prompt": [10 ** 9]}, 400)
            post("/v1/completions/render", {"prompt": "word " * 20000}, 400)
            post("/v1/chat/completions/render", {"messages": "no"}, 400)
            assert ask(s.port, "POST", "/v1/completions/render", {"prompt": "a"}).status == 401


PARTS = {"names": check_names, "probes": check_probes, "leaving": check_leaving,
         "limits": check_limits, "hosts": check_hosts, "health": check_health,
         "render": check_render}


def main():
    report = Report("replica")
    for name in sys.argv[1:] or PARTS:
        PARTS[name](report)
    report.end()


main()
