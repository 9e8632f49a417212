"""check_thoughts.py - budgets of thoughts: enforced in every API, reported in usage, and the answer
continues after them."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from harness import Report, Server, call, line  # noqa: E402

WORDS = " ".join("thought%d" % i for i in range(40))
CODE = "```python\n" + "".join("value_%d = compute(%d)\n" % (i, i) for i in range(12)) + "```"
SCRIPT = [
    line("<think>\n" + WORDS + "\n</think>\n\nThe answer.", repeat=True, last="think"),
    line("<think>\n" + CODE + "\n</think>\n\nThe answer.", repeat=True, last="code"),
    line("<think>\n" + WORDS + "\n</think>\n\n" + call("ls", path="A"), repeat=True, last="call"),
    line("<think>\nbrief\n</think>\n\nThe answer.", repeat=True, last="short"),
    line("<think>\n" + WORDS, repeat=True, last="endless"),
    line("Plain.", repeat=True, last="plain"),
]
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = [{"type": "function", "function": {"name": "ls", "parameters": SCHEMA}}]
END = 8  # tokens allowed for the words at a thought's end


def talk(text):
    return [{"role": "user", "content": text}]


def events(data):
    lines = data.decode().splitlines()
    return [json.loads(x[6:]) for x in lines if x.startswith("data: ") and x != "data: [DONE]"]


def chat(server, text, stream, **more):
    """(thought, text, tokens of thoughts, finish reason, calls)"""
    body = {"messages": talk(text), "stream": stream, **more}
    if stream:
        body["stream_options"] = {"include_usage": True}
    status, _, data = server.request("POST", "/v1/chat/completions", body)
    assert status == 200, data
    if not stream:
        said = json.loads(data)
        choice, message = said["choices"][0], said["choices"][0]["message"]
        return (message.get("reasoning_content") or "", message["content"] or "",
                said["usage"]["completion_tokens_details"]["reasoning_tokens"],
                choice["finish_reason"], message.get("tool_calls"))
    thought = said = ""
    why = usage = None
    for chunk in events(data):
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            thought += choice["delta"].get("reasoning_content") or ""
            said += choice["delta"].get("content") or ""
            why = choice["finish_reason"] or why
    return thought, said, usage["completion_tokens_details"]["reasoning_tokens"], why, None


def messages(server, text, stream, **more):
    body = {"messages": talk(text), "max_tokens": 4000, "stream": stream, **more}
    status, _, data = server.request("POST", "/v1/messages", body)
    assert status == 200, data
    if stream:
        thought = said = ""
        for e in events(data):
            thought += e.get("delta", {}).get("thinking", "")
            said += e.get("delta", {}).get("text", "")
            if e["type"] == "message_delta":
                return (thought, said, e["usage"]["output_tokens_details"]["thinking_tokens"],
                        e["delta"]["stop_reason"], None)
    said = json.loads(data)
    return ("".join(b.get("thinking", "") for b in said["content"]),
            "".join(b.get("text", "") for b in said["content"]),
            said["usage"]["output_tokens_details"]["thinking_tokens"], said["stop_reason"], None)


def responses(server, text, stream, **more):
    body = {"input": text, "stream": stream, "store": False, **more}
    status, _, data = server.request("POST", "/v1/responses", body)
    assert status == 200, data
    said = events(data)[-1]["response"] if stream else json.loads(data)
    thought = text = ""
    for item in said["output"]:
        for part in item.get("content") or []:
            if item["type"] == "reasoning":
                thought += part["text"]
            else:
                text += part["text"]
    return (thought, text, said["usage"]["output_tokens_details"]["reasoning_tokens"],
            said["status"], None)


def ollama(server, text, stream, **more):
    body = {"messages": talk(text), "stream": stream, **more}
    status, _, data = server.request("POST", "/api/chat", body)
    assert status == 200, data
    lines = [json.loads(x) for x in data.decode().splitlines()]
    return ("".join(x["message"].get("thinking", "") for x in lines),
            "".join(x["message"]["content"] for x in lines), None, lines[-1]["done_reason"], None)


FORMS = [
    ("Chat, llama.cpp's word", chat, lambda n: {"thinking_budget_tokens": n}),
    ("Chat, llama.cpp's other word", chat, lambda n: {"reasoning_budget": n}),
    ("Chat, vLLM's word", chat, lambda n: {"thinking_token_budget": n}),
    ("Chat, a template's variable", chat, lambda n: {"chat_template_kwargs":
                                                     {"thinking_budget": n}}),
    ("Chat, OpenRouter's word", chat, lambda n: {"reasoning": {"max_tokens": n}}),
    ("Messages", messages, lambda n: {"thinking": {"type": "enabled", "budget_tokens": n}}),
    ("Responses", responses, lambda n: {"reasoning": {"max_tokens": n}}),
    ("Ollama", ollama, lambda n: {"thinking_budget_tokens": n}),
]


def check_forms(report, server, what):
    for name, ask, form in FORMS:
        for stream in (False, True):
            title = "%s%s%s" % (name, ", streamed" * stream, what)
            with report.check("a budget is enforced: " + title, server):
                whole, said, n_whole, _, _ = ask(server, "think", stream)
                assert whole.strip() == WORDS and said == "The answer.", (whole[:80], said)
                shortest = len(whole)
                for n in (64, 17, 1):
                    thought, said, used, why, _ = ask(server, "think", stream, **form(n))
                    assert said == "The answer." and WORDS.startswith(thought.strip()), (n, said)
                    assert len(thought) < shortest, (n, len(thought))
                    assert used is None or n - 2 <= used <= n + END, (n, used)
                    assert used is None or used < n_whole
                    assert why in ("stop", "end_turn", "completed"), why
                    shortest = len(thought)
                assert ask(server, "short", stream, **form(64))[0].strip() == "brief"
                assert ask(server, "plain", stream, **form(4))[:2] == ("", "Plain.")
                assert ask(server, "think", stream, **form(-1))[0] == whole


def check_more(report, server, what):
    with report.check("lines of code in a thought, and a call after it" + what, server):
        thought, said, used, _, _ = chat(server, "code", False, thinking_budget_tokens=40)
        assert said == "The answer." and CODE.startswith(thought.strip()), (thought, said)
        assert 38 <= used <= 40 + END, used
        for choice in ("auto", "required"):
            _, said, _, why, calls = chat(server, "call", False, tools=TOOLS, tool_choice=choice,
                                          thinking_budget_tokens=9)
            assert why == "tool_calls" and said == "", (why, said)
            assert json.loads(calls[0]["function"]["arguments"]) == {"path": "A"}, calls
    with report.check("a budget beside a cap, and a recorded thought without an end" + what,
                      server):
        _, said, used, why, _ = chat(server, "think", False, thinking_budget_tokens=20,
                                     max_tokens=12)
        assert said == "" and why == "length" and used <= 12, (said, used, why)
        thought, said, _, why, _ = chat(server, "endless", False, thinking_budget_tokens=20)
        assert thought and said == "" and why == "stop", (thought, said, why)
    with report.check("several answers have a budget each" + what, server):
        body = {"messages": talk("think"), "n": 3, "thinking_budget_tokens": 10}
        choices = server.json("POST", "/v1/chat/completions", body)["choices"]
        for choice in choices:
            assert choice["message"]["content"] == "The answer.", choice
            assert choice["message"]["reasoning_content"] == \
                choices[0]["message"]["reasoning_content"]


def check_wrong(report, server):
    with report.check("wrong types are refused with the field", server):
        for more, param in (({"thinking_budget_tokens": "many"}, "thinking_budget_tokens"),
                            ({"reasoning": {"max_tokens": 1.5}}, "reasoning.max_tokens"),
                            ({"reasoning": 3}, "reasoning"), ({"thinking": []}, "thinking")):
            body = {"messages": talk("plain"), **more}
            error = server.json("POST", "/v1/chat/completions", body, want=400)["error"]
            assert error["param"] == param, error
        body = {"messages": talk("plain"), "max_tokens": 9, "thinking":
                {"type": "enabled", "budget_tokens": {}}}
        assert "thinking.budget_tokens" in \
            server.json("POST", "/v1/messages", body, want=400)["error"]["message"]


OTHER = {
    "qwen3.5": ("%s\n</think>\n\nThe answer.", "\n</think>"),
    "mistral-v7": ("[THINK]%s[/THINK]The answer.", "[/THINK]"),
    "harmony": ("<|channel|>analysis<|message|>%s<|end|><|start|>assistant<|channel|>final"
                "<|message|>The answer.", "<|end|>"),
}


def check_other_forms(report):
    """Each form has its own words that end a thought."""
    for form, (said, end) in OTHER.items():
        script = [line(said % WORDS, repeat=True)]
        with Server(replay=script, args=["--chat-form", form, "--guard", "off"]) as server:
            with report.check("a budget in the form " + form, server):
                whole, said, n_whole, _, _ = chat(server, "x", False)
                assert whole.strip() == WORDS and said == "The answer.", (whole, said)
                for n in (60, 9):
                    thought, said, used, why, _ = chat(server, "x", False, reasoning_budget=n)
                    assert said == "The answer." and why == "stop", (said, why)
                    assert thought and WORDS.startswith(thought.strip()), thought
                    assert len(thought) < len(whole) and end not in thought
                    assert used <= n + 40, (n, used)  # marks may be many tokens here
                thought, said, _, _, _ = chat(server, "x", False, reasoning_budget=9, tools=TOOLS)
                assert said == "The answer." and WORDS.startswith(thought.strip()), (thought, said)


def check_real(report, guard):
    """The model itself, in a form whose prompt opens a thought."""
    args = ["--chat-form", "qwen3.5", "--guard", guard]
    with Server(args=args) as server:
        with report.check("a model's own thought ends (--guard %s)" % guard, server):
            body = {"messages": talk("def f(x):"), "max_tokens": 60}
            first = None
            for n in (16, 16, 40):
                body["thinking_budget_tokens"] = n
                said = server.json("POST", "/v1/chat/completions", body)
                used = said["usage"]["completion_tokens_details"]["reasoning_tokens"]
                message = said["choices"][0]["message"]
                assert n - 2 <= used <= n + 40 and message["reasoning_content"], (n, used)
                assert "</think>" not in (message["content"] or "")
                if n == 16:
                    assert first in (None, message), (first, message)
                    first = message
        with report.check("the next turn finds all of it cached (--guard %s)" % guard, server):
            said = server.json("POST", "/v1/responses", {
                "input": "def f(x):", "max_output_tokens": 60, "reasoning": {"max_tokens": 16}})
            usage = said["usage"]
            again = server.json("POST", "/v1/responses", {
                "input": "and on", "previous_response_id": said["id"], "max_output_tokens": 2,
                "reasoning": {"max_tokens": 1}})
            cached = again["usage"]["input_tokens_details"]["cached_tokens"]
            assert cached >= usage["input_tokens"] + usage["output_tokens"] - 2, (cached, usage)


def main():
    report = Report("thoughts")
    for guard in ("off", "block"):
        what = " (--guard %s)" % guard
        with Server(replay=SCRIPT, args=["--chat-form", "qwen3", "--guard", guard]) as server:
            check_forms(report, server, what)
            check_more(report, server, what)
            check_wrong(report, server)
        check_real(report, guard)
    check_other_forms(report)
    report.end()


if __name__ == "__main__":
    main()
