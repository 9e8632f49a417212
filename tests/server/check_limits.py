"""check_limits.py - tokens are reserved at admission: max_tokens times n here and at other servers,
refused where they do not fit yet, returned if unused; debts are never forgiven."""

import json
import time

from books import HALF, LONG, RATE, USED, Books, Report, chunk, line, metered, wait_for

TOKEN = 60_000_000_000 // RATE  # ns of a bucket
SCRIPT = [line(LONG, repeat=True, last="talk for long"),
          line("what was said", repeat=True, last="say")]


class Limits(Books):
    def leave(self, tokens):
        """Puts n tokens into both of the key's buckets; returns the words of the shared file."""
        now = time.monotonic_ns()
        words = (now + HALF, now + 2 * HALF - tokens * TOKEN) * 2
        self.words(*words)
        return words

    def respond(self, text="say", want=200, **fields):
        """(answer, headers)"""
        status, headers, data = self.server.request(
            "POST", "/v1/responses", {"input": text, "store": False, **fields},
            {"Authorization": "Bearer " + self.keys["ann"]}, timeout=120)
        assert status == want, (status, data[:300])
        return json.loads(data), headers

    def while_running(self, until, deep=False, **fields):
        """Tokens reserved while an answer runs, and tokens that it used."""
        before = self.leave(20000)
        with self.socket() as s:
            s.send_json({"type": "response.create", "store": False, **fields})
            while s.read_json()["type"] != until:
                pass
            taken = self.words()[3 if deep else 1] - before[1]
            s.send_json({"type": "response.cancel"})
            usage = s.read_answer()[-1]["response"]["usage"]
        used = usage["total_tokens"] - usage["input_tokens_details"]["cached_tokens"]
        after = self.words()[3 if deep else 1] - before[1]
        assert after == used * TOKEN, (after, usage)
        return taken // TOKEN, usage


def check_here(report, limits):
    delta = "response.output_text.delta"
    with report.check("a cap is reserved with the prompt, and unused tokens are returned",
                      limits.server):
        taken, usage = limits.while_running(delta, input="talk for long", max_output_tokens=5000)
        assert taken == usage["input_tokens"] + 5000, (taken, usage)
    with report.check("a steer whose successor has no tokens comes back", limits.server):
        limits.leave(20000)
        with limits.socket() as s:
            s.send_json({"type": "response.create", "store": False, "input": "talk for long",
                         "max_output_tokens": 5000})
            seen = [s.read_json()]
            while seen[-1]["type"] != delta:
                seen.append(s.read_json())
            limits.leave(-10 * RATE)  # ten minutes of debt: what the answer returns does not matter
            response_id = [e for e in seen if e["type"] == "response.created"][0]["response"]["id"]
            steer = {"previous_response_id": response_id, "input": "say"}
            s.send_json({"type": "response.steer", **steer})
            while seen[-1]["type"] != "response.steer.failed":
                seen.append(s.read_json())
                assert seen[-1]["type"] not in ("error", "response.completed"), seen[-1]
            ended = [e for e in seen if e["type"] == "response.incomplete"]
            assert ended[0]["response"]["incomplete_details"]["reason"] == "steered", ended
            assert seen[-1]["error"]["code"] == "successor_creation_failed", seen[-1]
            assert "try again" in seen[-1]["error"]["message"], seen[-1]
            assert {k: seen[-1]["steer"][k] for k in steer} == steer, seen[-1]
    with report.check("a request without a cap reserves half of the rest", limits.server):
        taken, usage = limits.while_running(delta, input="talk for long")
        n = usage["input_tokens"]
        assert abs(taken - (n + (20000 - n) / 2)) < 2000, (taken, usage)  # it fills meanwhile
    with report.check("the cap counts for each choice", limits.server):
        words = limits.leave(20000)
        body = {"messages": [{"role": "user", "content": "talk for long"}], "n": 3}
        limits.ask("/v1/chat/completions", {**body, "max_tokens": 7500}, want=429)
        assert limits.words() == words, "a refused request took something"
        _, data = limits.ask("/v1/chat/completions", {**body, "max_tokens": 700}, want=200)
        assert json.loads(data)["usage"]["completion_tokens"] == 2100, data[-300:]
    with report.check("a cap that fits later is refused until then", limits.server):
        limits.leave(1000)
        error, headers = limits.respond(want=429, max_output_tokens=11000)
        # A token is a millisecond: ten seconds and the prompt, less what was refilled meanwhile.
        assert 5 <= int(headers["retry-after"]) <= 12, headers["retry-after"]
        assert error["error"]["code"] == "rate_limit_exceeded", error
        limits.leave(RATE)
        limits.respond(max_output_tokens=11000)
    with report.check("a cap beyond a minute's tokens is cut to a share of the rest",
                      limits.server):
        limits.leave(RATE // 4)
        _, data = limits.ask("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "talk for long"}], "n": 8,
            "max_tokens": RATE}, want=200)
        used = json.loads(data)["usage"]["completion_tokens"]
        assert used <= RATE // 4, used
    with report.check("without a cap, no request begins with too few tokens", limits.server):
        limits.leave(RATE // 16)
        error, headers = limits.respond("talk for long", want=429)
        assert 1 <= int(headers["retry-after"]) <= 5, headers["retry-after"]


USER = [{"role": "user", "content": "talk for long"}]
DIALECTS = [
    ("/v1/responses", lambda n: {"input": "talk for long", "store": False,
                                 "max_output_tokens": n}),
    ("/v1/chat/completions", lambda n: {"messages": USER, "max_tokens": n}),
    ("/v1/completions", lambda n: {"prompt": "talk for long", "max_tokens": n}),
    ("/v1/messages", lambda n: {"messages": USER, "max_tokens": n}),
    ("/api/chat", lambda n: {"messages": USER, "options": {"num_predict": n}}),
    ("/api/generate", lambda n: {"prompt": "talk for long", "options": {"num_predict": n}}),
    ("/completion", lambda n: {"prompt": "talk for long", "n_predict": n}),
    ("/infill", lambda n: {"input_prefix": "talk for long", "input_suffix": "", "n_predict": n}),
]


def check_dialects(report, limits):
    """A cap counts in each dialect, whole and streamed; refused requests cost nothing."""
    for path, body in DIALECTS:
        for stream in (False, True):
            with report.check("a cap of %s%s" % (path, ", streamed" * stream), limits.server):
                words = limits.leave(5000)
                _, data = limits.ask(path, {**body(15000), "stream": stream}, want=429)
                assert limits.words() == words, "a refused request took something"
                error = json.loads(data)["error"]
                said = error if isinstance(error, str) else error["message"]
                assert "tokens" in said and isinstance(error, str) == path.startswith("/api"), data
                before = limits.leave(20000)
                limits.ask(path, {**body(300), "stream": stream}, want=200)
                wait_for(lambda: limits.server.running() == 0)
                used = [(limits.words()[i] - before[i]) // TOKEN for i in (1, 3)]
                assert used[1] == 0 and 0 < used[0] <= 340, used


def check_deep(report, limits, fake):
    fake.act = fake.answers
    with report.check("an upstream gets the effective cap", limits.server):
        limits.leave(20000)
        limits.respond(model="big", max_output_tokens=5000)
        assert fake.asked["max_tokens"] == 5000, fake.asked
        limits.leave(20000)
        limits.respond(model="big")
        assert 9000 <= fake.asked["max_tokens"] <= 12000, fake.asked["max_tokens"]
        limits.leave(RATE)
        limits.ask("/v1/chat/completions", {
            "model": "big", "max_completion_tokens": 10 * RATE,
            "messages": [{"role": "user", "content": "say"}]}, want=200)
        assert fake.asked["max_completion_tokens"] <= RATE // 2, fake.asked
        assert "max_tokens" not in fake.asked, fake.asked
    with report.check("its cap is reserved before the upstream is asked, and refused until it fits",
                      limits.server):
        limits.leave(1000)
        fake.asked = None
        _, headers = limits.respond(want=429, model="big", max_output_tokens=11000)
        assert 5 <= int(headers["retry-after"]) <= 12 and not fake.asked, headers["retry-after"]
        fake.act = fake.pauses
        fake.go_on.clear()
        before = limits.leave(20000)
        with limits.socket() as s:
            s.send_json({"type": "response.create", "input": "say", "model": "big", "store": False,
                         "max_output_tokens": 5000})
            while s.read_json()["type"] != "response.output_text.delta":
                pass
            taken = (limits.words()[3] - before[3]) // TOKEN
            assert 5000 < taken < 5200, taken
        fake.go_on.set()
    with report.check("tokens beyond its cap are a debt that is never forgiven", limits.server):
        wait_for(lambda: limits.server.running() == 0)

        def talks(s):
            fake.head(s)
            s.sendall(chunk("deep") + chunk("", finish_reason="stop") +
                      USED.replace(b'"completion_tokens": 9', b'"completion_tokens": 9000000'))
        fake.act = talks
        limits.leave(RATE)
        answer, _ = limits.respond(model="big", max_output_tokens=100)
        assert answer["usage"]["output_tokens"] == 9000000, answer["usage"]
        _, headers = limits.respond(want=429, model="big")
        assert 8900 < int(headers["retry-after"]) < 9010, headers["retry-after"]
        limits.respond()  # local answers have a minute of their own


def main():
    report = Report("limits")
    with metered(Limits, SCRIPT) as (limits, fake):
        check_here(report, limits)
        check_dialects(report, limits)
        check_deep(report, limits, fake)
    report.end()


main()
