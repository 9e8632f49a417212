"""curl.py - every route by curl: answers, streams, infill as llama.vim sends it, TLS, keys."""

import json
import os
import re
import subprocess

import harness
from harness import HANG_S, MODEL_ID, PATIENCE, Report, Server, call, line, wait_for

KEY = "sk-clients-0123456789"
LONG = " ".join("word%d" % i for i in range(1000))
SCRIPT = [
    line("Hello, world.", repeat=True, last="say hello"),
    line(LONG, repeat=True, last="talk for long"),
    line("return a + b;", repeat=True, last="int add"),
    line(call("look_up", word="x"), repeat=True, last="look up", has_tool="look_up"),
    line("They said hello.", repeat=True, api="compact"),
]


class Curl:
    def __init__(self, server, *options):
        self.server, self.options = server, list(options)

    def command(self, path, *args):
        return ["curl", "-sS", "--max-time", str(int(30 * PATIENCE)), *self.options, *args,
                self.server.url + path]

    def __call__(self, path, *args):
        """(status, body text)"""
        status, out, err = harness.run(self.command(path, "-w", "\n%{http_code}", *args))
        assert status == 0, "curl %d: %s" % (status, err)
        body, code = out.rsplit("\n", 1)
        return int(code), body

    def post(self, path, body, *args, want=200):
        status, text = self(path, "-H", "Content-Type: application/json", "-d", json.dumps(body),
                            *args)
        assert status == want, "%d: %s" % (status, text[:400])
        return text


def events_of(text):
    """(event name or None, data) of a stream; anything else is an error."""
    events = []
    for block in text.strip("\n").split("\n\n"):
        match = re.fullmatch(r"(?:event: (\S+)\n)?data: (.*)", block)
        assert match, "no event: %r" % block[:200]
        events.append(match.groups())
    return events


def infill(prefix, suffix="\n}\n", **more):
    """The request of llama.vim (commit a1c8e6e)."""
    return {"id_slot": 0, "input_prefix": prefix, "input_suffix": suffix,
            "input_extra": [{"text": "int sub(int a, int b);\n", "filename": "math.h"}],
            "prompt": "    ", "n_predict": 128, "n_indent": 4, "top_k": 40, "top_p": 0.9,
            "samplers": ["top_k", "top_p", "infill"], "stop": [], "stream": False,
            "cache_prompt": True, "t_max_prompt_ms": 500, "t_max_predict_ms": 1000,
            "response_fields": ["content", "timings/prompt_n", "timings/prompt_ms",
                                "timings/prompt_per_second", "timings/predicted_n",
                                "timings/predicted_ms", "truncated", "tokens_cached"], **more}


def check_reading(report, server, curl):
    with report.check("curl: health", server):
        for path in ("/health", "/health/live", "/health/ready"):
            status, text = curl(path)
            assert status == 200 and json.loads(text)["status"] == "ok", text
        assert json.loads(curl("/health")[1])["replay"] is True
    with report.check("curl: models, for all clients and for Codex", server):
        body = json.loads(curl("/v1/models?client_version=0.169.0")[1])
        assert body["object"] == "list" and MODEL_ID in [m["id"] for m in body["data"]]
        info = body["models"][0]
        for field in ("slug", "display_name", "supported_reasoning_levels", "shell_type",
                      "visibility", "supported_in_api", "priority", "support_verbosity",
                      "truncation_policy", "experimental_supported_tools", "base_instructions",
                      "context_window", "input_modalities"):
            assert field in info, "the catalog lacks " + field
        assert info["slug"] == MODEL_ID and info["input_modalities"] == ["text"], info
        assert json.loads(curl("/v1/models/" + MODEL_ID)[1])["id"] == MODEL_ID
    with report.check("curl: routes without /v1, tokenize", server):
        assert json.loads(curl("/models")[1])["object"] == "list"
        body = json.loads(curl.post("/tokenize", {"content": "int main(void)"}))
        assert len(body["tokens"]) > 2 and all(isinstance(t, int) for t in body["tokens"]), body
        assert "choices" in json.loads(curl.post("/completions", {"prompt": "int add(",
                                                                  "max_tokens": 2}))
    with report.check("curl: metrics", server):
        status, text = curl("/metrics")
        assert status == 200 and "vllm:num_requests_waiting" in text
    with report.check("curl: the page and its files", server):
        status, page = curl("/")
        assert status == 200 and "<html" in page
        parts = re.findall(r'(?:src|href)="([^"#:]+\.(?:js|css|svg))"', page)
        assert parts, page[:300]
        for part in parts:
            status, _ = curl("/" + part.lstrip("./"))
            assert status == 200, part
        assert not re.search(r'(?:src|href)="(https?:)?//', page), "it loads from elsewhere"
    with report.check("curl: HEAD, HTTP/1.0, an unknown path", server):
        assert curl("/v1/responses", "-I")[0] == 405
        assert curl("/health/live", "-0")[0] == 200
        status, text = curl("/v1/nothing")
        assert status == 404 and json.loads(text)["error"]["message"], text


def check_answers(report, server, curl):
    with report.check("curl: responses, whole and stored", server):
        answer = json.loads(curl.post("/v1/responses", {"model": MODEL_ID, "input": "say hello"}))
        assert answer["output"][0]["content"][0]["text"] == "Hello, world.", answer
        path = "/v1/responses/" + answer["id"]
        assert json.loads(curl(path)[1]) == answer
        items = json.loads(curl(path + "/input_items")[1])
        assert items["object"] == "list" and items["data"][0]["role"] == "user", items
        listed = json.loads(curl("/v1/responses?limit=5")[1])
        assert answer["id"] in [r["id"] for r in listed["data"]], listed
        again = json.loads(curl(path + "/cancel", "-X", "POST")[1])  # no body: it had ended
        assert again["status"] == "completed", again
        deleted = json.loads(curl(path, "-X", "DELETE")[1])
        assert deleted["deleted"] is True and curl(path)[0] == 404
    with report.check("curl: responses, a stream", server):
        text = curl.post("/v1/responses", {"model": MODEL_ID, "input": "say hello", "stream": True},
                         "-N")
        events = events_of(text)
        for name, data in events:
            assert json.loads(data)["type"] == name, (name, data[:100])
        assert events[0][0] == "response.created" and events[-1][0] == "response.completed"
    with report.check("curl: compact", server):
        body = json.loads(curl.post("/v1/responses/compact",
                                    {"model": MODEL_ID, "input": "say hello"}))
        assert body["object"] == "response.compaction" and body["output"], body
        curl.post("/v1/responses/compact", {"input": "say hello"}, want=400)
    with report.check("curl: chat, whole and a stream", server):
        messages = [{"role": "user", "content": "say hello"}]
        body = json.loads(curl.post("/v1/chat/completions", {"messages": messages}))
        assert body["choices"][0]["message"]["content"] == "Hello, world.", body
        events = events_of(curl.post("/v1/chat/completions",
                                     {"messages": messages, "stream": True}, "-N"))
        assert events[-1] == (None, "[DONE]") and events[0][0] is None, events[-2:]
    with report.check("curl: completions", server):
        body = json.loads(curl.post("/v1/completions", {"prompt": "int add(", "max_tokens": 20}))
        assert body["choices"][0]["text"] == "return a + b;", body
    with report.check("curl: a body of 3 MB, with Expect: 100-continue", server):
        path = os.path.join(server.folder, "large.json")
        with open(path, "w") as f:
            json.dump({"input": "say hello", "padding": "x" * (3 << 20)}, f)
        status, text = curl("/v1/responses", "-H", "Content-Type: application/json", "-H",
                            "Expect: 100-continue", "--data-binary", "@" + path)
        assert status == 200, text[:300]
    with report.check("curl: a body in chunks", server):
        status, text = curl("/v1/responses", "-H", "Content-Type: application/json", "-H",
                            "Transfer-Encoding: chunked", "-d", '{"input": "say hello"}')
        assert status == 200 and "Hello, world." in text, text[:300]
    with report.check("curl: many requests over one connection", server):
        urls = [server.url + "/health/live"] * 50
        status, out, _ = harness.run(["curl", "-sS", "-w", "%{num_connects}\n", *curl.options,
                                      *sum((["-o", os.devnull, u] for u in urls), [])])
        assert status == 0 and out.split().count("0") == 49, out.split()


def check_infill(report, server, curl):
    with report.check("curl: infill as llama.vim sends it", server):
        body = json.loads(curl.post("/infill", infill("int add(int a, int b)\n{\n")))
        assert body["content"] == "return a + b;", body
        assert body["timings/predicted_n"] > 0 and body["timings/predicted_ms"] > 0, body
        assert set(body) <= set(infill("")["response_fields"]), body
    with report.check("curl: infill warms up with n_predict 0", server):
        body = json.loads(curl.post("/infill", infill("x", n_predict=0, t_max_prompt_ms=1,
                                                      t_max_predict_ms=1)))
        assert body.get("content", "") == "", body
    with report.check("curl: infill without a script, a stream", server):
        body = infill("int mul(int a, int b)\n{\n", stream=True, n_predict=8)
        del body["response_fields"]
        events = events_of(curl.post("/infill", body, "-N"))
        assert json.loads(events[-1][1])["stop"] is True, events[-1]
    with report.check("curl: a killed infill stops", server):
        began = curl.command("/infill", "-d", json.dumps(infill("talk for long", n_predict=-1,
                                                                t_max_predict_ms=60000)))
        process = subprocess.Popen(began, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: server.running() == 1)
        process.kill()
        process.wait()
        wait_for(lambda: server.running() == 0)
    with report.check("curl: a newer infill of the same document drops the older", server):
        older = subprocess.Popen(
            curl.command("/infill", "-d", json.dumps(infill("talk for long", n_predict=-1,
                                                            t_max_predict_ms=60000))),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for(lambda: server.running() == 1)
        body = json.loads(curl.post("/infill", infill("int add(")))
        assert body["content"] == "return a + b;", body
        older.communicate(timeout=HANG_S)
        assert server.metric("cerium_stale_completions_total") == 1


def check_key(report):
    with Server(replay=SCRIPT, key=KEY) as server:
        plain, keyed = Curl(server), Curl(server, "-H", "Authorization: Bearer " + KEY)
        with report.check("curl: with a key and without", server):
            for path in ("/v1/models", "/metrics", "/v1/responses/resp_x"):
                status, text = plain(path)
                assert status == 401 and json.loads(text)["error"]["code"] == "invalid_api_key", (
                    path, status, text)
            for path in ("/health/live", "/health/ready"):
                assert plain(path)[0] == 200, path  # probes need no key
            assert keyed("/v1/models")[0] == 200
            wrong = Curl(server, "-H", "Authorization: Bearer " + KEY[:-1])
            assert wrong("/v1/models")[0] == 401
            assert KEY not in server.log() and KEY[:-1] not in server.log()
    with report.check("curl: no other address without a key"):
        status, _, err = harness.run([harness.CERIUM, "serve", "-m", harness.MODEL, "--host",
                                      "0.0.0.0", "--port", str(harness.free_port())])
        assert status != 0 and "key" in err, (status, err)


def check_tls(report):
    if harness.run(["openssl", "version"])[0]:
        report.skip("curl: TLS", "there is no openssl")
        return
    with Server() as scratch:
        cert, private = (os.path.join(scratch.folder, n) for n in ("cert.pem", "key.pem"))
        status, _, err = harness.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", private,
             "-out", cert, "-days", "2", "-subj", "/CN=localhost", "-addext",
             "subjectAltName=IP:127.0.0.1"])
        assert status == 0, err
        with Server(replay=SCRIPT, context=16384, tls=True,
                    args=["--tls-cert", cert, "--tls-key", private]) as server:
            curl = Curl(server, "--cacert", cert)
            with report.check("curl: TLS, whole and a stream", server):
                text = curl.post("/v1/responses", {"input": "say hello"})
                assert "Hello, world." in text
                events = events_of(curl.post("/v1/responses",
                                             {"input": "talk for long", "stream": True}, "-N"))
                assert events[-1][0] == "response.completed", events[-1]
            with report.check("curl: no plain text on the TLS port", server):
                status, out, _ = harness.run(["curl", "-sS", "--max-time", "5",
                                              server.url.replace("https", "http") + "/v1/models"])
                assert MODEL_ID not in out, out[:200]


def main():
    report = Report("curl")
    if report.missing("curl"):
        report.end()
    with Server(replay=SCRIPT, context=16384) as server:
        curl = Curl(server)
        check_reading(report, server, curl)
        check_answers(report, server, curl)
        check_infill(report, server, curl)
    check_key(report)
    check_tls(report)
    report.end()


main()
