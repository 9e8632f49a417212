"""sdk_tools.py - OpenAI's SDK for Python with tools: its helpers that parse calls and structured
outputs, streams that it assembles, custom tools, and every form of tool_choice."""

import json
import re

import openai
import pydantic

from harness import MODEL_ID, Report, Server, call, line

KEY = "sk-clients-0123456789"


class LookUp(pydantic.BaseModel):
    word: str
    senses: int


class Metal(pydantic.BaseModel):
    name: str
    degrees: int


CUSTOM = {"type": "custom", "name": "shout", "description": "Says it loudly.",
          "format": {"type": "grammar", "syntax": "regex", "definition": "[A-Z ]+!"}}
CHAT_CUSTOM = {"type": "custom", "custom": {
    "name": "shout", "description": "Says it loudly.",
    "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition":
                                              "start: WORD+ \"!\"\nWORD: /[A-Z ]+/\n"}}}}
LOOK_UP = openai.pydantic_function_tool(LookUp, name="look_up")
FLAT = {"type": "function", "name": "look_up", "strict": True,
        "parameters": LOOK_UP["function"]["parameters"]}
ONE = call("look_up", word="cerium", senses=2)
TWO = "I look.\n" + ONE + "\n" + call("look_up", word="metal", senses=1)
SCRIPT = [
    line(TWO, repeat=True, last="look up two"),
    line(ONE, repeat=True, last="look up one"),
    line(call("shout", input="STOP IT!"), repeat=True, last="shout"),
    line('{"name": "cerium", "degrees": 795}', repeat=True, last="as a record"),
    line("It is a metal.", repeat=True, role="tool", last="a metal"),
    line("It is a metal.", repeat=True, last="a metal"),
]


def check_responses(report, server, client):
    def create(text, **fields):
        return client.responses.create(model=MODEL_ID, input=text, **fields)

    with report.check("responses: parse gives the SDK's own objects", server):
        r = client.responses.parse(model=MODEL_ID, input="as a record", text_format=Metal)
        assert r.output_parsed == Metal(name="cerium", degrees=795), r.output_parsed
    with report.check("responses: strict calls are parsed", server):
        tool = openai.pydantic_function_tool(LookUp, name="look_up")
        flat = {"type": "function", **tool["function"]}
        r = client.responses.parse(model=MODEL_ID, input="look up two", tools=[flat])
        parsed = [i.parsed_arguments for i in r.output if i.type == "function_call"]
        assert [p if isinstance(p, dict) else p.model_dump() for p in parsed] == \
            [{"word": "cerium", "senses": 2}, {"word": "metal", "senses": 1}], parsed
    with report.check("responses: one call without parallel_tool_calls", server):
        r = create("look up two", tools=[FLAT], parallel_tool_calls=False)
        assert [i.type for i in r.output] == ["message", "function_call"], r.output
        assert r.parallel_tool_calls is False and r.status == "completed", r
    with report.check("responses: a custom tool with a grammar, streamed", server):
        events = list(create("shout", tools=[CUSTOM], stream=True))
        text = "".join(e.delta for e in events
                       if e.type == "response.custom_tool_call_input.delta")
        items = [e.item for e in events if e.type == "response.output_item.done"]
        assert text == "STOP IT!" == items[0].input and items[0].name == "shout", items
    with report.check("responses: outputs of tools as a string and as parts", server):
        for output in ("a metal", [{"type": "input_text", "text": "a metal"},
                                   {"type": "input_image",
                                    "image_url": "data:image/png;base64,AAAA"}]):
            r = create("look up one", tools=[FLAT])
            done = create([{"type": "function_call_output", "call_id": r.output[0].call_id,
                            "output": output}], previous_response_id=r.id, tools=[FLAT])
            assert done.output_text == "It is a metal.", done.output
    with report.check("responses: every form of tool_choice", server):
        named = {"type": "function", "name": "look_up"}
        for choice in ("auto", "required", named, {"type": "allowed_tools", "mode": "required",
                                                   "tools": [named]}):
            r = create("look up one", tools=[FLAT, CUSTOM], tool_choice=choice)
            assert [i.type for i in r.output] == ["function_call"], (choice, r.output)
            echo = r.tool_choice if isinstance(choice, str) else \
                r.tool_choice.model_dump(exclude_none=True)
            assert echo == choice, echo
        r = create("as a record", tools=[FLAT], tool_choice="none")
        assert r.output_text.startswith("{"), r.output
    with report.check("responses: any model's own calls are valid", server):
        tool = {"type": "function", "name": "set_mode", "strict": True, "parameters": {
            "type": "object", "properties": {"mode": {"type": "string", "enum": ["on", "off"]},
                                             "level": {"type": "integer", "maximum": 9,
                                                       "minimum": 0}},
            "required": ["mode", "level"], "additionalProperties": False}}
        shout = {**CUSTOM, "format": {"type": "grammar", "syntax": "regex",
                                      "definition": "(HEY|HO){1,3}!"}}
        for seed in range(8):
            r = create("nothing is recorded for this", tools=[tool, shout], temperature=2,
                       tool_choice="required", parallel_tool_calls=False,
                       extra_body={"seed": seed})
            assert r.status == "completed" and len(r.output) == 1, r
            item = r.output[0]
            if item.type == "custom_tool_call":
                assert re.fullmatch("(HEY|HO){1,3}!", item.input), item
                continue
            made = json.loads(item.arguments)
            assert set(made) == {"mode", "level"} and made["mode"] in ("on", "off"), made
            assert made["level"] in range(10), made
    with report.check("responses: unenforceable parts of a strict schema are named", server):
        odd = {"type": "function", "name": "odd", "strict": True, "parameters": {
            "type": "object", "properties": {"list": {"type": "array", "uniqueItems": True}}}}
        warnings = create("x", tools=[odd], max_output_tokens=16).model_dump()["cerium"]["warnings"]
        assert any("uniqueItems" in w["message"] for w in warnings), warnings
    with report.check("responses: an invalid schema is refused", server):
        try:
            create("x", tools=[{**odd, "parameters": {"type": "nothing"}}])
        except openai.BadRequestError as error:
            assert "odd" in error.body["message"], error.body
        else:
            raise AssertionError("it went through")
    with report.check("responses: an invalid choice is refused", server):
        for choice in ({"type": "function", "name": "nobody"}, {"type": "web_search_preview"}):
            try:
                create("x", tools=[FLAT], tool_choice=choice)
            except openai.BadRequestError as error:
                assert error.body["param"] == "tool_choice", error.body
            else:
                raise AssertionError("%s went through" % choice)


def check_chat(report, server, client):
    def messages(text):
        return [{"role": "user", "content": text}]

    completions = client.chat.completions
    with report.check("chat: parse gives the SDK's own objects", server):
        r = completions.parse(model=MODEL_ID, messages=messages("as a record"),
                              response_format=Metal)
        assert r.choices[0].message.parsed == Metal(name="cerium", degrees=795)
        r = completions.parse(model=MODEL_ID, messages=messages("look up two"), tools=[LOOK_UP])
        calls = r.choices[0].message.tool_calls
        assert [c.function.parsed_arguments for c in calls] == \
            [LookUp(word="cerium", senses=2), LookUp(word="metal", senses=1)], calls
    with report.check("chat: the stream helper assembles calls", server):
        with completions.stream(model=MODEL_ID, messages=messages("look up two"),
                                tools=[LOOK_UP]) as stream:
            done = [e for e in stream if e.type == "tool_calls.function.arguments.done"]
            final = stream.get_final_completion()
        assert [e.parsed_arguments for e in done] == \
            [LookUp(word="cerium", senses=2), LookUp(word="metal", senses=1)], done
        choice = final.choices[0]
        assert choice.finish_reason == "tool_calls" and len(choice.message.tool_calls) == 2
        assert len({c.id for c in choice.message.tool_calls}) == 2
    with report.check("chat: one call without parallel_tool_calls", server):
        r = completions.create(model=MODEL_ID, messages=messages("look up two"), tools=[LOOK_UP],
                               parallel_tool_calls=False)
        assert len(r.choices[0].message.tool_calls) == 1, r.choices
        assert r.choices[0].finish_reason == "tool_calls"
    with report.check("chat: a custom tool and its result", server):
        r = completions.create(model=MODEL_ID, messages=messages("shout"), tools=[CHAT_CUSTOM],
                               tool_choice={"type": "custom", "custom": {"name": "shout"}})
        made = r.choices[0].message
        assert made.tool_calls[0].custom.input == "STOP IT!", made
        talk = messages("shout") + [made.model_dump(exclude_none=True), {
            "role": "tool", "tool_call_id": made.tool_calls[0].id,
            "content": [{"type": "text", "text": "a metal"}]}]
        r = completions.create(model=MODEL_ID, messages=talk, tools=[CHAT_CUSTOM])
        assert r.choices[0].message.content == "It is a metal.", r.choices
    with report.check("chat: functions, the form before tools", server):
        function = {k: LOOK_UP["function"][k] for k in ("name", "parameters")}
        for stream in (False, True):
            r = completions.create(model=MODEL_ID, messages=messages("look up two"),
                                   functions=[function], function_call="auto", stream=stream)
            if stream:
                chunks = list(r)
                parts = [c.choices[0].delta.function_call for c in chunks
                         if c.choices and c.choices[0].delta.function_call]
                name = parts[0].name
                arguments = "".join(p.arguments or "" for p in parts)
                reason = chunks[-1].choices[0].finish_reason
            else:
                made = r.choices[0].message.function_call
                name, arguments = made.name, made.arguments
                reason = r.choices[0].finish_reason
            assert (name, reason) == ("look_up", "function_call"), (name, reason)
            assert json.loads(arguments) == {"word": "cerium", "senses": 2}, arguments
        r = completions.create(model=MODEL_ID, functions=[function], messages=messages("x") + [
            {"role": "assistant", "content": None,
             "function_call": {"name": name, "arguments": arguments}},
            {"role": "function", "name": name, "content": "a metal"}])
        assert r.choices[0].message.content == "It is a metal.", r.choices


def main():
    report = Report("sdk_tools")
    with Server(replay=SCRIPT, context=32768, key=KEY) as server:
        client = openai.OpenAI(api_key=KEY, base_url=server.url + "/v1", max_retries=0,
                               timeout=60)
        check_responses(report, server, client)
        check_chat(report, server, client)
    report.end()


main()
