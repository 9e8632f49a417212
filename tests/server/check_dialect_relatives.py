"""check_dialect_relatives.py - odd requests in every API: each is answered, or refused in one line
that names the field.  A row is an API's path, what differs from a plain request, the status, and
what the answer must contain: {path: value}, where a value is equal, or a regular expression."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from harness import Report, Server, call, line  # noqa: E402

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
NAMED = [{"name": "ls", "input_schema": SCHEMA}]
NESTED = [{"type": "function", "function": {"name": "ls", "parameters": SCHEMA}}]
FLAT = [{"type": "function", "name": "ls", "parameters": SCHEMA}]
SCRIPT = [line("The file says so.", repeat=True, role="tool"),
          line("Looking.\n" + call("ls", path="A") + "\n" + call("ls", path="B"), repeat=True,
               last="two calls"),
          line("one two three four five", repeat=True, last="long"),
          line("Hello there.", repeat=True)]
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ls",
                                         "input": {"path": "A"}}]}
ASKED = {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {
    "name": "ls", "arguments": "{}"}}]}
MESSAGES, CHAT, RESPONSES = "/v1/messages", "/v1/chat/completions", "/v1/responses"
COMPLETIONS, COMPLETION, COUNT = "/v1/completions", "/completion", "/v1/messages/count_tokens"
OLLAMA, GENERATE = "/api/chat", "/api/generate"
PLAIN = {
    MESSAGES: {"model": "m", "max_tokens": 90, "messages": [{"role": "user", "content": "say"}]},
    COUNT: {"messages": [{"role": "user", "content": "say"}]},
    CHAT: {"max_tokens": 90, "messages": [{"role": "user", "content": "say"}]},
    RESPONSES: {"max_output_tokens": 90, "input": "say"},
    COMPLETIONS: {"max_tokens": 4, "prompt": "int main", "temperature": 0},
    COMPLETION: {"n_predict": 4, "prompt": "int main", "temperature": 0},
    OLLAMA: {"stream": False, "messages": [{"role": "user", "content": "say"}]},
    GENERATE: {"stream": False, "prompt": "int main", "options": {"num_predict": 4}},
}


def user(content):
    return [{"role": "user", "content": content}]


def result(**fields):
    return {"messages": [*user("x"), USE, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", **fields}]}], "tools": NAMED}


class Re(str):
    """A regular expression that is found in the value."""


TEXT = {"content.0.text": "Hello there.", "stop_reason": "end_turn"}
SAYS = {"choices.0.message.content": "Hello there.", "choices.0.finish_reason": "stop"}
DONE = {"output.0.content.0.text": "Hello there.", "status": "completed"}
TWO_USES = {"content.1.input.path": "A", "content.2.input.path": "B", "stop_reason": "tool_use"}


def wrong(field):
    """The three forms of an error: its message, or param, names the field."""
    return {"error": Re(re.escape(field))}


TALKS = [
    # Messages
    (MESSAGES, {"messages": user("")}, 200, TEXT),
    (MESSAGES, {"messages": user([])}, 200, TEXT),
    (MESSAGES, {"messages": user([{"type": "text", "text": ""}])}, 200, TEXT),
    (MESSAGES, {"messages": user([{"type": "hologram"}, {"type": "text", "text": "say"}])}, 200,
     TEXT),
    (MESSAGES, {"messages": user([IMAGE, {"type": "text", "text": "say"}])}, 200, TEXT),
    (MESSAGES, {"messages": user(["x"])}, 400, wrong("messages.0.content.0")),
    (MESSAGES, {"messages": user([{"type": "text"}])}, 400, wrong("messages.0.content.0.text")),
    (MESSAGES, {"messages": []}, 400, wrong("messages")),
    (MESSAGES, {"messages": None}, 400, wrong("messages")),
    (MESSAGES, {"messages": [{"role": "tool", "content": "x"}]}, 400, wrong("messages.0.role")),
    (MESSAGES, {"messages": [{"role": "assistant", "content": "Hi"}, *user("say")]}, 200, TEXT),
    (MESSAGES, {"messages": [*user("say"), {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "t"}, {"type": "text", "text": "y"}]}, *user("say")]}, 200,
     TEXT),
    (MESSAGES, {"system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
                           {"type": "text", "text": "b"}]}, 200, TEXT),
    (MESSAGES, {"system": []}, 200, TEXT),
    (MESSAGES, {"system": {"type": "text", "text": "a"}}, 400, wrong("system")),
    (MESSAGES, result(content=[IMAGE]), 200, {"content.0.text": "The file says so."}),
    (MESSAGES, result(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), 200,
     {"content.0.text": "The file says so."}),
    (MESSAGES, result(content=None), 200, {"content.0.text": "The file says so."}),
    (MESSAGES, result(content="no", is_error=True), 200, {"content.0.text": "The file says so."}),
    (MESSAGES, result(content=5), 400, wrong("messages.2.content.0.content")),
    (MESSAGES, result(tool_use_id="t2"), 400, wrong("messages.2.content.0")),
    (MESSAGES, result(tool_use_id=None), 400, wrong("messages.2.content.0.tool_use_id")),
    (MESSAGES, {"messages": [*user("x"), USE, *user("say")], "tools": NAMED}, 200, TEXT),
    (MESSAGES, {"messages": user("two calls"), "tools": NAMED}, 200, TWO_USES),
    (MESSAGES, {"messages": user("two calls"), "tools": NAMED, "tool_choice": {"type": "any"}}, 200,
     TWO_USES),
    (MESSAGES, {"messages": user("two calls"), "tools": NAMED,
                "tool_choice": {"type": "tool", "name": "ls"}}, 200, TWO_USES),
    (MESSAGES, {"messages": user("two calls"), "tools": NAMED, "tool_choice": {"type": "none"}},
     200, {"stop_reason": "end_turn", "content.1": None}),
    (MESSAGES, {"tools": NAMED, "tool_choice": {"type": "tool", "name": "no"}}, 400,
     wrong("tool_choice")),
    (MESSAGES, {"tools": NAMED, "tool_choice": {"type": "perhaps"}}, 400,
     wrong("tool_choice.type")),
    (MESSAGES, {"tools": NAMED, "tool_choice": "auto"}, 400, wrong("tool_choice")),
    (MESSAGES, {"tools": [{"name": "ls", "input_schema": 5}]}, 400, wrong("tools.0.input_schema")),
    (MESSAGES, {"tools": [*NAMED, {"type": "bash_20250124", "name": "bash"}]}, 200, TEXT),
    (MESSAGES, {"messages": user("two calls"), "tools": NAMED, "max_tokens": 16}, 200,
     {"stop_reason": "max_tokens", "content.0.text": "Looking.", "content.1": None}),
    (MESSAGES, {"max_tokens": 1.5}, 400, wrong("max_tokens")),
    (MESSAGES, {"max_tokens": "5"}, 400, wrong("max_tokens")),
    (MESSAGES, {"stop_sequences": [5]}, 400, wrong("stop_sequences")),
    (MESSAGES, {"messages": user("long"), "stop_sequences": ["wo thr"]}, 200,
     {"content.0.text": "one t", "stop_reason": "stop_sequence", "stop_sequence": "wo thr"}),
    (MESSAGES, {"thinking": "on"}, 400, wrong("thinking")),
    (MESSAGES, {"thinking": {"type": "between_tools"}}, 200, TEXT),
    (MESSAGES, {"stream": "yes"}, 400, wrong("stream")),
    (MESSAGES, {"model": 5}, 400, wrong("model")),
    # Chat
    (CHAT, {"n": 2}, 200, {**SAYS, "choices.1.message.content": "Hello there.",
                           "usage.completion_tokens": 8}),
    (CHAT, {"messages": user("")}, 200, SAYS),
    (CHAT, {"messages": user(None)}, 200, SAYS),
    (CHAT, {"messages": user([{"type": "image_url", "image_url": {"url": "data:,"}},
                              {"type": "text", "text": "say"}])}, 200, SAYS),
    (CHAT, {"messages": [{"role": "assistant", "content": None}, *user("say")]}, 200, SAYS),
    (CHAT, {"messages": [{"role": "alien", "content": "x"}]}, 400, wrong("messages[0].role")),
    (CHAT, {"messages": [*user("x"), {"role": "tool", "content": "r"}]}, 400,
     wrong("messages[1].tool_call_id")),
    (CHAT, {"messages": [*user("x"), ASKED, {"role": "tool", "tool_call_id": "a", "content": [
        {"type": "text", "text": "r1"}, {"type": "text", "text": "r2"}]}]}, 200,
     {"choices.0.message.content": "The file says so."}),
    (CHAT, {"messages": user("two calls"), "tools": NESTED}, 200,
     {"choices.0.message.tool_calls.1.function.arguments": '{"path": "B"}',
      "choices.0.finish_reason": "tool_calls"}),
    (CHAT, {"messages": user("two calls"), "tools": NESTED, "parallel_tool_calls": False}, 200,
     {"choices.0.message.tool_calls.1": None, "choices.0.finish_reason": "tool_calls"}),
    (CHAT, {"messages": user("two calls"), "tools": NESTED, "max_tokens": 40}, 200,
     {"choices.0.message.tool_calls.0.function.arguments": '{"path": "A"}',
      "choices.0.message.tool_calls.1": None, "choices.0.finish_reason": "length"}),
    (CHAT, {"tool_choice": "required"}, 400, wrong("tool_choice")),
    (CHAT, {"tools": NESTED, "tool_choice": "sometimes"}, 400, wrong("tool_choice")),
    (CHAT, {"messages": user("two calls"), "functions": [NESTED[0]["function"]]}, 200,
     {"choices.0.message.function_call.name": "ls", "choices.0.finish_reason": "function_call"}),
    (CHAT, {"stop": "lo th"}, 200, {"choices.0.message.content": "Hel"}),
    (CHAT, {"stop": ""}, 200, SAYS),
    (CHAT, {"top_logprobs": 3}, 400, wrong("top_logprobs")),
    (CHAT, {"logprobs": True, "top_logprobs": 1}, 200,
     {"choices.0.logprobs.content.0.token": "Hel"}),
    (CHAT, {"logit_bias": {"999999999": -100}}, 400, wrong("logit_bias")),
    (CHAT, {"response_format": {"type": "xml"}}, 400, wrong("response_format.type")),
    (CHAT, {"guided_regex": "("}, 400, wrong("guided_regex")),
    (CHAT, {"structured_outputs": {"regex": "("}}, 400, wrong("structured_outputs.regex")),
    (CHAT, {"grammar": "root ::= ("}, 400, wrong("'grammar'")),
    (CHAT, {"max_tokens": 0}, 400, wrong("max_tokens")),
    (CHAT, {"modalities": ["text", "audio"]}, 200, {"cerium.warnings.0.param": "modalities"}),
    # Responses
    (RESPONSES, {"input": ""}, 200, DONE),
    (RESPONSES, {"input": 5}, 400, wrong("input")),
    (RESPONSES, {"input": [{"type": "hologram"}]}, 200, DONE),
    (RESPONSES, {"input": [{"role": "user", "content": [
        {"type": "input_text", "text": "say"}, {"type": "input_image", "image_url": "data:,"}]}]},
     200, DONE),
    (RESPONSES, {"input": [{"type": "item_reference", "id": "msg_no"}]}, 400, wrong("input[0].id")),
    (RESPONSES, {"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, 400,
     wrong("input[0].call_id")),
    (RESPONSES, {"input": "two calls", "tools": FLAT, "max_output_tokens": 16}, 200,
     {"status": "incomplete", "output.0.content.0.text": "Looking.", "output.1": None}),
    (RESPONSES, {"input": "two calls", "tools": FLAT, "max_output_tokens": 40}, 200,
     {"status": "incomplete", "output.1.arguments": '{"path": "A"}',
      "output.1.status": "completed"}),
    (RESPONSES, {"previous_response_id": "resp_no"}, 400, wrong("previous_response_id")),
    (RESPONSES, {"background": True, "store": False}, 400, wrong("background")),
    (RESPONSES, {"conversation": "c"}, 400, wrong("conversation")),
    (RESPONSES, {"max_output_tokens": 0}, 400, wrong("max_output_tokens")),
    (RESPONSES, {"truncation": "x"}, 400, wrong("truncation")),
    # Ollama
    (OLLAMA, {"messages": None}, 200, {"done_reason": "load"}),
    (OLLAMA, {"messages": [{"role": "user", "content": "say", "images": ["AA=="]}]}, 200,
     {"message.content": "Hello there."}),
    (OLLAMA, {"messages": user("two calls"), "tools": NESTED}, 200,
     {"message.tool_calls.1.function.arguments.path": "B", "done_reason": "stop"}),
    (OLLAMA, {"messages": user("two calls"), "tools": NESTED, "options": {"num_predict": 16}}, 200,
     {"message.tool_calls": None, "message.content": "Looking.", "done_reason": "length"}),
    (OLLAMA, {"options": {"stop": ["lo th"]}}, 200, {"message.content": "Hel"}),
    (OLLAMA, {"options": []}, 400, wrong("options")),
    (OLLAMA, {"format": "xml"}, 400, wrong("format")),
    (OLLAMA, {"keep_alive": {}}, 400, wrong("keep_alive")),
    (OLLAMA, {"messages": [{"role": "alien", "content": "x"}]}, 400, wrong("role")),
]

COMPUTED = [
    (COMPLETIONS, {"prompt": []}, 400, wrong("prompt")),
    (COMPLETIONS, {"prompt": ""}, 400, wrong("prompt")),
    (COMPLETIONS, {"prompt": [[5, 6], [7]]}, 200, {"usage.prompt_tokens": 3, "choices.1.index": 1}),
    (COMPLETIONS, {"prompt": [5, -1]}, 400, wrong("prompt[1]")),
    (COMPLETIONS, {"prompt": "\U0001f600"}, 200, {"usage.completion_tokens": 4}),
    (COMPLETIONS, {"echo": True, "max_tokens": 0}, 200, {"choices.0.text": "int main",
                                                         "choices.0.finish_reason": "length"}),
    (COMPLETIONS, {"echo": True, "logprobs": 1}, 200, {"cerium.warnings.0.param": "logprobs"}),
    (COMPLETIONS, {"n_predict": 0}, 200, {"choices.0.text": "",
                                          "choices.0.finish_reason": "length"}),
    (COMPLETIONS, {"logprobs": True}, 400, wrong("logprobs")),
    (COMPLETIONS, {"best_of": 1, "n": 2}, 400, wrong("best_of")),
    (COMPLETIONS, {"n": 2, "temperature": 1, "seed": 5}, 200, {"usage.completion_tokens": 8}),
    (COMPLETIONS, {"guided_choice": ["yes", "no"]}, 200, {"choices.0.text": Re("^(yes|no)$")}),
    (COMPLETIONS, {"guided_regex": "[0-9]{3}"}, 200, {"choices.0.text": Re("^[0-9]{3}$"),
                                                      "choices.0.finish_reason": "stop"}),
    (COMPLETIONS, {"guided_json": {"type": "nothing"}}, 200,
     {"cerium.warnings.0.param": "guided_json"}),
    (COMPLETIONS, {"logit_bias": {"abc": 1}}, 400, wrong("logit_bias.abc")),
    (COMPLETIONS, {"logit_bias": {"60000": 1}}, 400, wrong("logit_bias")),
    (COMPLETION, {"prompt": ["int", 5, "x"]}, 200, {"tokens_evaluated": 3, "stop_type": "limit"}),
    (COMPLETION, {"prompt": ["int", 999999999]}, 400, wrong("prompt")),
    (COMPLETION, {"prompt": ["int", 5, {}]}, 400, wrong("prompt[2]")),
    (COMPLETION, {"prompt": ["int", 5, " x" * 9000]}, 400, wrong("context")),
    (COMPLETION, {"prompt": ["a", "b"]}, 400, wrong("prompt")),
    (COMPLETION, {"n_predict": 0}, 200, {"tokens_predicted": 0, "stop_type": "limit"}),
    (COMPLETION, {"n_predict": -1, "stop": ["\n"]}, 200, {"stop_type": "word",
                                                          "stopping_word": "\n"}),
    (COMPLETION, {"logit_bias": [["int", -100]]}, 400, wrong("logit_bias[0]")),
    (COMPLETION, {"n_probs": 2}, 200, {"cerium.warnings.0.param": "n_probs"}),
    (COMPLETION, {"top_k": 1}, 200, {"generation_settings.top_p": 1,
                                     "generation_settings.repeat_penalty": 1}),
    (GENERATE, {"prompt": ""}, 200, {"done_reason": "load"}),
    (GENERATE, {"raw": True, "system": "s"}, 200, {"cerium.warnings.0.param": "system"}),
    (GENERATE, {"format": "xml"}, 400, wrong("format")),
    (GENERATE, {"format": "json"}, 200, {"response": Re("^{")}),
    (GENERATE, {"context": [1]}, 200, {"cerium.warnings.0.param": "context"}),
]


def at(value, path):
    """The value at a.b.0; None where there is none."""
    for key in path.split("."):
        if isinstance(value, list):
            value = value[int(key)] if int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def check_rows(report, server, rows):
    for path, more, status, wants in rows:
        body = {**PLAIN[path], **more}
        with report.check("%s %s" % (path, json.dumps(more)[:100]), server):
            got, _, data = server.request("POST", path, body)
            assert got == status, (got, data[:300])
            answer = json.loads(data)
            for name, want in wants.items():
                found = at(answer, name)
                if isinstance(want, Re):
                    found = found if isinstance(found, str) else json.dumps(found)
                    assert re.search(want, found), (name, found[:300], want)
                    assert name != "error" or found.count("\n") == 0, found
                else:
                    assert found == want, (name, found, want)


def check_bytes(report, server):
    """Bodies that a client library makes of odd text, or that are not JSON."""
    ask = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"%s"}]}'
    cases = [(ask % b"\\ud83d\\ude00", "application/json", 200),
             (ask % b"\\ud83d x", "application/json", 200),
             (ask % b"a\\u0000b", "application/json", 200),
             (ask % b"\xf0\x9f\x98\x80", "application/json; charset=utf-8", 200),
             (b"\xef\xbb\xbf" + ask % b"x", "application/json", 200),
             (ask % b"x", "text/plain", 200), (ask % b"\xff", "application/json", 400),
             (ask % b"\xed\xa0\x80", "application/json", 400), (b"[]", "application/json", 400),
             (b"", "application/json", 400), (b"a=b", "application/x-www-form-urlencoded", 400),
             ((ask % b"x").decode().encode("utf-16"), "application/json", 400)]
    for path in (MESSAGES, CHAT, OLLAMA):
        for body, kind, status in cases:
            with report.check("%s as %s at %s" % (body[-32:], kind, path), server):
                got, _, data = server.request("POST", path, body, {"Content-Type": kind})
                assert got == status, (got, data[:200])
                assert got == 200 or data.count(b"\n") <= 1, data


def check_counts(report, server):
    """count_tokens equals the tokens that the message then reads, whatever its content."""
    for more in ({}, {"system": [{"type": "text", "text": "Be."}]}, {"tools": NAMED},
                 result(content="r"), {"messages": user([IMAGE])},
                 {"messages": [*user("say"), {"role": "assistant", "content": "Hel"}]},
                 {"system": "x-anthropic-billing-header: cc_version=2; cch=1;"},
                 {"thinking": {"type": "enabled", "budget_tokens": 1024}}):
        with report.check("counted as read: " + json.dumps(more)[:90], server):
            counted = server.json("POST", COUNT, {**PLAIN[COUNT], **more})["input_tokens"]
            used = server.json("POST", MESSAGES, {**PLAIN[MESSAGES], **more})["usage"]
            assert counted == used["input_tokens"] + used["cache_read_input_tokens"], (counted,
                                                                                       used)


def main():
    report = Report("dialect_relatives")
    with Server(replay=SCRIPT, args=["--chat-form", "qwen3", "--guard", "off"]) as server:
        check_rows(report, server, TALKS)
        check_bytes(report, server)
        check_counts(report, server)
    with Server(args=["--guard", "off"]) as server:
        check_rows(report, server, COMPUTED)
        with report.check("the defaults of /props may be sent back", server):
            params = server.json("GET", "/props")["default_generation_settings"]["params"]
            plain = server.json("POST", COMPLETION, {"prompt": "int main", "n_predict": 8})
            again = server.json("POST", COMPLETION, {**params, "prompt": "int main",
                                                     "n_predict": 8})
            assert plain["content"] == again["content"] and "cerium" not in again, again
    report.end()


if __name__ == "__main__":
    main()
