"""The work of agents, for bench/server.py: steering a response, a chain of tool calls over the
socket and over HTTP requests that send everything again, and a conversation that changes its
client."""
import http.client
import json
import pathlib
import statistics
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "clients"))

from rawsocket import RawSocket  # noqa: E402

CALLS = 20
TOOL = {"type": "function", "name": "read_file", "strict": False, "description": "Reads a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}},
                       "required": ["path"]}}
ENDS = ("response.completed", "response.incomplete", "response.failed")


def steer_script():
    lines = "".join("this is line %d of many, and it goes on\n" % i for i in range(400))
    return [{"when": {"last": "only three"}, "output": "Three.", "repeat": True},
            {"output": lines, "repeat": True}]


def chain_script():
    call = "<tool_call>\n%s\n</tool_call>" % json.dumps(
        {"name": "read_file", "arguments": {"path": "src/a.c"}})
    return [{"output": call, "repeat": True}]


# ---- steering ----

def steer_once(port, i):
    """(ms from the end of the response to the successor's first token, ms from the same text as an
    ordinary next turn to its first token, tokens of the turn, tokens that were computed again)."""
    with RawSocket(port) as s:
        def until(*types):
            event = s.read_json()
            while event["type"] not in types:
                event = s.read_json()
            return event

        words = "only three, %d" % i
        s.send_json({"type": "response.create", "input": "go through it, %d" % i, "store": False})
        first = until("response.created")["response"]["id"]
        for _ in range(8):
            until("response.output_text.delta")
        s.send_json({"type": "response.steer", "previous_response_id": first, "input": words})
        usage, ended = until(*ENDS)["response"]["usage"], time.perf_counter()
        until("response.output_text.delta")
        steered = (time.perf_counter() - ended) * 1e3
        last = until(*ENDS)["response"]
        had = usage["input_tokens"] + usage["output_tokens"]
        new = last["usage"]["input_tokens"] - had
        again = had - last["usage"]["input_tokens_details"]["cached_tokens"]

        asked = time.perf_counter()
        s.send_json({"type": "response.create", "input": words, "store": False,
                     "previous_response_id": last["id"]})
        until("response.output_text.delta")
        turn = (time.perf_counter() - asked) * 1e3
        until(*ENDS)
        return steered, turn, new, again


def steering(bench, serving, free_port, model):
    """Without the watchdog, which holds the answer's first line until the line has ended."""
    port = free_port()
    script = bench.file("steer.jsonl", *steer_script())
    command = bench.cerium(model, port, "--replay", str(script), "--no-speculation", "--guard",
                           "off")
    rounds = 3 if bench.args.quick else 100
    with serving(command, port, bench.folder):
        steer_once(port, 0)
        found = [steer_once(port, i + 1) for i in range(rounds)]
    steered, turns = (sorted(row[k] for row in found) for k in (0, 1))
    p99 = min(rounds - 1, int(rounds * 0.99))
    bench.say("steer: tokens of its turn", found[0][2], "")
    for name, values in (("steer: to the first new token", steered),
                         ("the same words as a turn", turns)):
        bench.say(name + ", p50", statistics.median(values), "ms")
        bench.say(name + ", p99", values[p99], "ms")
    # Of the medians: a pass that the machine disturbs takes up to three times its time in both.
    bench.say("steer: more than that turn, p50",
              statistics.median(steered) - statistics.median(turns), "ms",
              (lambda v: v <= 2, "at most 2"))
    # The token that was sampled last, and held text of the line after the cut.
    bench.say("steer: tokens before it that are computed again, at most", max(r[3] for r in found),
              "", (lambda v: v <= 1, "at most 1, the one that was chosen last"))


# ---- a chain of calls ----

def chain_socket(port, history, i):
    begun = time.perf_counter()
    with RawSocket(port) as s:
        body = {"type": "response.create", "tools": [TOOL], "store": False, "input": history}
        for k in range(CALLS):
            s.send_json(body)
            event = s.read_json()
            while event["type"] not in ENDS:
                event = s.read_json()
            said = event["response"]
            call = [o for o in said["output"] if o["type"] == "function_call"][0]
            body = {"type": "response.create", "tools": [TOOL], "store": False,
                    "previous_response_id": said["id"],
                    "input": [{"type": "function_call_output", "call_id": call["call_id"],
                               "output": "int a%d_%d;" % (i, k)}]}
    return time.perf_counter() - begun


def chain_http(port, history, i, anew=False):
    """anew: each request begins differently, so the KV cache holds nothing of it."""
    begun = time.perf_counter()
    talk = list(history)
    for k in range(CALLS):
        if anew:
            head = {"type": "input_text", "text": "%d.%d" % (i, k)}
            talk[0] = {**history[0], "content": [head, *history[0]["content"]]}
        c = http.client.HTTPConnection("127.0.0.1", port)
        c.request("POST", "/v1/responses", json.dumps(
            {"tools": [TOOL], "store": False, "stream": True, "input": talk}),
            {"Content-Type": "application/json"})
        last = [row for row in c.getresponse().read().decode().split("\n")
                if row.startswith("data: {")][-1]
        c.close()
        said = json.loads(last[6:])["response"]
        call = [o for o in said["output"] if o["type"] == "function_call"][0]
        talk += [*said["output"], {"type": "function_call_output", "call_id": call["call_id"],
                                   "output": "int a%d_%d;" % (i, k)}]
    return time.perf_counter() - begun


def chain(bench, serving, free_port, model):
    port = free_port()
    script = bench.file("chain.jsonl", *chain_script())
    history = [{"type": "message", "role": "user", "content": [
        {"type": "input_text", "text": " ".join("word%d" % i for i in range(1300))}]}]
    command = bench.cerium(model, port, "--replay", str(script), "--no-speculation")
    rounds = 1 if bench.args.quick else 7
    with serving(command, port, bench.folder):
        chain_socket(port, history, 0)
        pairs = [(chain_socket(port, history, 2 * i + 1), chain_http(port, history, 2 * i + 2))
                 for i in range(rounds)]
        anew = chain_http(port, history, 2 * rounds + 1, anew=True)
    ws = statistics.median(pair[0] for pair in pairs)
    plain = statistics.median(pair[1] for pair in pairs)
    bench.say("%d calls of tools over one socket" % CALLS, ws * 1e3, "ms")
    bench.say("the same over HTTP, all sent again", plain * 1e3, "ms")
    bench.say("the same over HTTP, nothing of it in the KV cache", anew * 1e3, "ms")
    # Requests over HTTP find their tokens, too: the socket saves sending and parsing them again.
    bench.say("socket / HTTP, end to end", ws / plain, "")
    bench.say("socket / HTTP, nothing in the KV cache", ws / anew, "",
              (lambda v: v <= 0.6, "at most 0.6"))


# ---- a conversation of three clients ----

RULES = "You are an agent. " + " ".join("Rule %d: be careful with file %d." % (i, i)
                                        for i in range(120))
RESULT = "the text of it: " + " ".join("line%d" % i for i in range(60))


def ask(port, path, body):
    request = urllib.request.Request("http://127.0.0.1:%d%s" % (port, path),
                                     json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)


def prompt_tokens_computed(port):
    """Of all prompts so far."""
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port) as answer:
        rows = dict(row.rsplit(" ", 1) for row in answer.read().decode().splitlines()
                    if row.startswith("cerium_") and "{" not in row)
    return int(float(rows["cerium_prompt_tokens_total"]) -
               float(rows["cerium_reused_tokens_total"]))


def conversation(bench, serving, free_port, model):
    """Begun as Codex does, continued as Claude Code does, then in Chat."""
    port = free_port()
    script = bench.file("conversation.jsonl", {"when": {"role": "tool"}, "output": "Done.",
                                               "repeat": True},
                        {"when": {"last": "thanks"}, "output": "Welcome.", "repeat": True},
                        *chain_script())
    function = {k: v for k, v in TOOL.items() if k not in ("type", "strict")}
    rows = []
    with serving(bench.cerium(model, port, "--replay", str(script)), port, bench.folder):
        def turn(who, path, body, usage_of, had):
            before = prompt_tokens_computed(port)
            said = ask(port, path, body)
            prompt, answer = usage_of(said["usage"])
            # The last token was sampled, but not computed.
            rows.append((who, prompt_tokens_computed(port) - before, prompt - had + bool(had)))
            return said, prompt + answer

        said, had = turn("Codex", "/v1/responses", {
            "instructions": RULES, "tools": [TOOL], "store": False,
            "input": [{"type": "message", "role": "user",
                       "content": [{"type": "input_text", "text": "read it"}]}]},
            lambda u: (u["input_tokens"], u["output_tokens"]), 0)
        call = said["output"][-1]
        use = {"type": "tool_use", "id": call["call_id"], "name": call["name"],
               "input": json.loads(call["arguments"])}
        said, had = turn("Claude Code", "/v1/messages", {
            "max_tokens": 50, "system": [{"type": "text", "text": RULES}],
            "tools": [{"name": function["name"], "description": function["description"],
                       "input_schema": function["parameters"]}],
            "messages": [{"role": "user", "content": "read it"},
                         {"role": "assistant", "content": [use]},
                         {"role": "user", "content": [{
                             "type": "tool_result", "tool_use_id": use["id"],
                             "content": RESULT}]}]},
            lambda u: (u["input_tokens"] + u["cache_read_input_tokens"], u["output_tokens"]), had)
        turn("chat", "/v1/chat/completions", {
            "tools": [{"type": "function", "function": function}],
            "messages": [{"role": "system", "content": RULES},
                         {"role": "user", "content": "read it"},
                         {"role": "assistant", "content": None, "tool_calls": [{
                             "id": use["id"], "type": "function", "function": {
                                 "name": use["name"], "arguments": call["arguments"]}}]},
                         {"role": "tool", "tool_call_id": use["id"], "content": RESULT},
                         {"role": "assistant", "content": said["content"][0]["text"]},
                         {"role": "user", "content": "thanks"}]},
             lambda u: (u["prompt_tokens"], u["completion_tokens"]), had)
    for who, computed, new in rows:
        bench.say("conversation, %s: tokens of the prompt that are new" % who, new, "")
        bench.say("conversation, %s: tokens computed" % who, computed, "",
                  (lambda v, new=new: v <= new, "those that are new"))
