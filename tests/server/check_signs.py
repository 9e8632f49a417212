"""check_signs.py - signs of life of streams that have no text yet."""

import json
import socket
import time

from talk import (
    PATIENCE, SCRIPT, RawSocket, Report, Server, create, large_schema, line, shaped, wait_for)


def raw_stream(port, path, body):
    """A socket with a streamed answer."""
    data = json.dumps({"stream": True, **body}).encode()
    s = socket.create_connection(("127.0.0.1", port), 30 * PATIENCE)
    s.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
              % (path.encode(), len(data)) + data)
    return s


def read_until(s, *wanted, stop=b"0\r\n\r\n"):
    """Everything up to the last wanted part; the parts come in this order."""
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
        with report.check("a refusal after long compiling is an error in the stream", server):
            busy = [raw_stream(server.port, "/v1/responses", shaped(large_schema(name)))
                    for name in "jklmnopqrstuvw"]
            bad = {"type": "object", "properties": {"a": {"items": {"type": "thing"}}}}
            with raw_stream(server.port, "/v1/responses", shaped(bad)) as s:
                got = read_until(s, b"/properties/a/items/type")
            if b"HTTP/1.1 200" in got:  # otherwise it was quick
                assert b"response.created" in got and b"keepalive" in got, got
                assert b"event: response.failed" in got, got
            else:
                assert b"HTTP/1.1 400" in got, got
            for one in busy:
                one.close()
            wait_for(lambda: server.running() == 0)
        with report.check("return_progress reports the progress of a prompt", server):
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


def main():
    report = Report("signs")
    check_signs_of_life(report)
    report.end()


main()
