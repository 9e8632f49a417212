"""check_embeddings.py - vectors of texts, by a model whose file names a pooling."""

import base64
import json
import math
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

import harness  # noqa: E402
from harness import CLIENTS, MODEL, Report, Server  # noqa: E402

TEXTS = ["def add(a, b):\n    return a + b\n", "the quick brown fox", "x",
         "caf\u00e9 \u4f60\u597d " * 30]
ARCH = "qwen3"


def pooled_model(pooling, ends):
    """The bundled model with a pooling; the quality of its vectors does not matter here."""
    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()

    keys = text(ARCH + ".pooling_type") + struct.pack("<II", 4, pooling)
    keys += text("tokenizer.ggml.add_eos_token") + struct.pack("<IB", 7, ends)
    fill = -(len(keys) + len(text("test.fill")) + 4 + 8) % 32
    keys += text("test.fill") + struct.pack("<I", 8) + text("x" * fill)
    with open(MODEL, "rb") as f:
        data = f.read()
    n_kv = struct.unpack_from("<Q", data, 16)[0]
    path = os.path.join(CLIENTS, "pooling-%d-%d.gguf" % (pooling, ends))
    with open(path, "wb") as f:
        f.write(data[:16] + struct.pack("<Q", n_kv + 3) + keys + data[24:])
    return path


def pooled_server(pooling, ends=0, **more):
    plain, harness.MODEL = harness.MODEL, pooled_model(pooling, ends)
    try:
        return Server(**more)
    finally:
        harness.MODEL = plain


def ask(server, text, want=200, **more):
    return server.json("POST", "/v1/embeddings", {"model": "m", "input": text, **more}, want=want)


def vector(said, i=0):
    return said["data"][i]["embedding"]


def check_forms(report, server):
    with report.check("a text, as numbers and as base64", server):
        said = ask(server, TEXTS[0])
        assert said["object"] == "list" and said["data"][0]["object"] == "embedding", said
        one = vector(said)
        assert len(one) > 100 and abs(math.sqrt(sum(x * x for x in one)) - 1) < 1e-5
        n = len(server.json("POST", "/tokenize", {"content": TEXTS[0]})["tokens"])
        assert said["usage"] == {"prompt_tokens": n, "total_tokens": n}, (said["usage"], n)
        packed = base64.b64decode(vector(ask(server, TEXTS[0], encoding_format="base64")))
        assert list(struct.unpack("<%df" % len(one), packed)) == \
            [struct.unpack("<f", struct.pack("<f", x))[0] for x in one]
    with report.check("several texts, each as if alone, in their order", server):
        said = ask(server, TEXTS)
        assert [d["index"] for d in said["data"]] == list(range(len(TEXTS)))
        for i, text in enumerate(TEXTS):
            assert vector(said, i) == vector(ask(server, text)), i
        many = ask(server, ["text number %d" % i for i in range(300)])
        assert len(many["data"]) == 300 and vector(many, 7) == vector(ask(server, "text number 7"))
    with report.check("tokens, and lists of them", server):
        tokens = server.json("POST", "/tokenize", {"content": TEXTS[1]})["tokens"]
        assert vector(ask(server, tokens)) == vector(ask(server, TEXTS[1]))
        assert vector(ask(server, [tokens, [1]]), 0) == vector(ask(server, TEXTS[1]))
    with report.check("Ollama's two forms, and its list of capabilities", server):
        one = vector(ask(server, TEXTS[0]))
        said = server.json("POST", "/api/embed", {"model": "m", "input": [TEXTS[0], TEXTS[2]],
                                                  "keep_alive": "5m", "options": {}})
        assert said["embeddings"][0] == one and len(said["embeddings"]) == 2
        assert said["prompt_eval_count"] > 1
        said = server.json("POST", "/api/embeddings", {"model": "m", "prompt": TEXTS[0]})
        assert said["embedding"] == one
        shown = server.json("POST", "/api/show", {"model": harness.MODEL_ID})
        assert "embedding" in shown["capabilities"], shown["capabilities"]
        long_ = "word " * 20000
        said = server.json("POST", "/api/embed", {"model": "m", "input": long_})
        assert said["prompt_eval_count"] > 7000, said["prompt_eval_count"]
        server.json("POST", "/api/embed", {"model": "m", "input": long_, "truncate": False},
                    want=400)


def check_refused(report, server):
    with report.check("invalid fields are refused by name", server):
        n = len(vector(ask(server, "x")))
        assert len(vector(ask(server, "x", dimensions=n))) == n
        for body, param in (({"dimensions": 8}, "dimensions"), ({"dimensions": 0}, "dimensions"),
                            ({"encoding_format": "int8"}, "encoding_format"),
                            ({"input": None}, "input"), ({"input": []}, "input"),
                            ({"input": 5}, "input"), ({"input": [10 ** 9]}, "input"),
                            ({"input": ["x"] * 2049}, "input"), ({"input": ""}, "input")):
            error = ask(server, body.pop("input", "x"), want=400, **body)["error"]
            assert error["param"].startswith(param), (error, param)
        error = ask(server, "word " * 60000, want=400)["error"]
        assert error["code"] == "context_length_exceeded", error
    with report.check("its tokens are counted, and nothing is left over", server):
        before = server.metric("cerium_prompt_tokens_total")
        n = ask(server, TEXTS)["usage"]["prompt_tokens"]
        assert server.metric("cerium_prompt_tokens_total") - before == n
        assert server.running() == 0
        assert server.json("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4})["choices"]


def main():
    report = Report("embeddings")
    os.makedirs(CLIENTS, exist_ok=True)
    with pooled_server(3) as server:
        check_forms(report, server)
        check_refused(report, server)
    with pooled_server(1) as server:
        with report.check("the mean of all tokens, whatever is cached", server):
            first = ask(server, TEXTS)
            assert ask(server, TEXTS)["data"] == first["data"]
            assert vector(ask(server, TEXTS[3])) == vector(first, 3)
    with pooled_server(3, ends=1) as server, pooled_server(3) as plain:
        with report.check("a text ends with the token that the file names", server):
            one, two = ask(server, TEXTS[0]), ask(plain, TEXTS[0])
            assert one["usage"]["prompt_tokens"] == two["usage"]["prompt_tokens"] + 1
            assert vector(one) != vector(two)
            tokens = server.json("POST", "/tokenize", {"content": TEXTS[0]})["tokens"]
            assert vector(ask(server, tokens)) == vector(two)
    with Server(args=["e=" + pooled_model(3, 0), "--no-cache"]) as server:
        with report.check("of several models, the embedding model is used, named or not", server):
            one = server.json("POST", "/v1/embeddings", {"input": "x"})
            assert one["model"] == "e", one["model"]
            assert vector(one) == vector(ask(server, "x", model="e"))
            server.json("POST", "/v1/embeddings", {"input": "x", "model": "cerium-line"}, want=501)
    with Server() as server:
        with report.check("a model without a pooling says so", server):
            for path in ("/v1/embeddings", "/api/embed", "/api/embeddings"):
                status, _, data = server.request("POST", path, {"input": "x"})
                assert status == 501 and b"pooling_type" in data, (path, status, data)
    with pooled_server(3, key="sk-1") as server:
        with report.check("a key is needed if the server has keys", server):
            status, _, _ = server.request("POST", "/v1/embeddings", {"input": "x"},
                                          {"Authorization": "Bearer wrong"})
            assert status == 401, status
    report.end()


main()
