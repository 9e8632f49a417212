"""check_upstream.py - requests that upstreams answer: a second cerium, and a misbehaving one."""

import json
import os
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from fake_upstream import REFUSAL, FakeUpstream, ReadingUpstream, chunk  # noqa: E402
from harness import (CERIUM, HANG_S, PATIENCE, Report, Server, call, line, run,  # noqa: E402
                     wait_for)
from rawsocket import RawSocket, text_of  # noqa: E402

LONG = " ".join("word%d" % i for i in range(400))
DEEP = [line("deep thought", repeat=True, last="think", role="user"),
        line("a deep answer", repeat=True, role="tool"),
        line(call("look", path="a.c") + "\n" + call("look", path="b.c"), repeat=True, last="use"),
        line(LONG, repeat=True, last="talk for long"),
        line("deep", repeat=True)]
FAST = [line("fast", repeat=True)]
TOOL = {"type": "function", "name": "look", "parameters":
        {"type": "object", "properties": {"path": {"type": "string"}}}}


def connect(server):
    return RawSocket(server.port, timeout=120 * PATIENCE)


def serve(upstreams, context=None, args=()):
    """A server with these [upstream] sections."""
    with tempfile.NamedTemporaryFile("w", suffix=".ini", delete=False) as f:
        for name, keys in upstreams.items():
            f.write("[upstream %s]\n" % name)
            f.writelines("%s = %s\n" % (key.replace("_", "-"), value)
                         for key, value in keys.items())
    try:
        return Server(replay=FAST, context=context, args=["--config", f.name, *args])
    finally:
        os.unlink(f.name)


def respond(server, text="think", want=200, path="/v1/responses", **fields):
    body = {"input": text, **fields} if "responses" in path else \
        {"messages": [{"role": "user", "content": text}], **fields}
    status, headers, data = server.request("POST", path, body, timeout=120)
    assert status == want, (status, data[:400])
    return json.loads(data), headers


def said(response):
    return "".join(part["text"] for item in response["output"] if item["type"] == "message"
                   for part in item["content"])


# ---- a second cerium ----

def check_routes(report, server):
    with report.check("by the model's name, and the answer names the upstream", server):
        deep, headers = respond(server, model="big")
        assert said(deep) == "deep thought" and deep["model"] == "big", deep
        assert headers["x-cerium-served-by"] == "cluster"
        assert deep["metadata"] == {"served_by": "cluster"} and deep["usage"]["input_tokens"] > 5
        fast, headers = respond(server, model="other", metadata={"a": "b"})
        assert said(fast) == "fast" and headers["x-cerium-served-by"] == "local"
        assert fast["metadata"] == {"a": "b"}
    with report.check("by the effort, and by the length of the prompt", server):
        assert said(respond(server, reasoning={"effort": "high"})[0]) == "deep thought"
        assert said(respond(server, reasoning={"effort": "low"})[0]) == "fast"
        assert said(respond(server, "think " + "w " * 1200)[0]) == "deep thought"
        assert said(respond(server, "think " + "w " * 2100)[0]) == "deep thought"  # > context
        assert said(respond(server, "think " + "w " * 300)[0]) == "fast"
    with report.check("Chat Completions, whole and as a stream", server):
        whole, headers = respond(server, path="/v1/chat/completions", model="big")
        assert whole["choices"][0]["message"]["content"] == "deep thought", whole
        assert whole["choices"][0]["finish_reason"] == "stop"
        assert headers["x-cerium-served-by"] == "cluster" and whole["usage"]["prompt_tokens"] > 5
        _, _, data = server.request("POST", "/v1/chat/completions", {
            "model": "big", "stream": True, "messages": [{"role": "user", "content": "think"}]})
        chunks = [json.loads(e[6:]) for e in data.decode().split("\n\n")
                  if e.startswith("data: {")]
        assert "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks) == \
            "deep thought", chunks
        assert data.decode().rstrip().endswith("data: [DONE]")


    with report.check("Messages and Ollama's chat go there too", server):
        talk = {"model": "big", "messages": [{"role": "user", "content": "think"}]}
        answer = server.json("POST", "/v1/messages", {**talk, "max_tokens": 99, "system": "Be."})
        assert answer["content"][0]["text"] == "deep thought", answer
        assert answer["stop_reason"] == "end_turn" and answer["usage"]["input_tokens"] > 5
        answer = server.json("POST", "/api/chat", {**talk, "stream": False})
        assert answer["message"]["content"] == "deep thought", answer
        tool = {"name": TOOL["name"], "input_schema": TOOL["parameters"]}
        talk["messages"][0]["content"] = "use the tools"
        answer = server.json("POST", "/v1/messages", {**talk, "max_tokens": 99, "tools": [tool]})
        uses = [b for b in answer["content"] if b["type"] == "tool_use"]
        assert [u["input"] for u in uses] == [{"path": "a.c"}, {"path": "b.c"}], answer
        talk["messages"] += [
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": u["id"],
                                          "content": "x"} for u in uses]}]
        answer = server.json("POST", "/v1/messages", {**talk, "max_tokens": 99, "tools": [tool]})
        assert answer["content"][0]["text"] == "a deep answer", answer


def check_talk(report, server, model):
    with report.check("tool calls and their results, over a WebSocket (%s)" % model, server):
        with connect(server) as s:
            one = s.ask("use the tools", model=model, tools=[TOOL])
            types = [e["type"] for e in one]
            assert types[0] == "response.created" and types[-1] == "response.completed", types
            calls = one[-1]["response"]["output"]
            assert [(c["type"], c["name"], json.loads(c["arguments"])) for c in calls] == \
                [("function_call", "look", {"path": p}) for p in ("a.c", "b.c")], calls
            done = [e["item"] for e in one if e["type"] == "response.output_item.done"]
            assert done == calls
            two = s.ask([{"type": "function_call_output", "call_id": c["call_id"], "output": "x"}
                         for c in calls], model=model, tools=[TOOL],
                        previous_response_id=one[-1]["response"]["id"])
            assert text_of(two) == "a deep answer", two[-1]
            assert two[-1]["response"]["metadata"]["served_by"]
    with report.check("a conversation stays at its upstream, and can move there (%s)" % model,
                      server):
        first, _ = respond(server, "hello")                      # answered and stored here
        second, _ = respond(server, "think", model=model, previous_response_id=first["id"])
        assert said(second) == "deep thought", second
        third, headers = respond(server, "think", previous_response_id=second["id"])
        assert said(third) == "deep thought" and headers["x-cerium-served-by"] != "local"
        items = server.json("GET", "/v1/responses/" + second["id"])
        assert items["metadata"]["served_by"], items
    with report.check("requests that cannot be forwarded are asked again (%s)" % model, server):
        with connect(server) as s:
            here = s.ask("hello")[-1]["response"]["id"]
            error = s.ask("think", model=model, previous_response_id=here)[-1]
            assert error["error"]["code"] == "previous_response_not_found", error
            warm = s.ask("hello", model=model, generate=False)[-1]["response"]
            assert warm["output"] == [] and warm["status"] == "completed", warm
            assert text_of(s.ask("think", model=model, previous_response_id=warm["id"])) == \
                "deep thought"
    with report.check("a stream that is left is closed upstream too (%s)" % model, server):
        deep = server.deep
        with connect(server) as s:
            s.send_json({"type": "response.create", "input": "talk for long", "model": model})
            while s.read_json()["type"] != "response.output_text.delta":
                pass
            s.send_json({"type": "response.cancel"})
            while s.read_json()["type"] != "response.incomplete":
                pass
            wait_for(lambda: deep.running() == 0)
            s.send_json({"type": "response.create", "input": "talk for long", "model": model})
            while s.read_json()["type"] != "response.output_text.delta":
                pass
        wait_for(lambda: deep.running() == 0)


def check_deep(report, url):
    with report.check("`cerium run --deep` asks the deeper tier, and names the upstream"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c.ini")
            with open(path, "w") as f:
                f.write("[upstream one]\nurl = %s\nmodels = big\n[upstream two]\nurl = %s\n"
                        "model = big\nresponses = no\n" % (url, url))
            for args, name in (([], "one"), (["--upstream", "two"], "two")):
                status, out, err = run([CERIUM, "run", "--deep", "--config", path, *args, "think"])
                assert (status, out) == (0, "deep thought\n") and name + " (big)" in err, (out, err)
            status, out, _ = run([CERIUM, "run", "--deep", "--json", "-p", "think"],
                                 env={"CERIUM_CONFIG": path})
            told = json.loads(out)
            assert told["text"] == "deep thought" and told["served_by"] == "one", told
            assert told["prompt_tokens"] > 5 and told["n_tokens"] > 0, told
            for args, says, want in ((["--upstream", "three"], "no [upstream three]", 2),
                                     (["--config", path + "x"], "No such file", 1)):
                status, _, err = run([CERIUM, "run", "--deep", "--config", path, *args, "x"])
                assert status == want and says in err and err.count("\n") == 1, err
            with open(path, "w") as f:
                f.write("[upstream gone]\nurl = http://127.0.0.1:1/v1\nretries = 0\n")
            status, out, err = run([CERIUM, "run", "--deep", "--config", path, "x"])
            assert status == 1 and err.startswith("cerium: gone: ") and not out, err


# ---- a misbehaving upstream ----

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def check_silent(report):
    """A slow upstream: its clients get signs of life from us meanwhile."""
    fake, heard = FakeUpstream(), threading.Event()
    keys = {"url": fake.url, "models": "big", "responses": "no", "retries": 0, "health-time": 0}
    ask = {"type": "response.create", "input": "think", "model": "big", "store": False}

    def refuses(s):
        heard.wait(60 * PATIENCE)
        s.sendall(REFUSAL)

    def pauses(s):
        s.sendall(HEAD + b"\r\n" + chunk("half of "))
        heard.wait(60 * PATIENCE)
        s.sendall(chunk("it", finish_reason="stop") + b"data: [DONE]\n\n")

    with serve({"fake": keys}, args=["--keep-alive", "1"]) as server:
        for act, last in ((refuses, "response.failed"), (pauses, "response.completed")):
            with report.check("a silent upstream, and signs of life until %s" % last, server):
                fake.act = act
                heard.clear()
                events = []
                with connect(server) as s:
                    s.send_json(ask)
                    while not events or events[-1]["type"] != last:
                        events.append(s.read_json())
                        if events[-1]["type"] == "keepalive":
                            assert "cerium" not in events[-1], events[-1]
                            heard.set()
                types = [e["type"] for e in events]
                assert types[0] == "response.created" and "keepalive" in types, types
                assert [e["sequence_number"] for e in events] == list(range(len(events))), types
                if act is refuses:
                    assert events[-1]["response"]["error"]["message"].endswith("too warm a day")
                else:
                    assert text_of(events) == "half of it", events[-1]
        with report.check("another server's answer cannot be steered", server):
            fake.act = pauses
            heard.clear()
            with connect(server) as s:
                def until(kind):
                    events = [s.read_json()]
                    while events[-1]["type"] != kind:
                        events.append(s.read_json())
                    return events
                s.send_json(ask)
                begun = until("response.output_text.delta")
                created = [e for e in begun if e["type"] == "response.created"][0]
                steer = {"previous_response_id": created["response"]["id"], "input": "be brief"}
                s.send_json({"type": "response.steer", **steer})
                failed = until("response.steer.failed")[-1]
                assert failed["error"]["code"] == "steering_not_supported", failed
                assert failed["steer"] == steer, failed
                heard.set()
                assert text_of(begun + until("response.completed")) == "half of it"
        with report.check("a late refusal is an error in the stream in Chat", server):
            fake.act = refuses
            heard.clear()
            body = json.dumps({"model": "big", "stream": True, "messages": [
                {"role": "user", "content": "think"}]}).encode()
            with socket.create_connection(("127.0.0.1", server.port), HANG_S) as s:
                s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                          b"Content-Length: %d\r\n\r\n" % len(body) + body)
                got = b""
                while not got.endswith(b"\r\n0\r\n\r\n"):
                    got += s.recv(65536)
                    assert got
                    if b"\n: keep-alive\n\n" in got:
                        heard.set()
            assert b"HTTP/1.1 200" in got and b"too warm a day" in got and b"[DONE]" in got, got


def check_budgets(report):
    """A budget of thoughts is enforced by the other server, or the answer says that it is not."""
    fake = ReadingUpstream()
    fake.act = lambda s: s.sendall(HEAD + b"\r\n" + chunk("hi", finish_reason="stop") +
                                   b"data: [DONE]\n\n")
    keys = {"url": fake.url, "responses": "no", "retries": 0, "health-time": 0}
    talk = {"messages": [{"role": "user", "content": "x"}]}
    asks = [("Messages", "/v1/messages", {**talk, "max_tokens": 2000, "thinking": {
                "type": "enabled", "budget_tokens": 1024}}),
            ("Chat", "/v1/chat/completions", {**talk, "thinking_token_budget": 1024}),
            ("Responses", "/v1/responses", {"input": "x", "reasoning": {"max_tokens": 1024}}),
            ("Ollama", "/api/chat", {**talk, "stream": False, "reasoning_budget": 1024})]
    fields = {"thinking_token_budget", "thinking_budget_tokens", "reasoning_budget"}
    with serve({"one": {**keys, "models": "one"},
                "two": {**keys, "models": "two", "thinking-budget": "thinking_budget_tokens"},
                "none": {**keys, "models": "none", "thinking-budget": "no"}}) as server:
        for title, path, body in asks:
            for model, field in (("one", "thinking_token_budget"),
                                 ("two", "thinking_budget_tokens"), ("none", None)):
                with report.check("a budget of thoughts at %s: %s" % (model, title), server):
                    answer = server.json("POST", path, {**body, "model": model})
                    assert "hi" in json.dumps(answer), answer
                    sent = {k: v for k, v in fake.asked.items() if k in fields}
                    assert sent == ({field: 1024} if field else {}), sent
                    warned = answer.get("cerium", {}).get("warnings", [])
                    assert bool(warned) == (field is None), answer
                    server.json("POST", path, {k: v for k, v in body.items() if k not in (
                        "thinking", "reasoning", *fields)} | {"model": model})
                    assert not fields & set(fake.asked), fake.asked


def check_hostile(report):
    fake = FakeUpstream()
    keys = {"url": fake.url, "models": "big", "responses": "no", "first-time": 2, "idle-time": 2,
            "connect-time": 2, "retries": 1, "failures": 1000, "health-time": 0}

    def failing(name, act, says, code="upstream_failed", status=502, tries=2):
        with report.check("an upstream that " + name, server):
            fake.act, fake.n = act, 0
            error, _ = respond(server, model="big", want=status)
            assert error["error"]["code"] == code and says in error["error"]["message"], error
            assert fake.n == tries, fake.n

    def endless(s):
        s.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            s.sendall(b"x-more: " + b"y" * 1000 + b"\r\n")

    def dying(s):
        s.sendall(HEAD + b"\r\n" + chunk("half of "))

    with serve({"fake": keys}) as server:
        failing("says nothing", lambda s: time.sleep(6), "no answer came in time")
        failing("hangs up", lambda s: None, "")
        failing("has endless headers", endless, "its headers do not end")
        failing("says no HTTP", lambda s: s.sendall(b"220 smtp\r\n\r\n"), "")
        failing("is overloaded", lambda s: s.sendall(
            b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\n{}"), "HTTP 503")
        failing("refuses", lambda s: s.sendall(
            b"HTTP/1.1 400 No\r\nContent-Length: 38\r\n\r\n"
            b"{\"error\":{\"message\":\"too warm a day\"}} "), "too warm a day", "invalid_value",
            400, 1)
        failing("limits us", lambda s: s.sendall(
            b"HTTP/1.1 429 No\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\n{}"), "HTTP 429",
            "rate_limit_exceeded", 429, 1)
        failing("takes our key for none", lambda s: s.sendall(
            b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\n{}"), "HTTP 401", tries=1)
        middle = (
            ("dies in the middle", dying),
            ("lies about its length", lambda s: s.sendall(
                HEAD + b"Content-Length: 5000\r\n\r\n" + chunk("half of "))),
            ("stops in the middle", lambda s: (dying(s), time.sleep(6))),
            ("sends what is no JSON", lambda s: s.sendall(
                HEAD + b"\r\n" + chunk("half of ") + b"data: {\"choices\n\n")),
            ("fails in the middle", lambda s: s.sendall(
                HEAD + b"\r\n" + chunk("half of ") +
                b"data: {\"error\":{\"message\":\"a fuse\"}}\n\n")),
        )
        for name, act in middle:
            with report.check("an upstream that %s, after its first words" % name, server):
                fake.act, fake.n = act, 0
                with connect(server) as s:
                    events = s.ask("think", model="big")
                    assert events[-1]["type"] == "response.failed", events[-1]
                    assert "half of" in json.dumps(events)
                    assert fake.n == 1  # no text is sent twice
        with report.check("a reader that reads nothing slows the upstream down", server):
            sent, total = [0], 8 << 20

            def flood(s):
                s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
                s.sendall(HEAD + b"\r\n")
                while sent[0] < total:
                    s.sendall(chunk("x" * 16384))
                    sent[0] += 16384
                s.sendall(chunk("", finish_reason="stop") + b"data: [DONE]\n\n")
            fake.act = flood
            with connect(server) as s:
                s.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                s.send_json({"type": "response.create", "input": "x", "model": "big",
                             "store": False})
                s.read_json()
                before = -1
                while before != sent[0]:  # until it stops growing
                    before = sent[0]
                    time.sleep(0.3 * PATIENCE)
                assert sent[0] < total * 2 / 3, sent[0]  # the system's buffers
                s.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
                n = 0
                while True:
                    event = s.read_json()
                    n += len(event["delta"]) if event["type"].endswith("text.delta") else 0
                    if event["type"] == "response.completed":
                        break
                assert n == total, n
        with report.check("a second try answers, before the first byte only", server):
            def flaky(s):
                if fake.n > 1:
                    s.sendall(HEAD + b"\r\n" + chunk("at last", finish_reason="stop") +
                              b"data: [DONE]\n\n")
            fake.act, fake.n = flaky, 0
            answer, _ = respond(server, model="big")
            assert said(answer) == "at last" and fake.n == 2, answer
    with report.check("an upstream that fails is not used, and its health is checked"):
        keys.update({"failures": 2, "rest-time": 60, "retries": 0, "health-time": 1})
        fake.act, fake.n = lambda s: None, 0
        with serve({"fake": keys}) as server:
            wait_for(lambda: "state=down" in server.log())
            n = fake.n
            error, headers = respond(server, model="big", want=503)
            assert error["error"]["code"] == "upstream_down" and headers["retry-after"] == "60"
            fake.act = lambda s: s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            wait_for(lambda: "state=up" in server.log())
            assert fake.n > n


def main():
    report = Report("upstream")
    with Server(replay=DEEP, context=32768, args=["--model-id", "big"]) as deep:
        url = "http://127.0.0.1:%d/v1" % deep.port
        with serve({"cluster": {"url": url, "models": "big", "effort": "high",
                                "context-over": 1000, "first-time": 3600,
                                "idle-time": 3600},
                    "chat-only": {"url": url, "models": "chat", "model": "big",
                                  "responses": "no", "first-time": 3600,
                                  "idle-time": 3600}},
                   args=["--context", "2048"]) as server:
            server.deep = deep
            check_routes(report, server)
            check_talk(report, server, "big")
            check_talk(report, server, "chat")
            check_deep(report, url)
            with report.check("nothing is left over, and both shut down cleanly", server):
                wait_for(lambda: deep.running() == 0 and server.running() == 0)
                # Answers of upstreams need no place here.
                told = server.json("GET", "/health")
                assert told["waiting"] == 0 and told["running"] == 0, told
                assert server.stop() == 0
    check_budgets(report)
    check_hostile(report)
    check_silent(report)
    report.end()


main()
