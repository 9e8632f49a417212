"""check_relatives.py - relatives of inputs that once failed: encoded bodies, odd parameters, stop
strings, calls with end tags in their parameters, several calls; each in every API that has it.
Framing of HTTP and WebSocket is in test_transport.sh, grammars in tests/grammar/relatives.jsonl."""

import gzip
import json
import os
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from check_parameters import APIS, put  # noqa: E402
from harness import Report, Server, call, line  # noqa: E402

TALK = [{"role": "user", "content": "say"}]
SAID = "one two three\nfour \u00e9t\u00e9 five <b>six</b>\n\nseven"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}},
          "required": ["path"]}
OTHER = {"type": "object", "properties": {"text": {"type": "string"}}}
NESTED = [{"type": "function", "function": {"name": "ls", "parameters": SCHEMA}},
          {"type": "function", "function": {"name": "put", "parameters": OTHER}}]
FLAT = [{"type": "function", **t["function"]} for t in NESTED]
NAMED = [{"name": t["function"]["name"], "input_schema": t["function"]["parameters"]}
         for t in NESTED]


def events_of(data):
    return [json.loads(x[6:]) for x in data.decode().splitlines()
            if x.startswith("data: ") and x != "data: [DONE]"]


class Asked:
    """text, calls [(name, arguments)], finish reason, and the stop string if reported."""

    def __init__(self, text="", calls=(), why=None, stopped=None):
        self.text, self.calls, self.why, self.stopped = text, list(calls), why, stopped


def ask_chat(server, text, tools, stop, one, stream):
    body = {"messages": [{"role": "user", "content": text}], "stream": stream}
    body.update({"tools": NESTED} if tools else {}, **({"stop": stop} if stop else {}))
    body.update({"parallel_tool_calls": False} if one else {})
    status, _, data = server.request("POST", "/v1/chat/completions", body)
    assert status == 200, data
    if not stream:
        choice = json.loads(data)["choices"][0]
        calls = choice["message"].get("tool_calls") or []
        return Asked(choice["message"]["content"] or "",
                     [(c["function"]["name"], json.loads(c["function"]["arguments"]))
                      for c in calls], choice["finish_reason"])
    out, calls = Asked(), {}
    for chunk in events_of(data):
        for choice in chunk["choices"]:
            out.text += choice["delta"].get("content") or ""
            out.why = choice["finish_reason"] or out.why
            for c in choice["delta"].get("tool_calls") or []:
                name, given = calls.get(c["index"], ("", ""))
                calls[c["index"]] = (name + (c["function"].get("name") or ""),
                                     given + (c["function"].get("arguments") or ""))
    out.calls = [(name, json.loads(given)) for _, (name, given) in sorted(calls.items())]
    return out


def ask_responses(server, text, tools, stop, one, stream):
    body = {"input": text, "stream": stream, "store": False}
    body.update({"tools": FLAT} if tools else {}, **({"stop": stop} if stop else {}))
    body.update({"parallel_tool_calls": False} if one else {})
    status, _, data = server.request("POST", "/v1/responses", body)
    assert status == 200, data
    events = events_of(data) if stream else []
    said = events[-1]["response"] if stream else json.loads(data)
    if stream:
        done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
        assert [i for i in said["output"] if i["status"] == "completed"] == \
            [i for i in done if i["status"] == "completed"]
    return Asked("".join(p["text"] for i in said["output"] if i["type"] == "message"
                         for p in i["content"]),
                 [(i["name"], json.loads(i["arguments"])) for i in said["output"]
                  if i["type"] == "function_call"], said["status"])


def ask_messages(server, text, tools, stop, one, stream):
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 900, "stream": stream}
    body.update({"tools": NAMED} if tools else {}, **({"stop_sequences": stop} if stop else {}))
    body.update({"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}} if one else {})
    status, _, data = server.request("POST", "/v1/messages", body)
    assert status == 200, data
    if not stream:
        said = json.loads(data)
        return Asked("".join(b.get("text", "") for b in said["content"]),
                     [(b["name"], b["input"]) for b in said["content"] if b["type"] == "tool_use"],
                     said["stop_reason"], said["stop_sequence"])
    out, blocks, n = Asked(), [], 0
    for e in events_of(data):
        if e["type"] == "content_block_start":
            assert e["index"] == n, e
            n += 1
            blocks.append([e["content_block"], ""])
        if e["type"] == "content_block_delta":
            out.text += e["delta"].get("text", "")
            blocks[-1][1] += e["delta"].get("partial_json", "")
        if e["type"] == "message_delta":
            out.why, out.stopped = e["delta"]["stop_reason"], e["delta"]["stop_sequence"]
    out.calls = [(b["name"], json.loads(given)) for b, given in blocks if b["type"] == "tool_use"]
    return out


def ask_ollama(server, text, tools, stop, one, stream):
    if one:
        return None
    body = {"messages": [{"role": "user", "content": text}], "stream": stream}
    body.update({"tools": NESTED} if tools else {}, **({"options": {"stop": stop}} if stop else {}))
    status, _, data = server.request("POST", "/api/chat", body)
    assert status == 200, data
    lines = [json.loads(x) for x in data.decode().splitlines()]
    calls = [c["function"] for x in lines for c in x["message"].get("tool_calls") or []]
    return Asked("".join(x["message"]["content"] for x in lines),
                 [(c["name"], c["arguments"]) for c in calls], lines[-1]["done_reason"])


ASK = {"Chat": ask_chat, "Responses": ask_responses, "Messages": ask_messages,
       "Ollama": ask_ollama}


def everywhere(report, server, title, check, text, tools=False, stop=None, one=False):
    for name, ask in ASK.items():
        for stream in (False, True):
            with report.check("%s: %s%s" % (title, name, ", streamed" * stream), server):
                found = ask(server, text, tools, stop, one, stream)
                if found:
                    check(found)


# ---- stop strings ----

STOPS = [["three"], ["e t"], ["\n"], ["\n\n"], ["\u00e9t\u00e9"], ["\u00e9"], ["<b>"],
         ["b>s", "six"], ["seven"], ["one"], ["o"], ["nowhere"], ["two three\nfour"],
         ["five ", " five"], ["zzz", "yyy", "three", "two"], ["sevenn"], ["</b>\n"]]


def check_stops(report, server):
    for stop in STOPS:
        places = [(SAID.find(s), s) for s in stop if s in SAID]
        first = min(places)[0] if places else len(SAID)

        def good(found, first=first, places=places):
            assert found.text == SAID[:first], (found.text, SAID[:first])
            assert found.why in ("stop", "completed", "end_turn", "stop_sequence"), found.why
            if found.why == "stop_sequence":
                assert found.stopped in [s for at, s in places if at == first], found.stopped
            assert found.why != "end_turn" or not places

        everywhere(report, server, "stop %s" % json.dumps(stop), good, "say", stop=stop)
    for stop in (["A"], ["path"], ["{"], ["\""], ["tool_call"], ["hm"], ["think"], ["ls", "}"]):
        def whole(found):
            assert found.calls == [("ls", {"path": "A"})], found.calls
            assert found.text.strip() == "Looking.", found.text

        everywhere(report, server, "stop %s within a call or a thought" % json.dumps(stop), whole,
                   "one call", tools=True, stop=stop)


# ---- several calls ----

def check_calls(report, server):
    two = [("ls", {"path": "A"}), ("ls", {"path": "B"})]
    many = [("ls", {"path": "p%d" % i, "n": i}) for i in range(7)]
    cases = [("two calls", two), ("the same twice", [two[0], two[0]]), ("seven calls", many),
             ("two tools", [two[0], ("put", {"text": "a\n\"b\"\\ \u00e9 </tool_call>"})]),
             ("words between", two), ("words behind", [two[0]])]
    for text, want in cases:
        def good(found, want=want):
            assert found.calls == want, found.calls
            assert "tool_call" not in found.text and "{" not in found.text, found.text

        everywhere(report, server, text, good, text, tools=True)

        def first(found, want=want):
            assert found.calls == want[:1], found.calls

        everywhere(report, server, text + ", one allowed", first, text, tools=True, one=True)
    for text in ("a call of nobody", "a call that is none", "no tools"):
        def none(found):
            assert found.why not in ("tool_calls", "tool_use") and not found.calls, found.calls
            assert found.text, found.text

        everywhere(report, server, text, none, text, tools=text != "no tools")


CALLS = [
    line("<think>\nhm\n</think>\n\nLooking.\n" + call("ls", path="A"), repeat=True,
         last="one call"),
    line(call("ls", path="A") + "\n" + call("ls", path="B"), repeat=True, last="two calls"),
    line(call("ls", path="A") + "\n" + call("ls", path="A"), repeat=True, last="the same twice"),
    line("\n".join(call("ls", path="p%d" % i, n=i) for i in range(7)), repeat=True,
         last="seven calls"),
    line(call("ls", path="A") + "\n" + call("put", text="a\n\"b\"\\ \u00e9 </tool_call>"),
         repeat=True, last="two tools"),
    line("First.\n" + call("ls", path="A") + "\nThen.\n" + call("ls", path="B"), repeat=True,
         last="words between"),
    line(call("ls", path="A") + "\nDone.", repeat=True, last="words behind"),
    line("Well.\n<tool_call>\n[1, 2]\n</tool_call>\nDone.", repeat=True,
         last="a call that is none"),
    line("Well.\n<tool_call>\nnobody at home\n</tool_call>", repeat=True, last="a call of nobody"),
    line("Say " + call("ls", path="A"), repeat=True, last="no tools"),
    line(SAID, repeat=True, last="say"),
    line("one", repeat=True),  # to all other messages
]


# ---- end tags in parameters ----

def xml(value, name="text", before="\n", after="\n"):
    return ("<tool_call>\n<function=put>\n<parameter=%s>%s%s%s</parameter>\n</function>\n"
            "</tool_call>" % (name, before, value, after))


VALUES = ["ls", "a\nb", "", "a < b && c > d", "<p>x</p>", "</para", "</parametex", "&lt;",
          "\"quoted\"", "{\"a\": 1}", "\\n", "\u00e9\u4e2d\U0001f600", "  indented\n  twice",
          "tab\there", "</function", "<parameter=x>", "</tool_call", "ends with a line\n",
          "\nbegins with one", "'", "-1", "null"]


def check_xml(report):
    script = [line(xml(v), repeat=True, last="value %d." % i) for i, v in enumerate(VALUES)]
    script += [line(xml(v, before="", after=""), repeat=True, last="bare %d." % i)
               for i, v in enumerate(VALUES)]
    script += [line(xml(v, before="\n", after=""), repeat=True, last="half %d." % i)
               for i, v in enumerate(VALUES)]
    for form in ("qwen3-coder",):
        with Server(replay=script, args=["--chat-form", form]) as server:
            for i, value in enumerate(VALUES):
                for kind in ("value", "bare", "half"):
                    with report.check("%s: %s %s" % (form, kind, json.dumps(value)), server):
                        want = value
                        if kind != "value":  # one line end at each end belongs to the form
                            want = want[1:] if kind == "bare" and want[:1] == "\n" else want
                            want = want[:-1] if want[-1:] == "\n" else want
                        for ask in (ask_chat, ask_messages):
                            for stream in (False, True):
                                found = ask(server, "%s %d." % (kind, i), True, None, False, stream)
                                assert found.calls == [("put", {"text": want})], found.calls
                                assert found.text == "", found.text


# ---- encoded bodies ----

def check_bodies(report, server):
    body = json.dumps({"messages": TALK, "max_tokens": 2}).encode()
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    raw = packed.compress(body) + packed.flush()
    cases = [("gzip", gzip.compress(body)), ("GZIP", gzip.compress(body)),
             ("x-gzip", gzip.compress(body)), ("deflate", zlib.compress(body)), ("deflate", raw),
             ("br", b"\x8b\x00\x80x\x03"), ("zstd", b"(\xb5/\xfd\x04\x00"),
             ("compress", b"\x1f\x9d"),
             ("gzip, gzip", gzip.compress(gzip.compress(body))), ("gzip, identity", body),
             ("nonsense", body), ("gzip", body), ("gzip", b"")]
    for coding, data in cases:
        for path in ("/v1/chat/completions", "/v1/messages", "/api/chat", "/v1/responses",
                     "/completion", "/tokenize"):
            with report.check("a body in %s at %s" % (coding, path), server):
                status, headers, answer = server.request(
                    "POST", path, data, {"Content-Encoding": coding,
                                         "Content-Type": "application/json"})
                assert status == 415, (status, answer[:200])
                assert "identity" in headers["Accept-Encoding"], dict(headers)
                error = json.loads(answer)["error"]
                assert "encod" in (error if isinstance(error, str) else error["message"]).lower()
    for coding in ("identity", "Identity"):
        with report.check("a body in %s" % coding, server):
            status, headers, _ = server.request("POST", "/v1/chat/completions", body, {
                "Content-Encoding": coding, "Accept-Encoding": "gzip, br, zstd"})
            assert status == 200 and "Content-Encoding" not in headers


# ---- parameters ----

NUMBERS = [9223372036854775807, 9223372036854775808, -9223372036854775809, 1 << 200, 1e308]


# Upper bounds: a value above every possible one is no bound, and no error.
BOUNDS = {"Responses": "max_output_tokens top_k", "Messages": "max_tokens top_k",
          "Chat": "max_tokens max_completion_tokens n_predict top_k thinking_budget",
          "Completions": "max_tokens top_k", "llama.cpp's completion": "n_predict top_k",
          "Ollama's chat": "options.num_predict options.top_k",
          "Ollama's generate": "options.num_predict options.top_k"}
FORMS = ["1e2", "1E+2", "5e0", "1.0", "100", "2147483648", "4294967295", "4294967296",
         "9223372036854775807", "9223372036854775808", "1" + 30 * "0", "1e400"]


def check_bounds(report, server):
    for title, names in BOUNDS.items():
        path, base, _ = APIS[title]
        for name in names.split():
            with report.check("%s: %s is a number in every notation" % (title, name), server):
                for form in FORMS:
                    body = json.dumps(put(base, name, "?")).replace('"?"', form)
                    status, _, data = server.request("POST", path, body)
                    assert status == 200, (form, data[:300])
                    assert b"warnings" not in data, (form, data[:300])
                for form, said in (("0.5", "a decimal"), ('"5"', "a string"), ("true", "a bool")):
                    body = json.dumps(put(base, name, "?")).replace('"?"', form)
                    status, _, data = server.request("POST", path, body)
                    assert status == 400 and name in data.decode(), (form, data[:300])
                    assert len(data) < 400 and said in data.decode(), (form, data[:300])
    for title in ("Ollama's chat", "Ollama's generate"):
        path, base, _ = APIS[title]
        with report.check("an error has the client's name of the field: " + title, server):
            for name, value in (("num_predict", 0.5), ("repeat_penalty", 100), ("temperature", -1),
                                ("top_k", 1.5), ("seed", 0.5), ("stop", [7]), ("min_p", 2)):
                status, _, data = server.request("POST", path,
                                                 put(base, "options." + name, value))
                assert status == 400 and "'options.%s" % name in data.decode(), (name, data[:300])
    with report.check("a number out of range is printed as short as it came", server):
        for form, said in (("1e400", "1.79"), ("9223372036854775807", "9223372036854775807"),
                           ("1" + 30 * "0", "1e+30"), ("-5", "-5")):
            status, _, data = server.request("POST", "/v1/chat/completions", json.dumps(
                {"messages": TALK, "n": "?"}).replace('"?"', form))
            assert status == 400 and "got %s" % said in data.decode(), data
            assert len(data) < 300, data
    with report.check("min_p 1 keeps the most probable token, repeat_penalty is known", server):
        for path, base in (("/v1/chat/completions", {"messages": TALK}),
                           ("/completion", {"prompt": "x", "n_predict": 2})):
            status, _, data = server.request("POST", path, {**base, "min_p": 1,
                                                            "repeat_penalty": 1.1})
            assert status == 200 and b"warnings" not in data, data[:300]


def check_numbers(report, server):
    for title, (path, base, names) in APIS.items():
        with report.check("null equals an absent field: " + title, server):
            for name in names.split():
                if name in ("input", "messages", "prompt", "max_tokens", "model", "n_predict",
                            "stream", "options", "options.num_predict", "max_output_tokens"):
                    continue
                status, _, data = server.request("POST", path, put(base, name, None))
                assert status == 200, (name, data[:300])
                said = json.loads(data).get("cerium", {}).get("warnings", [])
                assert not [w for w in said if w["param"].startswith(name)], (name, said)
        with report.check("numbers of any size: " + title, server):
            for number in NUMBERS:
                for name in ("metadata", "seed", "nonsense"):
                    value = {"n": number} if name == "metadata" else number
                    status, _, data = server.request("POST", path, put(base, name, value))
                    assert status in (200, 400), (name, number, data[:300])
                    assert status == 200 or name.encode() in data, (name, number, data[:300])
    check_bounds(report, server)
    caps = [("/v1/chat/completions", {"messages": TALK}, ("max_tokens", "max_completion_tokens",
                                                          "n_predict")),
            ("/v1/responses", {"input": "say"}, ("max_output_tokens", "n_predict")),
            ("/api/chat", {"messages": TALK, "stream": False}, ("options.num_predict",)),
            ("/api/generate", {"prompt": "say", "stream": False}, ("options.num_predict",))]
    for path, base, names in caps:
        for name in names:
            with report.check("a cap below zero means no cap: %s at %s" % (name, path), server):
                for n in (-1, -2):
                    status, _, data = server.request("POST", path, put(base, name, n))
                    assert status == 200 and b"seven" in data, data[:300]
                status, _, data = server.request("POST", path, put(base, name, 3))
                assert status == 200 and b"seven" not in data, data[:300]
    for body, param in (({"temperature": 3}, "temperature"), ({"temperature": -0.1}, "temperature"),
                        ({"top_p": 1.01}, "top_p"), ({"n": 0}, "n"), ({"n": 65}, "n"),
                        ({"top_logprobs": 21}, "top_logprobs"), ({"stop": ["x"] * 17}, "stop"),
                        ({"stop": ["x" * 257]}, "stop"), ({"stop": [7]}, "stop"),
                        ({"stream": "true"}, "stream"), ({"max_tokens": 2.5}, "max_tokens"),
                        ({"logit_bias": {"5": 101}}, "logit_bias"), ({"seed": "7"}, "seed"),
                        ({"messages": []}, "messages"), ({"messages": [{}]}, "messages[0]")):
        with report.check("out of range: %s" % json.dumps(body)[:60], server):
            error = server.json("POST", "/v1/chat/completions", {"messages": TALK, **body},
                                want=400)["error"]
            assert (error["param"] or "").startswith(param), error
    for path in ("/v1/chat/completions/", "/chat/completions", "/chat/completions/",
                 "/v1/chat/completions?api-version=1"):
        with report.check("other spellings of the path: " + path, server):
            body = {"messages": TALK, "model": "org/a/b:c@d"}
            said = server.json("POST", path, body)["choices"][0]["message"]["content"]
            assert said == SAID, said


def main():
    report = Report("relatives")
    with Server(replay=CALLS, args=["--chat-form", "qwen3", "--guard", "off"]) as server:
        check_stops(report, server)
        check_calls(report, server)
        check_numbers(report, server)
        check_bodies(report, server)
    check_xml(report)
    report.end()


if __name__ == "__main__":
    main()
