"""check_answers.py - every route of the server is in docs/openapi.yaml, and what it answers there,
success or error, whole or streamed, fits the schema for its status and content type."""

import json
import os
import re
import sys

import jsonschema
import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from harness import MODEL_ID, ROOT, Report, Server, call, line  # noqa: E402
from rawsocket import RawSocket  # noqa: E402

TALK = [{"role": "user", "content": "hello"}]
SCRIPT = [line("<think>\nhm\n</think>\n\nLooking.\n" + call("ls", path="A"), repeat=True,
               last="call"),
          line("Hello there.", repeat=True, last="hello"),
          line("The first words, and more.", repeat=True, api="compact")]
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
FLAT = [{"type": "function", "name": "ls", "parameters": SCHEMA}]
NESTED = [{"type": "function", "function": {"name": "ls", "parameters": SCHEMA}}]
NAMED = [{"name": "ls", "input_schema": SCHEMA}]
CALL = [{"role": "user", "content": "call"}]
HOLE = {"input_prefix": "def f(x):\n    ", "input_suffix": "\n", "n_predict": 8}
BAD = {"temperature": "hot"}
SOLVE = {"code": "def f(x):\n    return x - 1\n", "file": "f.py", "line": 2,
         "examples": ["f(1) == 2"], "makers": ["mutate"], "max_variants": 30}

# (method, path of the document, path, body, status)
ASKED = [
    ("GET", "/", "/", None, 200),
    ("POST", "/v1/responses", None, {"input": "hello"}, 200),
    ("POST", "/v1/responses", None, {"input": "call", "tools": FLAT}, 200),
    ("POST", "/v1/responses", None, {"input": "call", "tools": FLAT, "stream": True}, 200),
    ("POST", "/v1/responses", None, {"input": "hello", "include":
                                     ["message.output_text.logprobs"], "top_logprobs": 2}, 200),
    ("POST", "/v1/responses", None, {"input": "hello", "background": True}, 200),
    ("POST", "/v1/responses", None, {"input": "hello", **BAD}, 400),
    ("POST", "/v1/responses", None, {"input": "hello", "previous_response_id": "resp_no"}, 400),
    ("GET", "/v1/responses", "/v1/responses?limit=5", None, 200),
    ("POST", "/v1/responses/compact", None, {"model": MODEL_ID, "input": "hello"}, 200),
    ("POST", "/v1/responses/compact", None, {"input": 7}, 400),
    ("GET", "/v1/responses/{id}", "/v1/responses/{id}", None, 200),
    ("GET", "/v1/responses/{id}", "/v1/responses/{id}?stream=true", None, 200),
    ("GET", "/v1/responses/{id}", "/v1/responses/resp_none", None, 404),
    ("GET", "/v1/responses/{id}/input_items", "/v1/responses/{id}/input_items", None, 200),
    ("POST", "/v1/responses/{id}/cancel", "/v1/responses/resp_none/cancel", {}, 404),
    ("DELETE", "/v1/responses/{id}", "/v1/responses/{id}", None, 200),
    ("POST", "/v1/responses/input_tokens", None, {"input": "hello"}, 200),
    ("POST", "/v1/chat/completions", None, {"messages": TALK}, 200),
    ("POST", "/v1/chat/completions", None, {"messages": CALL, "tools": NESTED}, 200),
    ("POST", "/v1/chat/completions", None, {"messages": CALL, "tools": NESTED, "stream": True,
                                            "stream_options": {"include_usage": True}}, 200),
    ("POST", "/v1/chat/completions", None, {"messages": TALK, "logprobs": True, "n": 2,
                                            "top_logprobs": 2, "nonsense": 1}, 200),
    ("POST", "/v1/chat/completions", None, {"messages": TALK, "stream": True,
                                            "return_progress": True}, 200),
    ("POST", "/v1/chat/completions", None, {"messages": TALK, **BAD}, 400),
    ("POST", "/v1/chat/completions/input_tokens", None, {"messages": TALK}, 200),
    ("POST", "/v1/chat/completions/render", None, {"messages": TALK}, 200),
    ("POST", "/v1/chat/completions/render", None, {"messages": TALK, **BAD}, 400),
    ("POST", "/v1/completions", None, {"prompt": "def f(", "max_tokens": 4, "logprobs": 2}, 200),
    ("POST", "/v1/completions", None, {"prompt": ["a", "b"], "max_tokens": 4, "n": 2}, 200),
    ("POST", "/v1/completions/render", None, {"prompt": ["a", "b"]}, 200),
    ("POST", "/v1/completions/render", None, {"prompt": 1}, 400),
    ("POST", "/v1/completions", None, {"prompt": "def f(", "max_tokens": 4, "stream": True}, 200),
    ("POST", "/v1/completions", None, {"prompt": "x", **BAD}, 400),
    ("POST", "/infill", None, HOLE, 200),
    ("POST", "/infill", None, {**HOLE, "stream": True}, 200),
    ("POST", "/infill", None, {"input_prefix": 1}, 400),
    ("POST", "/v1/edit-predictions", None, {"path": "a", "prefix": "def f(", "suffix": ")"}, 200),
    ("POST", "/v1/edit-predictions", None, {"path": "a.py", "prefix": 1}, 400),
    ("POST", "/apply-template", None, {"messages": TALK}, 200),
    ("POST", "/v1/messages", None, {"messages": TALK, "max_tokens": 20}, 200),
    ("POST", "/v1/messages", None, {"messages": CALL, "max_tokens": 90, "tools": NAMED}, 200),
    ("POST", "/v1/messages", None, {"messages": CALL, "max_tokens": 90, "tools": NAMED,
                                    "stream": True}, 200),
    ("POST", "/v1/messages", None, {"messages": TALK}, 400),
    ("POST", "/v1/messages/count_tokens", None, {"messages": TALK}, 200),
    ("POST", "/completion", None, {"prompt": "def f(", "n_predict": 4}, 200),
    ("POST", "/completion", None, {"prompt": "def f(", "n_predict": 4, "stream": True}, 200),
    ("POST", "/completion", None, {}, 400),
    ("GET", "/api/version", None, None, 200),
    ("GET", "/api/tags", None, None, 200),
    ("GET", "/api/ps", None, None, 200),
    ("POST", "/api/show", None, {"model": MODEL_ID}, 200),
    ("POST", "/api/show", None, {"model": "nobody"}, 404),
    ("POST", "/api/pull", None, {"model": MODEL_ID, "stream": False}, 200),
    ("POST", "/api/pull", None, {"model": MODEL_ID}, 200),
    ("POST", "/api/pull", None, {"model": "nobody"}, 404),
    ("DELETE", "/api/delete", None, {"model": MODEL_ID}, 403),
    ("DELETE", "/api/delete", None, {"model": "nobody"}, 404),
    ("POST", "/api/chat", None, {"messages": TALK}, 200),
    ("POST", "/api/chat", None, {"messages": CALL, "tools": NESTED, "stream": False}, 200),
    ("POST", "/api/chat", None, {"messages": 7}, 400),
    ("POST", "/api/generate", None, {"prompt": "hello", "stream": False}, 200),
    ("POST", "/api/generate", None, {"prompt": "def f(", "suffix": ")",
                                     "options": {"num_predict": 4}}, 200),
    ("POST", "/v1/embeddings", None, {"input": "x"}, 501),
    ("POST", "/v1/embeddings", None, {"input": {}}, 501),
    ("POST", "/api/embed", None, {"input": "x"}, 501),
    ("POST", "/api/embeddings", None, {"prompt": "x"}, 501),
    ("POST", "/detokenize", None, {"tokens": [5, 6]}, 200),
    ("POST", "/detokenize", None, {"tokens": "x"}, 400),
    ("POST", "/tokenize", None, {"content": "def f(x):"}, 200),
    ("POST", "/tokenize", None, {"content": "é", "with_pieces": True}, 200),
    ("POST", "/tokenize", None, {"content": 7}, 400),
    ("GET", "/props", None, None, 200),
    ("GET", "/slots", None, None, 200),
    ("GET", "/v1/models", None, None, 200),
    ("GET", "/v1/models/{id}", "/v1/models/" + MODEL_ID, None, 200),
    ("GET", "/v1/models/{id}", "/v1/models/nobody", None, 404),
    ("GET", "/models/pull", None, None, 200),
    ("POST", "/models/pull", None, {"model": "nobody"}, 404),
    ("DELETE", "/models/pull", None, None, 200),
    ("POST", "/models/load", None, {"model": MODEL_ID}, 200),
    ("POST", "/models/load", None, {"model": "nobody"}, 404),
    ("POST", "/models/unload", None, {"model": MODEL_ID}, 409),
    ("POST", "/v1/solve", None, SOLVE, 403),
    ("GET", "/api/hello", None, None, 200),
    ("GET", "/health", None, None, 200),
    ("GET", "/health/ready", None, None, 200),
    ("GET", "/health/live", None, None, 200),
    ("GET", "/metrics", None, None, 200),
]
# One sentence for clients of other servers; not worth a schema.
BARE = {"/api/create", "/api/copy", "/api/push"}


def routes():
    """(method, path) of each, from the table."""
    with open(os.path.join(ROOT, "src", "server", "routes.c")) as f:
        found = re.findall(r'^    \{"([^"]+)", ([A-Z_]+),', f.read(), re.M)
    return [(method.replace("GET_ONLY", "GET"), path.replace("{path}", "{id}"))
            for path, method in found]


class Spec:
    def __init__(self):
        with open(os.path.join(ROOT, "docs", "openapi.yaml")) as f:
            self.all = yaml.safe_load(f)

    def resolve(self, node):
        while "$ref" in node:
            at = self.all
            for key in node["$ref"][2:].split("/"):
                at = at[key]
            node = at
        return node

    def operation(self, method, path):
        return self.all["paths"][path][method.lower()]

    def has(self, method, path):
        for one in (path, "/v1" + path):
            if method.lower() in self.all["paths"].get(one, {}):
                return True
        return False

    def check(self, method, path, status, kind, values):
        answers = self.operation(method, path)["responses"]
        assert str(status) in answers, "%d is not there, only %s" % (status, list(answers))
        content = self.resolve(answers[str(status)]).get("content")
        assert content or not values, "a body where the document has none: %.200s" % values
        if not content:
            return
        assert kind in content, "%s is not there, only %s" % (kind, list(content))
        schema = content[kind].get("schema", {})
        if kind in ("text/html", "text/plain"):
            return
        whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **self.all, **schema}
        for value in values:
            for error in jsonschema.Draft202012Validator(whole).iter_errors(value):
                raise AssertionError("%s at %s in %.300s" % (
                    error.message[:300], list(error.absolute_path), json.dumps(value)))

    def check_message(self, value, name):
        whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **self.all,
                 "$ref": "#/components/schemas/" + name}
        for error in jsonschema.Draft202012Validator(whole).iter_errors(value):
            raise AssertionError("%s in %.300s" % (error.message[:300], json.dumps(value)))


def values_of(kind, data):
    text = data.decode()
    if kind == "application/json":
        return [json.loads(text)] if text else []
    if kind == "application/x-ndjson":
        return [json.loads(one) for one in text.splitlines()]
    if kind == "text/event-stream":
        return [json.loads(one[6:]) for one in text.splitlines()
                if one.startswith("data: ") and one != "data: [DONE]"]
    return [text] if text else []


def check_asked(report, server, spec, asked_for=ASKED):
    stored = server.json("POST", "/v1/responses", {"input": "hello"})["id"]
    for method, path, asked, body, want in asked_for:
        title = "%s %s: %d%s" % (method, asked or path, want,
                                 ", streamed" if (body or {}).get("stream") else "")
        with report.check(title, server):
            way = (asked or path).replace("{id}", stored)
            status, headers, data = server.request(method, way, body)
            assert status == want, (status, data[:300])
            kind = headers.get("Content-Type", "").split(";")[0]
            spec.check(method, path, status, kind, values_of(kind, data))


def check_socket(report, server, spec):
    with report.check("events over WebSocket", server):
        with RawSocket(server.port) as s:
            for text, more in (("call", {"tools": FLAT}), ("hello", {})):
                for event in s.ask(text, **more):
                    spec.check_message(event, "ResponseEvent")
            s.send_json({"type": "response.create", "input": 7})
            spec.check_message(s.read_json(), "ErrorMessage")
            s.send_json({"type": "completion.create", "id": "a", "prefix": "def f(",
                         "max_tokens": 4})
            seen = set()
            while "completion.done" not in seen:
                event = s.read_json()
                seen.add(event["type"])
                name = event["type"].split(".")[1].capitalize()
                spec.check_message(event, "Completion%sMessage" % name)


def check_solve(report, spec):
    try:
        server = Server(args=["--solve"])
    except AssertionError as why:
        assert "--solve: " in str(why), why
        report.skip("POST /v1/solve", "no sandbox here: %s" % str(why)[:300])
        return
    with server:
        check_asked(report, server, spec, [
            ("POST", "/v1/solve", None, SOLVE, 200),
            ("POST", "/v1/solve", None, {**SOLVE, "stream": True}, 200),
            ("POST", "/v1/solve", None, {**SOLVE, "examples": ["f(1) == None"]}, 200),
            ("POST", "/v1/solve", None, {**SOLVE, "line": 9}, 400),
        ])


def main():
    report = Report("answers")
    spec = Spec()
    for method, path in routes():
        if path not in BARE:
            with report.check("%s %s is in the document" % (method, path)):
                assert spec.has(method, path)
    with report.check("every operation of the document is tested"):
        asked = {(method, path) for method, path, _, _, _ in ASKED}
        for path, operations in spec.all["paths"].items():
            for method in operations:
                if method in ("get", "post", "delete"):
                    assert (method.upper(), path) in asked, (method, path)
    with Server(replay=SCRIPT, args=["--chat-form", "qwen3"]) as server:
        check_asked(report, server, spec)
        check_socket(report, server, spec)
    check_solve(report, spec)
    with Server(key="secret") as server:
        for path, operations in spec.all["paths"].items():
            for method, operation in operations.items():
                if method not in ("get", "post", "delete") or operation.get("security") == []:
                    continue
                with report.check("without a key: %s %s" % (method.upper(), path), server):
                    way = path.replace("{id}", "x")
                    headers = {"Authorization": "Bearer wrong"}
                    status, head, data = server.request(method.upper(), way,
                                                        {} if method == "post" else None, headers)
                    kind = head.get("Content-Type", "").split(";")[0]
                    assert status == 401, status
                    spec.check(method.upper(), path, status, kind, values_of(kind, data))
    report.end()


if __name__ == "__main__":
    main()
