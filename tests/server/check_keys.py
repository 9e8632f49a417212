"""check_keys.py - keys, tiers, limits and usage of servers that share a store."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from harness import CERIUM, PATIENCE, Report, Server, TooSlow, line, wait_for  # noqa: E402
from rawsocket import Closed, RawSocket, text_of  # noqa: E402

LONG = " ".join("word%d" % i for i in range(3000))
SCRIPT = [line(LONG, repeat=True, last="talk for long"), line("said", repeat=True, last="say")]
CONFIG = """
[limits]
load-seconds = 1
load-floor = 10
[tier pro]
[tier team]
streams = 2
[tier few]
requests-per-minute = 3
[tier words]
tokens-per-minute = 300
price-input = 1.00
price-cached = 0.25
price-output = 2.00
[tier steady]
requests-per-minute = 1000
[tier batch]
"""


def cli(*args, want=0):
    done = subprocess.run([CERIUM, *args], capture_output=True, text=True, timeout=60 * PATIENCE)
    assert done.returncode == want, (args, done.returncode, done.stdout, done.stderr)
    return done.stdout if want == 0 else done.stderr


class Team:
    """A store, a configuration, and the servers that share them."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="cerium-keys-")
        self.store = os.path.join(self.folder.name, "team.db")
        self.config = os.path.join(self.folder.name, "team.ini")
        with open(self.config, "w") as f:
            f.write(CONFIG)

    def serve(self, *args, **more):
        return Server(replay=SCRIPT, context=16384,
                      args=["--config", self.config, "--store", self.store, *args], **more)

    def keys(self, *args, want=0):
        return cli("keys", *args, "--store", self.store, "--config", self.config, want=want)

    def add(self, name, tier):
        return self.keys("add", name, "--tier", tier).strip()

    def usage(self, *args):
        return json.loads(cli("usage", "--store", self.store, "--json", *args))["usage"]

    def used(self, name):
        rows = [row for row in self.usage() if row["key"] == name]
        return rows[0] if rows else {"requests": 0}


def connect(server, key=None):
    return RawSocket(server.port, key=key, timeout=120 * PATIENCE)


def ask(server, key, text="say", **fields):
    body = {"input": text, "max_output_tokens": 4, "store": False, **fields}
    return server.request("POST", "/v1/responses", body, {"Authorization": "Bearer " + key},
                          timeout=120)


def known(key, *servers):
    """Wait until all servers know the key, with requests that are not counted."""
    for server in servers:
        wait_for(lambda: server.request("GET", "/v1/models",
                                        headers={"Authorization": "Bearer " + key})[0] == 200)


def check_keys(report, team, one, two):
    with report.check("a key is known to all servers, and any other is not", one):
        anna = team.add("anna", "pro")
        wait_for(lambda: ask(one, anna)[0] == 200 and ask(two, anna)[0] == 200)
        assert ask(one, anna[:-1] + ("0" if anna[-1] != "0" else "1"))[0] == 401
        assert ask(one, "cer_")[0] == 401
        assert one.request("POST", "/v1/responses", {"input": "x"})[0] == 401
    with report.check("keys are listed without their secrets", one):
        shown = team.keys("list") + team.keys("list", "--json")
        assert "anna" in shown and anna not in shown and anna[20:40] not in shown
        rows = json.loads(team.keys("list", "--json"))["keys"]
        assert rows[0]["tier"] == "pro" and rows[0]["revoked_at"] is None
    with report.check("a rotated key stops working, and the new one works, within a second"):
        kept = one.json("POST", "/v1/responses", {"input": "say", "max_output_tokens": 4},
                        headers={"Authorization": "Bearer " + anna})["id"]
        new = team.keys("rotate", "anna").strip()
        wait_for(lambda: ask(one, anna)[0] == 401 and ask(two, anna)[0] == 401)
        assert ask(two, new)[0] == 200
        assert one.request("GET", "/v1/responses/" + kept,
                           headers={"Authorization": "Bearer " + new})[0] == 200
    with report.check("a revoked key stops working on all servers, and its answers end", one):
        with connect(one, new) as s, connect(two, new) as idle:
            s.send_json({"type": "response.create", "input": "talk for long", "store": False})
            while s.read_json()["type"] != "response.output_text.delta":
                pass
            team.keys("revoke", "anna")
            for socket in (s, idle):
                seen = []
                try:
                    while True:
                        seen.append(socket.read_json())
                except Closed:
                    pass
                assert seen[-1].get("status") == 401, seen[-1]
        assert ask(one, new)[0] == 401 and ask(two, new)[0] == 401
        wait_for(lambda: team.used("anna")["requests"] >= 4)
    with report.check("bad names and tiers are refused in one line"):
        for args, says, want in ((("add", "anna b"), "is not a key name", 2),
                                 (("add", "x", "--tier", "gold"), "no tier 'gold'", 2),
                                 (("revoke", "anna"), "'anna' is revoked already", 1),
                                 (("rotate", "nobody"), "no key 'nobody'", 1)):
            said = team.keys(*args, want=want)
            assert says in said and said.count("\n") == 1, said
        team.keys("add", want=2), team.keys("sing", want=2), team.keys("list", "x", want=2)


def check_tiers(report, team, one, two):
    def quickly(name, tier, attempt):
        """A new key of the tier, until an attempt was so fast that no tokens came back."""
        for n in range(20):
            key = team.add("%s-%d" % (name, n), tier)
            known(key, one, two)
            began = time.monotonic()
            seen = attempt(key)
            if time.monotonic() - began < 10:
                return seen
        raise TooSlow

    with report.check("requests a minute are counted over all servers", one):
        answers = quickly("few", "few",
                          lambda key: [ask(server, key) for server in (one, two, one, two)])
        assert [a[0] for a in answers] == [200, 200, 200, 429], [a[0] for a in answers]
        assert answers[0][1]["x-ratelimit-limit-requests"] == "3"
        assert [a[1]["x-ratelimit-remaining-requests"] for a in answers] == ["2", "1", "0", "0"]
        assert answers[0][1]["x-codex-primary-used-percent"] == "34"
        refused = answers[3]
        assert 1 <= int(refused[1]["retry-after"]) <= 20, refused[1]
        error = json.loads(refused[2])["error"]
        assert error["code"] == "rate_limit_exceeded" and "try again in" in error["message"]
    with report.check("a WebSocket gets the remaining limits, and the refusal", one):
        def talk(key):
            with connect(two, key) as s:
                return [s.ask("say") for _ in range(4)]
        answers = quickly("talk", "few", talk)
        for events in answers[:3]:
            assert events[-1]["type"] == "response.completed", events[-1]
            assert events[0]["type"] == "codex.rate_limits", events[0]
            assert events[0]["rate_limits"]["allowed"] is True
        assert [e[0]["rate_limits"]["primary"]["used_percent"] for e in answers[:3]] == \
            [34, 67, 100], answers
        told, error = answers[3]
        assert told["rate_limits"]["limit_reached"] is True
        assert error["status"] == 429 and int(error["headers"]["retry-after"]) >= 1, error
        assert error["error"]["code"] == "rate_limit_exceeded"
    with report.check("tokens a minute: cached tokens do not count", one):
        prompts = ["say " + "w " * 60] * 2 + ["say", "say " + "other " * 320]
        first, again, third, over = quickly("words", "words",
                                            lambda key: [ask(one, key, p) for p in prompts])
        assert first[0] == again[0] == third[0] == 200, again
        assert over[0] == 429 and "tokens per minute" in over[2].decode(), over
        used = [json.loads(a[2])["usage"] for a in (first, again, third)]
        assert used[1]["input_tokens_details"]["cached_tokens"] > 60, used[1]
        fresh = sum(u["input_tokens"] for u in used)
        cached = sum(u["input_tokens_details"]["cached_tokens"] for u in used)
        output = sum(u["output_tokens"] for u in used)
        left = int(third[1]["x-ratelimit-remaining-tokens"])
        assert 300 - (fresh - cached) - output - 16 <= left < 300, (left, used)
        name = [k["name"] for k in json.loads(team.keys("list", "--json"))["keys"]
                if k["name"].startswith("words-")][-1]
        row = wait_for(lambda: (lambda r: r["requests"] == 3 and r)(team.used(name)))
        assert (row["input_tokens"], row["cached_tokens"], row["output_tokens"]) == \
            (fresh, cached, output), row
        dollars = ((fresh - cached) * 1.00 + cached * 0.25 + output * 2.00) / 1e6
        assert abs(float(row["dollars"]) - dollars) < 1e-6, (row, dollars)
    with report.check("tokens a minute: an answer has no more than the remaining tokens", one):
        chat = {"messages": [{"role": "user", "content": "talk for long"}], "n": 64,
                "max_tokens": 800}
        head = lambda key: {"Authorization": "Bearer " + key}
        status, _, data = quickly("cut", "words", lambda key: one.request(
            "POST", "/v1/chat/completions", chat, head(key), timeout=120))
        answer = json.loads(data)
        assert status == 200 and answer["usage"]["total_tokens"] <= 300, (status, answer["usage"])
        assert {c["finish_reason"] for c in answer["choices"]} <= {"length", "stop"}
    with report.check("refused requests cost nothing", one):
        def spend(key):
            """Refused after the limits were checked: an invalid grammar, and a missing turn."""
            bad = {"text": {"format": {"type": "json_schema", "name": "x", "strict": True,
                                       "schema": {"$ref": "https://x.example/y"}}}}
            wrong = [ask(one, key, **bad)[0] for _ in range(4)]
            wrong += [ask(one, key, previous_response_id="resp_none")[0] for _ in range(4)]
            return wrong, [ask(one, key)[0] for _ in range(4)]
        wrong, right = quickly("refunds", "few", spend)
        assert set(wrong) <= {400, 404} and right == [200, 200, 200, 429], (wrong, right)
    with report.check("streams are counted over all servers, a killed server's are freed", one):
        key = team.add("streams", "team")
        other = team.serve()
        try:
            known(key, one, two)
            with connect(one, key) as a, connect(other, key) as b:
                for s in (a, b):
                    s.send_json({"type": "response.create", "input": "talk for long",
                                 "store": False})
                    while s.read_json()["type"] != "response.output_text.delta":
                        pass
                assert ask(two, key)[0] == 429
                other.stop(signal.SIGKILL)
                wait_for(lambda: ask(two, key)[0] == 200)
        finally:
            other.close()
    with report.check("a request gets the best class that its tier allows", one):
        key = team.add("slow", "batch")
        known(key, one, two)
        one.key = key
        before = one.metric('cerium_answers_total{class="batch"}')
        assert ask(one, key, service_tier="priority")[0] == 200
        status, _, body = one.request("POST", "/infill", {"input_prefix": "say", "input_suffix": "",
                                                        "n_predict": 2})
        assert status == 200, body
        after = one.metric('cerium_answers_total{class="batch"}')
        one.key = None
        assert after == before + 2, (before, after)


def check_load(report, team):
    with report.check("limits tighten while requests wait, and the start is predicted"):
        with team.serve("--running", "1") as server:
            key = team.add("steady", "steady")
            wait_for(lambda: ask(server, key)[0] == 200)
            wait_for(lambda: ask(server, key)[1]["x-ratelimit-limit-requests"] == "1000")
            sockets = []
            try:
                for _ in range(4):
                    sockets.append(connect(server, key))
                    sockets[-1].send_json({"type": "response.create", "input": "talk for long",
                                           "store": False})
                # The last of them got the limits when it arrived.
                told = sockets[-1].read_json()
                assert told["type"] == "codex.rate_limits", told
                server.key = key
                wait_for(lambda: server.metric("cerium_requests_waiting") +
                         server.metric("cerium_requests_running") >= 1)
                # A stream's head comes at once, though it waits.
                with RawSocket(server.port, upgrade=False) as s:
                    body = json.dumps({"input": "say", "stream": True, "store": False})
                    s.send("POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nAuthorization: "
                           "Bearer %s\r\nContent-Length: %d\r\n\r\n%s" % (key, len(body), body))
                    s.read_head()
                    head = dict(h.lower().split(": ", 1) for h in s.headers.split("\r\n")[1:])
                assert 1 <= int(head["x-cerium-start-ms"]), head
                assert int(head["x-ratelimit-limit-requests"]) < 1000, head
            finally:
                for s in sockets:
                    s.socket.close()


def check_tenants(report, team, one):
    with report.check("a key finds nothing of another key: prefixes, responses, turns", one):
        ann, ben = team.add("ann", "pro"), team.add("ben", "pro")
        known(ann, one)
        known(ben, one)
        prompt = "say " + "shared words " * 300

        def create(key):
            status, _, body = one.request("POST", "/v1/responses",
                                          {"input": prompt, "max_output_tokens": 4},
                                          {"Authorization": "Bearer " + key}, timeout=120)
            assert status == 200, body
            made = json.loads(body)
            return made["id"], made["usage"]["input_tokens_details"]["cached_tokens"]
        first, cached = create(ann)
        assert cached == 0
        assert create(ann)[1] > 500  # cached, for ann
        second, cached = create(ben)
        assert cached == 0, "ben found %d tokens of ann's" % cached
        head = {"Authorization": "Bearer " + ben}
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"),
                             ("GET", "/input_items")):
            assert one.request(method, "/v1/responses/" + first + path, headers=head)[0] == 404
        listed = json.loads(one.request("GET", "/v1/responses?limit=100", headers=head)[2])
        assert [r["id"] for r in listed["data"]] == [second]
        with connect(one, ben) as s:
            error = s.ask("say", previous_response_id=first)[-1]
            assert error["error"]["code"] == "previous_response_not_found", error
            # The error does not reveal whether such a response exists: it is the same for both.
            none = s.ask("say", previous_response_id="resp_" + "0" * 32)[-1]
            assert error["error"]["message"].replace(first, "X") == \
                none["error"]["message"].replace("resp_" + "0" * 32, "X")


def check_faults(report, team):
    with report.check("answers are metered, even if the server is killed"):
        key = team.add("killed", "pro")
        for n in (3, 6):
            with team.serve() as server:
                known(key, server)
                for _ in range(3):
                    assert ask(server, key)[0] == 200
                server.stop(signal.SIGKILL)
        with team.serve():
            assert team.used("killed")["requests"] == 6, team.used("killed")
    with report.check("a locked store delays the usage, and nothing else"):
        key = team.add("locked", "pro")
        with team.serve() as server:
            wait_for(lambda: ask(server, key)[0] == 200)
            lock = sqlite3.connect(team.store, isolation_level=None)
            lock.execute("BEGIN IMMEDIATE")
            for _ in range(5):
                assert ask(server, key)[0] == 200
            wait_for(lambda: "event=keeper" in server.log())
            assert team.used("locked")["requests"] <= 1
            lock.execute("COMMIT")
            lock.close()
            wait_for(lambda: team.used("locked")["requests"] == 6)
    with report.check("with a first key, one is needed, even after all are revoked"):
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "store.db")
            with Server(args=["--store", store]) as server:
                assert ask(server, "x")[0] == 200
                with connect(server) as s:
                    key = cli("keys", "add", "first", "--store", store).strip()
                    wait_for(lambda: ask(server, "x")[0] == 401)
                    assert s.close_code() is None or True
                assert ask(server, key)[0] == 200
                cli("keys", "revoke", "first", "--store", store)
                wait_for(lambda: ask(server, key)[0] == 401)
                assert server.request("POST", "/v1/responses", {"input": "x"})[0] == 401


def check_config(report):
    with report.check("a configuration is checked, and the command line wins"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c.ini")

            def refused(text, says):
                with open(path, "w") as f:
                    f.write(text)
                said = cli("serve", "--config", path, want=1)
                assert says in said and said.count("\n") == 1, said
            refused("[server]\nprot = 1\n", "c.ini:2: [server] has no key 'prot'")
            refused("[server]\n\nport = 99999\n", "c.ini:3: '99999' is not a value for port")
            refused("[server]\nquiet = 1\n", "c.ini:2: '1' is not a value for quiet")
            refused("[server]\nconfig = x\n", "c.ini:2: [server] has no key 'config'")
            refused("[tier x]\nstreams = x\n", "c.ini:2: 'x' is not a value for streams")
            cli("serve", "--config", os.path.join(folder, "none.ini"), want=1)
            with open(path, "w") as f:
                f.write("[server]\nport = 1\nmodel-id = from-file\nqueue = 3\n")
            with Server(args=["--config", path]) as server:
                assert server.json("GET", "/v1/models")["data"][0]["id"] == "from-file"
    with report.check("usage as text, JSON and CSV, by each grouping"):
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "store.db")
            key = cli("keys", "add", "a", "--store", store).strip()
            with Server(args=["--store", store]) as server:
                assert ask(server, key)[0] == 200
                csv = wait_for(lambda: (lambda t: t.count("\n") == 2 and t)(
                    cli("usage", "--by", "day,key,model", "--csv", "--store", store)))
                head, row = csv.splitlines()
                assert head.startswith("day,key,model,requests,") and ",a," in row, csv
                assert cli("usage", "--store", store).splitlines()[1].startswith("a ")
                assert "usage" in json.loads(cli("usage", "--by", "model", "--json", "--store",
                                                 store))
                assert cli("usage", "--until", "2020-01-01", "--csv", "--store",
                           store).count("\n") == 1
            cli("usage", "--since", "2026-02-30", "--store", store, want=2)
            cli("usage", "--store", os.path.join(folder, "none.db"), want=1)


def main():
    report = Report("keys")
    team = Team()
    team.add("first", "pro")  # before any server runs
    with team.serve() as one, team.serve() as two:
        check_keys(report, team, one, two)
        check_tiers(report, team, one, two)
        check_tenants(report, team, one)
    check_load(report, team)
    check_faults(report, team)
    check_config(report)
    team.folder.cleanup()
    report.end()


if __name__ == "__main__":
    main()
