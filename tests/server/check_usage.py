"""check_usage.py - for every way in which an answer ends: the usage in the answer, the
log line, the metrics, the journal and the minute of its key agree (books.py)."""

import json
import re

from books import (HALF, LONG, PATIENCE, Books, RawSocket, Report, Used, events_of, last_usage,
                   line, metered, told_by, wait_for)

WEAK = "Here:\n\n```python\nimport os\n\n\ndef show(path):\n    os.system('ls -l ' + path)\n```\n"
SAFE = "    print(os.listdir(path))\n```\n"


def script():
    told = line(WEAK, repeat=True, last="show a folder")
    told["corrected"] = [SAFE]
    stubborn = line(WEAK, repeat=True, last="insist")
    stubborn["corrected"] = [WEAK.split(":\n", 2)[-1]] * 4
    return [told, stubborn, line(LONG, repeat=True, last="talk for long"),
            line("what was said", repeat=True, last="say")]


def nothing(prompt, cached, said, requests):
    return (prompt, cached, said, requests) == (0, 0, 0, 0)


def answered(prompt, cached, said, requests):
    return prompt > 0 and said > 0 and requests == 1


def nothing_or_one(prompt, cached, said, requests):
    return requests == (prompt + said > 0)


# ---- ends of whole answers and streams ----

def check_whole(report, books):
    def asks(path, **body):
        def act():
            _, data = books.ask(path, body, want=200)
            events = events_of(data)
            return (last_usage(events) if events else told_by(json.loads(data)["usage"])), Used()
        return act

    def stored():
        _, data = books.ask("/v1/responses", {"input": "say"}, want=200)
        made = json.loads(data)
        _, data = books.ask("/v1/responses/" + made["id"], None, "GET", want=200)
        assert json.loads(data)["usage"] == made["usage"], data
        return told_by(made["usage"]), Used()

    def infills(**body):
        def act():
            _, data = books.ask("/infill", {"input_prefix": "int add(int a, int b) {\n    return ",
                                            "input_suffix": "\n}\n", "n_predict": 12, **body},
                                want=200)
            told = (events_of(data) or [None])[-1] or json.loads(data)
            return Used(told["tokens_evaluated"], told["timings"]["cache_n"],
                        told["tokens_predicted"], 1), Used()
        return act

    chat = {"messages": [{"role": "user", "content": "say"}]}
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    for name, act in (
            ("Responses, whole, not stored", asks("/v1/responses", input="say", store=False)),
            ("Responses, a stream", asks("/v1/responses", input="say", stream=True)),
            ("Responses, stored", stored),
            ("its own cap", asks("/v1/responses", input="talk for long", max_output_tokens=5)),
            ("Chat, whole", asks("/v1/chat/completions", **chat)),
            ("Chat, a stream", asks("/v1/chat/completions", **chat, **usage)),
            ("Chat, three choices", asks("/v1/chat/completions", **chat, n=3)),
            ("Chat, three choices streamed", asks("/v1/chat/completions", **chat, **usage, n=3)),
            ("Chat, a prediction", asks("/v1/chat/completions", **chat, prediction={
                "type": "content", "content": "what was said before"})),
            ("Completions", asks("/v1/completions", prompt="int main(", max_tokens=9)),
            ("Completions, two prompts of two choices",
             asks("/v1/completions", prompt=["int main(", "def show(path, name):"], n=2,
                  max_tokens=9)),
            ("Completions, two prompts streamed",
             asks("/v1/completions", prompt=["int main(", "def show(path, name):"], max_tokens=9,
                  **usage)),
            ("Completions, the best of four",
             asks("/v1/completions", prompt="int main(", best_of=4, max_tokens=9)),
            ("Infill", infills()),
            ("Infill, a stream", infills(stream=True)),
            ("Compaction", asks("/v1/responses/compact", model="m", input="say")),
            ("a line corrected by the watchdog", asks("/v1/responses", input="show a folder"))):
        books.check(report, name, act, answered)
    books.check(report, "an answer blocked by the watchdog",
                asks("/v1/responses", input="insist"), answered)
    books.check(report, "a warm-up", asks("/v1/responses", input="say", generate=False),
                lambda prompt, cached, said, requests: prompt > 0 and not said and requests == 1)
    # Half of the rest is reserved; until then, each millisecond refills a token.
    books.check(report, "cut where the minute ends", asks("/v1/responses", input="talk for long"),
                lambda prompt, cached, said, requests: 3900 <= said <= 6000 and requests == 1, 8000)


def check_inline(report, books):
    """Completions over the WebSocket."""
    hole = {"type": "completion.create", "id": "c1", "path": "a.c",
            "prefix": "int add(int a, int b) {\n    return ", "suffix": "\n}\n"}

    def told(event):
        return told_by(event["usage"])

    def done(s, id_):
        while True:
            event = s.read_json()
            if event["type"] == "completion.done" and event["id"] == id_:
                return event

    def completes(**fields):
        def act():
            with books.socket() as s:
                s.send_json({**hole, **fields})
                return told(done(s, "c1")), Used()
        return act

    def superseded():
        with books.socket() as s:
            s.send_json({**hole, "max_tokens": 4000})
            s.send_json({**hole, "id": "c2"})
            return told(done(s, "c1")) + told(done(s, "c2")), Used()

    books.check(report, "an inline completion", completes(), answered)
    books.check(report, "one that is not sure", completes(min_confidence=1), answered)
    books.check(report, "one that is superseded", superseded,
                lambda prompt, cached, said, requests: prompt > 0 and requests in (1, 2))


# ---- refusals ----

def check_refused(report, books):
    def refused(status, path="/v1/responses", **body):
        def act():
            books.ask(path, body, want=status)
            return None, Used()
        return act

    for name, act in (
            ("a request that is none", refused(400, input=[{"type": "message", "role": 7}])),
            ("a schema that is none", refused(400, input="say", text={"format": {
                "type": "json_schema", "name": "x", "strict": True,
                "schema": {"type": "nothing"}}})),
            ("a turn that is not there", refused(400, input="say", previous_response_id="resp_x")),
            ("a prompt beyond the context", refused(400, input="w " * 40000)),
            ("a guard that is none", refused(400, input="say", cerium_guard="x"))):
        books.check(report, name, act, nothing)
    books.check(report, "over the minute's tokens", refused(429, input="say " * 50), nothing, 20)
    books.check(report, "a cap that does not fit yet",
                refused(429, input="say", max_output_tokens=9000), nothing, 5000)


# ---- cancellation ----

class Holder:
    """Answers of two other keys: in the server's only place, and in the extra one
    for a key that has nothing running."""

    def __init__(self, books):
        self.sockets = [books.socket("other"), books.socket("last")]
        for s in self.sockets:
            s.send_json({"type": "response.create", "input": "talk for long", "store": False})
            while s.read_json()["type"] != "response.output_text.delta":
                pass

    def end(self):
        """Their usage."""
        used = Used()
        for s in self.sockets:
            s.send_json({"type": "response.cancel"})
            used += last_usage(s.read_answer())
            s.close()
        return used


def check_canceled(report, books):
    create = {"type": "response.create", "input": "talk for long", "store": False}

    def cancels(until, **fields):
        def act():
            with books.socket() as s:
                s.send_json({**create, **fields})
                while s.read_json()["type"] != until:
                    pass
                s.send_json({"type": "response.cancel"})
                return last_usage(s.read_answer()), Used()
        return act

    def on_lanes():
        with books.socket() as s:
            for lane in ("a", "b"):
                s.send_json({**create, "stream_id": lane})
            while s.read_json()["type"] != "response.output_text.delta":
                pass
            for lane in ("b", "a"):
                s.send_json({"type": "response.cancel", "stream_id": lane})
            return last_usage(s.read_answer()) + last_usage(s.read_answer()), Used()

    def by_id():
        with books.socket() as s:
            s.send_json({**create, "store": True})
            while (event := s.read_json())["type"] != "response.created":
                pass
            id_ = event["response"]["id"]
            while s.read_json()["type"] != "response.output_text.delta":
                pass
            _, data = books.ask("/v1/responses/%s/cancel" % id_, {}, want=200)
            told = last_usage(s.read_answer())
            assert told_by(json.loads(data)["usage"]) == told, data
            return told, Used()

    def behind(act):
        """The same, queued after another key's answer."""
        def held():
            holder = Holder(books)
            told, _ = act()
            return told, holder.end()
        return held

    def leaves(until, stream=True, path="/v1/responses", **body):
        """The connection is closed once `until` has arrived."""
        def act():
            begin = books.server.log_end()
            text = json.dumps({"input": "talk for long", "store": False, **body, "stream": stream})
            with RawSocket(books.server.port, upgrade=False, timeout=120 * PATIENCE) as s:
                s.send("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                       "Content-Length: %d\r\n\r\n%s" % (path, books.keys["ann"], len(text), text))
                while until is not None and until not in s.data:
                    s.fill()
                if until is None:
                    wait_for(lambda: books.server.json("GET", "/health")["running"] +
                             books.server.json("GET", "/health")["waiting"] > 0)
            wait_for(lambda: re.search("event=(answer|abandoned) .*connection_closed",
                                       books.server.log(begin)))
            return None, Used()
        return act

    chat = {"messages": [{"role": "user", "content": "talk for long"}], "n": 3}
    books.check(report, "canceled while it runs", cancels("response.output_text.delta"), answered)
    books.check(report, "canceled while it waits", behind(cancels("response.in_progress")), nothing)
    books.check(report, "canceled while its prompt is computed",
                cancels("response.in_progress", input="talk for long " + "some words " * 2000),
                nothing_or_one)
    books.check(report, "canceled on two lanes, one of which waits", on_lanes, answered)
    books.check(report, "canceled by its id", by_id, answered)
    books.check(report, "left while it runs", leaves(b"output_text.delta"), answered)
    books.check(report, "left while three choices run",
                leaves(b"word", path="/v1/chat/completions", **chat), answered)
    books.check(report, "left while it waits", behind(leaves(b"response.in_progress")), nothing)
    books.check(report, "left before it received anything", leaves(None, stream=False),
                nothing_or_one)  # it may not have begun


# ---- answers of another server ----

def check_deep(report, books, fake):
    chat = {"model": "big", "messages": [{"role": "user", "content": "say"}]}
    usage = {"stream": True, "stream_options": {"include_usage": True}}

    def asks(act, path="/v1/responses", want=200, **body):
        def does():
            fake.act = act
            _, data = books.ask(path, body, want=want)
            if want != 200:
                return None, Used()
            events = events_of(data)
            return (last_usage(events) if events else told_by(json.loads(data)["usage"])), Used()
        return does

    def counted(prompt, cached, said, requests):
        return (prompt, cached, said, requests) == (70, 30, 9, 1)

    def cancels():
        fake.act = fake.pauses
        fake.go_on.clear()
        with books.socket() as s:
            s.send_json({"type": "response.create", "input": "say", "model": "big", "store": False})
            while s.read_json()["type"] != "response.output_text.delta":
                pass
            s.send_json({"type": "response.cancel"})
            told = last_usage(s.read_answer())
        fake.go_on.set()
        return told, Used()

    for name, act, costs in (
            ("whole", asks(fake.answers, model="big", input="say", store=False), counted),
            ("a stream", asks(fake.answers, model="big", input="say", stream=True), counted),
            ("Chat", asks(fake.answers, "/v1/chat/completions", **chat), counted),
            ("Chat, a stream", asks(fake.answers, "/v1/chat/completions", **chat, **usage),
             counted),
            ("without its usage", asks(fake.counts_nothing, model="big", input="say"), answered),
            ("canceled in the middle", cancels, answered),
            ("refused there", asks(fake.refuses, want=400, model="big", input="say"), nothing),
            ("failed before it began", asks(lambda s: None, want=502, model="big", input="say"),
             nothing),
            ("failed in the middle", asks(fake.breaks_off, model="big", input="say", stream=True),
             nothing),
            ("failed in the middle, whole", asks(fake.breaks_off, "/v1/chat/completions", 502,
                                                 **chat), nothing)):
        books.check(report, "another server's: " + name, act, costs)


def main():
    report = Report("usage")
    with metered(Books, script(), "--running", "1") as (books, fake):
        check_whole(report, books)
        check_inline(report, books)
        check_refused(report, books)
        check_canceled(report, books)
        check_deep(report, books, fake)
    report.end()


main()
