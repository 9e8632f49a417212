"""sdk_others.py - the SDKs of Anthropic and Ollama for Python against `cerium serve --replay`."""

import sys

import anthropic
import ollama

from harness import MODEL_ID, Report, Server, call, line, stretched_model, wait_for

SCRIPT = [
    line("It says: text of A.", repeat=True, role="tool"),
    line("Looking.\n" + call("read_file", path="A"), repeat=True, last="one file",
         has_tool="read_file"),
    line("Hello there.", repeat=True, last="hello"),
    line('{"a": 1}', repeat=True, last="json"),
]
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def check_anthropic(report, server):
    client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)
    ask = {"model": "claude-any", "max_tokens": 200}
    tools = [{"name": "read_file", "description": "reads", "input_schema": SCHEMA}]
    with report.check("anthropic: a message", server):
        said = client.messages.create(**ask, messages=[{"role": "user", "content": "say hello"}])
        assert said.content[0].text == "Hello there." and said.stop_reason == "end_turn", said
        assert said._request_id.startswith("req_") and said.model == "claude-any"
    with report.check("anthropic: a stream through its helper", server):
        with client.messages.stream(**ask, tools=tools,
                                    messages=[{"role": "user", "content": "one file"}]) as stream:
            text = "".join(stream.text_stream)
            said = stream.get_final_message()
        assert text == "Looking." and said.stop_reason == "tool_use", said
        assert said.content[1].input == {"path": "A"}, said.content
        assert said.usage.output_tokens > 0
    with report.check("anthropic: a call and its result", server):
        talk = [{"role": "user", "content": "one file"}]
        said = client.messages.create(**ask, tools=tools, messages=talk)
        result = {"type": "tool_result", "tool_use_id": said.content[1].id, "content": "text of A"}
        talk += [{"role": "assistant", "content": said.content},
                 {"role": "user", "content": [result]}]
        said = client.messages.create(**ask, tools=tools, messages=talk)
        assert said.content[0].text == "It says: text of A.", said
        assert said.usage.cache_read_input_tokens > 0, said.usage
    with report.check("anthropic: the tool runner", server):
        @anthropic.beta_tool
        def read_file(path: str) -> str:
            """Reads a file.

            Args:
                path: which
            """
            return "text of " + path

        runner = client.beta.messages.tool_runner(
            **ask, tools=[read_file], messages=[{"role": "user", "content": "one file"}])
        assert [m.stop_reason for m in runner] == ["tool_use", "end_turn"]
    with report.check("anthropic: tokens are counted, models are listed", server):
        n = client.messages.count_tokens(model="x", messages=[{"role": "user", "content": "hello"}])
        assert n.input_tokens > 0
        assert [m.id for m in client.models.list()] == [MODEL_ID]
        assert client.models.retrieve(MODEL_ID).display_name
    with report.check("anthropic: an image", server):
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                             "data": "iVBORw0KGgo="}}
        talk = [{"role": "user", "content": [image, {"type": "text", "text": "say hello"}]}]
        assert client.messages.create(**ask, messages=talk).content[0].text == "Hello there."
    with report.check("anthropic: errors are what the SDK knows", server):
        for bad, kind in (({"messages": []}, anthropic.BadRequestError),
                          ({"messages": [{"role": "user", "content": "word " * 20000}]},
                           anthropic.BadRequestError)):
            try:
                client.messages.create(**ask, **bad)
                raise AssertionError("it was accepted")
            except kind as error:
                assert error.body["error"]["type"] == "invalid_request_error", error.body


def check_key(report):
    with Server(SCRIPT, key="right") as server:
        with report.check("anthropic: a wrong key, and the right one both ways", server):
            talk = {"model": "m", "max_tokens": 9, "messages": [{"role": "user",
                                                                 "content": "hello"}]}
            try:
                anthropic.Anthropic(base_url=server.url, api_key="wrong",
                                    max_retries=0).messages.create(**talk)
                raise AssertionError("it was accepted")
            except anthropic.AuthenticationError as error:
                assert error.body["error"]["type"] == "authentication_error", error.body
            for how in ({"api_key": "right"}, {"auth_token": "right"}):
                client = anthropic.Anthropic(base_url=server.url, max_retries=0, **how)
                assert client.messages.create(**talk).content[0].text == "Hello there."


def check_several(report):
    large = "large=" + stretched_model(16384)
    with Server(SCRIPT, args=[large, "--running", "2"]) as server:
        talk = [{"role": "user", "content": "say hello"}]
        with report.check("anthropic: models are listed, and chosen by name", server):
            client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)
            assert [m.id for m in client.models.list()] == [MODEL_ID, "large"]
            assert client.models.retrieve("large").id == "large"
            said = client.messages.create(model="large", max_tokens=200, messages=talk)
            assert said.content[0].text == "Hello there." and said.model == "large", said
            try:
                client.messages.create(model="nobody", max_tokens=200, messages=talk)
                raise AssertionError("an unknown name was accepted")
            except anthropic.NotFoundError as error:
                assert "nobody" in str(error) and "large" in str(error), error
        with report.check("ollama: models are listed, loaded by a name, and unloaded", server):
            client = ollama.Client(host=server.url)
            assert [m.model for m in client.list().models] == [MODEL_ID, "large"]
            assert client.show("large").modelinfo["qwen3.context_length"] == 16384
            said = client.chat(model="large", messages=talk, keep_alive="5m")
            assert said.message.content == "Hello there.", said
            assert "large" in [m.model for m in client.ps().models]
            client.generate(model="large", prompt="", keep_alive=0)
            wait_for(lambda: "large" not in [m.model for m in client.ps().models], 20)
            assert client.pull("large").status == "success"
            try:
                client.chat(model="nobody", messages=talk)
                raise AssertionError("an unknown name was accepted")
            except ollama.ResponseError as error:
                assert error.status_code == 404 and "nobody" in error.error, error


def check_ollama(report, server):
    client = ollama.Client(host=server.url)
    talk = [{"role": "user", "content": "say hello"}]
    with report.check("ollama: list, show, ps", server):
        model = client.list().models[0]
        assert model.model == MODEL_ID and model.details.format == "gguf"
        facts = client.show(MODEL_ID)
        assert "insert" in facts.capabilities and facts.modelinfo, facts
        assert client.ps().models[0].model == MODEL_ID
    with report.check("ollama: chat, whole and streamed", server):
        assert client.chat(MODEL_ID, talk).message.content == "Hello there."
        parts = list(client.chat(MODEL_ID, talk, stream=True))
        assert "".join(p.message.content for p in parts) == "Hello there."
        assert parts[-1].done and parts[-1].done_reason == "stop" and parts[-1].eval_count > 0
    with report.check("ollama: tools, and their result", server):
        tools = [{"type": "function", "function": {"name": "read_file", "parameters": SCHEMA}}]
        talk = [{"role": "user", "content": "one file"}]
        said = client.chat(MODEL_ID, talk, tools=tools).message
        assert said.tool_calls[0].function.arguments == {"path": "A"}, said
        talk += [said, {"role": "tool", "content": "text of A", "tool_name": "read_file"}]
        assert client.chat(MODEL_ID, talk, tools=tools).message.content == "It says: text of A."
    with report.check("ollama: a format, and text between two others", server):
        said = client.chat(MODEL_ID, [{"role": "user", "content": "json"}], format="json")
        assert said.message.content == '{"a": 1}', said
        said = client.generate(MODEL_ID, "int add(int a, int b) { return ", suffix="; }",
                               options={"num_predict": 8})
        assert said.done and isinstance(said.response, str), said
    with report.check("ollama: errors are texts", server):
        try:
            client.show("nobody")
            raise AssertionError("it is there")
        except ollama.ResponseError as error:
            assert error.status_code == 404 and "not found" in error.error, error


def main():
    report = Report("sdk_others")
    with Server(SCRIPT) as server:
        check_anthropic(report, server)
        check_ollama(report, server)
    check_several(report)
    check_key(report)
    report.end()


if __name__ == "__main__":
    sys.exit(main())
