"""check_models.py - several models in one server: which one a request gets, when it is loaded, what
makes room for it, and conversations that change their model."""

import concurrent.futures
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from harness import CLIENTS, MODEL, SANITIZED, Report, Server, wait_for  # noqa: E402
from rawsocket import RawSocket, text_of  # noqa: E402

SHAPES = ["test-qwen3", "test-llama", "test-gpt-oss"]
TALK = [{"role": "user", "content": "say something"}]


def make(name, shape, *more):
    """A model of random weights; made once."""
    path = os.path.join(CLIENTS, "models", name + ".gguf")
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        subprocess.run([os.environ["MAKE_MODEL"], "--shape", shape, *more, "-o", path + ".new"],
                       check=True, stdout=subprocess.DEVNULL)
        os.rename(path + ".new", path)
    return path


class Several(Server):
    """A server of the bundled model and of others, NAME=FILE."""

    def __init__(self, models, args=(), **more):
        extra = ["%s=%s" % (name, path) for name, path in models]
        super().__init__(args=[*extra, "--running", "2", "--no-cache", *args], **more)

    def states(self):
        return {m["id"]: m["status"]["value"] for m in self.json("GET", "/v1/models")["data"]}

    def loaded(self):
        return {name for name, state in self.states().items() if state == "loaded"}

    def chat(self, model=None, want=200, n=4, messages=None, **more):
        body = {"messages": messages or TALK, "max_tokens": n, **more}
        if model:
            body["model"] = model
        return self.json("POST", "/v1/chat/completions", body, want=want, timeout=120)

    def loads(self, name):
        return self.metric('cerium_model_loads_total{model="%s"}' % name)

    def metric(self, name):
        if "{" not in name:
            return super().metric(name)
        _, _, data = self.request("GET", "/metrics")
        found = [s for s in data.decode().splitlines() if s.startswith(name + " ")]
        assert len(found) == 1, (name, found)
        return float(found[0].rsplit(" ", 1)[1])


def bytes_of(server, name):
    return next(m["memory_bytes"] for m in server.json("GET", "/v1/models")["data"]
                if m["id"] == name)


# ---- which one ----

def check_choice(report, files):
    models = [("a", files[0]), ("b", files[1]), ("again", files[1])]
    with Several(models) as server:
        with report.check("the list has all models, with capabilities and aliases", server):
            body = server.json("GET", "/v1/models")
            listed = {m["id"]: m for m in body["data"]}
            assert list(listed) == ["cerium-line", "a", "b"], list(listed)
            assert listed["b"]["aliases"][:1] == ["again"], listed["b"]
            assert listed["cerium-line"]["context_window"] == 8192
            assert listed["a"]["context_window"] == 2048 and listed["a"]["memory_bytes"] > 1e6
            assert listed["cerium-line"]["completes_only"] and "completes_only" not in listed["a"]
            assert listed["a"]["status"]["value"] == "unloaded"
            assert [m["slug"] for m in body["models"]][:3] == ["cerium-line", "a", "b"]
            one = server.json("GET", "/v1/models/again")
            assert one["display_name"] == listed["b"]["display_name"] and one["id"] == "again"
        with report.check("a name chooses, an alias too, and a name with :latest", server):
            for name, own in (("a", "a"), ("b", "b"), ("again", "b"), ("a:latest", "a"),
                              ("test-qwen3", "a")):
                assert server.chat(name)["model"] == own, name
            assert server.loads("a") == 1 and server.loads("b") == 1
        with report.check("no name: the chat model talks, the infill model completes", server):
            for name in (None, "cerium"):
                assert server.chat(name)["model"] == "a"
                body = {"prompt": "def f(x):", "max_tokens": 2, **({"model": name} if name else {})}
                assert server.json("POST", "/v1/completions", body)["model"] == "cerium-line"
            hole = {"input_prefix": "def f(x):\n    ", "input_suffix": "\n", "n_predict": 4}
            before = server.metric('cerium_model_prompt_tokens_total{model="cerium-line"}')
            server.json("POST", "/infill", hole)
            assert server.metric('cerium_model_prompt_tokens_total{model="cerium-line"}') > before
        with report.check("an unknown name is refused with the known names", server):
            for path, more in (("/v1/chat/completions", {"messages": TALK}),
                               ("/v1/completions", {"prompt": "x"}),
                               ("/v1/responses", {"input": "x"}),
                               ("/v1/messages", {"messages": TALK, "max_tokens": 4}),
                               ("/tokenize", {"content": "x"}),
                               ("/api/chat", {"messages": TALK}),
                               ("/v1/responses/input_tokens", {"input": "x"})):
                error = server.json("POST", path, {"model": "nobody", **more}, want=404)["error"]
                message = error if isinstance(error, str) else error["message"]
                assert "nobody" in message and "cerium-line, a, b" in message, (path, message)
            with RawSocket(server.port) as s:
                error = s.ask("x", model="nobody")[-1]
                assert error["status"] == 404 and error["error"]["code"] == "model_not_found", error
        with report.check("text and tokens are those of the model", server):
            of = {name: server.json("POST", "/tokenize", {"model": name, "content": "a b c"})
                  for name in ("a", "cerium-line")}
            assert of["a"] != of["cerium-line"]
            for name, tokens in of.items():
                back = server.json("POST", "/detokenize", {"model": name, **tokens})
                assert back == {"content": "a b c"}, (name, back)
            for name, n in (("a", 2048), ("cerium-line", 8192)):
                props = server.json("GET", "/props?model=" + name)
                assert props["default_generation_settings"]["n_ctx"] == n
        with report.check("Ollama's clients see them", server):
            tags = [m["name"] for m in server.json("GET", "/api/tags")["models"]]
            assert tags == ["cerium-line", "a", "b"], tags
            assert {m["name"] for m in server.json("GET", "/api/ps")["models"]} == server.loaded()
            shown = server.json("POST", "/api/show", {"model": "b:latest"})
            assert shown["details"]["family"] == "llama", shown["details"]
            assert server.json("POST", "/api/show", {"model": "x"}, want=404)


def check_one(report):
    with Server() as server:
        with report.check("one model has any name", server):
            body = {"model": "gpt-5.2-codex", "messages": TALK, "max_tokens": 2}
            assert server.json("POST", "/v1/chat/completions", body)["model"] == "cerium-line"
            listed = server.json("GET", "/v1/models")["data"]
            assert [m["status"]["value"] for m in listed] == ["loaded"]
            body = {"model": listed[0]["id"]}
            error = server.json("POST", "/models/unload", body, want=409)["error"]
            assert error["code"] == "model_in_use", error


# ---- when ----

def check_loads(report, files):
    with Several([("a", files[0]), ("b", files[1])]) as server:
        with report.check("many requests at once for an unloaded model load it once", server):
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                got = list(pool.map(lambda i: server.chat("b" if i % 3 else "a"), range(12)))
            assert [g["model"] for g in got] == ["b" if i % 3 else "a" for i in range(12)]
            assert server.loads("a") == 1 and server.loads("b") == 1
        with report.check("llama.cpp's load and unload", server):
            assert server.json("POST", "/models/unload", {"model": "a"}) == {"success": True}
            wait_for(lambda: "a" not in server.loaded(), 20)
            assert server.json("POST", "/models/load", {"model": "a"}) == {"success": True}
            wait_for(lambda: "a" in server.loaded(), 20)
            assert server.json("POST", "/models/load", {}, want=400)
            assert server.json("POST", "/models/unload", {"model": "x"}, want=404)
        with report.check("its work still counts after it is unloaded", server):
            said = server.metric("cerium_engine_new_tokens_total")
            server.json("POST", "/models/unload", {"model": "b"})
            wait_for(lambda: "b" not in server.loaded(), 20)
            assert server.metric("cerium_engine_new_tokens_total") >= said > 0
            assert server.metric('cerium_model_new_tokens_total{model="b"}') > 0
        with report.check("keep_alive of Ollama unloads it when it is idle", server):
            body = {"model": "b", "messages": TALK, "stream": False, "keep_alive": 0}
            assert server.json("POST", "/api/chat", body)["done"]
            wait_for(lambda: "b" not in server.loaded(), 20)
            server.json("POST", "/api/chat", {**body, "keep_alive": "5m"})
            until = [m["expires_at"] for m in server.json("GET", "/api/ps")["models"]
                     if m["name"] == "b"]
            assert until and until[0] < "2300", until
            server.json("POST", "/api/chat", {**body, "keep_alive": -1})
            until = [m["expires_at"] for m in server.json("GET", "/api/ps")["models"]
                     if m["name"] == "b"]
            assert until[0] > "2300", until
            assert server.json("POST", "/api/generate", {"model": "b", "keep_alive": 0})["done"]
            wait_for(lambda: "b" not in server.loaded(), 20)


def check_failures(report, files, folder):
    damaged = os.path.join(folder, "damaged.gguf")
    with open(files[0], "rb") as f:
        whole = f.read()
    with open(damaged, "wb") as f:
        f.write(whole)
    with Several([("a", files[1]), ("bad", damaged)]) as server:
        os.remove(damaged)  # its vocabulary was read before; now it cannot be loaded
        with report.check("a model that cannot be loaded: its requests fail alone", server):
            error = server.chat("bad", want=503)["error"]
            assert error["code"] == "model_not_loaded" and "damaged.gguf" in error["message"], error
            error = server.chat("bad", want=503, stream=True)["error"]  # it has just failed
            assert error["code"] == "model_not_loaded", error
            assert server.chat("a")["model"] == "a"
            bad = next(m for m in server.json("GET", "/v1/models")["data"] if m["id"] == "bad")
            assert bad["status"]["failed"] and "damaged.gguf" in bad["status"]["reason"], bad
    with open(damaged, "wb") as f:
        f.write(whole[:len(whole) // 2])
    with report.check("a damaged file stops the start if named, not if in a folder"):
        result = subprocess.run([os.environ["CERIUM"], "serve", files[0], damaged, "--port", "0"],
                                capture_output=True, text=True, timeout=60)
        assert result.returncode and "damaged.gguf" in result.stderr, result.stderr
        os.link(files[1], os.path.join(folder, "whole.gguf"))
        with Server(args=["--models-dir", folder, "--no-cache"]) as server:
            listed = [m["id"] for m in server.json("GET", "/v1/models")["data"]]
            assert listed == ["cerium-line", "test-llama"], listed
            assert "damaged.gguf" in server.log()


# ---- memory ----

def alone(server, name):
    """An answer, after all others have ended: a model in use, or used last, is not unloaded."""
    wait_for(lambda: not any(one["is_processing"] for one in server.json("GET", "/slots")), 20)
    server.chat(name)
    wait_for(lambda: not any(one["is_processing"] for one in server.json("GET", "/slots")), 20)


def check_bound(report, files):
    if SANITIZED:
        report.skip("the bound of all models", "the first counts more unloaded than loaded here")
        return
    with Several([("a", files[0]), ("b", files[1])]) as server:
        wait_for(lambda: server.loaded() == {"cerium-line"}, 20)
        most = bytes_of(server, "cerium-line")
        server.json("POST", "/models/unload", {"model": "cerium-line"})
        # Its memory is freed a moment after its state changes.
        wait_for(lambda: bytes_of(server, "cerium-line") < most, 20)
        sizes = {name: bytes_of(server, name) for name in ("cerium-line", "a", "b")}
    two = sizes["cerium-line"] + max(sizes["a"], sizes["b"]) + min(sizes["a"], sizes["b"]) // 2
    with Several([("a", files[0]), ("b", files[1])], ["--models-memory", str(two)]) as server:
        with report.check("the least recently used model is unloaded", server):
            wait_for(lambda: server.loaded() == {"cerium-line"}, 20)
            alone(server, "a")
            assert server.loaded() == {"cerium-line", "a"}

            def oldest_goes():
                """A late session holds its model for a moment: then another is unloaded."""
                alone(server, "a")
                server.json("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1})
                alone(server, "b")
                seen.append(sorted(server.loaded()))
                return seen[-1] == ["b", "cerium-line"]

            seen = []
            assert any(oldest_goes() for _ in range(5)), (seen, sizes, two)
            for name in ("cerium-line", "b", "a"):
                alone(server, name)
            assert server.loaded() == {"b", "a"} or server.loaded() == {"a"}, server.loaded()
        with report.check("their counted memory is within the bound", server):
            there = sum(bytes_of(server, name) for name in server.loaded())
            assert there <= two, (there, two)
        with report.check("a running model stays, and waiting requests get their turn", server):
            server.json("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1})
            server.chat("a")
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                tasks = []
                for _ in range(4):  # of a and of the first model, without a pause
                    tasks.append(pool.submit(server.chat, "a", n=300))
                    tasks.append(pool.submit(server.chat, "cerium-line", n=300))
                server.chat("b")
                for task in tasks:
                    assert task.result()["usage"]["completion_tokens"] > 0
    with Several([("a", files[0])], ["--models-memory", str(sizes["a"] // 2)]) as server:
        with report.check("a model that can never fit is refused, with the figures", server):
            error = server.chat("a", want=503)["error"]
            assert error["code"] == "model_too_large", error
            assert "%.1f MB" % (sizes["a"] / 1e6) in error["message"], error
            assert "--models-memory" in error["message"]
            assert server.json("GET", "/health/live")["status"] == "ok"


def turns(server, model, n):
    """Prompts that no other test sends, each a good part of the model's context."""
    said = "w%d " * 300 % tuple(range(300))
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        body = [[{"role": "user", "content": "%s %d: %s" % (model, i, said)}] for i in range(n)]
        for answer in pool.map(lambda b: server.chat(model, n=8, messages=b), body):
            assert answer["usage"]["prompt_tokens"] > 300


def check_small_memory(report, files):
    """KV counts with what it may take now, not with its maximum."""
    with Several([("a", files[0]), ("b", files[1])]) as server:
        least = {name: bytes_of(server, name) for name in ("a", "b")}
        server.chat("a")
        assert bytes_of(server, "a") > 4 * least["a"], (bytes_of(server, "a"), least)
    models = [("b", files[1])]
    memory = least["a"] + least["b"] + (1 << 20)
    with Several(models, ["--models-memory", str(memory)], model=files[0]) as server:
        with report.check("two models fit where each has room for one context", server):
            wait_for(lambda: server.loaded() == {"test-qwen3"}, 20)
            assert server.chat("test-qwen3")["usage"]["completion_tokens"]
            assert server.chat("b")["usage"]["completion_tokens"]
            assert server.loaded() == {"test-qwen3", "b"}, server.states()
            counted = [bytes_of(server, name) for name in server.loaded()]
            assert sum(counted) <= memory and min(counted) >= min(least.values()), counted
        with report.check("both answer every request, one after another if necessary", server):
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda name: turns(server, name, 24), ("test-qwen3", "b")))
            assert server.loaded() == {"test-qwen3", "b"}
            assert server.loads("b") == 1 and server.loads("test-qwen3") == 1
            counted = [bytes_of(server, name) for name in server.loaded()]
            assert sum(counted) <= memory, (counted, memory)
        with report.check("when one is unloaded, the other gets its room", server):
            before = bytes_of(server, "test-qwen3")
            server.json("POST", "/models/unload", {"model": "b"})
            wait_for(lambda: bytes_of(server, "test-qwen3") > before, 20)


# ---- conversations ----

def check_conversations(report, files):
    with Several([("a", files[0]), ("b", files[1])]) as server:
        def respond(model, text, **more):
            body = {"model": model, "input": text, "max_output_tokens": 12, **more}
            return server.json("POST", "/v1/responses", body)

        with report.check("a stored conversation continues with another model, and back", server):
            for n in range(40):  # a model of random weights may say nothing
                asked = "remember the word kettle %d" % n
                one = respond("a", asked)
                if one["output"]:
                    break
            two = respond("b", "which word?", previous_response_id=one["id"])
            said = one["output"][0]["content"][0]["text"]
            whole = respond("b", [{"role": "user", "content": asked},
                                  {"role": "assistant", "content": said},
                                  {"role": "user", "content": "which word?"}], store=False)
            assert two["model"] == "b"
            assert two["usage"]["input_tokens"] == whole["usage"]["input_tokens"], (two, whole)
            assert two["output"][0]["content"] == whole["output"][0]["content"]
            three = respond("a", "and now?", previous_response_id=two["id"])
            assert three["usage"]["input_tokens"] > one["usage"]["input_tokens"]
            again = respond("b", "and now?", previous_response_id=two["id"])
            assert again["usage"]["input_tokens_details"]["cached_tokens"] > 0, again["usage"]
        with report.check("its own input items are its own", server):
            items = server.json("GET", "/v1/responses/%s/input_items" % two["id"])["data"]
            assert len(items) == 1, items
        with report.check("a turn that is not stored is not found by another model", server):
            with RawSocket(server.port) as s:
                one = s.ask("say it", model="a")[-1]["response"]["id"]
                error = s.ask("go on", model="b", previous_response_id=one)[-1]
                assert error["error"]["code"] == "previous_response_not_found", error
                assert text_of(s.ask("go on", model="b")) is not None
        with report.check("a client that sends all turns gets no tokens of another model", server):
            first = server.chat("a", n=12)["choices"][0]["message"]
            talk = [*TALK, {"role": "assistant", "content": first["content"]},
                    {"role": "user", "content": "go on"}]
            mixed = server.chat("b", n=12, messages=talk)
            with Several([("a", files[0]), ("b", files[1])]) as fresh:
                alone = fresh.chat("b", n=12, messages=talk)
            assert mixed["usage"]["prompt_tokens"] == alone["usage"]["prompt_tokens"]
            assert mixed["choices"] == alone["choices"]


# ---- while it loads ----

def wait_loading(server, name):
    def loading():
        found = next(m for m in server.json("GET", "/v1/models")["data"] if m["id"] == name)
        return found["status"]["value"] == "loading" and found["status"].get("total_bytes")

    wait_for(loading, 60)


def begin(server, model, stream=True):
    """A request whose answer is not read."""
    body = json.dumps({"model": model, "messages": TALK, "max_tokens": 4, "stream": stream})
    s = socket.create_connection(("127.0.0.1", server.port))
    s.sendall(("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
               "Content-Length: %d\r\n\r\n%s" % (len(body), body)).encode())
    return s


LOADED = rb'"loading":\{"model":"big","done_bytes":\d+,"total_bytes":\d+\}'
SIGNS = [
    ("/v1/chat/completions", {"messages": TALK, "max_tokens": 2}, rb": loading big, \d+ %\n\n"),
    ("/v1/completions", {"prompt": "x", "max_tokens": 2}, rb": loading big, \d+ %\n\n"),
    ("/v1/responses", {"input": "x", "max_output_tokens": 16},
     rb"event: keepalive\ndata: [^\n]*" + LOADED),
    ("/v1/messages", {"messages": TALK, "max_tokens": 2}, rb"event: ping\ndata: [^\n]*" + LOADED),
    ("/api/chat", {"messages": TALK, "options": {"num_predict": 2}},
     rb'"content":""[^\n]*' + LOADED + rb"[^\n]*\n"),
    ("/completion", {"prompt": "x", "n_predict": 2}, rb": loading big, \d+ %\n\n"),
]


def check_signs(report, big):
    """A load of several server ticks must give signs of life; how long it took
    the server reports."""
    with Several([("big", big)], ["--context", "512"]) as server:
        for _ in range(3):
            at = server.log_end()
            with concurrent.futures.ThreadPoolExecutor(len(SIGNS)) as pool:
                answers = list(pool.map(lambda one: server.request(
                    "POST", one[0], {"model": "big", "stream": True, **one[1]}, None, 300), SIGNS))
            with open(server.log_path) as f:
                f.seek(at)
                took = re.search(r"id=big state=loaded bytes=\d+ seconds=([\d.]+)", f.read())
            if took and float(took[1]) >= 4:
                break
            server.json("POST", "/models/unload", {"model": "big"})
            wait_for(lambda: "big" not in server.loaded(), 60)
        else:
            report.skip("signs of life while a model is loaded", "it loads in under four seconds")
            return
        with report.check("a client that waits for a model gets its progress, by its API", server):
            for (path, _, sign), (status, _, data) in zip(SIGNS, answers):
                assert status == 200 and re.search(sign, data), (path, status, data[:600])


def check_loading(report, big):
    with Several([("big", big)], ["--keep-alive", "1", "--context", "512"]) as server:
        with report.check("while one loads, others answer, and it reports its progress", server):
            with begin(server, "big") as s:
                wait_loading(server, "big")
                body = {"prompt": "def f(x):", "max_tokens": 4}
                done = server.json("POST", "/v1/completions", body)
                assert done["usage"]["completion_tokens"] == 4
                s.settimeout(300)
                while b"[DONE]" not in (data := s.recv(1 << 16)):
                    assert data, "the stream ended"
            assert server.loads("big") == 1
    check_signs(report, big)
    with Several([("big", big)], ["--context", "512"]) as server:
        with report.check("peers that left while it loaded", server):
            for stream in (True, False):
                s = begin(server, "big", stream)
                wait_loading(server, "big")
                s.close()
                # 409 until their requests have ended.
                wait_for(lambda: server.request("POST", "/models/unload",
                                                {"model": "big"})[0] == 200, 60)
                wait_for(lambda: server.states()["big"] == "unloaded", 60)
            assert server.chat("big", n=2)["model"] == "big"
    for how in ("once", "twice"):
        server = Several([("big", big)], ["--context", "512", "--drain", "60"])
        with report.check("SIGTERM while it loads, " + how, server):
            with begin(server, "big") as s:
                wait_loading(server, "big")
                start = time.monotonic()
                server.process.send_signal(signal.SIGTERM)
                if how == "twice":
                    time.sleep(0.1)
                    server.process.send_signal(signal.SIGTERM)
                else:  # waiting requests are answered
                    s.settimeout(300)
                    data = b""
                    while piece := s.recv(1 << 16):
                        data += piece
                    assert b"[DONE]" in data, data[-300:]
                assert server.process.wait(120) == 0
                took = time.monotonic() - start
                print("      it ended after %.1f s" % took)
        server.close()


def main():
    report = Report("models")
    files = [make(shape, shape, "--context", "2048") for shape in SHAPES]
    big = make("big", "qwen2.5-coder-0.5b", "--type", "q4_0", "--context", "2048")
    assert os.path.exists(MODEL)
    check_one(report)
    check_choice(report, files)
    check_loads(report, files)
    with tempfile.TemporaryDirectory() as folder:
        check_failures(report, files, folder)
    check_bound(report, files)
    check_small_memory(report, files)
    check_conversations(report, files)
    check_loading(report, big)
    report.end()


if __name__ == "__main__":
    main()
