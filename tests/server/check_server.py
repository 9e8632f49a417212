"""check_server.py - sessions, lanes, interrupts and limits of `cerium serve`, over raw sockets."""

import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from harness import HANG_S, MODEL, PATIENCE, Report, Server, line, wait_for  # noqa: E402
from rawsocket import RawSocket, text_of  # noqa: E402

POST = b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
LONG = " ".join("word%d" % i for i in range(400))
SCRIPT = [
    line(LONG, repeat=True, last="talk for long"),
    line("first", repeat=True, last="say first"),
    line("second", repeat=True, last="say second"),
    line("redirected", repeat=True, last="be brief"),
    line("return a + b;", repeat=True, last="int add("),
]


def create(text, **fields):
    return {"type": "response.create", "input": text, "store": False, **fields}


def usage_of(events):
    return events[-1]["response"]["usage"]


def cached(events):
    return usage_of(events)["input_tokens_details"]["cached_tokens"]


def wait_delta(s):
    """Read until text comes; the id of the response."""
    while True:
        event = s.read_json()
        if event["type"] == "response.created":
            response_id = event["response"]["id"]
        if event["type"] == "response.output_text.delta":
            return response_id


# ---- sessions ----

def check_sessions(report, server):
    with report.check("a warm-up is answered at once and computed behind that", server):
        with RawSocket(server.port, timeout=30 * PATIENCE) as s:
            words = " ".join("warm%d" % i for i in range(1500))
            s.send_json(create(words, generate=False))
            events = s.read_answer()
            assert events[-1]["type"] == "response.completed", events[-1]
            assert events[-1]["response"]["output"] == []
            turn = s.ask("say first", previous_response_id=events[-1]["response"]["id"])
            assert text_of(turn) == "first", turn[-1]
            assert cached(turn) > usage_of(turn)["input_tokens"] / 2, usage_of(turn)
    with report.check("a turn goes on from the one before, all of it cached", server):
        with RawSocket(server.port) as s:
            one = s.ask("say first " + "x " * 200)
            two = s.ask("say second", previous_response_id=one[-1]["response"]["id"])
            assert text_of(two) == "second"
            assert cached(two) >= usage_of(one)["input_tokens"] // 64 * 64, usage_of(two)
    with report.check("a second connection with the same history finds its pages", server):
        said = {"type": "message", "role": "user", "content": "say first " + "y " * 300}
        with RawSocket(server.port) as s:
            one = s.ask([said])
        item = one[-1]["response"]["output"][0]
        more = {"type": "message", "role": "user", "content": "say second"}
        with RawSocket(server.port) as s:
            two = s.ask([said, item, more])
            assert text_of(two) == "second"
            assert cached(two) >= usage_of(one)["input_tokens"] // 64 * 64, usage_of(two)
    with report.check("an id that is not stored serves on its own connection only", server):
        with RawSocket(server.port) as s:
            one = s.ask("say first")[-1]["response"]["id"]
            with RawSocket(server.port) as other:
                error = other.ask("say second", previous_response_id=one)[-1]
                assert error["error"]["code"] == "previous_response_not_found", error
                assert error["status"] == 400
                assert text_of(other.ask("say second")) == "second"
            assert text_of(s.ask("say second", previous_response_id=one)) == "second"
    with report.check("a stored id serves on every connection, after a restart too", server):
        with RawSocket(server.port) as s:
            one = s.ask("say first", store=True)[-1]["response"]["id"]
        assert server.stop() == 0
        server.start()
        with RawSocket(server.port) as s:
            two = s.ask("say second", previous_response_id=one)
            assert text_of(two) == "second", two[-1]
            assert two[-1]["response"]["previous_response_id"] == one
    with report.check("instructions are those of the request, not of the turn before", server):
        with RawSocket(server.port) as s:
            long = "Answer in Latin. " * 60
            one = s.ask("say first", store=True, instructions=long)[-1]["response"]["id"]

            def tokens(**fields):
                two = s.ask("say second", previous_response_id=one, **fields)
                assert text_of(two) == "second", two[-1]
                return usage_of(two)["input_tokens"], cached(two)
            same, reused = tokens(instructions=long)
            none, _ = tokens()
            short, _ = tokens(instructions="Be brief.")
            assert reused > 150 and none < short < none + 20 < same - 150, (same, none, short)
            assert tokens(instructions=long)[0] == same
            assert server.stop() == 0
        server.start()
        with RawSocket(server.port) as s:  # a store remembers where they stand
            assert tokens(instructions=long)[0] == same and tokens()[0] == none
    with report.check("what a failed continuation went on from is gone", server):
        with RawSocket(server.port) as s:
            one = s.ask("say first")[-1]["response"]["id"]
            error = s.ask("z " * 40000, previous_response_id=one)[-1]
            assert error["error"]["code"] == "context_length_exceeded", error
            error = s.ask("say second", previous_response_id=one)[-1]
            assert error["error"]["code"] == "previous_response_not_found", error


# ---- order ----

def check_lanes(report, server):
    with report.check("without stream_id: first in, first out", server):
        with RawSocket(server.port) as s:
            s.send_json(create("talk for long"))
            s.send_json(create("say first"))
            s.send_json(create("say second"))
            answers = [text_of(s.read_answer()) for _ in range(3)]
            assert answers == [LONG, "first", "second"], [a[:20] for a in answers]
    with report.check("what is refused when its turn comes is told, and the next goes on", server):
        with RawSocket(server.port) as s:
            s.send_json(create("talk for long", stream_id="lane"))
            s.send_json(create("say first", stream_id="lane", cerium_guard="nonsense"))
            s.send_json(create("say second", stream_id="lane"))
            seen = []
            while len(seen) < 3:
                event = s.read_json()
                if event["type"] in ("error", "response.completed"):
                    seen.append((event["type"], event.get("status"), event["stream_id"]))
            assert seen == [("response.completed", None, "lane"), ("error", 400, "lane"),
                            ("response.completed", None, "lane")], seen
    with report.check("with stream_id: beside each other, and each event says whose it is", server):
        with RawSocket(server.port) as s:
            s.send_json(create("talk for long", stream_id="slow"))
            s.send_json(create("say first", stream_id="fast"))
            done = []
            while len(done) < 2:
                event = s.read_json()
                assert event["stream_id"] in ("slow", "fast"), event
                if event["type"] == "response.completed":
                    done.append(event["stream_id"])
            assert done == ["fast", "slow"], done
    with report.check("16 lanes, and no more", server):
        with RawSocket(server.port, timeout=60 * PATIENCE) as s:
            for i in range(17):
                s.send_json(create("talk for long", stream_id="lane-%d" % i))
            while True:
                event = s.read_json()
                if event["type"] == "error":
                    break
            assert event["error"]["code"] == "websocket_stream_limit_reached", event
            assert event["stream_id"] == "lane-16", event


# ---- interrupts ----

def check_interrupts(report, server):
    with report.check("response.cancel: the rest is not said, and the next goes on from there",
                      server):
        with RawSocket(server.port) as s:
            s.send_json(create("talk for long"))
            response_id = wait_delta(s)
            s.send_json({"type": "response.cancel", "response_id": response_id})
            s.send_json(create("be brief", previous_response_id=response_id))
            events = s.read_answer()
            last = events[-1]["response"]
            assert last["status"] in ("cancelled", "incomplete"), last["status"]
            said = last["output"][0]["content"][0]["text"]
            assert said and LONG.startswith(said) and len(said) < len(LONG), said[-50:]
            events = s.read_answer()
            assert text_of(events) == "redirected", events[-1]
    with report.check("a message that goes on from the running response waits for its end", server):
        with RawSocket(server.port) as s:
            s.send_json(create("talk for long"))
            response_id = wait_delta(s)
            s.send_json(create("be brief", previous_response_id=response_id))
            last = s.read_answer()[-1]["response"]
            assert last["id"] == response_id and last["status"] == "completed", last["status"]
            assert text_of(s.read_answer()) == "redirected"
    with report.check("POST .../cancel ends a stream of another connection", server):
        with RawSocket(server.port) as s:
            s.send_json(create("talk for long"))
            response_id = wait_delta(s)
            path = "/v1/responses/%s" % response_id
            assert server.json("GET", path)["status"] == "in_progress"
            assert server.json("POST", path + "/cancel", {})["status"] != "completed"
            assert s.read_answer()[-1]["response"]["status"] != "completed"
    with report.check("a stream over HTTP whose reader goes is computed no further", server):
        body = json.dumps({"input": "talk for long", "stream": True}).encode()
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.sendall(POST % len(body) + body)
            while b"output_text.delta" not in s.recv(65536):
                pass
        wait_for(lambda: server.running() == 0)
    with report.check("an event stream: every event is a chunk of its own", server):
        body = json.dumps({"input": "say first", "stream": True, "store": False}).encode()
        data = b""
        with socket.create_connection(("127.0.0.1", server.port), HANG_S) as s:
            s.sendall(POST % len(body) + body)
            while not data.endswith(b"0\r\n\r\n"):
                data += s.recv(65536)
        rest = data.split(b"\r\n\r\n", 1)[1]
        while rest != b"0\r\n\r\n":
            size, rest = rest.split(b"\r\n", 1)
            event, rest = rest[: int(size, 16)], rest[int(size, 16) :]
            assert event.startswith(b"event: response.") and event.endswith(b"}\n\n"), event[:80]
            assert event.count(b"\n\n") == 1 and rest.startswith(b"\r\n")
            rest = rest[2:]


def check_completions(report, server):
    def completion(s, name):
        events = []
        while not events or events[-1]["type"] not in ("completion.done", "error"):
            event = s.read_json()
            if event.get("id") == name:
                events.append(event)
        return events

    with report.check("completion.create: text as it comes, then the end", server):
        with RawSocket(server.port) as s:
            s.send_json({"type": "completion.create", "id": "c1", "prefix": "int add(",
                         "suffix": "\n}\n", "path": "a.c"})
            events = completion(s, "c1")
            said = "".join(e["delta"] for e in events[:-1])
            assert said == "return a + b;" and events[-1]["reason"] == "stop", events[-1]
            assert events[-1]["usage"]["input_tokens"] > 0
    with report.check("completion.create: a newer one of the same document ends the older", server):
        with RawSocket(server.port) as s:
            for name in ("old", "new"):
                s.send_json({"type": "completion.create", "id": name, "path": "a.c",
                             "prefix": "talk for long" if name == "old" else "int add("})
            assert completion(s, "old")[-1]["reason"] == "superseded"
            assert completion(s, "new")[-1]["reason"] == "stop"
    with report.check("completion.cancel, and what is no completion", server):
        with RawSocket(server.port) as s:
            s.send_json({"type": "completion.create", "id": "x", "prefix": "talk for long",
                         "max_tokens": 4096})
            s.send_json({"type": "completion.cancel", "id": "x"})
            assert completion(s, "x")[-1]["reason"] == "canceled"
            s.send_json({"type": "completion.cancel", "id": "nobody"})
            s.send_json({"type": "completion.create", "id": "y", "prefix": 5})
            error = completion(s, "y")[-1]
            assert error["status"] == 400 and error["error"]["param"] == "prefix", error


def check_confidence(report):
    """What the model finds improbable is held back, by the product of its tokens' shares."""
    hole = {"input_prefix": "def add(a, b):\n    ", "input_suffix": "\n\nprint(add(1, 2))\n",
            "n_predict": 3, "token_healing": False, "one_block": False}

    def ask(server, path, **fields):
        status, _, text = server.request("POST", path, json.dumps(fields).encode())
        return status, json.loads(text)

    with Server(args=["--min-confidence", "0"]) as server:
        with report.check("min_confidence: the tokens' shares, multiplied; then all or nothing",
                          server):
            _, plain = ask(server, "/infill", **hole)
            _, tokens = ask(server, "/v1/completions", prompt=hole["input_prefix"],
                            suffix=hole["input_suffix"], max_tokens=3, logprobs=0)
            share = math.exp(sum(tokens["choices"][0]["logprobs"]["token_logprobs"]))
            assert plain["content"] == tokens["choices"][0]["text"] and plain["content"]
            assert "confidence" not in plain and plain["tokens_predicted"] == 3, plain
            _, low = ask(server, "/infill", **hole, min_confidence=share * 0.99)
            _, high = ask(server, "/infill", **hole, min_confidence=min(1, share * 1.01))
            assert low["content"] == plain["content"] and high["content"] == "", (low, high)
            assert abs(low["confidence"] / share - 1) < 1e-3, (low, share)
            assert server.metric("cerium_unsure_completions_total") == 1
            _, kept = ask(server, "/v1/completions", prompt=hole["input_prefix"],
                          suffix=hole["input_suffix"], max_tokens=3, min_confidence=1)
            assert kept["choices"][0]["text"] == "" and kept["usage"]["completion_tokens"] == 3
        with report.check("min_confidence: inline, and what is no confidence", server):
            with RawSocket(server.port) as s:
                for least, want in ((1, ["completion.done"]),
                                    (1e-30, ["completion.delta", "completion.done"])):
                    s.send_json({"type": "completion.create", "id": "c", "max_tokens": 3,
                                 "prefix": hole["input_prefix"], "suffix": hole["input_suffix"],
                                 "min_confidence": least})
                    events = [s.read_json()]
                    while events[-1]["type"] != "completion.done":
                        events.append(s.read_json())
                    assert [e["type"] for e in events] == want, events
                    assert events[-1]["reason"] == ("unsure" if least == 1 else "length")
                s.send_json({"type": "completion.create", "id": "c", "prefix": "a",
                             "min_confidence": 2})
                assert s.read_json()["error"]["param"] == "min_confidence"
            for path, bad in (("/infill", {**hole, "min_confidence": -1}),
                              ("/v1/completions", {"prompt": "a", "min_confidence": "x"}),
                              ("/v1/completions", {"prompt": "a", "min_confidence": 0.5,
                                                   "logprobs": 1})):
                status, body = ask(server, path, **bad)
                assert status == 400 and body["error"]["param"] == "min_confidence", body
        with report.check("pointer: as the file says, as asked, and what is no share", server):
            names = {"prompt": "total = count(words)\nprint(total)\nother = count(", "suffix": "\n",
                     "max_tokens": 3, "logprobs": 0, "token_healing": False}

            def logprobs(**fields):
                _, answer = ask(server, "/v1/completions", **{**names, **fields})
                return answer["choices"][0]["logprobs"]["token_logprobs"]
            assert logprobs() == logprobs(pointer=1) != logprobs(pointer=0)
            assert logprobs(suffix=None) == logprobs(suffix=None, pointer=0)  # no hole, no default
            assert logprobs(suffix=None) != logprobs(suffix=None, pointer=0.5)
            asked = {"input_prefix": names["prompt"], "input_suffix": "\n", "n_predict": 3}
            told = [ask(server, "/infill", **asked, min_confidence=1e-9, **more)[1]["confidence"]
                    for more in ({}, {"pointer": 1}, {"pointer": 0})]
            assert told[0] == told[1] != told[2], told
            for path, bad in (("/infill", {**asked, "pointer": 1.5}),
                              ("/v1/completions", {**names, "pointer": "all"})):
                status, body = ask(server, path, **bad)
                assert status == 400 and body["error"]["param"] == "pointer", body
        with report.check("one_block: a text that goes round ends, unless it is to go on", server):
            round_ = {"input_prefix": "int i" + ", j" * 30 + ",", "input_suffix": "",
                      "n_predict": 100}
            _, whole = ask(server, "/infill", **round_, one_block=False)
            _, block = ask(server, "/infill", **round_)
            assert whole["tokens_predicted"] == 100, whole
            assert whole["content"].startswith(block["content"]), (whole, block)
            assert len(block["content"]) < 0.7 * len(whole["content"]), (whole, block)
            assert block["stop_type"] == "eos", block
            status, body = ask(server, "/infill", **round_, one_block=1)
            assert status == 400 and body["error"]["param"] == "one_block", body
    with report.check("serve --min-confidence: of holes, where a request does not say"):
        with Server(args=["--min-confidence", "1"]) as server:
            assert ask(server, "/infill", **hole)[1]["content"] == ""
            assert ask(server, "/infill", **hole, min_confidence=0)[1]["content"]
            assert ask(server, "/v1/completions", prompt="def f(",
                       max_tokens=4)[1]["choices"][0]["text"]


def check_variants(report):
    """Without a script: these are the model's own words."""
    def ask(server, **fields):
        body = {"prompt": "def add(a, b):", "max_tokens": 12, "temperature": 1, "seed": 3,
                "token_healing": False, **fields}
        status, _, text = server.request("POST", "/v1/completions", json.dumps(body).encode())
        return status, json.loads(text)

    def score(choice):
        return sum(choice["logprobs"]["token_logprobs"]) / len(choice["logprobs"]["tokens"])

    with Server(args=["--min-confidence", "0"]) as server:
        with report.check("best_of: the likeliest of what n gives, the best first", server):
            status, all_of = ask(server, n=12, logprobs=0)
            assert status == 200 and len(all_of["choices"]) == 12, all_of
            best = sorted(all_of["choices"], key=score, reverse=True)
            status, some = ask(server, n=3, best_of=12)
            assert status == 200, some
            assert [c["text"] for c in some["choices"]] == [c["text"] for c in best[:3]], some
            assert [c["index"] for c in some["choices"]] == [0, 1, 2]
            assert some["usage"]["completion_tokens"] == all_of["usage"]["completion_tokens"]
        with report.check("best_of: not below n, not streamed", server):
            for fields in ({"n": 2, "best_of": 1}, {"best_of": 2, "stream": True}):
                status, error = ask(server, **fields)
                assert status == 400 and error["error"]["param"] == "best_of", error
        with report.check("token_healing: as `cerium run` has it, not where tokens are asked for",
                          server):
            prompt = "def add(a, b):"
            command = [os.environ["CERIUM"], "run", "-m", MODEL, "--quiet", "-n", "12"]
            whole, healed = (
                subprocess.run([*command, "-p", prompt, *more], capture_output=True, text=True,
                               check=True).stdout[len(prompt):-1]
                for more in (["--no-healing"], []))
            assert whole != healed
            for fields, text in (({}, whole), ({"token_healing": True}, healed),
                                 ({"token_healing": True, "stream": False, "n": 2}, healed),
                                 ({"token_healing": True, "logprobs": 0}, whole),
                                 ({"token_healing": True, "echo": True}, prompt + healed)):
                status, answer = ask(server, temperature=0, **fields)
                assert status == 200, answer
                assert answer["choices"][0]["text"] == text, (fields, answer, text)
            status, error = ask(server, token_healing=3)
            assert status == 400 and error["error"]["param"] == "token_healing", error
        with report.check("token_healing: of holes, as `cerium complete` has it", server):
            before, after = "import os\n\n\ndef main():\n    path = os.pa", "\n    return first\n"
            hole = {"input_prefix": before, "input_suffix": after, "filename": "place.py",
                    "n_predict": 12, "temperature": 0}
            prompts = []
            for options, fields in (([], {}), (["--no-healing"], {"token_healing": False})):
                with tempfile.TemporaryDirectory() as folder:
                    place = os.path.join(folder, "place.py")
                    with open(place, "w", encoding="utf-8") as file:
                        file.write(before + after)
                    alone = json.loads(subprocess.run(
                        [os.environ["CERIUM"], "complete", "-m", MODEL, "--json", "-n", "12",
                         *options, f"{place}:5"], capture_output=True, check=True).stdout)
                status, _, text = server.request("POST", "/infill",
                                                 json.dumps({**hole, **fields}).encode())
                answer = json.loads(text)
                assert status == 200 and alone["text"], (answer, alone)
                assert answer["content"].split("\n")[0] == alone["text"].split("\n")[0], (
                    answer, alone)
                prompts.append(alone["prompt_tokens"])
            assert prompts[0] < prompts[1], prompts
        with report.check("n: the prompt is computed once", server):
            words = " ".join("word%d" % i for i in range(200))
            before = {name: server.metric("cerium_engine_%s_tokens_total" % name)
                      for name in ("prompt", "reused")}
            status, answer = ask(server, prompt=words, n=16)
            assert status == 200 and len(answer["choices"]) == 16, answer
            prompt, reused = (server.metric("cerium_engine_%s_tokens_total" % name) - n
                              for name, n in before.items())
            assert prompt == 16 * answer["usage"]["prompt_tokens"], prompt
            assert prompt - reused < answer["usage"]["prompt_tokens"] + 16 * 4, (prompt, reused)


# ---- limits ----

def hung_up(s):
    try:
        return s.recv(1000) == b""
    except ConnectionResetError:
        return True


def serves(server):
    try:
        return server.request("GET", "/health/live")[0] == 200
    except OSError:
        return False


def is_closed(port):
    """Does nobody listen there any more?"""
    try:
        socket.create_connection(("127.0.0.1", port), HANG_S).close()
        return False
    except ConnectionError:
        return True


def check_limits(report):
    with report.check("a WebSocket's age is limited"):
        with Server(replay=SCRIPT, args=["--socket-time", "1"]) as server:
            with RawSocket(server.port) as s:
                assert text_of(s.ask("say first")) == "first"
                event = s.read_json()
                assert event["error"]["code"] == "websocket_connection_limit_reached", event
                assert s.close_code() == 1000
    with report.check("slow headers, slow bodies, too many connections"):
        limits = ["--header-time", "1", "--body-time", "1", "--connections", "8"]
        with Server(args=limits) as server:
            for sent in (b"GET / HT", POST % 100 + b"{"):
                with socket.create_connection(("127.0.0.1", server.port), HANG_S) as s:
                    s.sendall(sent)
                    assert hung_up(s)
            held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(8)]
            time.sleep(0.2)
            with socket.create_connection(("127.0.0.1", server.port), HANG_S) as s:
                assert hung_up(s)
            for s in held:
                s.close()
            wait_for(lambda: serves(server))
    with report.check("a full queue says 429 and when to come again"):
        with Server(replay=SCRIPT, args=["--running", "1", "--queue", "1"]) as server:
            held = []
            for i in range(2):
                held.append(RawSocket(server.port))
                held[i].send_json(create("talk for long"))
                held[i].read_json()
            status, headers, data = server.request("POST", "/v1/responses", {"input": "say first"})
            assert status == 429 and int(headers["retry-after"]) >= 1, (status, data)
            assert server.request("GET", "/health/ready")[0] == 503
            assert server.request("GET", "/health/live")[0] == 200
            with RawSocket(server.port) as s:
                error = s.ask("say first")[-1]
                assert error["status"] == 429 and "try again in" in error["error"]["message"]
            for s in held:
                s.close()
    with report.check("one key does not fill the queue, nor all places"):
        limits = ["--api-key", "two", "--running", "1", "--queue", "4"]
        with Server(replay=SCRIPT, key="one", args=limits) as server:
            held = []

            def hold(key, first):
                held.append(RawSocket(server.port, key=key))
                held[-1].send_json(create("talk for long"))
                assert held[-1].read_json()["type"] == first

            for _ in range(4):
                hold("two", "response.created")
            hold("two", "error")
            with RawSocket(server.port, key="one") as s:
                assert s.ask("say first")[-1]["type"] == "response.completed"
            hold("one", "response.created")
            hold("one", "response.created")
            assert server.request("GET", "/health/ready")[0] == 503
            assert server.json("GET", "/health")["status"] == "busy"
            for s in held:
                s.close()
    with report.check("a second signal ends it at once"):
        limits = ["--drain", "%d" % (10 * HANG_S)]  # never waited for
        with Server(replay=[line("word " * 3000, repeat=True)], args=limits) as server:
            with RawSocket(server.port) as s:
                s.send_json(create("talk"))
                wait_delta(s)
                server.process.terminate()
                wait_for(lambda: is_closed(server.port))
                server.process.terminate()
                assert server.process.wait(HANG_S) == 0


def raw_stream(port, path, body):
    """A socket on which a streamed answer comes."""
    data = json.dumps({"stream": True, **body}).encode()
    s = socket.create_connection(("127.0.0.1", port), 30 * PATIENCE)
    s.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
              % (path.encode(), len(data)) + data)
    return s


def read_until(s, *wanted, stop=b"0\r\n\r\n"):
    """Everything up to the last of what is wanted, in this order."""
    got, at = b"", 0
    for want in wanted:
        while want not in got[at:]:
            more = s.recv(65536)
            got += more
            assert more and not (got.endswith(stop) and want not in got[at:]), (want, got[-400:])
        at = got.index(want, at) + len(want)
    return got


MESSAGES = {"messages": [{"role": "user", "content": "say first"}]}
COMMENT = b"\r\ne\r\n: keep-alive\n\n\r\n"
STREAMS = [("/v1/chat/completions", MESSAGES), ("/v1/completions", {"prompt": "say first"}),
           ("/infill", {"input_prefix": "int add(", "input_suffix": ""})]


def numbers(events):
    return [event["sequence_number"] for event in events]


def check_signs_of_life(report):
    hold = {"prompt": "hold", "n": 64, "max_tokens": 6000}
    script = SCRIPT + [line("word " * 6000, repeat=True, last="hold")]
    with Server(replay=script, context=8192,
                args=["--running", "1", "--keep-alive", "1"]) as server:
        with report.check("streams that wait in the queue give signs of life", server):
            holder = raw_stream(server.port, "/v1/completions", {**hold, "stream": False})
            wait_for(lambda: server.running() == 1)
            held = [raw_stream(server.port, path, body) for path, body in STREAMS]
            events = raw_stream(server.port, "/v1/responses", {"input": "say first"})
            with RawSocket(server.port, timeout=30 * PATIENCE) as s:
                s.send_json(create("say first", stream_id="a"))
                s.send_json(create("say second", stream_id="b"))
                s.send_json({"type": "completion.create", "id": "c1", "path": "a.c",
                             "prefix": "int add(", "suffix": ""})
                for one in held:  # the head has come, and a comment is a chunk of its own
                    assert read_until(one, b" 200 ", b"\r\n\r\n", COMMENT[2:]), one
                read_until(events, b"response.created", b"event: keepalive\ndata: ",
                           b'"cerium":{"prompt_tokens":', b'"done":0}', b'"sequence_number":2}')
                seen = {"a": [], "b": [], "c1": []}
                while not all(any(e["type"].endswith("keepalive") for e in events_)
                              for events_ in seen.values()):
                    event = s.read_json()
                    seen[event.get("stream_id") or event["id"]].append(event)
                for name in "ab":
                    assert numbers(seen[name]) == list(range(len(seen[name]))), seen
                assert seen["c1"][0]["cerium"]["prompt_tokens"] > 0, seen
                holder.close()
                while not all(events_[-1]["type"] in ("response.completed", "completion.done")
                              for events_ in seen.values()):
                    event = s.read_json()
                    seen[event.get("stream_id") or event["id"]].append(event)
                for name in "ab":
                    assert numbers(seen[name]) == list(range(len(seen[name]))), seen
            for one in held:
                read_until(one, b"0\r\n\r\n")
                one.close()
            read_until(events, b"response.completed", b"0\r\n\r\n")
            events.close()
        with report.check("what is refused after long compiling is the stream's error", server):
            busy = [raw_stream(server.port, "/v1/responses", shaped(large_schema(name)))
                    for name in "jklmnopqrstuvw"]
            bad = {"type": "object", "properties": {"a": {"items": {"type": "thing"}}}}
            with raw_stream(server.port, "/v1/responses", shaped(bad)) as s:
                got = read_until(s, b"/properties/a/items/type")
            if b"HTTP/1.1 200" in got:  # else it was quick
                assert b"response.created" in got and b"keepalive" in got, got
                assert b"event: response.failed" in got, got
            else:
                assert b"HTTP/1.1 400" in got, got
            for one in busy:
                one.close()
            wait_for(lambda: server.running() == 0)
        with report.check("return_progress tells how far a prompt is", server):
            long = {"messages": [{"role": "user", "content": "long " * 3000}], "max_tokens": 1,
                    "return_progress": True}
            with raw_stream(server.port, "/v1/chat/completions", long) as s:
                got = read_until(s, b"[DONE]")
            told = [json.loads(part[6:])["prompt_progress"] for part in got.split(b"\n")
                    if part.startswith(b"data: {") and b"prompt_progress" in part]
            done = [p["processed"] for p in told]
            assert done == sorted(set(done)) and done[-1] == told[-1]["total"] > 3000, told
    with Server(replay=script, args=["--running", "1", "--keep-alive", "0"]) as server:
        with report.check("--keep-alive 0: none", server):
            holder = raw_stream(server.port, "/v1/completions", {**hold, "max_tokens": 1500})
            wait_for(lambda: server.running() == 1)
            with raw_stream(server.port, *STREAMS[0]) as s:
                time.sleep(2.5)
                holder.close()
                assert b"keep-alive\n" not in read_until(s, b"0\r\n\r\n")


def check_access(report):
    with report.check("other names of this host, other pages"):
        with Server(args=["--allow-origin", "https://editor.example"]) as server:
            def status(**headers):
                return server.request("GET", "/v1/models", headers=headers)[0]

            assert status(Host="evil.example") == 403
            assert status(Origin="https://evil.example") == 403
            assert status(Origin="http://127.0.0.1:%d" % server.port) == 200
            code, headers, _ = server.request("GET", "/v1/models",
                                              headers={"Origin": "https://editor.example"})
            assert code == 200
            assert headers["access-control-allow-origin"] == "https://editor.example"
            code, headers, _ = server.request("OPTIONS", "/v1/responses",
                                              headers={"Origin": "https://editor.example"})
            assert code == 204 and "POST" in headers["access-control-allow-methods"]
    with report.check("keys: responses of one are not there for another"):
        with Server(key="one", args=["--api-key", "two"]) as server:
            made = server.json("POST", "/v1/responses", {"input": "x", "max_output_tokens": 2})
            path = "/v1/responses/" + made["id"]
            assert server.request("GET", path)[0] == 200
            other = {"Authorization": "Bearer two"}
            assert server.request("GET", path, headers=other)[0] == 404
            assert server.request("GET", path, headers={"Authorization": "Bearer three"})[0] == 401
            answer = server.request("POST", "/v1/responses",
                                    {"input": "x", "previous_response_id": made["id"]}, other)
            assert answer[0] == 400 and b"previous_response_not_found" in answer[2]
            assert server.request("GET", "/health/live", headers={"Authorization": ""})[0] == 200
    with report.check("what clients say is in the log when asked for, and else not"):
        for args in ([], ["--log-prompts"]):
            with Server(args=args) as server:
                server.json("POST", "/v1/responses", {"input": "s3cret", "max_output_tokens": 1})
                assert ("s3cret" in server.log()) == bool(args), args
    with report.check("a key of the command line is not on it for long"):
        for args in (["--api-key", "seen-by-all"], ["--api-key=seen-by-all", "--api-key", "two"]):
            with Server(key="first", args=args) as server:
                with open("/proc/%d/cmdline" % server.process.pid, "rb") as f:
                    words = f.read()
                assert b"--api-key" in words and b"seen" not in words and b"first" not in words
                for key, want in (("first", 200), ("seen-by-all", 200), ("***********", 401)):
                    head = {"Authorization": "Bearer " + key}
                    assert server.request("GET", "/v1/models", headers=head)[0] == want, key
    with report.check("a browser's key comes as a subprotocol"):
        with Server(key="a%b/c") as server:
            for key, want in (("a%25b%2Fc", 101), ("wrong", 401)):
                offer = "Sec-WebSocket-Protocol: cerium, cerium.bearer." + key
                with RawSocket(server.port, headers=[offer]) as s:
                    assert s.status == want, s.status
                    if want == 101:
                        assert "Sec-WebSocket-Protocol: cerium\r\n" in s.headers + "\r\n"
                        assert "bearer" not in s.headers
            assert "a%b/c" not in server.log() and "a%25b" not in server.log()


def large_schema(name):
    """Not in any cache, and compiled for tenths of a second."""
    text = {"type": "string", "pattern": "^(/|~)[^%s]*$" % name, "maxLength": 2000}
    return {"type": "object", "properties": {name: text, "small": text}, "required": [name],
            "additionalProperties": False}


def shaped(schema):
    return {"input": "x", "store": False, "max_output_tokens": 8,
            "text": {"format": {"type": "json_schema", "name": "x", "strict": True,
                                "schema": schema}}}


def check_shapes(report, server):
    with report.check("a large schema is kept to, once it is compiled", server):
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(server.request, "POST", "/v1/responses",
                                 shaped(large_schema(name)), None, 300) for name in "abcd"]
            assert server.request("GET", "/v1/models", timeout=60)[0] == 200
            for name, answer in zip("abcd", asked):
                status, _, body = answer.result()
                text = json.loads(body)["output"][0]["content"][0]["text"]
                assert status == 200 and text.startswith('{'), body
    with report.check("one that is none is refused with its place", server):
        schema = {"type": "object", "properties": {"a": {"items": {"type": "thing"}}}}
        status, _, body = server.request("POST", "/v1/responses", shaped(schema), timeout=60)
        assert status == 400 and b"/properties/a/items/type" in body, body
    with report.check("a keyword that is not supported is left out and named", server):
        schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"(a)\1"},
                                                   "b": {"enum": ["yes"]}},
                  "required": ["b"], "additionalProperties": False}
        status, _, body = server.request("POST", "/v1/responses", shaped(schema), timeout=60)
        warning = json.loads(body)["cerium"]["warnings"][0]
        assert status == 200 and warning["param"] == "text.format.schema", body
        assert "/properties/a/pattern: " in warning["message"], body
    with report.check("one bad tool of many: named, whatever is wrong with it", server):
        tools = [{"type": "function", "name": "good", "parameters": {"type": "object"}},
                 {"type": "function", "name": "bad", "strict": False, "parameters": {
                     "type": "object", "properties": {
                         "n": {"type": "integer", "maximum": 18446744073709551615},
                         "x": {"type": "any"}, "y": {"$ref": "http://other/"}}}}]
        asked = {"input": "hi", "max_output_tokens": 4, "tools": tools}
        status, _, body = server.request("POST", "/v1/responses", asked, timeout=60)
        warnings = [w for w in json.loads(body)["cerium"]["warnings"]
                    if w["param"] == "tools[1].parameters"]
        told = " ".join(w["message"] for w in warnings)
        assert status == 200 and "/properties/x/type" in told, body
        assert "/properties/y/$ref" in told and "/properties/n" not in told, body
    with report.check("numbers of any size, and a byte-order mark, are JSON", server):
        body = (b'\xef\xbb\xbf{"prompt":"x","max_tokens":1,"seed":18446744073709551615,'
                b'"metadata":{"a":1e400,"b":-99999999999999999999999}}')
        status, _, got = server.request("POST", "/v1/completions", body)
        assert status == 200 and b"warnings" not in got, got
    with report.check("logit_bias is added, and what is not used is named", server):
        asked = {"prompt": [1], "max_tokens": 4, "logit_bias": {"72": 100}}
        status, _, body = server.request("POST", "/v1/completions", asked)
        text = json.loads(body)["choices"][0]["text"]
        assert status == 200 and text and text == text[:len(text) // 4] * 4, body
        assert "cerium" not in json.loads(body), body
        asked["logit_bias"] = [[72, False]]
        asked["mirostat"] = 2
        status, _, body = server.request("POST", "/v1/completions", asked)
        assert status == 200 and json.loads(body)["choices"][0]["text"] != text, body
        assert json.loads(body)["cerium"]["warnings"] == [
            {"param": "mirostat", "message": "is not used by this server"}], body
        for bad in ({"72": 101}, {"x": 1}, {"72": "a"}, 5):
            status, _, body = server.request("POST", "/v1/completions",
                                             {"prompt": "x", "logit_bias": bad})
            assert status == 400 and b"logit_bias" in body, body
    with report.check("presence and frequency penalties count", server):
        asked = {"prompt": "x = [0, 0, 0, 0,", "max_tokens": 24}
        texts = set()
        for more in ({}, {"presence_penalty": 2}, {"frequency_penalty": 2}):
            status, _, body = server.request("POST", "/v1/completions", {**asked, **more})
            texts.add(json.loads(body)["choices"][0]["text"])
        assert status == 200 and len(texts) > 1, texts
    with report.check("an answer is canceled while its schema is compiled", server):
        with RawSocket(server.port, timeout=120 * PATIENCE) as s:
            s.send_json({"type": "response.create", **shaped(large_schema("e"))})
            s.send_json({"type": "response.cancel"})
            seen = [s.read_json()]
            while seen[-1]["type"] not in ("response.incomplete", "response.completed", "error"):
                seen.append(s.read_json())
            assert seen[0]["type"] == "response.created", seen[0]
            assert seen[-1]["type"] == "response.incomplete", seen[-1]
            s.send_json({"type": "response.create", **shaped({"enum": ["yes"]})})
            while s.read_json()["type"] != "response.completed":
                pass
    with report.check("clients that leave while theirs is compiled take nothing along", server):
        for name in "fgh":
            with RawSocket(server.port, timeout=120 * PATIENCE) as s:
                s.send_json({"type": "response.create", **shaped(large_schema(name))})
        wait_for(lambda: server.running() == 0)


def main():
    report = Report("server")
    with Server(replay=SCRIPT, context=16384) as server:
        check_sessions(report, server)
        check_lanes(report, server)
        check_interrupts(report, server)
        check_completions(report, server)
        check_shapes(report, server)
        with report.check("nothing is left, and it ends in order", server):
            wait_for(lambda: server.running() == 0)
            assert server.metric("cerium_failed_total") == 0
            assert server.stop() == 0
    check_variants(report)
    check_confidence(report)
    check_limits(report)
    check_signs_of_life(report)
    check_access(report)
    report.end()


main()
