"""check_work.py - long work is done by threads: the event loop serves all clients meanwhile,
and results arrive in order.

Nothing here is measured in time.  A blocked loop would answer in the order of arrival, so a check
looks at the order of the answers."""

import json
import selectors
import socket
import sys

from wire import (PATIENCE, SANITIZED, WAIT_S, Checks, RawSocket, Server, Wire, frame, line,
                  request, wait_until)

# With a sanitizer, computing a full context takes as long as reading 31 MB.
CONTEXT = 1024 if SANITIZED else 16384
MEGABYTE = 1 << 16 if SANITIZED else 1 << 20
HUGE = 31 * MEGABYTE   # just below the limit of a body
MUCH = 40 if SANITIZED else 1200  # words of an answer that is not short
ASKED = 5              # small requests beside a large one
TRIES = 5
ROUNDS = 4 if SANITIZED else 20
SCRIPT = [line(" ".join("word%d" % i for i in range(4000)), repeat=True, last="talk for long"),
          line(" ".join("item%d" % i for i in range(MUCH)), repeat=True, last="say much"),
          line("first", repeat=True, last="say first"),
          line("second", repeat=True, last="say second"),
          line("return a + b;", repeat=True, last="int add(")]


def padded(message, n):
    """The message as JSON with n bytes in an unused field, before the others."""
    text = json.dumps(message)
    return ('{"padding":"%s",%s' % ("x" * n, text[1:])).encode()


def create(text, **fields):
    return {"type": "response.create", "input": text, "store": False, **fields}


def respond(text, **fields):
    return {"input": text, "store": False, **fields}


def output(response):
    return response["output"][0]["content"][0]["text"]


def gathered(server):
    """Bytes of requests that the server has received and not parsed yet."""
    return server.metric('cerium_waiting_bytes{way="in"}')


def is_idle(server):
    return wait_until(lambda: server.running() == 0 and gathered(server) == 0)


# ---- the loop is not blocked ----

def many_tools():
    """1 MB of schemas: all but one must be compiled to be enforced."""
    properties = {"field_%d" % i: {"type": "string", "pattern": "[a-z]{1,%d}[0-9]+" % (i + 1)}
                  for i in range(40)}
    return [{"type": "function", "name": "tool_%d" % i, "strict": True, "parameters": {
        "type": "object", "properties": properties, "required": sorted(properties),
        "additionalProperties": False}} for i in range(280)]


def hostile_bodies():
    """Name, path, body, status."""
    yield "31 MB of blanks", "/v1/responses", json.dumps(respond(" " * HUGE)), 400
    yield "31 MB of one letter", "/v1/completions", json.dumps({"prompt": "a" * HUGE}), 400
    yield "31 MB, cut to what fits", "/infill", json.dumps({
        "input_prefix": "int add(" * (HUGE // 8), "input_suffix": "", "n_predict": 1}), 200
    yield "15 million numbers", "/v1/responses", '{"input":"say first","metadata":[%s1]}' % (
        "1," * (HUGE // 2)), 400
    yield "a million values", "/v1/responses", '{"store":false,"input":"say first","x":[%s1]}' % (
        "1," * 1000000), 200
    yield "deep JSON", "/v1/responses", '{"input":%s%s}' % (
        "[" * (HUGE // 2), "]" * (HUGE // 2)), 400
    yield "no JSON", "/v1/chat/completions", '"' + "\\u0000" * (HUGE // 6), 400
    yield "31 MB to tokenize", "/tokenize", json.dumps({"content": "x y" * (HUGE // 3)}), (
        200 if SANITIZED else 413)
    yield "1 MB of schemas", "/v1/responses", json.dumps(
        respond("say first", tools=many_tools())), 400


def race(server, path, body, want):
    """Number of small requests answered, one after another, between the last byte of a large
    one and its answer; at most ASKED are asked."""
    body = body.encode() if isinstance(body, str) else body
    with Wire(server.port) as large, Wire(server.port) as small:
        whole = request("POST", path, body)
        large.send(whole[:-1])
        assert wait_until(lambda: gathered(server) == len(body) - 1), gathered(server)
        large.send(whole[-1:])
        n = 0
        with selectors.DefaultSelector() as picked:
            picked.register(large.socket, selectors.EVENT_READ)
            while n < ASKED and not picked.select(0):
                small.send(request("GET", "/health/live"))
                assert small.read_answer().status == 200
                n += 1
        answer = large.read_answer()
        assert answer.status == want, (answer.status, answer.body[:300])
        return n


def check_loop(report, server):
    for name, path, body, want in hostile_bodies():
        with report.serving("others are served beside %s" % name, server):
            # A thread may be that quick once; a loop that does the work itself answers one or two.
            n = [race(server, path, body, want) for _ in range(TRIES)]
            assert sorted(n)[TRIES // 2] == ASKED, n
    with report.serving("others are served while large answers are listed", server):
        for _ in range(20):
            server.json("POST", "/v1/responses", {"input": "say first", "metadata": {"pad": "y"},
                                                  "instructions": "z" * CONTEXT})
        with Wire(server.port) as large, Wire(server.port) as small:
            large.send(request("GET", "/v1/responses?limit=100"))
            small.send(request("GET", "/health/live") * ASKED)
            listed = large.read_answer().json()["data"]
            assert len(listed) >= 20 and all(output(r) == "first" for r in listed[:20])
            for _ in range(ASKED):
                assert small.read_answer().status == 200


# ---- large and small requests are alike ----

def check_sizes(report, server):
    with report.serving("a request of any size is answered alike", server):
        for n in (0, 10000, 20000, 300000, 5 * MEGABYTE):
            answer = server.json("POST", "/v1/responses", padded(respond("say first"), n))
            assert output(answer) == "first", (n, answer)
            status, _, body = server.request("POST", "/v1/responses", padded(
                respond("say second", stream=True), n))
            assert status == 200 and b"response.completed" in body and b"second" in body, body
            status, _, body = server.request("POST", "/v1/responses", padded({"input": 5}, n))
            assert status == 400 and json.loads(body)["error"]["param"] == "input", (n, body)
            chat = server.json("POST", "/v1/chat/completions", padded(
                {"messages": [{"role": "user", "content": "say first"}]}, n))
            assert chat["choices"][0]["message"]["content"] == "first", (n, chat)
            infill = server.json("POST", "/infill", padded(
                {"input_prefix": "int add(", "input_suffix": "", "n_predict": 8}, n))
            assert infill["content"] == "return a + b;", (n, infill)
    with report.serving("prompts that are too long are refused alike", server):
        for n in (20000, 40000, MEGABYTE, 6 * MEGABYTE):
            for path, body in (("/v1/responses", respond("word " * n)),
                               ("/v1/completions", {"prompt": "word " * n})):
                status, _, answer = server.request("POST", path, body, timeout=WAIT_S)
                error = json.loads(answer)["error"]
                assert status == 400 and error["code"] == "context_length_exceeded", answer
    with report.serving("truncation drops the oldest messages of 31 MB", server):
        said = [{"role": "user", "content": "word " * 1000} for _ in range(HUGE // 5500)]
        answer = server.json("POST", "/v1/responses", respond(
            said + [{"role": "user", "content": "say first"}], truncation="auto"), timeout=WAIT_S)
        assert output(answer) == "first", answer
    with report.serving("infill drops files of 31 MB", server):
        files = [{"filename": "f%d.c" % i, "text": "int x%d;\n" % i * 10000}
                 for i in range(HUGE // 120000)]
        answer = server.json("POST", "/infill", {
            "input_prefix": "int add(", "input_suffix": "}", "input_extra": files, "n_predict": 8},
            timeout=WAIT_S)
        assert answer["content"] == "return a + b;", answer
    with report.serving("predictions of 20 MB and scripts beyond the context", server):
        chat = server.json("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "say first"}],
            "prediction": {"type": "content", "content": "first " * (20 * MEGABYTE // 6)}})
        assert chat["choices"][0]["message"]["content"] == "first", chat
    with report.serving("tokens of a text are the same in any size of body", server):
        for n in (10, 5000, 100000):
            body = {"content": "word " * n}
            tokens = server.json("POST", "/tokenize", body)["tokens"]
            assert tokens == server.json("POST", "/tokenize", padded(body, 17000))["tokens"]
            assert len(tokens) >= n
        shown = server.json("POST", "/tokenize", padded(
            {"content": "h\u00e9 \U0001f600", "with_pieces": True}, 17000))["tokens"]
        pieces = b"".join(p["piece"].encode() if isinstance(p["piece"], str) else
                          bytes(p["piece"]) for p in shown)
        assert pieces == "h\u00e9 \U0001f600".encode(), shown


# ---- messages keep their order ----

def texts(s, n):
    """(text, stream_id) of the next n answers, in the order in which they end."""
    ended = []
    while len(ended) < n:
        event = s.read_json()
        assert event["type"] != "error", event
        if event["type"] in ("response.completed", "response.incomplete"):
            ended.append((output(event["response"]), event.get("stream_id")))
    return ended


def send_text(s, data):
    s.send(frame(data))


def check_order(report, server):
    with report.serving("a small message waits for a large one in its lane", server):
        with RawSocket(server.port, timeout=WAIT_S) as s:
            for n in (17000, 300000, 20 * MEGABYTE):
                send_text(s, padded(create("say first"), n))
                s.send_json(create("say second"))
                send_text(s, padded(create("say first"), 20000))
                got = [t for t, _ in texts(s, 3)]
                assert got == ["first", "second", "first"], got
    with report.serving("lanes after a large message", server):
        with RawSocket(server.port, timeout=WAIT_S) as s:
            send_text(s, padded(create("say first", stream_id="a"), 8 * MEGABYTE))
            for lane in "bab":
                s.send_json(create("say second", stream_id=lane))
            got = texts(s, 4)
            assert [t for t, lane in got if lane == "a"] == ["first", "second"], got
            assert [t for t, lane in got if lane == "b"] == ["second", "second"], got
    with report.serving("continuing an answer that a large message is just getting", server):
        with RawSocket(server.port, timeout=WAIT_S) as s:
            send_text(s, padded(create("talk for long", max_output_tokens=300),
                                2 * MEGABYTE))
            first = s.read_json()
            while first["type"] != "response.created":
                first = s.read_json()
            send_text(s, padded(create("say second", previous_response_id=first["response"]["id"]),
                                MEGABYTE))
            ended = []
            while len(ended) < 2:
                event = s.read_json()
                if event["type"] in ("response.completed", "response.incomplete", "error"):
                    ended.append(event)
            assert output(ended[1]["response"]) == "second", ended[1]
    with report.serving("errors are reported in order", server):
        with RawSocket(server.port, timeout=WAIT_S) as s:
            send_text(s, padded(create("say first"), MEGABYTE))
            s.send_json({"type": "response.create", "input": 5})
            send_text(s, padded({"type": "response.create", "input": 5}, 20000))
            send_text(s, "{" * 20000)
            s.send_json(create("say second"))
            kinds = []
            while len(kinds) < 5:
                event = s.read_json()
                if event["type"] in ("response.completed", "error"):
                    kinds.append(event["type"])
            assert sorted(kinds) == ["error"] * 3 + ["response.completed"] * 2, kinds
    with report.serving("too many messages after a large one", server):
        with RawSocket(server.port, timeout=WAIT_S) as s:
            n, refused, answered = 200, 0, 0
            send_text(s, padded(create("say first"), 20 * MEGABYTE))
            s.send(b"".join(frame(json.dumps(create("say second"))) for _ in range(n)))
            while refused + answered < n + 1:
                event = s.read_json()
                if event["type"] == "error":
                    assert event["status"] == 429, event
                    refused += 1
                elif event["type"] == "response.completed":
                    answered += 1
            assert answered >= 10, (answered, refused)
    with report.serving("completions after large messages, and large completions", server):
        with RawSocket(server.port, timeout=WAIT_S) as s:
            code = "/* %s */\n" % ("long ago " * 400) + "int add("
            send_text(s, padded(create("say first"), 4 * MEGABYTE))
            for i, n in enumerate((0, 20000, 5 * MEGABYTE)):
                send_text(s, padded({"type": "completion.create", "id": "c%d" % i, "prefix": code,
                                     "path": "f%d.c" % i}, n))
            send_text(s, padded({"type": "completion.create", "id": "bad id"}, 20000))
            done, wrong = {}, 0
            while len(done) < 3 or not wrong:
                event = s.read_json()
                if event["type"] == "completion.done":
                    done[event["id"]] = event["reason"]
                wrong += event["type"] == "error"
            assert set(done.values()) == {"stop"}, done


# ---- canceling ----

def overtakes(server):
    """Whether the canceled answer ends before the large message's answer begins."""
    with RawSocket(server.port, timeout=WAIT_S) as s:
        s.send_json(create("talk for long", stream_id="a"))
        while s.read_json()["type"] != "response.output_text.delta":
            pass
        send_text(s, padded(create("say first", stream_id="b"), 20 * MEGABYTE))
        s.send_json({"type": "response.cancel", "stream_id": "a"})
        order = []
        while len(order) < 2:
            event = s.read_json()
            lane = event.get("stream_id")
            if lane == "a" and event["type"] in ("response.incomplete", "response.completed"):
                order.append((lane, event["response"]["status"]))
            if lane == "b" and event["type"] == "response.created":
                order.append((lane, ""))
        assert dict(order)["a"] != "completed", order
        return order[0][0] == "a"


def check_cancel(report, server):
    with report.serving("a small message cancels at once, past all that wait", server):
        assert any(overtakes(server) for _ in range(TRIES)), "it waits"
    with report.serving("an unread message is canceled in its turn", server):
        with RawSocket(server.port, timeout=WAIT_S) as s:
            for n in (20000, MEGABYTE):
                send_text(s, padded(create("talk for long", stream_id="a"), n))
                s.send_json({"type": "response.cancel", "stream_id": "a"})
                event = s.read_json()
                while event["type"] not in ("response.completed", "response.incomplete"):
                    event = s.read_json()
                assert event["response"]["status"] != "completed", str(event)[:300]
    with report.serving("an unread completion is canceled", server):
        with RawSocket(server.port, timeout=WAIT_S) as s:
            send_text(s, padded({"type": "completion.create", "id": "c", "max_tokens": 4000,
                                 "prefix": "talk for long"}, MEGABYTE))
            s.send_json({"type": "completion.cancel", "id": "c"})
            event = s.read_json()
            while event["type"] != "completion.done":
                event = s.read_json()
            assert event["reason"] == "canceled", event
    with report.serving("a prompt in preparation is canceled over HTTP", server):
        with Wire(server.port) as w:
            w.send(request("POST", "/v1/responses", padded(
                {"input": "talk for long", "stream": True}, MEGABYTE)))
            w.until(b'"id":"')
            number = w.until(b'"').decode()
            answer = server.json("POST", "/v1/responses/%s/cancel" % number)
            assert answer["id"] == number and answer["status"] != "completed", answer
            stored = server.json("GET", "/v1/responses/" + number)
            assert stored["status"] == answer["status"], stored


# ---- clients that leave ----

def leave(server, data, closes, part=None):
    with Wire(server.port) as w:
        w.push(data if part is None else data[:part])
        if closes == "reset":
            w.reset()
        elif closes == "half":
            w.end_writing()


def check_leavers(report, server):
    bodies = [("/v1/responses", padded(respond("say first"), 6 * MEGABYTE)),
              ("/v1/responses", json.dumps(respond("word " * (4 * MEGABYTE))).encode()),
              ("/v1/responses", padded({"input": "talk for long", "stream": True}, 20000)),
              ("/v1/responses", json.dumps({"input": "say first", "tools": many_tools()}).encode()),
              ("/tokenize", json.dumps({"content": "x y" * (4 * MEGABYTE)}).encode()),
              ("/infill", padded({"input_prefix": "int add(", "input_suffix": ""}, 400000))]
    with report.serving("clients that leave while their request is read and prepared", server):
        for closes in ("close", "reset", "half"):
            for path, body in bodies:
                for _ in range(4):
                    leave(server, request("POST", path, body), closes)
        assert is_idle(server), "something is left"
    with report.serving("WebSockets that are closed in the middle of it", server):
        for closes in ("close", "reset"):
            for n in range(12):
                s = RawSocket(server.port, timeout=WAIT_S)
                send_text(s, padded(create("talk for long"), (n % 4) * 2 * MEGABYTE))
                s.send_json(create("say second"))
                s.send_json(create("say first", stream_id="b"))
                send_text(s, padded(create("say first", stream_id="b"), MEGABYTE))
                if n % 3:
                    s.read_json()
                if closes == "reset":
                    s.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                s.socket.close()
        assert is_idle(server), "something is left"
    with report.serving("clients that leave while their answer is stored", server):
        for _ in range(ROUNDS):
            with Wire(server.port) as w:
                w.send(request("POST", "/v1/responses", {"input": "say much", "stream": True}))
                w.until(b"item%d" % (MUCH - 10))
                w.reset()
        assert is_idle(server), "something is left"
    with report.serving("clients that leave while theirs is listed, read and removed", server):
        number = server.json("POST", "/v1/responses", {"input": "say much"})["id"]
        for method, path in (("GET", "?limit=100"), ("GET", "/" + number),
                             ("GET", "/%s/input_items" % number), ("DELETE", "/no_such"),
                             ("POST", "/%s/cancel" % number)):
            for closes in ("close", "reset", "half"):
                leave(server, request(method, "/v1/responses" + path) * 3, closes)
        assert server.json("GET", "/v1/responses/" + number)["id"] == number


# ---- stored responses can be found ----

def check_stored(report, server):
    with report.serving("a stored response can be found once its end was sent", server):
        for i in range(ROUNDS):
            text = ("say first", "say much")[i % 2]
            with Wire(server.port) as w:
                w.send(request("POST", "/v1/responses", {"input": text, "stream": True}))
                w.until(b"event: response.completed")
                w.until(b'"id":"')
                number = w.until(b'"').decode()
                stored = server.json("GET", "/v1/responses/" + number)
                assert stored["status"] == "completed" and stored["id"] == number, stored
                items = server.json("GET", "/v1/responses/%s/input_items" % number)["data"]
                assert items[0]["content"][0]["text"] == text, items
            more = server.json("POST", "/v1/responses", {"input": "say second",
                                                         "previous_response_id": number})
            assert output(more) == "second"
            assert server.json("DELETE", "/v1/responses/" + number)["deleted"] is True
            assert server.request("GET", "/v1/responses/" + number)[0] == 404
            status, _, body = server.request("POST", "/v1/responses", {
                "input": "say second", "previous_response_id": number})
            assert status == 400 and b"previous_response_not_found" in body, body
    with report.serving("over a WebSocket, while other lanes continue", server):
        with RawSocket(server.port, timeout=WAIT_S) as s:
            s.send_json(create("talk for long", stream_id="long"))
            previous = None
            for _ in range(10):
                s.send_json({"type": "response.create", "input": "say first", "stream_id": "s",
                             **({"previous_response_id": previous} if previous else {})})
                event = s.read_json()
                while event.get("stream_id") != "s" or event["type"] != "response.completed":
                    assert event["type"] != "error", event
                    event = s.read_json()
                previous = event["response"]["id"]
                assert server.json("GET", "/v1/responses/" + previous)["status"] == "completed"
            s.send_json({"type": "response.cancel", "stream_id": "long"})
            while event["type"] != "response.incomplete":
                event = s.read_json()
    with report.serving("a running response is read, canceled, and stays canceled", server):
        for n in (0, 20000):
            with Wire(server.port) as w:
                w.send(request("POST", "/v1/responses", padded(
                    {"input": "talk for long", "stream": True}, n)))
                w.until(b'"id":"')
                number = w.until(b'"').decode()
                w.until(b"word20")
                shown = server.json("GET", "/v1/responses/" + number)
                assert shown["status"] == "in_progress" and shown["id"] == number, shown
                items = server.json("GET", "/v1/responses/%s/input_items" % number)
                assert items["data"][0]["content"][0]["text"] == "talk for long"
                canceled = server.json("POST", "/v1/responses/%s/cancel" % number)
                again = server.json("POST", "/v1/responses/%s/cancel" % number)
                assert canceled["status"] == again["status"] != "completed", (canceled, again)
    with report.serving("an answer with megabytes of log-probabilities is complete", server):
        status, _, body = server.request("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "talk for long"}], "logprobs": True,
            "top_logprobs": 10}, timeout=WAIT_S)
        answer = json.loads(body)
        text = answer["choices"][0]["message"]["content"]
        assert status == 200 and len(body) > 60 * CONTEXT, (status, len(body))
        assert text.startswith("word0 word1 ") and "word%d " % MUCH in text, text[-200:]
    with report.serving("it shuts down cleanly while threads work", server):
        with Wire(server.port) as w:
            w.send(request("POST", "/v1/responses", json.dumps(respond("word " * (6 * MEGABYTE)))
                           .encode()))
            assert server.stop() == 0
        server.start()


PARTS = {"loop": check_loop, "sizes": check_sizes, "order": check_order, "cancel": check_cancel,
         "leavers": check_leavers, "stored": check_stored}


def main():
    report = Checks("work")
    with Server(replay=SCRIPT, context=CONTEXT, args=["--quiet"]) as server:
        for name in sys.argv[1:] or PARTS:
            PARTS[name](report, server)
        with report.check("it shuts down cleanly", server):
            assert server.stop(seconds=30 * PATIENCE) == 0
    report.end()


main()
