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

from harness import MODEL, PATIENCE, Report, Server, line, wait_for  # noqa: E402
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
            began = time.monotonic()
            s.send_json(create(words, generate=False))
            events = s.read_answer()
            took = time.monotonic() - began
            assert events[-1]["type"] == "response.completed", events[-1]
            assert events[-1]["response"]["output"] == [] and took < 2 * PATIENCE, took
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
    with report.check("a message that goes on from the running response interrupts it", server):
        with RawSocket(server.port) as s:
            s.send_json(create("talk for long"))
            response_id = wait_delta(s)
            s.send_json(create("be brief", previous_response_id=response_id))
            last = s.read_answer()[-1]["response"]
            assert last["id"] == response_id and last["status"] != "completed", last["status"]
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
        wait_for(lambda: server.running() == 0, 5)
    with report.check("an event stream: every event is a chunk of its own", server):
        body = json.dumps({"input": "say first", "stream": True, "store": False}).encode()
        data = b""
        with socket.create_connection(("127.0.0.1", server.port), 20 * PATIENCE) as s:
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

    with Server() as server:
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
            round_ = {"input_prefix": "int i" + ", j" * 30 + ",", "n_predict": 100}
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

    with Server() as server:
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
            before, after = "import os\n\n\ndef add(first, seco", "\n    return first\n"
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
                         *options, f"{place}:4"], capture_output=True, check=True).stdout)
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
            before = {name: server.metric("cerium_%s_tokens_total" % name)
                      for name in ("prompt", "reused")}
            status, answer = ask(server, prompt=words, n=16)
            assert status == 200 and len(answer["choices"]) == 16, answer
            prompt, reused = (server.metric("cerium_%s_tokens_total" % name) - n
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
                with socket.create_connection(("127.0.0.1", server.port), 20 * PATIENCE) as s:
                    s.sendall(sent)
                    assert hung_up(s)
            held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(8)]
            time.sleep(0.2)
            with socket.create_connection(("127.0.0.1", server.port), 20 * PATIENCE) as s:
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
    with report.check("a second signal ends it at once"):
        with Server(replay=[line("word " * 3000, repeat=True)]) as server:
            with RawSocket(server.port) as s:
                s.send_json(create("talk"))
                wait_delta(s)
                server.process.terminate()
                time.sleep(0.3)
                began = time.monotonic()
                server.process.terminate()
                assert server.process.wait(10 * PATIENCE) == 0
                assert time.monotonic() - began < 3 * PATIENCE


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
    with report.check("a browser's key comes as a subprotocol"):
        with Server(key="a b/c") as server:
            for key, want in (("a%20b%2Fc", 101), ("wrong", 401)):
                offer = "Sec-WebSocket-Protocol: cerium, cerium.bearer." + key
                with RawSocket(server.port, headers=[offer]) as s:
                    assert s.status == want, s.status
                    if want == 101:
                        assert "Sec-WebSocket-Protocol: cerium\r\n" in s.headers + "\r\n"
                        assert "bearer" not in s.headers
            assert "a b/c" not in server.log() and "a%20b" not in server.log()


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
    with report.check("one that cannot be kept to is refused with its place", server):
        schema = {"type": "object", "properties": {"a": {"items": {"not": {"format": "date"}}}}}
        status, _, body = server.request("POST", "/v1/responses", shaped(schema), timeout=60)
        assert status == 400 and b"/properties/a/items/not" in body, body
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
        wait_for(lambda: server.running() == 0, 60)


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
    check_access(report)
    report.end()


main()
