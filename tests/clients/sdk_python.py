"""sdk_python.py - OpenAI's SDK for Python: every route that it knows, streams, WebSocket."""

import asyncio
import json

import openai
from prometheus_client.parser import text_string_to_metric_families

from harness import MODEL_ID, Report, Server, call, line, stretched_model, wait_for

KEY = "sk-clients-0123456789"
LONG = " ".join("word%d" % i for i in range(3000))  # 14,000 tokens
TOOL = {"type": "function", "name": "look_up", "description": "Looks a word up.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}},
                       "required": ["word"], "additionalProperties": False}}
CHAT_TOOL = {"type": "function", "function": {k: TOOL[k] for k in ("name", "description",
                                                                  "parameters")}}
SCRIPT = [
    line("Hello, world.", repeat=True, last="say hello"),
    line("I look.\n" + call("look_up", word="cerium"), repeat=True, role="user", last="look up",
         has_tool="look_up"),
    line("Cerium is a metal.", repeat=True, role="tool", last="metal"),
    line(LONG, repeat=True, last="talk for long"),
    line(LONG[:2000], repeat=True, last="talk a while"),
    line("return a + b;", repeat=True, last="int add", api="completions"),
    line("They said hello.", repeat=True, api="compact"),
]


def check_types(types):
    """The order in which OpenAI documents the events of a text answer."""
    want = ["response.created", "response.in_progress", "response.output_item.added",
            "response.content_part.added", "response.output_text.delta",
            "response.output_text.done", "response.content_part.done",
            "response.output_item.done", "response.completed"]
    kept = [t for i, t in enumerate(types) if i == 0 or types[i - 1] != t]
    assert kept == want, kept


def check_responses(report, server, client):
    def create(**fields):
        return client.responses.create(model=MODEL_ID, **fields)

    with report.check("responses: a whole answer", server):
        r = create(input="say hello")
        assert r.output_text == "Hello, world." and r.status == "completed", r
        assert r.usage.input_tokens > 0 and r.usage.output_tokens > 0
        assert r.usage.total_tokens == r.usage.input_tokens + r.usage.output_tokens
        assert r.model and r.id.startswith("resp_") and r.created_at > 1.6e9
    with report.check("responses: a stream in the documented order", server):
        events = list(create(input="say hello", stream=True))
        check_types([e.type for e in events])
        assert [e.sequence_number for e in events] == list(range(len(events)))
        assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == \
            "Hello, world."
        assert events[-1].response.output_text == "Hello, world."
    with report.check("responses: the SDK's own stream helper", server):
        with client.responses.stream(model=MODEL_ID, input="say hello") as stream:
            for _ in stream:
                pass
            assert stream.get_final_response().output_text == "Hello, world."
    with report.check("responses: the same prompt again comes from the cache", server):
        text = "say hello and " + " ".join("padding%d" % i for i in range(200))
        create(input=text)
        r = create(input=text)
        assert r.usage.input_tokens_details.cached_tokens >= 64, r.usage
    with report.check("responses: a tool is called and answered", server):
        r = create(input="look up cerium", tools=[TOOL])
        assert [i.type for i in r.output] == ["message", "function_call"], r.output
        item = r.output[1]
        assert item.name == "look_up" and json.loads(item.arguments) == {"word": "cerium"}, item
        r = create(previous_response_id=r.id, tools=[TOOL],
                   input=[{"type": "function_call_output", "call_id": item.call_id,
                           "output": "a metal"}])
        assert r.output_text == "Cerium is a metal.", r.output
    with report.check("responses: a streamed call", server):
        events = list(create(input="look up cerium", tools=[TOOL], stream=True))
        types = [e.type for e in events]
        done = types.index("response.function_call_arguments.done")
        assert "response.function_call_arguments.delta" in types[:done]
        assert json.loads(events[done].arguments) == {"word": "cerium"}
        assert types[-1] == "response.completed"
    with report.check("responses: retrieve, list input items, delete", server):
        r = create(input="say hello", metadata={"k": "v"})
        again = client.responses.retrieve(r.id)
        assert again.output_text == "Hello, world." and again.id == r.id
        items = client.responses.input_items.list(r.id).data
        assert items[0].role == "user" and items[0].content[0].text == "say hello", items
        client.responses.delete(r.id)
        try:
            client.responses.retrieve(r.id)
        except openai.NotFoundError:
            pass
        else:
            raise AssertionError("it is still there")
    with report.check("responses: store=False keeps nothing", server):
        r = create(input="say hello", store=False)
        try:
            client.responses.retrieve(r.id)
        except openai.NotFoundError:
            pass
        else:
            raise AssertionError("it was kept")
    with report.check("responses: cancel stops one that streams", server):
        stream = create(input="talk for long", stream=True)
        created = next(iter(stream))
        while next(iter(stream)).type != "response.output_text.delta":
            pass
        client.responses.cancel(created.response.id)
        events = list(stream)
        assert events[-1].type == "response.incomplete", events[-1]
        assert 0 < len(events[-1].response.output_text) < len(LONG)
        stored = client.responses.retrieve(created.response.id)
        assert stored.status == events[-1].response.status, stored.status
        wait_for(lambda: server.running() == 0)
    with report.check("responses: a dropped stream stops too", server):
        stream = create(input="talk for long", stream=True)
        while next(iter(stream)).type != "response.output_text.delta":
            pass
        stream.close()
        wait_for(lambda: server.running() == 0)
    with report.check("responses: a cap is reported as incomplete", server):
        r = create(input="talk for long", max_output_tokens=16)
        assert r.status == "incomplete", r.status
        assert r.incomplete_details.reason == "max_output_tokens"
        assert r.usage.output_tokens == 16, r.usage
    with report.check("responses: parts, instructions, an image", server):
        r = create(instructions="Be brief.", input=[
            {"role": "user", "content": [
                {"type": "input_text", "text": "say hello"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}])
        assert r.status == "completed", r
    with report.check("responses: compact", server):
        r = client.responses.compact(model=MODEL_ID, input="say hello")
        assert r.object == "response.compaction" and r.output[-1].type == "compaction", r
    with report.check("responses: errors are of the right class", server):
        for fields, wanted, param in (
                ({"input": "x", "temperature": 9}, openai.BadRequestError, "temperature"),
                ({"input": "x", "previous_response_id": "resp_no"}, openai.APIStatusError,
                 "previous_response_id"),
                ({"input": "word " * 100000}, openai.BadRequestError, None)):
            try:
                create(**fields)
            except wanted as error:
                assert error.body["message"], error
                assert param is None or error.body["param"] == param, error.body
            else:
                raise AssertionError("%s went through" % list(fields))
        try:
            openai.OpenAI(api_key="sk-wrong", base_url=server.url + "/v1",
                          max_retries=0).responses.create(model=MODEL_ID, input="x")
        except openai.AuthenticationError:
            return
        raise AssertionError("a wrong key went through")


def check_chat(report, server, client):
    def create(text, **fields):
        return client.chat.completions.create(
            model=MODEL_ID, messages=[{"role": "system", "content": "Be brief."},
                                      {"role": "user", "content": text}], **fields)

    with report.check("chat: a whole answer", server):
        r = create("say hello")
        assert r.choices[0].message.content == "Hello, world.", r
        assert r.choices[0].finish_reason == "stop" and r.usage.completion_tokens > 0
    with report.check("chat: a stream with usage", server):
        chunks = list(create("say hello", stream=True, stream_options={"include_usage": True}))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert text == "Hello, world." and chunks[0].choices[0].delta.role == "assistant"
        assert chunks[-1].usage.total_tokens > 0 and not chunks[-1].choices
        assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    with report.check("chat: n, logprobs", server):
        r = create("say hello", n=3, logprobs=True, top_logprobs=4)
        assert [c.index for c in r.choices] == [0, 1, 2]
        content = r.choices[1].logprobs.content
        assert "".join(t.token for t in content) == "Hello, world.", content
        assert all(t.logprob <= 0 and len(t.top_logprobs) == 4 for t in content)
    with report.check("chat: a tool is called", server):
        for stream in (False, True):
            r = create("look up cerium", tools=[CHAT_TOOL], stream=stream)
            if stream:
                deltas = [c.choices[0].delta for c in r if c.choices]
                calls = [t for d in deltas for t in d.tool_calls or []]
                name = calls[0].function.name
                arguments = "".join(t.function.arguments or "" for t in calls)
            else:
                assert r.choices[0].finish_reason == "tool_calls", r.choices
                name = r.choices[0].message.tool_calls[0].function.name
                arguments = r.choices[0].message.tool_calls[0].function.arguments
            assert name == "look_up" and json.loads(arguments) == {"word": "cerium"}, arguments
    with report.check("chat: a prediction changes only the speed", server):
        r = create("say hello", prediction={"type": "content", "content": "Hello, world."})
        assert r.choices[0].message.content == "Hello, world."
        details = r.usage.completion_tokens_details
        assert details.accepted_prediction_tokens >= 0, details
    with report.check("chat: stop strings and caps", server):
        r = create("talk for long", stop=["word3 "])
        assert r.choices[0].message.content == "word0 word1 word2 ", r.choices[0]
        r = create("talk for long", max_tokens=5)
        assert r.choices[0].finish_reason == "length" and r.usage.completion_tokens == 5
    with report.check("chat: without replay the model generates, the same for a seed", server):
        texts = [create("x", temperature=1, seed=7, max_tokens=12).choices[0].message.content
                 for _ in range(2)]
        assert texts[0] == texts[1] and texts[0], texts


def check_completions(report, server, client):
    def create(**fields):
        return client.completions.create(model=MODEL_ID, **fields)

    with report.check("completions: a prompt", server):
        r = create(prompt="int add(int a, int b)\n{\n    ", max_tokens=50)
        assert r.choices[0].text == "return a + b;", r
        assert r.choices[0].finish_reason == "stop"
    with report.check("completions: a stream", server):
        text = "".join(c.choices[0].text for c in
                       create(prompt="int add(", max_tokens=50, stream=True) if c.choices)
        assert text == "return a + b;", text
    with report.check("completions: a hole is filled", server):
        r = create(prompt="int sub(int a, int b)\n{\n    ", suffix="\n}\n", max_tokens=8)
        assert r.choices[0].finish_reason in ("stop", "length"), r
    with report.check("completions: several prompts, echo", server):
        r = create(prompt=["int sub(", "int mul("], max_tokens=4, echo=True)
        assert [c.text[:8] for c in r.choices] == ["int sub(", "int mul("], r.choices


def answer(connection):
    """The last event of the next answer."""
    for event in connection:
        if event.type in ("response.completed", "response.incomplete"):
            return event
        assert event.type not in ("error", "response.failed"), event


def check_socket(report, server, client):
    with report.check("websocket: a turn and a follow-up", server):
        with client.responses.connect() as connection:
            ids, texts = [], []
            for text in ("say hello", "say hello again"):
                connection.response.create(model=MODEL_ID, input=text, store=False,
                                           **({"previous_response_id": ids[-1]} if ids else {}))
                last = answer(connection).response
                ids.append(last.id)
                texts.append(last.output_text)
            assert texts == ["Hello, world."] * 2 and ids[0] != ids[1], (ids, texts)
    with report.check("websocket: a warm-up answers at once, the turn uses it", server):
        with client.responses.connect() as connection:
            text = " ".join("rule%d" % i for i in range(600))
            connection.response.create(model=MODEL_ID, input=text, generate=False, store=False)
            event = answer(connection)
            assert event.response.output == [], event
            connection.response.create(model=MODEL_ID, input="say hello", store=False,
                                       previous_response_id=event.response.id)
            event = answer(connection)
            assert event.response.output_text == "Hello, world."
            assert event.response.usage.input_tokens_details.cached_tokens > 600, event.response
    with report.check("websocket: an error leaves the socket open", server):
        with client.responses.connect() as connection:
            connection.response.create(model=MODEL_ID, input="x", temperature=9)
            event = connection.recv()
            assert event.type == "error" and event.status == 400, event
            assert event.error.param == "temperature", event
            connection.response.create(model=MODEL_ID, input="say hello")
            types = []
            for event in connection:
                types.append(event.type)
                if event.type == "response.completed":
                    break
            check_types(types)
    with report.check("websocket: lanes run in parallel", server):
        with client.responses.connect() as connection:
            connection.response.create(model=MODEL_ID, input="talk a while", stream_id="slow")
            connection.response.create(model=MODEL_ID, input="say hello", stream_id="fast")
            order = []
            for event in connection:
                assert event.stream_id in ("slow", "fast") and event.type != "error", event
                if event.type == "response.completed":
                    order.append(event.stream_id)
                    if order[-1] == "slow":
                        break
            assert order == ["fast", "slow"], order


def check_steering(report, server, client):
    with report.check("websocket: steered, with a successor; refused after its end", server):
        with client.responses.connect() as connection:
            connection.response.create(model=MODEL_ID, input="talk a while", store=False)
            for event in connection:
                if event.type == "response.created":
                    first = event.response.id
                if event.type == "response.output_text.delta":
                    break
            connection.response.steer(previous_response_id=first, input="say hello")
            kinds, ends = [], []
            for event in connection:
                kinds.append(event.type)
                if event.type in ("response.completed", "response.incomplete"):
                    ends.append(event.response)
                    if len(ends) == 2:
                        break
            assert "response.steer.accepted" in kinds, kinds
            assert ends[0].id == first and ends[1].previous_response_id == first, ends
            assert ends[1].output_text == "Hello, world.", ends[1]
            connection.response.steer(previous_response_id=first, input="too late")
            event = connection.recv()
            assert event.type == "response.steer.failed", event
            assert event.error.code == "response_already_completed" and \
                event.steer.input == "too late", event
    with report.check("a response in the background can be followed from any number", server):
        said = client.responses.create(model=MODEL_ID, input="say hello", background=True)
        assert said.status in ("queued", "in_progress"), said.status
        events = list(client.responses.retrieve(said.id, stream=True))
        assert events[-1].type == "response.completed", events[-1]
        assert [e.sequence_number for e in events] == list(range(len(events)))
        rest = list(client.responses.retrieve(said.id, stream=True, starting_after=3))
        assert [e.sequence_number for e in rest] == list(range(4, len(events)))
        assert client.responses.retrieve(said.id).output_text == "Hello, world."


def check_many(report, server):
    async def one(client, i):
        stream = await client.responses.create(model=MODEL_ID, input="say hello %d" % i,
                                               stream=True)
        return "".join([e.delta async for e in stream if e.type == "response.output_text.delta"])

    async def all_of_them():
        async with openai.AsyncOpenAI(api_key=KEY, base_url=server.url + "/v1") as client:
            return await asyncio.gather(*[one(client, i) for i in range(40)])

    with report.check("async: 40 streams at once", server):
        assert asyncio.run(all_of_them()) == ["Hello, world."] * 40


def check_metrics(report, server):
    with report.check("metrics: Prometheus' own parser reads them", server):
        _, headers, data = server.request("GET", "/metrics")
        assert headers["Content-Type"].startswith("text/plain; version=0.0.4"), headers
        families = {f.name: f for f in text_string_to_metric_families(data.decode())}
        for name in ("vllm:num_requests_waiting", "vllm:num_requests_running",
                     "vllm:kv_cache_usage_perc", "vllm:cache_config_info", "cerium_requests",
                     "cerium_first_token_seconds", "process_resident_memory_bytes"):
            assert name in families and families[name].samples, name
        spent = sum(s.value for s in families["cerium_requests"].samples
                    if s.labels["status"] == "200")
        assert spent > 50, spent


def check_several(report):
    large = "large=" + stretched_model(16384)
    with Server(replay=SCRIPT, args=[large, "--running", "2"]) as server:
        client = openai.OpenAI(api_key="none", base_url=server.url + "/v1", max_retries=0,
                               timeout=60)
        few = {"max_output_tokens": 4}
        with report.check("a name chooses among several models", server):
            assert [m.id for m in client.models.list()] == [MODEL_ID, "large"]
            assert client.models.retrieve("large").context_window == 16384
            for name in ("large", MODEL_ID):
                assert client.responses.create(model=name, input="hello", **few).model == name
                said = client.completions.create(model=name, prompt="def f(", max_tokens=2)
                assert said.model == name
            one = client.responses.create(model="large", input="hello", **few)
            two = client.responses.create(model=MODEL_ID, input="hello", **few,
                                          previous_response_id=one.id)
            assert two.previous_response_id == one.id and two.model == MODEL_ID
            try:
                client.responses.create(model="nobody", input="hello")
                raise AssertionError("an unknown name was accepted")
            except openai.NotFoundError as error:
                assert error.code == "model_not_found", error


def main():
    report = Report("sdk_python")
    with Server(replay=SCRIPT, context=32768, key=KEY) as server:
        client = openai.OpenAI(api_key=KEY, base_url=server.url + "/v1", max_retries=0,
                               timeout=60)
        with report.check("models", server):
            assert MODEL_ID in [m.id for m in client.models.list()]
        check_responses(report, server, client)
        check_chat(report, server, client)
        check_completions(report, server, client)
        check_socket(report, server, client)
        check_steering(report, server, client)
        check_many(report, server)
        check_metrics(report, server)
    check_several(report)
    report.end()


main()
