"""check_shapes.py - schemas of answers, odd numbers in requests, unused fields."""

import json
from concurrent.futures import ThreadPoolExecutor

from talk import PATIENCE, SCRIPT, RawSocket, Report, Server, large_schema, shaped, wait_for


def check_shapes(report, server):
    with report.check("a large schema is enforced, once it is compiled", server):
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(server.request, "POST", "/v1/responses",
                                 shaped(large_schema(name)), None, 300) for name in "abcd"]
            assert server.request("GET", "/v1/models", timeout=60)[0] == 200
            for name, answer in zip("abcd", asked):
                status, _, body = answer.result()
                text = json.loads(body)["output"][0]["content"][0]["text"]
                assert status == 200 and text.startswith('{'), body
    with report.check("an invalid schema is refused with its location", server):
        schema = {"type": "object", "properties": {"a": {"items": {"type": "thing"}}}}
        status, _, body = server.request("POST", "/v1/responses", shaped(schema), timeout=60)
        assert status == 400 and b"/properties/a/items/type" in body, body
    with report.check("a keyword that is not supported is left out and named", server):
        schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"(a)\1"},
                                                   "b": {"enum": ["yes"]}},
                  "required": ["b"], "additionalProperties": False}
        status, _, body = server.request("POST", "/v1/responses", shaped(schema), timeout=60)
        warning = json.loads(body)["cerium"]["warnings"][0]
        assert status == 200 and warning["param"] == "text.format.schema", body
        assert "/properties/a/pattern: " in warning["message"], body
    with report.check("one bad tool of many: named, for every kind of fault", server):
        tools = [{"type": "function", "name": "good", "parameters": {"type": "object"}},
                 {"type": "function", "name": "bad", "strict": False, "parameters": {
                     "type": "object", "properties": {
                         "n": {"type": "integer", "maximum": 18446744073709551615},
                         "x": {"type": "any"}, "y": {"$ref": "http://other/"}}}}]
        asked = {"input": "hi", "max_output_tokens": 4, "tools": tools}
        status, _, body = server.request("POST", "/v1/responses", asked, timeout=60)
        warnings = [w for w in json.loads(body)["cerium"]["warnings"]
                    if w["param"] == "tools[1].parameters"]
        told = " ".join(w["message"] for w in warnings)
        assert status == 200 and "/properties/x/type" in told, body
        assert "/properties/y/$ref" in told and "/properties/n" not in told, body
    for name, part in (("an empty enum", {"enum": []}), ("a minimum above the maximum",
                       {"type": "integer", "minimum": 5, "maximum": 1}), ("false", False),
                       ("nothing between", {"type": "integer", "exclusiveMinimum": 3,
                                            "exclusiveMaximum": 4})):
        schema = {"type": "object", "properties": {"a": part}, "required": ["a"]}
        with report.check("a schema that nothing fits is reported, not dropped: " + name, server):
            asked = shaped(schema)
            asked["max_output_tokens"] = 200
            status, _, body = server.request("POST", "/v1/responses", asked, timeout=60)
            assert status == 400 and b"no text at all fits" in body, body
            asked["text"]["format"]["strict"] = False
            status, _, body = server.request("POST", "/v1/responses", asked, timeout=60)
            said = json.loads(body)
            assert status == 200 and said["output"][0]["content"][0]["text"][0] == "{", body
            warning = said["cerium"]["warnings"][0]
            assert warning["param"] == "text.format.schema", body
            assert "no text at all fits it" in warning["message"], body
            tools = [{"type": "function", "name": "f", "strict": False, "parameters": schema}]
            for _ in range(2):  # the second time they are cached
                status, _, body = server.request("POST", "/v1/responses", {
                    "input": "hi", "store": False, "max_output_tokens": 4, "tools": tools})
                warning = json.loads(body)["cerium"]["warnings"][0]
                assert status == 200 and warning["param"] == "tools[0].parameters", body
                assert "any object" in warning["message"], body
    with report.check("numbers of any size, and a byte-order mark, are JSON", server):
        body = (b'\xef\xbb\xbf{"prompt":"x","max_tokens":1,"seed":18446744073709551615,'
                b'"metadata":{"a":1e400,"b":-99999999999999999999999}}')
        status, _, got = server.request("POST", "/v1/completions", body)
        assert status == 200 and b"warnings" not in got, got
    with report.check("logit_bias is added, and unused fields are named", server):
        asked = {"prompt": [1], "max_tokens": 4, "logit_bias": {"72": 100}}
        status, _, body = server.request("POST", "/v1/completions", asked)
        text = json.loads(body)["choices"][0]["text"]
        assert status == 200 and text and text == text[:len(text) // 4] * 4, body
        assert "cerium" not in json.loads(body), body
        asked["logit_bias"] = [[72, False]]
        asked["mirostat"] = 2
        status, _, body = server.request("POST", "/v1/completions", asked)
        assert status == 200 and json.loads(body)["choices"][0]["text"] != text, body
        assert json.loads(body)["cerium"]["warnings"] == [
            {"param": "mirostat", "message": "is not used by this server"}], body
        for bad in ({"72": 101}, {"x": 1}, {"72": "a"}, 5):
            status, _, body = server.request("POST", "/v1/completions",
                                             {"prompt": "x", "logit_bias": bad})
            assert status == 400 and b"logit_bias" in body, body
    with report.check("presence and frequency penalties count", server):
        asked = {"prompt": "x = [0, 0, 0, 0,", "max_tokens": 24}
        texts = set()
        for more in ({}, {"presence_penalty": 2}, {"frequency_penalty": 2}):
            status, _, body = server.request("POST", "/v1/completions", {**asked, **more})
            texts.add(json.loads(body)["choices"][0]["text"])
        assert status == 200 and len(texts) > 1, texts
    with report.check("an answer is canceled while its schema is compiled", server):
        with RawSocket(server.port, timeout=120 * PATIENCE) as s:
            s.send_json({"type": "response.create", **shaped(large_schema("e"))})
            s.send_json({"type": "response.cancel"})
            seen = [s.read_json()]
            while seen[-1]["type"] not in ("response.incomplete", "response.completed", "error"):
                seen.append(s.read_json())
            assert seen[0]["type"] == "response.created", seen[0]
            assert seen[-1]["type"] == "response.incomplete", seen[-1]
            s.send_json({"type": "response.create", **shaped({"enum": ["yes"]})})
            while s.read_json()["type"] != "response.completed":
                pass
    with report.check("clients may leave while their schema is compiled", server):
        for name in "fgh":
            with RawSocket(server.port, timeout=120 * PATIENCE) as s:
                s.send_json({"type": "response.create", **shaped(large_schema(name))})
        wait_for(lambda: server.running() == 0)


def main():
    report = Report("shapes")
    with Server(replay=SCRIPT, context=16384) as server:
        check_shapes(report, server)
        with report.check("nothing is left over, and it shuts down cleanly", server):
            wait_for(lambda: server.running() == 0)
            assert server.metric("cerium_failed_total") == 0
            assert server.stop() == 0
    report.end()


main()
