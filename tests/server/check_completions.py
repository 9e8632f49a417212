"""check_completions.py - code at the caret: over a socket, sure enough to show, variants."""

import json
import math
import os
import subprocess
import tempfile

from talk import MODEL, SCRIPT, RawSocket, Report, Server, wait_for


def check_completions(report, server):
    def completion(s, name):
        events = []
        while not events or events[-1]["type"] not in ("completion.done", "error"):
            event = s.read_json()
            if event.get("id") == name:
                events.append(event)
        return events

    with report.check("completion.create: streamed text, then the end", server):
        with RawSocket(server.port) as s:
            s.send_json({"type": "completion.create", "id": "c1", "prefix": "int add(",
                         "suffix": "\n}\n", "path": "a.c"})
            events = completion(s, "c1")
            said = "".join(e.get("delta", "") for e in events[:-1])
            assert said == "return a + b;" and events[-1]["reason"] == "stop", events[-1]
            assert events[-1]["usage"]["input_tokens"] > 0
    with report.check("completion.create: text of other files, as in /infill", server):
        files = [{"path": "b.c", "text": "int sub(int a, int b);\n"}]
        with RawSocket(server.port) as s:
            used = []
            for more in ({}, {"files": []}, {"files": files}):
                s.send_json({"type": "completion.create", "id": "f", "prefix": "int add(",
                             "suffix": "\n}\n", "path": "a.c", **more})
                used.append(completion(s, "f")[-1]["usage"]["input_tokens"])
            body = {"input_prefix": "int add(", "input_suffix": "\n}\n", "filename": "a.c",
                    "input_extra": [{"filename": "b.c", "text": files[0]["text"]}]}
            answer = json.loads(server.request("POST", "/infill", json.dumps(body).encode())[2])
            assert used[0] == used[1] < used[2] == answer["tokens_evaluated"], (used, answer)
            for bad in (5, [5], [{"path": 5}], [{"path": 1, "text": ""}], files * 17):
                s.send_json({"type": "completion.create", "id": "f", "prefix": "", "files": bad})
                error = completion(s, "f")[-1]
                assert error["status"] == 400 and error["error"]["param"] == "files", error
    with report.check("completion.create: a newer one of the same document ends the older", server):
        with RawSocket(server.port) as s:
            for name in ("old", "new"):
                s.send_json({"type": "completion.create", "id": name, "path": "a.c",
                             "prefix": "talk for long" if name == "old" else "int add("})
            assert completion(s, "old")[-1]["reason"] == "superseded"
            assert completion(s, "new")[-1]["reason"] == "stop"
    with report.check("completion.cancel, and invalid completions", server):
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
    """Improbable completions are held back, by the product of their tokens' probabilities."""
    hole = {"input_prefix": "def add(a, b):\n    ", "input_suffix": "\n\nprint(add(1, 2))\n",
            "n_predict": 3, "token_healing": False, "one_block": False}

    def ask(server, path, **fields):
        status, _, text = server.request("POST", path, json.dumps(fields).encode())
        return status, json.loads(text)

    with Server() as server, report.check("/v1/models has the file's value, as it was written"):
        listed = json.loads(server.request("GET", "/v1/models")[2])["data"][0]
        assert listed["min_confidence"] == 0.35 and listed["pointer"] == 1, listed
    with Server(args=["--min-confidence", "0"]) as server:
        with report.check("min_confidence: the product of the tokens' shares; then all or none",
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
        with report.check("min_confidence: inline, and invalid values", server):
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
        with report.check("pointer: from the file, from the request, and invalid values", server):
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
        with report.check("one_block: a text in a loop ends, unless it is false", server):
            round_ = {"input_prefix": "int i" + ", j" * 30 + ",", "input_suffix": "",
                      "n_predict": 100}
            _, whole = ask(server, "/infill", **round_, one_block=False)
            _, block = ask(server, "/infill", **round_)
            assert whole["tokens_predicted"] == 100, whole
            assert whole["content"].startswith(block["content"]), (whole, block)
            assert len(block["content"]) < 0.7 * len(whole["content"]), (whole, block)
            assert block["stop_type"] == "eos", block
            status, body = ask(server, "/infill", **round_, one_block=1)
            assert status == 400 and body["error"]["param"] == "one_block", body
    with report.check("serve --min-confidence: for infill, where a request has no value"):
        with Server(args=["--min-confidence", "1"]) as server:
            assert ask(server, "/infill", **hole)[1]["content"] == ""
            assert ask(server, "/infill", **hole, min_confidence=0)[1]["content"]
            assert ask(server, "/v1/completions", prompt="def f(",
                       max_tokens=4)[1]["choices"][0]["text"]


def check_variants(report):
    """Without a script: the model generates."""
    def ask(server, **fields):
        body = {"prompt": "def add(a, b):", "max_tokens": 12, "temperature": 1, "seed": 3,
                "token_healing": False, **fields}
        status, _, text = server.request("POST", "/v1/completions", json.dumps(body).encode())
        return status, json.loads(text)

    def score(choice):
        return sum(choice["logprobs"]["token_logprobs"]) / len(choice["logprobs"]["tokens"])

    with Server(args=["--min-confidence", "0"]) as server:
        with report.check("best_of: the likeliest of n answers, best first", server):
            status, all_of = ask(server, n=12, logprobs=0)
            assert status == 200 and len(all_of["choices"]) == 12, all_of
            best = sorted(all_of["choices"], key=score, reverse=True)
            status, some = ask(server, n=3, best_of=12)
            assert status == 200, some
            assert [c["text"] for c in some["choices"]] == [c["text"] for c in best[:3]], some
            assert [c["index"] for c in some["choices"]] == [0, 1, 2]
            assert some["usage"]["completion_tokens"] == all_of["usage"]["completion_tokens"]
        with report.check("several candidates of a hole", server):
            status, answer = ask(server, prompt="names = [\"red\", \"", suffix="\"]\n", n=8,
                                 temperature=1.5, seed=3, max_tokens=8)
            texts = [c["text"] for c in answer["choices"]]
            assert status == 200 and len(texts) == 8 and len(set(texts)) > 1, answer
            status, same = ask(server, prompt="names = [\"red\", \"", suffix="\"]\n", n=8,
                               temperature=1.5, seed=3, max_tokens=8)
            assert [c["text"] for c in same["choices"]] == texts, same
        with report.check("best_of: not below n, not streamed", server):
            for fields in ({"n": 2, "best_of": 1}, {"best_of": 2, "stream": True}):
                status, error = ask(server, **fields)
                assert status == 400 and error["error"]["param"] == "best_of", error
        with report.check("token_healing: as in `cerium run`, not where tokens are requested",
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
        with report.check("token_healing: for infill, as in `cerium complete`", server):
            before, after = "import os\n\n\ndef main():\n    path = os.pa", "\n    return first\n"
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
                         *options, f"{place}:5"], capture_output=True, check=True).stdout)
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
            before = {name: server.metric("cerium_engine_%s_tokens_total" % name)
                      for name in ("prompt", "reused")}
            status, answer = ask(server, prompt=words, n=16)
            assert status == 200 and len(answer["choices"]) == 16, answer
            prompt, reused = (server.metric("cerium_engine_%s_tokens_total" % name) - n
                              for name, n in before.items())
            assert prompt == 16 * answer["usage"]["prompt_tokens"], prompt
            assert prompt - reused < answer["usage"]["prompt_tokens"] + 16 * 4, (prompt, reused)


def check_branches(report):
    """`candidates`: other texts of a hole, beside the first."""
    hole = {"input_prefix": "def add(a, b):\n    return ", "input_suffix": "\n\n\nadd(1, 2)\n",
            "stop": ["\n"], "min_confidence": 0, "n_predict": 24}

    def ask(server, **fields):
        body = json.dumps({**hole, **fields}).encode()
        status, _, text = server.request("POST", "/infill", body)
        return status, json.loads(text)

    def events_of(s, name, **fields):
        s.send_json({"type": "completion.create", "id": name, "prefix": hole["input_prefix"],
                     "suffix": hole["input_suffix"], "stop": ["\n"], "min_confidence": 0,
                     "max_tokens": 24, **fields})
        events = []
        while not events or events[-1]["type"] != "completion.done":
            event = s.read_json()
            assert event["type"] != "error", event
            events += [event] if event["id"] == name else []
        return events

    with Server() as server:
        with report.check("candidates: other texts, the first as ever", server):
            _, alone = ask(server)
            assert "candidates" not in alone, alone
            for n in (2, 3, 6):
                status, answer = ask(server, candidates=n)
                others = [c["text"] for c in answer["candidates"]]
                assert status == 200 and answer["content"] == alone["content"], (answer, alone)
                assert 0 < len(others) < n and answer["content"] not in others, answer
                assert all(0 < c["confidence"] < 1 and not c["cut"] and "\n" not in c["text"]
                           for c in answer["candidates"]), answer
                assert answer["tokens_predicted"] > alone["tokens_predicted"], answer
            assert ask(server, candidates=6)[1]["candidates"] == answer["candidates"]
            assert all(c["cut"] for c in ask(server, candidates=3, n_predict=1,
                                             stop=[])[1]["candidates"])
            assert ask(server, candidates=4, n_predict=0)[1]["candidates"] == []
            assert "candidates" not in ask(server, candidates=1)[1]
            for bad in (0, 7, "2"):
                status, error = ask(server, candidates=bad)
                assert status == 400 and error["error"]["param"] == "candidates", error
        with report.check("candidates: at the end of a stream, and over a socket", server):
            answer = ask(server, candidates=4)[1]
            _, _, text = server.request("POST", "/infill", json.dumps(
                {**hole, "candidates": 4, "stream": True}).encode())
            events = [json.loads(line[6:]) for line in text.decode().splitlines()
                      if line.startswith("data: {")]
            assert "".join(e["content"] for e in events) == answer["content"], events
            assert events[-1]["candidates"] == answer["candidates"], events[-1]
            with RawSocket(server.port) as s:
                events = events_of(s, "c", path="a.py", candidates=4)
                said = "".join(e.get("delta", "") for e in events)
                assert said == answer["content"], (events, answer)
                assert [c["text"] for c in events[-1]["candidates"]] == [
                    c["text"] for c in answer["candidates"]], (events, answer)
        with report.check("candidates: canceled at any time, nothing is left", server):
            with RawSocket(server.port) as s:
                for i in range(30):
                    s.send_json({"type": "completion.create", "id": f"x{i}", "candidates": 6,
                                 "prefix": "def f(x):\n", "path": "b.py", "max_tokens": 4096,
                                 "document": f"d{i % 2}"})
                    if i % 3 == 0:
                        s.send_json({"type": "completion.cancel", "id": f"x{i}"})
                ends = set()
                while len(ends) < 28:  # the last two are left to run until the socket closes
                    event = s.read_json()
                    if event["type"] == "completion.done":
                        ends.add(event["id"])
            wait_for(lambda: server.running() == 0)
            assert ask(server, candidates=3)[1]["candidates"]
            assert server.metric("cerium_failed_total") == 0
            assert server.stop() == 0


def main():
    report = Report("completions")
    with Server(replay=SCRIPT, context=16384) as server:
        check_completions(report, server)
        with report.check("nothing is left over, and it shuts down cleanly", server):
            wait_for(lambda: server.running() == 0)
            assert server.metric("cerium_failed_total") == 0
            assert server.stop() == 0
    check_variants(report)
    check_branches(report)
    check_confidence(report)
    report.end()


main()
