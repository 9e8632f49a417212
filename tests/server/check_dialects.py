"""check_dialects.py - Messages, Ollama, llama.cpp and steering of `cerium serve`, as bytes."""

import json
import os
import random
import select
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from harness import MODEL_ID, PATIENCE, Report, Server, call, line  # noqa: E402
from rawsocket import RawSocket, text_of  # noqa: E402

TWO = "Looking.\n" + call("ls", path="A") + "\n" + call("ls", path="B")
SLOW = "I go through it step by step. " * 30 + "\n" + call("ls", path="A")
SCRIPT = [
    line("The file says so.", repeat=True, role="tool"),
    line(TWO, repeat=True, last="two files", has_tool="ls"),
    line(SLOW, repeat=True, last="slowly", has_tool="ls"),
    line("Looking.\n" + call("ls", path="A"), repeat=True, last="one file", has_tool="ls"),
    line("".join("line %d of many\n" % i for i in range(200)), repeat=True, last="for long"),
    line("Three.", repeat=True, last="only three"),
    line("one two three four five six", repeat=True, last="count"),
    line("", repeat=True, last="say nothing"),
    line("Hello there.", repeat=True, last="say hello"),
]
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
FUNCTION = {"name": "ls", "parameters": SCHEMA}
CHAT_TOOLS = [{"type": "function", "function": FUNCTION}]
RESPONSE_TOOLS = [{"type": "function", **FUNCTION}]
MESSAGE_TOOLS = [{"name": "ls", "input_schema": SCHEMA}]


def user(text):
    return [{"role": "user", "content": text}]


def events_of(data):
    """(name, object) of each event of an event stream."""
    found = []
    for block in data.decode().split("\n\n"):
        fields = dict(f.split(": ", 1) for f in block.split("\n") if ": " in f)
        if "data" in fields and fields["data"] != "[DONE]":
            found.append((fields.get("event"), json.loads(fields["data"])))
    return found


# ---- truncated calls ----

def messages_text(server, n, stream):
    body = {"max_tokens": n, "messages": user("two files"), "tools": MESSAGE_TOOLS}
    status, _, data = server.request("POST", "/v1/messages", {**body, "stream": stream})
    assert status == 200, data
    if stream:
        said = "".join(e["delta"].get("text", "") for name, e in events_of(data)
                       if name == "content_block_delta")
        return said, [e for name, e in events_of(data) if name == "message_delta"][0]["delta"]
    said = json.loads(data)
    return "".join(b.get("text", "") for b in said["content"]), said


def chat_text(server, n, stream):
    body = {"max_tokens": n, "messages": user("two files"), "tools": CHAT_TOOLS, "stream": stream}
    status, _, data = server.request("POST", "/v1/chat/completions", body)
    assert status == 200, data
    if not stream:
        choice = json.loads(data)["choices"][0]
        calls = choice["message"].get("tool_calls") or []
        for one in calls:
            json.loads(one["function"]["arguments"])
        return choice["message"]["content"] or "", choice
    chunks = [e["choices"][0] for _, e in events_of(data) if e["choices"]]
    return "".join(c["delta"].get("content") or "" for c in chunks), chunks[-1]


def check_cut_calls(report, server):
    whole = len(TWO)
    for stream in (False, True):
        with report.check("a truncated call is never text: chat%s" % (", streamed" * stream),
                          server):
            for n in range(2, 46, 1 + 2 * stream):
                said, choice = chat_text(server, n, stream)
                assert "Looking.".startswith(said) or said in ("Looking.", "Looking.\n"), (n, said)
                assert choice["finish_reason"] in ("length", "tool_calls"), (n, choice)
                whole = choice["finish_reason"] == "tool_calls"
                if whole and not stream:
                    assert len(choice["message"]["tool_calls"]) == 2
        with report.check("the same in Messages%s" % (", streamed" * stream), server):
            for n in range(2, 46, 3):
                said, end = messages_text(server, n, stream)
                assert "Looking.".startswith(said) or said in ("Looking.", "Looking.\n"), (n, said)
                assert end["stop_reason"] in ("max_tokens", "tool_use"), (n, end)
    with report.check("the same in Responses and over Ollama", server):
        for n in range(2, 46, 3):
            body = {"input": "two files", "tools": RESPONSE_TOOLS, "max_output_tokens": n,
                    "store": False}
            said = server.json("POST", "/v1/responses", body)
            for item in said["output"]:
                if item["type"] == "message":
                    assert "tool" not in item["content"][0]["text"], item
                assert item["status"] == "completed" or said["status"] == "incomplete", said
            body = {"messages": user("two files"), "tools": CHAT_TOOLS, "stream": False,
                    "options": {"num_predict": n}}
            said = server.json("POST", "/api/chat", body)
            assert "tool" not in said["message"]["content"], said
            assert said["done_reason"] in ("length", "stop"), said
    with report.check("a stop string ends no call", server):
        body = {"messages": user("two files"), "tools": CHAT_TOOLS, "stop": ['B"', "path", "tool"]}
        choice = server.json("POST", "/v1/chat/completions", body)["choices"][0]
        said = choice["message"]
        assert choice["finish_reason"] == "tool_calls" and said["content"] == "Looking.", choice
        given = [json.loads(c["function"]["arguments"]) for c in said["tool_calls"]]
        assert given == [{"path": "A"}, {"path": "B"}], given


# ---- requests as clients send them ----

def check_requests(report, server):
    def chat(**more):
        return server.json("POST", "/v1/chat/completions", {"messages": user("count"), **more})

    with report.check("n_predict and caps below zero", server):
        assert chat(n_predict=3)["usage"]["completion_tokens"] == 3
        warm = chat(n_predict=0)
        assert warm["usage"]["completion_tokens"] == 0 and warm["usage"]["prompt_tokens"] > 0
        assert chat(max_tokens=-1)["choices"][0]["message"]["content"] == \
            "one two three four five six"
    with report.check("an empty recorded answer", server):
        said = chat(messages=user("say nothing"))
        assert said["choices"][0]["message"]["content"] == "" and \
            said["choices"][0]["finish_reason"] == "stop", said
    with report.check("the token count equals what an answer reads", server):
        body = {"messages": user("count"), "tools": CHAT_TOOLS}
        n = server.json("POST", "/v1/chat/completions/input_tokens", body)["input_tokens"]
        assert n == chat(tools=CHAT_TOOLS)["usage"]["prompt_tokens"], n
        body = {"input": "count", "instructions": "Be short."}
        n = server.json("POST", "/v1/responses/input_tokens", body)
        said = server.json("POST", "/v1/responses", body)
        assert n == {"object": "response.input_tokens",
                     "input_tokens": said["usage"]["input_tokens"]}, n
        again = {"input": "and on", "previous_response_id": said["id"]}
        n = server.json("POST", "/v1/responses/input_tokens", again)["input_tokens"]
        assert n == server.json("POST", "/v1/responses", again)["usage"]["input_tokens"]
        body = {"system": "Be short.", "messages": user("count"), "tools": MESSAGE_TOOLS}
        n = server.json("POST", "/v1/messages/count_tokens", body)["input_tokens"]
        used = server.json("POST", "/v1/messages", {**body, "max_tokens": 9})["usage"]
        assert n == used["input_tokens"] + used["cache_read_input_tokens"], (n, used)
    with report.check("items of a stored input have ids", server):
        said = server.json("POST", "/v1/responses", {"input": "count"})
        page = server.json("GET", "/v1/responses/%s/input_items" % said["id"])
        assert page["data"][0]["id"].startswith("msg_") and page["first_id"] == page["last_id"]
    with report.check("a result without its call is refused", server):
        item = {"type": "function_call_output", "call_id": "c", "output": "x"}
        said = server.json("POST", "/v1/responses", {"input": [item]}, want=400)
        assert said["error"]["param"] == "input[0].call_id", said
        first = server.json("POST", "/v1/responses", {"input": "one file", "tools": RESPONSE_TOOLS})
        item["call_id"] = first["output"][1]["call_id"]
        more = {"previous_response_id": first["id"], "tools": RESPONSE_TOOLS}
        server.json("POST", "/v1/responses", {"input": [item], **more})
        item["call_id"] = "c"
        server.json("POST", "/v1/responses", {"input": [item], **more}, want=400)
    with report.check("models by name, alias and path", server):
        for name in (MODEL_ID, "cerium"):
            assert server.json("GET", "/v1/models/" + name)["id"] == name
        listed = server.json("GET", "/v1/models?limit=1000")
        assert listed["first_id"] == MODEL_ID and listed["data"][0]["type"] == "model"
        assert server.json("GET", "/v1/models/a/b", want=404)["error"]["code"] == "model_not_found"


def check_shapes(report):
    with Server() as server, report.check("constraints of answers, in every dialect's fields",
                                          server):
        pick = 'root ::= "yes" | "no"'
        for more in ({"grammar": pick}, {"guided_choice": ["yes", "no"]},
                     {"guided_regex": "yes|no"}, {"guided_grammar": pick},
                     {"structured_outputs": {"choice": ["yes", "no"]}}):
            body = {"messages": user("x"), "max_tokens": 8, **more}
            said = server.json("POST", "/v1/chat/completions", body)
            assert said["choices"][0]["message"]["content"] in ("yes", "no"), (more, said)
            said = server.json("POST", "/v1/completions", {"prompt": "x", "max_tokens": 8, **more})
            assert said["choices"][0]["text"] in ("yes", "no"), (more, said)
        said = server.json("POST", "/completion", {"prompt": "x", "n_predict": 8, "grammar": pick})
        assert said["content"] in ("yes", "no"), said
        schema = {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"],
                  "additionalProperties": False}
        for path, body in (
            ("/v1/chat/completions",
             {"response_format": {"type": "json_object", "schema": schema}}),
            ("/v1/chat/completions", {"json_schema": schema}),
            ("/v1/chat/completions", {"guided_json": json.dumps(schema)}),
        ):
            said = server.json("POST", path, {"messages": user("x"), "max_tokens": 30, **body})
            assert json.loads(said["choices"][0]["message"]["content"]) == {"a": 1}, (body, said)
        said = server.json("POST", "/api/chat", {"messages": user("x"), "stream": False,
                                                 "format": schema, "options": {"num_predict": 30}})
        assert json.loads(said["message"]["content"]) == {"a": 1}, said
        said = server.json("POST", "/v1/chat/completions",
                           {"messages": user("x"), "grammar": "root ::= ("}, want=400)
        assert said["error"]["code"] == "invalid_grammar", said


# ---- Messages ----

def check_messages(report, server):
    def ask(want=200, **body):
        return server.json("POST", "/v1/messages", {"max_tokens": 99, **body}, want=want)

    with report.check("Messages: text, a call, its result", server):
        said = ask(messages=user("say hello"), model="claude-x")
        assert said["content"][0]["text"] == "Hello there." and said["stop_reason"] == "end_turn"
        assert said["model"] == "claude-x" and said["id"].startswith("msg_")
        said = ask(messages=user("one file"), tools=MESSAGE_TOOLS)
        use = said["content"][1]
        assert said["stop_reason"] == "tool_use" and use["input"] == {"path": "A"}, said
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": "text"}
        talk = user("one file") + [{"role": "assistant", "content": said["content"]},
                                   {"role": "user", "content": [result]}]
        said = ask(messages=talk, tools=MESSAGE_TOOLS)
        assert said["content"][0]["text"] == "The file says so.", said
        # Our answer is found cached as it was sampled: only new tokens are computed.
        assert said["usage"]["cache_read_input_tokens"] > said["usage"]["input_tokens"], said
    with report.check("Messages: what one API began, another continues", server):
        before = "Remember these: " + " ".join("word%d" % i for i in range(120))
        first = server.json("POST", "/v1/chat/completions", {"messages": user(before),
                                                             "max_tokens": 4})
        talk = user(before) + [first["choices"][0]["message"]] + user("count")
        for path in ("/v1/messages", "/api/chat"):
            talk[1] = {"role": "assistant", "content": talk[1]["content"]}
            body = {"messages": talk, "max_tokens": 9, "stream": False}
            _, n = computed_by(server, path, body)
            assert 0 < n < 120, (path, n)
    with report.check("Messages: stop sequences, caps, warm-ups", server):
        said = ask(messages=user("count"), stop_sequences=["four"])
        assert said["stop_reason"] == "stop_sequence" and said["stop_sequence"] == "four", said
        assert said["content"][0]["text"] == "one two three ", said
        assert ask(messages=user("count"), max_tokens=2)["stop_reason"] == "max_tokens"
        said = ask(messages=user("count"), max_tokens=0)
        assert said["content"] == [] and said["usage"]["output_tokens"] == 0, said
    with report.check("Messages: a stream's events, in their order", server):
        body = {"max_tokens": 99, "messages": user("one file"), "tools": MESSAGE_TOOLS,
                "stream": True}
        status, headers, data = server.request("POST", "/v1/messages", body)
        names = [name for name, _ in events_of(data)]
        assert status == 200 and headers["request-id"].startswith("req_"), headers
        assert names[0] == "message_start" and names[-2:] == ["message_delta", "message_stop"]
        assert names.count("content_block_start") == names.count("content_block_stop") == 2, names
        assert all(event["type"] == name for name, event in events_of(data))
        given = "".join(e["delta"]["partial_json"] for n, e in events_of(data)
                        if n == "content_block_delta" and e["delta"]["type"] == "input_json_delta")
        assert json.loads(given) == {"path": "A"}, given
    with report.check("Messages: errors in their form", server):
        said = ask(want=400, messages=[])
        assert said["type"] == "error" and said["error"]["message"].startswith("messages: "), said
        assert said["request_id"].startswith("req_")
        said = ask(want=400, messages=user("word " * 20000))
        assert "prompt is too long: " in said["error"]["message"], said
        said = server.json("POST", "/v1/messages/batches", {}, want=404)
        assert said["error"]["type"] == "not_found_error", said


# ---- Ollama and llama.cpp ----

def check_ollama(report, server):
    with report.check("Ollama: the list, the details, running models", server):
        assert server.json("GET", "/api/version")["version"] >= "0.13.4"
        model = server.json("GET", "/api/tags")["models"][0]
        assert model["name"] == MODEL_ID and len(model["digest"]) == 64 and model["size"] > 0
        for name in (MODEL_ID, MODEL_ID + ":latest", "cerium"):
            facts = server.json("POST", "/api/show", {"model": name})
            assert "insert" in facts["capabilities"] and ".Suffix" in facts["template"]
        family = facts["model_info"]["general.architecture"]
        assert facts["model_info"][family + ".context_length"] > 0
        assert server.json("GET", "/api/ps")["models"][0]["context_length"] > 0
        assert "not found" in server.json("POST", "/api/show", {"name": "x"}, want=404)["error"]
        assert isinstance(server.json("POST", "/api/create", {}, want=501)["error"], str)
    with report.check("Ollama: a stream of lines, each call whole in one line", server):
        body = {"model": "cerium", "messages": user("one file"), "tools": CHAT_TOOLS}
        status, headers, data = server.request("POST", "/api/chat", body)
        lines = [json.loads(one) for one in data.decode().splitlines()]
        assert status == 200 and headers["content-type"] == "application/x-ndjson"
        calls = [c for one in lines for c in one["message"].get("tool_calls", [])]
        assert calls[0]["function"]["arguments"] == {"path": "A"} and len(calls) == 1, calls
        assert lines[-1]["done"] and lines[-1]["eval_count"] > 0 and not lines[0]["done"]
        said = server.json("POST", "/api/chat", {"messages": [], "stream": False})
        assert said["done_reason"] == "load", said
    with report.check("llama.cpp: props, slots, tokenize and detokenize, a template", server):
        assert server.json("GET", "/props")["default_generation_settings"]["n_ctx"] > 0
        assert not any(slot["is_processing"] for slot in server.json("GET", "/slots"))
        tokens = server.json("POST", "/tokenize", {"content": "int main(void)"})["tokens"]
        assert server.json("POST", "/detokenize", {"tokens": tokens})["content"] == "int main(void)"
        server.json("POST", "/detokenize", {"tokens": [10**9]}, want=400)
        prompt = server.json("POST", "/apply-template", {"messages": user("say hello")})["prompt"]
        assert "say hello" in prompt
    with report.check("llama.cpp: /completion, whole and streamed", server):
        said = server.json("POST", "/completion", {"prompt": "count", "stop": ["four"]})
        assert said["content"] == "one two three " and said["stop_type"] == "word", said
        assert said["stopping_word"] == "four" and said["generation_settings"]["n_predict"] == -1
        status, _, data = server.request("POST", "/completion",
                                         {"prompt": "count", "stream": True, "n_predict": 3})
        pieces = [event for _, event in events_of(data)]
        assert status == 200 and b"[DONE]" not in data and pieces[-1]["stop"], data
        assert pieces[-1]["stop_type"] == "limit" and pieces[-1]["tokens_predicted"] == 3
    with report.check("bodies that the loop reads are small, or 413", server):
        for path, most in (("/api/show", 16), ("/detokenize", 256), ("/models/unload", 16)):
            body = b'{"model": "x", "tokens": [%s1]}' % (b"1, " * (most << 10))
            assert server.request("POST", path, body)[0] == 413, path
            assert server.request("POST", path, b'{"a":')[0] == 400, path
    with report.check("embeddings: 501 with what to do", server):
        assert server.json("POST", "/v1/embeddings", {"input": "x"},
                           want=501)["error"]["code"] == "embeddings_not_served"


# ---- steering ----

def create(text, **fields):
    return {"type": "response.create", "input": text, "store": False, **fields}


def steer(response_id, text):
    return {"type": "response.steer", "previous_response_id": response_id, "input": text}


def read_until(s, kind):
    seen = []
    while not seen or seen[-1]["type"] != kind:
        seen.append(s.read_json())
        assert seen[-1]["type"] != "error", seen[-1]
    return seen


def begin(s, text, **fields):
    """The id of a response whose text has begun."""
    s.send_json(create(text, **fields))
    response_id = read_until(s, "response.created")[-1]["response"]["id"]
    read_until(s, "response.output_text.delta")
    return response_id


def check_steering(report, server):
    with report.check("steer: the answer ends at a line, and all of it is cached", server):
        with RawSocket(server.port) as s:
            r1 = begin(s, "go on for long", stream_id="a", instructions="be brief")
            s.send_json(steer(r1, "only three"))
            events = read_until(s, "response.incomplete")
            said = events[-1]["response"]
            accepted = [e for e in events if e["type"] == "response.steer.accepted"][0]
            assert accepted["stream_id"] == "a" and accepted["steer"]["id"].startswith("steer_")
            numbers = [e["sequence_number"] for e in events]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers
            assert said["incomplete_details"] == {"reason": "steered"}, said
            assert said["output"][0]["status"] == "incomplete"
            text = said["output"][0]["content"][0]["text"]
            assert "\n" in text and len(text) < 1500, len(text)
            again = read_until(s, "response.completed")
            assert again[0]["type"] == "response.created" and again[0]["sequence_number"] == 0
            assert all(e["stream_id"] == "a" for e in again)
            next_ = again[-1]["response"]
            assert next_["previous_response_id"] == r1 and next_["instructions"] == "be brief"
            assert next_["output"][0]["content"][0]["text"] == "Three."
            had = said["usage"]["input_tokens"] + said["usage"]["output_tokens"]
            cached = next_["usage"]["input_tokens_details"]["cached_tokens"]
            assert had - 64 <= cached <= had, (had, cached)
    with report.check("steer: the successor equals the answer of a server that reads all of it",
                      server):
        told = {"include": ["message.output_text.logprobs"], "top_logprobs": 20}
        with RawSocket(server.port) as s:
            r1 = begin(s, "go on for long", **told)
            s.send_json(steer(r1, "only three"))
            first = read_until(s, "response.incomplete")[-1]["response"]
            next_ = read_until(s, "response.completed")[-1]["response"]
        said = [p["text"] for p in first["output"][0]["content"]]
        talk = [{"role": "user", "content": "go on for long"},
                {"role": "assistant", "content": said[0]},
                {"role": "user", "content": "only three"}]
        with Server(SCRIPT) as other:
            whole = other.json("POST", "/v1/responses", {"input": talk, "store": False, **told})
        assert whole["usage"]["input_tokens_details"]["cached_tokens"] == 0, whole["usage"]
        assert next_["usage"]["input_tokens_details"]["cached_tokens"] > 0, next_["usage"]
        assert next_["usage"]["input_tokens"] == whole["usage"]["input_tokens"], next_["usage"]
        # Numbers are printed with as many digits as restore their bits.
        ours, theirs = (r["output"][0]["content"][0]["logprobs"] for r in (next_, whole))
        assert len(ours) >= 2 and len(ours[0]["top_logprobs"]) == 20, ours
        assert ours == theirs, (ours[0], theirs[0])
    with report.check("steer: calls are answered first, by the create that continues", server):
        with RawSocket(server.port) as s:
            r1 = begin(s, "one file slowly", tools=RESPONSE_TOOLS)
            s.send_json(steer(r1, "only three"))
            events = read_until(s, "response.completed")
            item = [e["item"] for e in events if e["type"] == "response.output_item.done"][-1]
            pending = read_until(s, "response.steer.pending")[-1]
            assert pending["required_input"] == [{"type": "function_call_output", "name": "ls",
                                                  "call_id": item["call_id"]}], pending
            result = {"type": "function_call_output", "call_id": item["call_id"], "output": "ok"}
            s.send_json(create([result], previous_response_id=r1, tools=RESPONSE_TOOLS))
            events = read_until(s, "response.completed")
            assert text_of(events) == "The file says so.", events[-1]
    with report.check("steer: refused, and the input is returned", server):
        with RawSocket(server.port) as s, RawSocket(server.port) as other:
            r1 = begin(s, "go on for long")
            other.send_json(steer(r1, "x"))
            failed = read_until(other, "response.steer.failed")[-1]
            assert failed["error"]["code"] == "response_not_found" and "stream_id" not in failed
            item = {"role": "user", "content": "x"}
            for value in (5, [], {}, None, ["x"], [{**item, "role": "system"}], [{"content": "x"}],
                          [{**item, "role": "assistant"}], [{**item, "content": []}],
                          [{**item, "name": "x"}], [{**item, "status": 5}], [{**item, "id": 5}],
                          [{**item, "type": "reasoning"}], [item, {**item, "role": "tool"}],
                          [{**item, "content": [{"type": "input_text"}]}],
                          [{"type": "item_reference", "id": "x"}]):
                s.send_json(steer(r1, value))
                failed = read_until(s, "response.steer.failed")[-1]
                assert failed["error"]["code"] == "invalid_input", failed
                assert failed["steer"] == {"previous_response_id": r1, "input": value}, failed
            for field in ("stream_id", "model", "event_id"):
                s.send_json({**steer(r1, "x"), field: None})
                failed = read_until(s, "response.steer.failed")[-1]
                assert field in failed["error"]["message"] and "id" not in failed["steer"], failed
            s.send_json(steer(r1, "x" * (1 << 20)))
            failed = read_until(s, "response.steer.failed")[-1]
            assert failed["error"]["code"] == "too_many_pending_steers", failed["error"]
            assert "bytes" in failed["error"]["message"], failed["error"]
            s.send_json({"type": "response.cancel", "response_id": r1})
            read_until(s, "response.incomplete")
            s.send_json(steer(r1, "x"))
            failed = read_until(s, "response.steer.failed")[-1]
            # The engine may need a moment to release it.
            assert failed["error"]["code"] in ("response_already_completed",
                                               "response_not_active"), failed


def storm(server, seed):
    """Steers, cancels and creates in any order on four lanes; an accepted steer is committed or
    returned."""
    rng = random.Random(seed)
    lanes = {name: None for name in "abcd"}
    open_steers, begun = {}, {}
    with RawSocket(server.port) as s:
        def read():
            event = s.read_json()
            kind, name = event["type"], event.get("stream_id")
            if kind == "response.created":
                lanes[name] = event["response"]["id"]
                # All steers that waited for the one before it, or left with it, are in this one.
                for key in [k for k, v in open_steers.items()
                            if v == event["response"]["previous_response_id"]]:
                    del open_steers[key]
            elif kind == "response.steer.accepted":
                open_steers[event["steer"]["id"]] = event["steer"]["previous_response_id"]
            elif kind == "response.steer.failed" and "id" in event["steer"]:
                assert open_steers.pop(event["steer"]["id"], None), event
            elif kind in ("response.completed", "response.incomplete"):
                begun[name] = begun.get(name, 0) + 1
            return kind

        for i in range(40):
            name = rng.choice("abcd")
            act = rng.random()
            if act < 0.4 or not lanes[name]:
                s.send_json(create(rng.choice(["go on for long", "say hello", "count"]),
                                   stream_id=name))
                while read() != "response.created":
                    pass
            elif act < 0.85:
                s.send_json(steer(lanes[name], "only three"))
            else:
                s.send_json({"type": "response.cancel", "response_id": lanes[name]})
            for _ in range(rng.randrange(6)):
                # If every request is answered, no more events come.
                if rng.random() < 0.5 and (s.data or select.select([s.socket], [], [], 0.05)[0]):
                    read()
        # A last request that all lanes answer: by then all earlier events have been sent.
        for name in "abcd":
            if lanes[name]:
                s.send_json({"type": "response.cancel", "response_id": lanes[name]})
        for name in "abcd":
            s.send_json(create("say hello", stream_id=name, metadata={"last": "yes"}))
        left = set("abcd")
        while left:
            event = s.read_json()
            kind = event["type"]
            if kind == "response.created":
                previous = event["response"]["previous_response_id"]
                for key in [k for k, v in open_steers.items() if v == previous]:
                    del open_steers[key]
            elif kind == "response.steer.accepted":
                open_steers[event["steer"]["id"]] = event["steer"]["previous_response_id"]
            elif kind == "response.steer.failed" and "id" in event["steer"]:
                assert open_steers.pop(event["steer"]["id"], None), event
            elif kind == "response.completed" and event["response"]["metadata"]:
                left.discard(event.get("stream_id"))
        assert not open_steers, open_steers


def check_storm(report, server):
    with report.check("steer: in any order, each is committed or returned", server):
        for seed in range(6):
            storm(server, seed)
    with report.check("steer: a socket that dies in any state leaves nothing over", server):
        for n in range(4):
            with RawSocket(server.port) as s:
                r1 = begin(s, "one file slowly" if n % 2 else "go on for long",
                           tools=RESPONSE_TOOLS)
                s.send_json(steer(r1, "only three"))
                if n >= 2:
                    read_until(s, "response.steer.accepted")
        assert server.json("GET", "/health")["status"] == "ok"


# ---- one log of tokens ----

SYSTEM = "You are an agent. " + " ".join("Rule %d: be careful with file %d." % (i, i)
                                         for i in range(60))
RESULT = "the text of A: " + " ".join("line%d" % i for i in range(40))


def computed(server):
    return server.metric("cerium_prompt_tokens_total") - server.metric("cerium_reused_tokens_total")


def computed_by(server, path, body):
    """(answer, tokens of its prompt that the engine computed)."""
    before = computed(server)
    said = server.json("POST", path, body)
    return said, computed(server) - before


def check_one_log(report, server):
    """Begun as Codex does, continued as Claude Code does, then in Chat, then in Ollama's API."""
    names = ["ls"] + ["tool_%d" % i for i in range(12)]

    def tools(make):
        return [make({"name": n, "description": "what %s does" % n, "parameters": SCHEMA})
                for n in names]

    flat = tools(lambda f: {"type": "function", "strict": False, **f})
    nested = tools(lambda f: {"type": "function", "function": f})
    inputs = tools(lambda f: {"name": f["name"], "description": f["description"],
                              "input_schema": f["parameters"]})
    with report.check("one log of tokens under all dialects: only new tokens are computed", server):
        said, n = computed_by(server, "/v1/responses", {
            "instructions": SYSTEM, "tools": flat, "store": False,
            "input": [{"type": "message", "role": "user",
                       "content": [{"type": "input_text", "text": "one file"}]}]})
        used = said["usage"]["input_tokens"] + said["usage"]["output_tokens"]
        found = said["usage"]["input_tokens_details"]["cached_tokens"]  # of other checks' prompts
        assert n + found == said["usage"]["input_tokens"] and n > 800, (n, said["usage"])
        one = [o for o in said["output"] if o["type"] == "function_call"][0]
        text = said["output"][0]["content"][0]["text"]
        block = {"type": "tool_use", "id": one["call_id"], "name": "ls",
                 "input": json.loads(one["arguments"])}
        said, n = computed_by(server, "/v1/messages", {
            "max_tokens": 50, "tools": inputs, "system": [
                {"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}],
            "messages": user("one file") + [
                {"role": "assistant", "content": [{"type": "text", "text": text}, block]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block["id"],
                                              "content": RESULT}]}]})
        usage = said["usage"]
        whole = usage["input_tokens"] + usage["cache_read_input_tokens"]
        # The last token of an answer was sampled but not computed.
        new = whole - used + 1
        assert 100 < n <= new, (n, new, usage)
        used = whole + usage["output_tokens"]
        answer = said["content"][0]["text"]
        talk = [{"role": "system", "content": SYSTEM}, *user("one file"),
                {"role": "assistant", "content": text, "tool_calls": [
                    {"id": block["id"], "type": "function", "function": {
                        "name": "ls", "arguments": one["arguments"]}}]},
                {"role": "tool", "tool_call_id": block["id"], "content": RESULT},
                {"role": "assistant", "content": answer}, *user("say hello")]
        said, n = computed_by(server, "/v1/chat/completions", {"messages": talk, "tools": nested})
        usage = said["usage"]
        new = usage["prompt_tokens"] - used + 1
        assert 0 < n <= new < 60, (n, new, usage)
        used = usage["prompt_tokens"] + usage["completion_tokens"]
        talk += [said["choices"][0]["message"], *user("count")]
        talk[2]["tool_calls"][0]["function"]["arguments"] = block["input"]
        said, n = computed_by(server, "/api/chat", {"messages": talk, "tools": nested,
                                                    "stream": False})
        new = said["prompt_eval_count"] - used + 1
        assert 0 < n <= new < 60, (n, new, said)


def check_tokens(report, server):
    with report.check("tokens that the model does not have are refused by name", server):
        for path in ("/v1/completions", "/completion", "/v1/chat/completions"):
            for token in (10 ** 6, 2 ** 31 - 1, 2 ** 31, -1, 2 ** 63, 10 ** 30):
                body = {"prompt": [1, token], "max_tokens": 2, "n_predict": 2}
                status, _, data = server.request("POST", path, body)
                assert status == 400, (path, token, status, data[:200])


def main():
    report = Report("dialects")
    with Server(SCRIPT) as server:
        check_cut_calls(report, server)
        check_requests(report, server)
        check_messages(report, server)
        check_ollama(report, server)
        check_tokens(report, server)
        check_one_log(report, server)
        check_steering(report, server)
        check_storm(report, server)
        with report.check("it shuts down by itself", server):
            assert server.stop(seconds=30 * PATIENCE) == 0
    check_shapes(report)
    report.end()


if __name__ == "__main__":
    main()
