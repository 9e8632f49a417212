"""conversations.py - the conversations for testing templates, as their variables."""
import copy

SYSTEM = {"role": "system", "content": "You are terse.\nObey <|im_end|> no one."}
USER = {"role": "user", "content": "  What is 2 + 2? "}
SAID = {"role": "assistant", "content": "4"}
MORE = {"role": "user", "content": "And ünïcödé 日本語 \"quoted\" 'single' \\ back?"}
THOUGHT = {"role": "assistant", "content": "It is five.\n",
           "reasoning_content": "Let me see.\nYes.", "reasoning": "Let me see.\nYes.",
           "thinking": "Let me see.\nYes."}
INLINE = {"role": "assistant", "content": "<think>\nhm, 1 < 2\n</think>\n\nIt is six."}
TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a \"city\"\nnow.",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "The city's name"},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
            "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 7.5},
            "where": {"type": "object", "properties": {
                "lat": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}}},
                "required": ["lat"]}},
            "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "now", "description": "The time.",
        "parameters": {"type": "object", "properties": {}}}},
]


def call(name, arguments, ident="call00001", content=""):
    return {"role": "assistant", "content": content, "tool_calls": [
        {"type": "function", "id": ident, "function": {"name": name, "arguments": arguments}}]}


CITY = {"city": "Zürich", "days": 3, "unit": "C", "where": {"lat": 47.5, "tags": ["a", "<b>"]}}
CALL = call("get_weather", CITY)
RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "call00001",
          "content": "{\"sky\": \"clear\", \"n\": 1}"}
TWO = {"role": "assistant", "content": "Both.", "tool_calls":
       CALL["tool_calls"] + call("now", {}, "call00002")["tool_calls"]}
RESULT_2 = {"role": "tool", "name": "now", "tool_call_id": "call00002", "content": "12:00"}
PARTS = {"role": "user", "content": [{"type": "text", "text": "Say "},
                                     {"type": "text", "text": "it."}]}


def with_text(message):
    """The same with arguments as a JSON string, as in the API."""
    import json
    out = copy.deepcopy(message)
    for one in out["tool_calls"]:
        one["function"]["arguments"] = json.dumps(one["function"]["arguments"], ensure_ascii=False)
    return out


THINKING_CALL = dict(CALL, reasoning_content="I need the weather.", thinking="I need the weather.")
BASE = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>",
        "add_generation_prompt": True}


def conversations():
    """name, variables."""
    def one(messages, **more):
        return {**BASE, "messages": copy.deepcopy(messages), **more}
    yield "user", one([USER])
    yield "closed", one([USER, SAID], add_generation_prompt=False)
    yield "system", one([SYSTEM, USER])
    yield "turns", one([SYSTEM, USER, SAID, MORE])
    yield "thoughts", one([USER, THOUGHT, MORE, dict(THOUGHT, content="seven")],
                          add_generation_prompt=False)
    yield "inline", one([USER, INLINE, MORE])
    yield "tools", one([SYSTEM, USER], tools=TOOLS)
    yield "tools-alone", one([USER], tools=TOOLS)
    yield "call", one([SYSTEM, USER, CALL], tools=TOOLS, add_generation_prompt=False)
    yield "call-text", one([USER, with_text(CALL), RESULT], tools=TOOLS)
    yield "result", one([SYSTEM, USER, CALL, RESULT], tools=TOOLS)
    yield "two", one([USER, TWO, RESULT, RESULT_2, SAID, MORE], tools=TOOLS)
    yield "thinking-call", one([USER, THINKING_CALL, RESULT], tools=TOOLS)
    yield "think", one([USER], enable_thinking=True, thinking=True)
    yield "no-think", one([SYSTEM, USER], enable_thinking=False, thinking=False)
    yield "effort", one([SYSTEM, USER], tools=TOOLS, reasoning_effort="high")
    yield "parts", one([PARTS])
    yield "late-system", one([USER, SAID, SYSTEM, MORE])
    yield "empty", one([dict(SYSTEM, content=""), dict(USER, content="")])
    yield "hundred", one([SYSTEM, *33 * [USER, CALL, dict(RESULT)]], tools=TOOLS)
    yield "open", one([SYSTEM, USER, SAID], continue_final_message=True,
                      add_generation_prompt=False)
