#!/usr/bin/env python3
"""Drafts compared with those of llama.cpp: both recite the same edits, in one run.

    bench/recited.py --make-model build/release/tool_make_model --llama-server PATH
                     [--edits FILE] [--count 8] [--shape qwen2.5-coder-0.5b] [--type q4_0] [-o FILE]

llama.cpp cannot replay a recorded text, so the model must know it by heart: a model of a real shape
with random weights whose greedy text is given (`tool_make_model --recite`), with everything
computed. Such a model knows a token's successor from the token alone.  So the edits get new tokens:
text that a file keeps through its edit has the same tokens in both, all other text has its own
tokens. The structure of copying stays; repetitions within a text are gone, so they mislead no
drafter.

Each server generates each text once, with the prompt (the text before the edit) already in its
cache; servers take turns.  Speed is tokens over the time from the request to the end of the
answer, as the client sees it.  Texts must be equal, or the run ends.  llama.cpp runs with each of
its n-gram modes and with none; the best of them by the median counts.
"""
import argparse
import contextlib
import datetime
import difflib
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import machine
from server import free_port, serving

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIRST_TOKEN = 1000  # in the synthetic vocabulary: below are bytes
# llama.cpp's modes with defaults, and with short n-grams and long drafts.
MODES = (["ngram-cache"], ["ngram-mod"], ["ngram-mod", "n-match=8", "n-min=0"]) + tuple(
    [f"ngram-{mode}", *settings] for mode in ("simple", "map-k", "map-k4v")
    for settings in ([], ["size-n=4", "size-m=63"]))


def tokens_of(cerium, text):
    done = subprocess.run([cerium, "tokenize", "-m", ROOT / "models" / "cerium-line.gguf",
                           "--ids", "-"], input=text, capture_output=True, text=True, check=True)
    return re.findall(r"\d+", done.stdout)


def renamed(before, after, fresh):
    """Both with new tokens: the same only where an edit keeps the text."""
    first = [next(fresh) for _ in before]
    second = [None] * len(after)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for match in matcher.get_matching_blocks():
        second[match.b:match.b + match.size] = first[match.a:match.a + match.size]
    return first, [next(fresh) if token is None else token for token in second]


def read_edits(cerium, path, count, last_token):
    fresh = iter(range(FIRST_TOKEN, last_token))
    edits = []
    try:
        for line in open(path, encoding="utf-8"):
            edit = json.loads(line)
            before, after = renamed(tokens_of(cerium, edit["before"]),
                                    tokens_of(cerium, edit["after"]), fresh)
            edits.append((before + [next(fresh)], after))
            if len(edits) == count:
                break
    except StopIteration:  # the vocabulary is exhausted
        pass
    return edits


class Server:
    """A server that continues tokens; `name` is a line of the table."""

    def __init__(self, name, command, path, body):
        self.name, self.path, self.body = name, path, body
        self.port = free_port()
        self.command = [str(word) for word in command] + ["--port", str(self.port)]
        self.speeds = []

    def ask(self, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{self.path}",
                                         json.dumps(body).encode(),
                                         {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=900) as answer:
            return json.load(answer)

    def recite(self, prompt, count):
        """The text, and the seconds until it is complete; the prompt is computed before."""
        self.ask(self.body(prompt, 1))
        began = time.perf_counter()
        answer = self.ask(self.body(prompt, count))
        seconds = time.perf_counter() - began
        return answer["choices"][0]["text"] if "choices" in answer else answer["content"], seconds


def ceriums(asked, model):
    def body(prompt, count):
        return {"model": "m", "prompt": prompt, "max_tokens": count, "temperature": 0}

    base = [asked.cerium, "serve", "-m", model, "--threads", asked.threads, "--guard", "off"]
    yield Server("cerium", base, "/v1/completions", body)
    yield Server("cerium, no drafts", base + ["--no-speculation"], "/v1/completions", body)


def llamas(asked, model):
    def body(prompt, count):
        return {"prompt": prompt, "n_predict": count, "temperature": 0, "top_k": 1,
                "cache_prompt": True, "ignore_eos": True}

    base = [asked.llama_server, "-m", model, "-t", asked.threads, "-tb", asked.threads, "-np", "1",
            "-c", "16384", "--no-webui"]
    yield Server("llama.cpp, no drafts", base, "/completion", body)
    for mode, *settings in MODES:
        options = ["--spec-type", mode]
        for setting in settings:
            name, value = setting.split("=")
            options += [f"--spec-{mode}-{name}", value]
        yield Server(" ".join([f"llama.cpp, {mode}", *settings]), base + options, "/completion",
                     body)


def measure(servers, edits, folder):
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.enter_context(serving(server.command, server.port, folder))
        for number, (prompt, answer) in enumerate(edits):
            texts = set()
            for server in servers:
                text, seconds = server.recite(prompt, len(answer))
                texts.add(text)
                server.speeds.append(len(answer) / seconds)
                print(f"  edit {number + 1}, {len(answer)} tokens, {server.name}: "
                      f"{server.speeds[-1]:.0f} tokens/s", file=sys.stderr, flush=True)
            if len(texts) != 1:
                sys.exit(f"recited: edit {number + 1}: the texts are not the same")


def table(asked, servers, edits):
    plain = servers[1].speeds
    peers = [s for s in servers if s.name.startswith("llama")]
    best = max(peers, key=lambda s: statistics.median(s.speeds)) if peers else None
    out = [f"# Recited edits, {datetime.date.today()}", "",
           f"{machine.here()}, {asked.threads} threads, {asked.shape} {asked.type}, "
           f"{len(edits)} edits of {pathlib.Path(asked.edits).name}, "
           f"{sum(len(a) for _, a in edits)} tokens; in turn; medians. "
           "`bench/recited.py` says how.",
           "", "| | tokens/s | times cerium without drafts |", "|---|---|---|"]
    for server in servers:
        ratio = statistics.median(a / b for a, b in zip(server.speeds, plain))
        out.append(f"| {server.name} | {statistics.median(server.speeds):.0f} | {ratio:.2f} |")
    if best:
        ratios = [a / b for a, b in zip(servers[0].speeds, best.speeds)]
        out += ["", f"cerium against {best.name}: {statistics.median(ratios):.2f} "
                f"({min(ratios):.2f} to {max(ratios):.2f})"]
    return "\n".join(out) + "\n"


def main():
    ask = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    ask.add_argument("--cerium", default=str(ROOT / "cerium"))
    ask.add_argument("--make-model", required=True)
    ask.add_argument("--llama-server")
    ask.add_argument("--edits", default=str(ROOT / "bench" / "edits" / "edits.jsonl"))
    ask.add_argument("--count", type=int, default=8)
    ask.add_argument("--shape", default="qwen2.5-coder-0.5b",
                     choices=["60m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"])
    ask.add_argument("--type", default="q4_0")
    ask.add_argument("--threads", default="2")
    ask.add_argument("-o", "--output")
    asked = ask.parse_args()
    # Above are control tokens.
    last = 32000 if asked.shape == "60m" else 150000
    edits = read_edits(asked.cerium, asked.edits, asked.count, last)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        recital, model = folder / "recital", folder / "recites.gguf"
        recital.write_text("".join(" ".join(map(str, [prompt[-1]] + answer)) + "\n"
                                   for prompt, answer in edits), encoding="utf-8")
        subprocess.run([asked.make_model, "--shape", asked.shape, "--type", asked.type,
                        "--recite", recital, "-o", model], check=True)
        servers = list(ceriums(asked, model))
        if asked.llama_server:
            servers += llamas(asked, model)
        measure(servers, edits, folder)
    text = table(asked, servers, edits)
    print(text, end="")
    if asked.output:
        pathlib.Path(asked.output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
