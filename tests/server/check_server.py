"""check_server.py - sessions, lanes, interrupts, limits and access of `cerium serve`, raw."""

import json
import socket
import time

from talk import (
    HANG_S, LONG, PATIENCE, POST, SCRIPT, RawSocket, Report, Server, cached, create, line,
    text_of, usage_of, wait_delta, wait_for)


# ---- sessions ----

def check_sessions(report, server):
    with report.check("a warm-up is answered at once and computed afterwards", server):
        with RawSocket(server.port, timeout=30 * PATIENCE) as s:
            words = " ".join("warm%d" % i for i in range(1500))
            s.send_json(create(words, generate=False))
            events = s.read_answer()
            assert events[-1]["type"] == "response.completed", events[-1]
            assert events[-1]["response"]["output"] == []
            turn = s.ask("say first", previous_response_id=events[-1]["response"]["id"])
            assert text_of(turn) == "first", turn[-1]
            assert cached(turn) > usage_of(turn)["input_tokens"] / 2, usage_of(turn)
    with report.check("a turn continues the one before, all of it cached", server):
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
    with report.check("an id that is not stored works on its own connection only", server):
        with RawSocket(server.port) as s:
            one = s.ask("say first")[-1]["response"]["id"]
            with RawSocket(server.port) as other:
                error = other.ask("say second", previous_response_id=one)[-1]
                assert error["error"]["code"] == "previous_response_not_found", error
                assert error["status"] == 400
                assert text_of(other.ask("say second")) == "second"
            assert text_of(s.ask("say second", previous_response_id=one)) == "second"
    with report.check("a stored id works on every connection, after a restart too", server):
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
        with RawSocket(server.port) as s:  # a store remembers their state
            assert tokens(instructions=long)[0] == same and tokens()[0] == none
    with report.check("the parent of a failed continuation is gone", server):
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
    with report.check("a late refusal is reported, and the next request runs", server):
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
    with report.check("with stream_id: in parallel, and each event names its stream", server):
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
    with report.check("response.cancel: no more text, and the next turn continues from there",
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
    with report.check("a message that continues the running response waits for its end", server):
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
    with report.check("a stream over HTTP stops when its reader leaves", server):
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
    """Whether no one listens there any more."""
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
    with report.check("a full queue says 429 and when to try again"):
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
    with report.check("one key cannot fill the queue, nor all places"):
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
    with report.check("keys: responses of one are not found by another"):
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
    with report.check("prompts are in the log only on request"):
        for args in ([], ["--log-prompts"]):
            with Server(args=args) as server:
                server.json("POST", "/v1/responses", {"input": "s3cret", "max_output_tokens": 1})
                assert ("s3cret" in server.log()) == bool(args), args
    with report.check("a key on the command line is soon overwritten"):
        for args in (["--api-key", "seen-by-all"], ["--api-key=seen-by-all", "--api-key", "two"]):
            with Server(key="first", args=args) as server:
                with open("/proc/%d/cmdline" % server.process.pid, "rb") as f:
                    words = f.read()
                assert b"--api-key" in words and b"seen" not in words and b"first" not in words
                for key, want in (("first", 200), ("seen-by-all", 200), ("***********", 401)):
                    head = {"Authorization": "Bearer " + key}
                    assert server.request("GET", "/v1/models", headers=head)[0] == want, key
    with report.check("a browser sends its key as a subprotocol"):
        with Server(key="a%b/c") as server:
            for key, want in (("a%25b%2Fc", 101), ("wrong", 401)):
                offer = "Sec-WebSocket-Protocol: cerium, cerium.bearer." + key
                with RawSocket(server.port, headers=[offer]) as s:
                    assert s.status == want, s.status
                    if want == 101:
                        assert "Sec-WebSocket-Protocol: cerium\r\n" in s.headers + "\r\n"
                        assert "bearer" not in s.headers
            assert "a%b/c" not in server.log() and "a%25b" not in server.log()


def main():
    report = Report("server")
    with Server(replay=SCRIPT, context=16384) as server:
        check_sessions(report, server)
        check_lanes(report, server)
        check_interrupts(report, server)
        with report.check("nothing is left over, and it shuts down cleanly", server):
            wait_for(lambda: server.running() == 0)
            assert server.metric("cerium_failed_total") == 0
            assert server.stop() == 0
    check_limits(report)
    check_access(report)
    report.end()


main()
