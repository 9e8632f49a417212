"""check_digest.py - answers that prove themselves: a digest is the same under any load,
`cerium verify` repeats the record that an answer carries, and an answer without a digest says
why."""

import json
import os
import signal
import subprocess
import threading

from books import USED, ReadingUpstream, chunk
from talk import HANG_S, MODEL, ROOT, Report, Server, line, wait_for

CERIUM = os.environ["CERIUM"]
PROMPT = "def add(a, b):\n    # the sum of both\n" * 6
DRAWN = {"temperature": 0.8, "seed": 7, "max_tokens": 24}
HYBRID = os.path.join(ROOT, "tests/golden/fixtures/qwen35moe.gguf")
WEAK = "Here:\n\n```python\nimport os\n\n\ndef show(path):\n    os.system('ls -l ' + path)\n```\n"


def complete(server, want=200, **fields):
    body = {"prompt": PROMPT, "cerium_digest": True, **DRAWN, **fields}
    return server.json("POST", "/v1/completions", body, want=want)


def chat(server, text="say", want=200, **fields):
    body = {"messages": [{"role": "user", "content": text}], "cerium_digest": True, **fields}
    return server.json("POST", "/v1/chat/completions", body, want=want)


def digests(answer):
    return [one["digest"] for one in answer["usage"]["cerium_digests"]]


def only(answer):
    (one,) = answer["usage"]["cerium_digests"]
    return one


def verify(answer, *args):
    """The exit status of `cerium verify -`, and its output."""
    done = subprocess.run([CERIUM, "verify", "-m", MODEL, *args, "-"], input=json.dumps(answer),
                          capture_output=True, text=True, timeout=HANG_S)
    return done.returncode, done.stdout + done.stderr


def stream(server, path, body):
    """The last chunk with usage."""
    status, _, data = server.request("POST", path, {**body, "stream": True})
    assert status == 200, data
    events = [json.loads(part[6:]) for part in data.decode().split("\n")
              if part.startswith("data: {")]
    return [e.get("response", e) for e in events if e.get("response", e).get("usage")][-1]


def check_same(report, want):
    """Other servers, and one that is busy; want: the digest of an idle one."""
    for args in (["--no-speculation"], ["--threads", "1", "--batch", "16"]):
        with Server(args=args) as server, report.check("the same with " + " ".join(args), server):
            assert digests(complete(server)) == want
    with Server() as server:
        with report.check("the same under load", server):
            got, others = [], []

            def crowd(i):
                for k in range(3):
                    others.append(complete(server, prompt="%d while %d" % (i, k), seed=i))

            def same():
                got.append(complete(server))

            threads = [threading.Thread(target=crowd, args=(i,)) for i in range(6)]
            threads += [threading.Thread(target=same) for _ in range(3)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            assert len(others) == 18 and [digests(one) for one in got] == [want] * 3
        with report.check("the same with its prompt from the cache", server):
            again = complete(server)
            assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
            assert digests(again) == want
    check_restart(report, want)
    check_restart_of_states(report)


def check_restart(report, want):
    with Server() as server, report.check("the same after a restart, from --kv-disk", server):
        server.stop()
        server.command += ["--kv-disk", os.path.join(server.folder, "kv")]
        server.start()
        assert digests(complete(server)) == want
        server.stop()
        server.start()
        again = complete(server)
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0, again["usage"]
        assert digests(again) == want


def check_restart_of_states(report):
    """A model whose layers keep a state: the conversation is found after a stop, and after a kill
    as soon as the metrics say that nothing waits."""
    with Server(model=HYBRID) as server, report.check("the same of a recurrent model", server):
        fresh = [digests(complete(server, prompt=p)) for p in (PROMPT, PROMPT + "and more")]
        server.stop()
        server.command += ["--kv-disk", os.path.join(server.folder, "kv")]
        server.start()
        assert digests(complete(server)) == fresh[0]
        wait_for(lambda: server.metric("cerium_kv_disk_waiting_pages") == 0, HANG_S)
        server.stop(signal.SIGKILL)
        for i, prompt in enumerate((PROMPT, PROMPT + "and more")):
            server.start()
            again = complete(server, prompt=prompt)
            usage = again["usage"]
            cached = usage["prompt_tokens_details"]["cached_tokens"]
            assert cached >= usage["prompt_tokens"] - 12, usage
            assert digests(again) == fresh[i]
            assert server.metric("cerium_kv_disk_read_states_total") == 1
            server.stop()


def check_records(report, server):
    with report.check("a record in an answer is verified", server):
        answer = complete(server, cerium_digest="record")
        one = only(answer)
        assert one["record"]["digest"] == one["digest"] and one["tokens"] == 24, one
        status, out = verify(answer)
        assert status == 0 and "24 tokens, the same bits each time" in out, out
        one["record"]["tokens"][20] += 1
        status, out = verify(answer)
        assert status == 1 and "another token, 21" in out, out
    with report.check("three records of a stream are verified", server):
        last = stream(server, "/v1/completions",
                      {"prompt": PROMPT, "cerium_digest": "record", **DRAWN, "n": 3,
                       "stream_options": {"include_usage": True}})
        status, out = verify(last)
        assert status == 0 and out.count("the same bits each time") == 3, out
        assert len(set(digests(last))) == 3
        assert digests(last) == digests(complete(server, n=3))
    with report.check("the record of a stored response is verified, by GET", server):
        body = {"input": "def f(x):", "temperature": 0.5, "seed": 3, "max_output_tokens": 12,
                "cerium_digest": "record"}
        made = server.json("POST", "/v1/responses", body)
        kept = server.json("GET", "/v1/responses/" + made["id"])
        assert kept["usage"] == made["usage"]
        assert only(stream(server, "/v1/responses", body)) == only(made)
        status, out = verify(kept)
        assert status == 0, out
    with report.check("a healed prompt, and Chat with a stop string, are verified", server):
        status, out = verify(complete(server, cerium_digest="record", prompt=PROMPT + "    retu"))
        assert status == 0, out
        answer = chat(server, "def f(x):", cerium_digest="record", max_tokens=24, stop=["e"])
        assert only(answer)["digest"], answer["usage"]
        status, out = verify(answer)
        assert status == 0, out
    with report.check("another model is reported", server):
        answer = complete(server, cerium_digest="record")
        only(answer)["record"]["model"]["fingerprint"] = "0" * 16
        status, out = verify(answer)
        assert status == 1 and "another model" in out, out


def check_fields(report, server):
    with report.check("no field, no digests", server):
        for off in (None, False):
            assert "cerium_digests" not in complete(server, cerium_digest=off)["usage"]
    with report.check("no records: with a grammar, and with biases", server):
        for fields in ({"grammar": 'root ::= "a" [b-z]+'}, {"logit_bias": {"5": -100}}):
            one = only(complete(server, cerium_digest="record", **fields))
            assert len(one["digest"]) == 32 and one["record"] is None, one
            assert "a record cannot hold" in one["reason"], one
            assert one["digest"] == only(complete(server, **fields))["digest"]
            status, out = verify({"usage": {"cerium_digests": [one]}})
            assert status == 1 and "cerium_digest" in out, out
    with report.check("no digest if no token is sampled", server):
        one = only(complete(server, max_tokens=0))
        assert one["digest"] is None and "no token" in one["reason"], one
    with report.check("refused: other values, and best_of above n", server):
        for fields in ({"cerium_digest": "yes"}, {"cerium_digest": 1}, {"best_of": 3}):
            error = complete(server, want=400, **fields)["error"]
            assert error["param"] == "cerium_digest", error
    with report.check("named in a warning where a dialect has none", server):
        answer = server.json("POST", "/v1/messages", {
            "max_tokens": 4, "messages": [{"role": "user", "content": "x"}],
            "cerium_digest": True})
        assert [one["param"] for one in answer["cerium"]["warnings"]] == ["cerium_digest"], answer


def check_none(report):
    told = line(WEAK, repeat=True, last="show")
    told["corrected"] = ["    print(os.listdir(path))\n```\n"]
    with Server(replay=[told, line("words", repeat=True)]) as server, \
            report.check("no digest of recorded text, nor of corrected lines", server):
        one = only(chat(server, "say"))
        assert one["digest"] is None and "recorded" in one["reason"], one
        one = only(chat(server, "show", cerium_guard="block"))
        assert one["digest"] is None and "watchdog" in one["reason"], one
    upstream = ReadingUpstream()
    upstream.act = lambda s: s.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
        + chunk("big", finish_reason="stop") + USED)
    with Server() as server, report.check("no digest of another server's answer", server):
        server.stop()
        path = os.path.join(server.folder, "config.ini")
        with open(path, "w") as f:
            f.write("[upstream big]\nurl = %s\nmodels = big\nresponses = no\n"
                    % upstream.url)
        server.command += ["--config", path]
        server.start()
        one = only(chat(server, model="big"))
        assert one["digest"] is None and "another server" in one["reason"], one


def main():
    report = Report("digest")
    with Server() as server:
        with report.check("an answer has a digest", server):
            want = digests(complete(server))
            assert len(want) == 1 and len(want[0]) == 32, want
        with report.check("another seed gives another digest", server):
            assert digests(complete(server, seed=8)) != want
        check_records(report, server)
        check_fields(report, server)
    check_same(report, want)
    check_none(report)
    report.end()


main()
