"""check_background.py - responses in the background, and resumed streams."""

import contextlib
import http.client
import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from harness import HANG_S, Report, Server, line, wait_for  # noqa: E402
from rawsocket import RawSocket  # noqa: E402

LINES = "".join("line %d of many\n" % i for i in range(120))
# Longer than any check runs before it ends the answer.
ENDLESS = "".join("this is line number %d of very many\n" % i for i in range(5000))
SCRIPT = [
    line(ENDLESS, repeat=True, last="never end"),
    line(LINES, repeat=True, last="for long"),
    line("Hello there.", repeat=True, last="say hello"),
]


def events_of(data):
    """(name, object) of each event of an event stream."""
    found = []
    for block in data.decode().split("\n\n"):
        fields = dict(f.split(": ", 1) for f in block.split("\n") if ": " in f)
        if "data" in fields:
            found.append((fields.get("event"), json.loads(fields["data"])))
    return found


def begin(server, text, want=200, **fields):
    body = {"input": text, "background": True, **fields}
    return server.json("POST", "/v1/responses", body, want=want)


def get(server, which, want=200, **more):
    return server.json("GET", "/v1/responses/" + which, want=want, **more)


def follow(server, which, after=None, want=200, **more):
    path = "/v1/responses/%s?stream=true" % which
    if after is not None:
        path += "&starting_after=%d" % after
    status, headers, data = server.request("GET", path, **more)
    assert status == want, (status, data[:300])
    if want != 200:
        return json.loads(data)["error"]
    assert headers["content-type"].startswith("text/event-stream"), headers["content-type"]
    return events_of(data)


def ended(server, which):
    def look():
        said = get(server, which)
        return said if said["status"] not in ("queued", "in_progress") else None

    return wait_for(look)


def text_of(events):
    return "".join(e["delta"] for name, e in events if name == "response.output_text.delta")


def in_order(events, first=0):
    numbers = [e["sequence_number"] for _, e in events]
    assert numbers == list(range(first, first + len(numbers))), numbers[:20]
    assert all(name == e["type"] for name, e in events)


@contextlib.contextmanager
def stream(server, path, body=None):
    """A stream that the caller reads as it likes; closed at the end."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG_S)
    try:
        connection.request("POST" if body else "GET", path, body and json.dumps(body),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, (answer.status, answer.read()[:300])
        yield answer
    finally:
        connection.close()


def read_events(answer, n):
    data = b""
    while data.count(b"\n\n") < n:
        data += answer.read1(1)
    return events_of(data)


def check_whole(report, server):
    with report.check("a background response is created, polled and completed", server):
        said = begin(server, "for long")
        assert said["background"] is True and said["store"] is True, said
        assert said["status"] in ("queued", "in_progress") and said["output"] == [], said
        last = ended(server, said["id"])
        assert last["status"] == "completed" and last["background"] is True, last["status"]
        assert last["output"][0]["content"][0]["text"] == LINES.rstrip("\n") or \
            last["output"][0]["content"][0]["text"] == LINES, last["output"]
    with report.check("its events can be read from any number", server):
        all_of_it = follow(server, said["id"])
        in_order(all_of_it)
        names = [name for name, _ in all_of_it]
        assert names[:3] == ["response.created", "response.queued", "response.in_progress"], names
        assert names[-1] == "response.completed", names[-1]
        assert all_of_it[0][1]["response"]["status"] == "queued"
        assert all_of_it[2][1]["response"]["status"] == "in_progress"
        for after in (0, 1, 2, 57, len(names) - 2, len(names) - 1, len(names), 10 ** 9, 10 ** 30):
            if after < 10 ** 19:
                assert follow(server, said["id"], after) == all_of_it[after + 1:], after
        for stream_of in ("stream=true&starting_after=x", "stream=true&starting_after=-1",
                          "stream=perhaps", "stream=true&starting_after=1.5",
                          "stream=true&starting_after=%d" % 10 ** 30):
            get(server, said["id"] + "?" + stream_of, want=400)
        assert get(server, said["id"] + "?stream=false&starting_after=3")["status"] == "completed"
    with report.check("a response that is removed has no events", server):
        server.json("DELETE", "/v1/responses/" + said["id"])
        error = follow(server, said["id"], want=404)
        assert error["code"] == "not_found", error


def check_live(report, server):
    with report.check("several clients follow it while it runs, and one leaves", server):
        said = begin(server, "for long", stream=False)
        path = "/v1/responses/%s?stream=true" % said["id"]
        with stream(server, path) as first, stream(server, path + "&starting_after=4") as second:
            with stream(server, path) as leaves:
                read_events(leaves, 3)
            one, two = events_of(first.read()), events_of(second.read())
        in_order(one)
        assert two == one[5:], (len(one), len(two))
        assert text_of(one).startswith("line 0") and one[-1][0] == "response.completed"
    with report.check("a stream in the background continues when its client leaves", server):
        body = {"input": "for long", "background": True, "stream": True}
        with stream(server, "/v1/responses", body) as answer:
            begun = read_events(answer, 5)
        in_order(begun)
        which = begun[0][1]["response"]["id"]
        rest = follow(server, which, begun[-1][1]["sequence_number"])
        in_order(rest, begun[-1][1]["sequence_number"] + 1)
        assert rest[-1][0] == "response.completed", rest[-1]
        assert text_of(begun) + text_of(rest) == text_of(follow(server, which))
        assert get(server, which)["status"] == "completed"
    with report.check("a stored stream whose client left ends, and its events are there", server):
        with stream(server, "/v1/responses", {"input": "never end", "stream": True}) as answer:
            begun = read_events(answer, 5)
        which = begun[0][1]["response"]["id"]
        assert ended(server, which)["status"] == "cancelled"
        rest = follow(server, which, 4)
        in_order(rest, 5)
        assert rest[-1][0] == "response.incomplete", rest[-1][0]
        assert rest[-1][1]["response"]["status"] == "cancelled"
        assert begun + rest == follow(server, which)
    with report.check("a stream that was read to its end can be read again", server):
        with stream(server, "/v1/responses", {"input": "say hello", "stream": True}) as answer:
            whole = events_of(answer.read())
        assert follow(server, whole[0][1]["response"]["id"]) == whole


def check_cancel(report, server):
    with report.check("a running background response is canceled", server):
        said = begin(server, "never end")
        with stream(server, "/v1/responses/%s?stream=true" % said["id"]) as answer:
            begun = read_events(answer, 6)
            canceled = server.json("POST", "/v1/responses/%s/cancel" % said["id"])
            assert canceled["status"] in ("cancelled", "in_progress"), canceled["status"]
            whole = begun + events_of(answer.read())
        in_order(whole)
        assert whole[-1][0] == "response.incomplete"
        assert whole[-1][1]["response"]["status"] == "cancelled"
        assert ended(server, said["id"])["status"] == "cancelled"
    with report.check("a queued background response is canceled, too", server):
        first, second = begin(server, "never end"), begin(server, "say hello")
        assert second["status"] == "queued", second["status"]
        assert get(server, second["id"])["status"] == "queued"
        server.json("POST", "/v1/responses/%s/cancel" % second["id"])
        assert ended(server, second["id"])["status"] == "cancelled"
        names = [name for name, _ in follow(server, second["id"])]
        assert names == ["response.created", "response.queued", "response.incomplete"], names
        server.json("POST", "/v1/responses/%s/cancel" % first["id"])
        assert ended(server, first["id"])["status"] == "cancelled"


def check_bound(report, server):
    with report.check("at most 4 MiB of a response's events are kept", server):
        # The echo makes each event of the whole response large: the third exceeds the bound.
        said = begin(server, "never end", metadata={"large": "x" * 1600000})
        wait_for(lambda: get(server, said["id"])["status"] == "in_progress")
        error = follow(server, said["id"], 0, want=400)
        assert error["code"] == "stream_expired" and error["message"].endswith(" 2 on"), error
        with stream(server, "/v1/responses/%s?stream=true&starting_after=1" % said["id"]) as rest:
            server.json("POST", "/v1/responses/%s/cancel" % said["id"])
            told = events_of(rest.read())
        in_order(told, 2)
        assert told[0][0] == "response.in_progress" and told[-1][0] == "response.incomplete"
        assert server.metric("cerium_recorded_bytes") <= 64 << 20
        # The end is still there, and every event after those that were dropped.
        assert [name for name, _ in follow(server, said["id"], 0)] == ["response.incomplete"]
        assert follow(server, said["id"], 5) == told[4:]
    with report.check("at most 64 MiB of all events are kept, the newest ones", server):
        large = {"metadata": {"large": "x" * 1300000}}
        each = [begin(server, "say hello", **large)["id"] for _ in range(4)]
        each += [ended(server, begin(server, "say hello", **large)["id"])["id"] for _ in range(20)]
        for which in each:
            ended(server, which)
        assert server.metric("cerium_recorded_bytes") <= 64 << 20
        assert follow(server, each[-1], 1)[0][0] == "response.in_progress"
        assert [name for name, _ in follow(server, each[0], 1)] == ["response.completed"]


def check_refused(report, server):
    with report.check("requests that cannot run in the background are refused by name", server):
        for fields in ({"store": False}, {"background": "yes"}, {"background": 1},
                       {"input": [{"type": "message", "role": "user", "content": "a"},
                                  {"type": "compaction_trigger"}]}):
            error = begin(server, fields.pop("input", "say hello"), want=400, **fields)
            assert error["error"]["param"] == "background", error
        for value in (None, False):
            said = server.json("POST", "/v1/responses",
                               {"input": "say hello", "background": value, "store": False})
            assert said["background"] is False and said["status"] == "completed", said
        error = begin(server, "word " * 100000, want=400)
        assert error["error"]["code"] == "context_length_exceeded", error
        with RawSocket(server.port) as socket:
            socket.send_json({"type": "response.create", "input": "say hello",
                              "background": True})
            said = socket.read_json()
            assert said["type"] == "error" and said["error"]["param"] == "background", said
    with report.check("a response that is not stored has no events", server):
        with stream(server, "/v1/responses",
                    {"input": "never end", "stream": True, "store": False}) as answer:
            which = read_events(answer, 3)[0][1]["response"]["id"]
            error = follow(server, which, 1, want=400)
            assert error["code"] == "stream_expired", error
        wait_for(lambda: server.request("GET", "/v1/responses/" + which)[0] == 404)
        assert follow(server, which, want=404)["code"] == "not_found"


def check_keys(report):
    with Server(replay=SCRIPT, key="first", args=["--api-key", "second"]) as server:
        with report.check("no one follows another key's response", server):
            said = begin(server, "say hello")
            ended(server, said["id"])
            other = {"Authorization": "Bearer second"}
            assert follow(server, said["id"], want=404, headers=other)["code"] == "not_found"
            assert follow(server, said["id"])[-1][0] == "response.completed"


def check_ends(report):
    with Server(replay=SCRIPT, context=65536, args=["--drain", "1"]) as server:
        with report.check("a server that ends cancels and stores running responses", server):
            done, cut = begin(server, "say hello"), begin(server, "never end")
            ended(server, done["id"])
            with stream(server, "/v1/responses/%s?stream=true" % cut["id"]) as answer:
                read_events(answer, 4)
                assert server.stop(signal.SIGTERM) == 0
            server.start()
            assert get(server, done["id"])["status"] == "completed"
            assert get(server, cut["id"])["status"] == "cancelled"
        with report.check("of dropped events, the first and the last remain", server):
            whole, rest = follow(server, done["id"]), follow(server, done["id"], 7)
            assert [name for name, _ in whole] == ["response.created", "response.completed"]
            assert whole[0][1]["response"]["status"] == "in_progress"
            assert whole[0][1]["response"]["output"] == []
            assert whole[1][1]["response"] == get(server, done["id"])
            in_order(whole)
            assert [name for name, _ in rest] == ["response.completed"], rest
            assert rest[0][1]["sequence_number"] == 8
            assert [name for name, _ in follow(server, cut["id"], 3)] == ["response.incomplete"]


def main():
    report = Report("background")
    with Server(replay=SCRIPT, context=65536, args=["--running", "1"]) as server:
        check_whole(report, server)
        check_live(report, server)
        check_cancel(report, server)
        check_refused(report, server)
        check_bound(report, server)
        with report.check("only stored responses remain", server):
            wait_for(lambda: not server.running())
            assert server.metric("cerium_queue_stuck_total") == 0
            assert server.metric("cerium_resumed_streams_total") > 10
            assert server.stop() == 0
    check_keys(report)
    check_ends(report)
    report.end()


main()
