"""Feed answers to the real openai package: its client over a made-up transport, its stream
helpers, and its types, which are validated here and not only filled in.  Reads the lines of
answers.c; ends with `openai types: N passed, M failed`."""
import json
import sys

import openai
import pydantic
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.completion import Completion
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.compacted_response import CompactedResponse

try:
    import httpx2 as httpx
except ImportError:
    import httpx

RESPONSES, CHAT, COMPLETIONS, _, COMPACT = range(5)

# Fields that a Response has even if they are null: the Open Responses specification.
FIELDS = """id object created_at completed_at status incomplete_details model previous_response_id
instructions output error tools tool_choice truncation parallel_tool_calls text top_p
presence_penalty frequency_penalty top_logprobs temperature reasoning usage max_output_tokens
max_tool_calls store background service_tier metadata safety_identifier prompt_cache_key""".split()


def client(answer, stream):
    """An OpenAI client whose server always answers with this."""

    def serve(request):
        if stream:
            return httpx.Response(200, headers={"content-type": "text/event-stream"},
                                  content=answer["sse"].encode())
        return httpx.Response(200, json=answer["object"])

    http = httpx.Client(transport=httpx.MockTransport(serve))
    return openai.OpenAI(api_key="k", base_url="http://here/v1", http_client=http, max_retries=0)


def events(answer):
    for block in answer["sse"].split("\n\n"):
        if block == ": keep-alive":
            continue
        lines = dict(line.split(": ", 1) for line in block.splitlines())
        if lines and lines["data"] != "[DONE]":
            event = json.loads(lines["data"])
            assert lines.get("event") == event.get("type"), block
            yield event


def check_types(answer):
    kind, one = {RESPONSES: (Response, ResponseStreamEvent), CHAT: (ChatCompletion,
                 ChatCompletionChunk), COMPLETIONS: (Completion, Completion),
                 COMPACT: (CompactedResponse, object)}[answer["api"]]
    whole = dict(answer["object"])
    if answer["api"] == COMPACT:  # the types lack the user's messages, which the API keeps
        whole["output"] = [i for i in whole["output"] if i.get("role") != "user"]
    pydantic.TypeAdapter(kind).validate_python(whole)
    adapter = pydantic.TypeAdapter(one)
    for event in events(answer):
        if event.get("type") == "keepalive":
            continue  # OpenAI sends it, and its types lack it
        for choice in event.get("choices", []):
            if answer["api"] == COMPLETIONS:  # nor a choice without an end,
                choice["finish_reason"] = choice["finish_reason"] or "stop"
            for call in choice.get("delta", {}).get("tool_calls", []):
                if call.get("type") == "custom":  # nor custom tool calls in a stream
                    del call["type"]
        adapter.validate_python(event)


def check_response(answer):
    whole = answer["object"]
    missing = [field for field in FIELDS if field not in whole]
    assert not missing, missing
    body = {"model": "m", "input": "x"}
    seen = list(client(answer, True).responses.create(**body, stream=True))
    assert [e.sequence_number for e in seen] == list(range(len(seen)))
    assert seen[0].type == "response.created" and seen[1].type == "response.in_progress"
    assert seen[-1].response.to_dict() == client(answer, False).responses.create(**body).to_dict()
    if whole["status"] != "completed":
        return
    # The helper builds a copy of the response from the events, and refuses inconsistent ones.
    with client(answer, True).responses.stream(**body) as stream:
        texts = [e.delta for e in stream if e.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(texts) == final.output_text
    assert len(final.output) == len(whole["output"])


def check_chat(answer):
    whole = answer["object"]
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    tools = answer["request"].get("tools")
    seen = list(client(answer, True).chat.completions.create(**body, stream=True))
    assert seen[0].choices[0].delta.role == "assistant"
    for i, choice in enumerate(whole["choices"]):
        mine = [c for chunk in seen for c in chunk.choices if c.index == i]
        assert "".join(c.delta.content or "" for c in mine) == (choice["message"]["content"] or "")
        assert mine[-1].finish_reason == choice["finish_reason"]
    got = client(answer, False).chat.completions.create(**body)
    assert got.to_dict() == whole
    if tools and tools[0]["type"] == "custom":
        return  # the helper only knows functions
    with client(answer, True).chat.completions.stream(**body) as stream:
        for _event in stream:
            pass
        state = stream.current_completion_snapshot
    for mine, theirs in zip(whole["choices"], state.choices):
        calls = [(c.id, c.function.name, c.function.arguments)
                 for c in theirs.message.tool_calls or []]
        assert calls == [(c["id"], c["function"]["name"], c["function"]["arguments"])
                         for c in mine["message"].get("tool_calls", [])]
        if mine["logprobs"]:
            assert "".join(t.token for t in theirs.logprobs.content) == mine["message"]["content"]
            assert len(theirs.logprobs.content) == len(mine["logprobs"]["content"])


def check_completion(answer):
    body = {"model": "m", "prompt": "x"}
    seen = list(client(answer, True).completions.create(**body, stream=True))
    got = client(answer, False).completions.create(**body)
    for choice in got.choices:
        mine = [c for chunk in seen for c in chunk.choices if c.index == choice.index]
        assert "".join(c.text for c in mine) == choice.text
        if choice.logprobs:
            tokens = [t for c in mine for t in c.logprobs.tokens]
            assert tokens == choice.logprobs.tokens
    assert got.to_dict() == answer["object"]


def check_compact(answer):
    got = client(answer, False).responses.compact(model="m", input="x")
    assert got.output[-1].type == "compaction", got


def main():
    checks = {RESPONSES: check_response, CHAT: check_chat, COMPLETIONS: check_completion,
              COMPACT: check_compact}
    passed = failed = 0
    for line in sys.stdin:
        answer = json.loads(line)
        for check in (check_types, checks[answer["api"]]):
            try:
                check(answer)
                passed += 1
            except Exception as why:  # every exception of the package is its verdict
                failed += 1
                what = f"{answer['name']}: {check.__name__}: {type(why).__name__}: {why}"
                print(f"  FAIL {what}"[:600])
    print(f"openai types: {passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
