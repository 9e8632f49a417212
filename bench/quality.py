#!/usr/bin/env python3
"""The distance of cerium and llama.cpp from the float model, on the same files, windows and tokens.

    python3 -m venv build/quality && build/quality/bin/pip install numpy gguf llama-cpp-python
    build/quality/bin/python bench/quality.py --text code=FILE --text prose=FILE MODEL.gguf ...

For each file of weights and each text: its output in floats (numpy, by tests/golden/make_real.py,
without code of either engine; cerium perplexity --exact for architectures that it does
not have), that of cerium and llama.cpp with defaults, and for every scored token the
difference: nats above the float model, how often the likeliest token is the float model's, mean
error of the log-probability.  Prints Markdown.  Windows advance by half; their second halves are
scored.  --keep FOLDER keeps the scores: an interrupted run continues from there.
"""
import argparse
import contextlib
import hashlib
import os
import platform
import subprocess
import sys
import tempfile

import gguf
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../tests/golden"))
import make_real  # pylint: disable=wrong-import-position


def cerium(args, model, text, *options):
    """[(token, log-probability, likeliest token)] of every token but the first."""
    with tempfile.TemporaryDirectory() as folder:
        scores = os.path.join(folder, "scores")
        command = [args.cerium, "perplexity", "-m", model, "-f", text, "--window",
                   str(args.window), "--scores", scores, "--json", *options]
        if args.windows:
            command += ["--windows", str(args.windows)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return np.loadtxt(scores, ndmin=2)


def kept(args, compute, *what):
    """compute() -> array, once for all runs with --keep."""
    if not args.keep:
        return compute()
    os.makedirs(args.keep, exist_ok=True)
    key = "\n".join(map(str, [*what, args.window, args.windows]))
    path = os.path.join(args.keep, hashlib.sha256(key.encode()).hexdigest()[:24] + ".npy")
    if not os.path.exists(path):
        np.save(path + ".part.npy", compute())
        os.replace(path + ".part.npy", path)
    return np.load(path)


def log_softmax(rows):
    """Logarithms of the probabilities behind rows of logits, a few at a time."""
    for i in range(0, len(rows), 32):
        logits = rows[i:i + 32].astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        yield from logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def score(args, model, tokens):
    """As in cerium()."""
    out, at = [], 0
    while len(out) < len(tokens) - 1 and not (args.windows and
                                              at >= args.windows * args.window // 2):
        window = tokens[at:at + args.window]
        first = len(out) - at  # the logits that score the first token are kept
        for token, logs in zip(window[first + 1:], model.logs(window, first)):
            out.append((token, logs[token], int(logs.argmax())))
        at += args.window // 2
    return np.array(out)


class Floats:
    """A model in float32, by numpy."""

    def __init__(self, model):
        self.model = make_real.open_model(model)

    def logs(self, tokens, first):
        """For a new window: log-probabilities after tokens [first, end)."""
        return log_softmax(self.model.logits(tokens, first))


def tokens_of(args, model, text):
    ids = subprocess.run([args.cerium, "tokenize", "-m", model, "-f", text, "--begin", "--ids"],
                         check=True, stdout=subprocess.PIPE, text=True).stdout
    return [int(i) for i in ids.split()]


def in_floats(args, model, text):
    """As in cerium()."""
    reader = gguf.GGUFReader(model)
    if reader.fields["general.architecture"].contents() not in make_real.MODELS:
        return cerium(args, model, text, "--exact")
    return score(args, Floats(model), tokens_of(args, model, text))


class LlamaCpp:
    """A model in llama.cpp, through llama-cpp-python."""

    def __init__(self, args, model):
        import llama_cpp  # only if it is compared
        self.lib, self.window = llama_cpp, args.window
        llama_cpp.llama_backend_init()
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, None)
        self.model = llama_cpp.llama_model_load_from_file(
            model.encode(), llama_cpp.llama_model_default_params())
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = args.window
        params.n_threads = params.n_threads_batch = args.threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.n_vocab = llama_cpp.llama_vocab_n_tokens(self.vocab)

    def tokens(self, text):
        data = open(text, "rb").read()
        out = (self.lib.llama_token * (len(data) + 8))()
        n = self.lib.llama_tokenize(self.vocab, data, len(data), out, len(out), True, False)
        return list(out[:n])

    def logs(self, tokens, first):
        """For a new window: log-probabilities after tokens [first, end)."""
        n = len(tokens)
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        batch = self.lib.llama_batch_init(n, 0, 1)
        batch.n_tokens = n
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.logits[i] = token, i, i >= first
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        if self.lib.llama_decode(self.context, batch) != 0:
            sys.exit("quality.py: llama.cpp does not compute the batch")
        rows = self.lib.llama_get_logits(self.context)
        rows = np.ctypeslib.as_array(rows, shape=(n - first, self.n_vocab))
        yield from log_softmax(rows)
        self.lib.llama_batch_free(batch)


def row(name, text, engine, exact, have):
    if len(have) != len(exact) or (have[:, 0] != exact[:, 0]).any():
        sys.exit(f"quality.py: {text}: the engines tokenize it differently")
    error = have[:, 1] - exact[:, 1]
    share = (have[:, 2] == exact[:, 2]).mean()
    n = len(error)
    return (f"| {name} | {text} | {n:,} | {engine} | {-error.mean():+.4f} +- "
            f"{error.std() / n ** 0.5:.4f} | {100 * share:.2f} +- "
            f"{100 * (share * (1 - share) / n) ** 0.5:.2f} | {abs(error).mean():.4f} |")


def flags(args):
    with contextlib.suppress(OSError, ValueError):
        for line in open("/proc/cpuinfo", encoding="utf-8"):
            if line.startswith("model name"):
                return f"{line.split(':')[1].strip()}, {args.threads} threads"
    return f"{platform.machine()}, {args.threads} threads"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("models", nargs="+", metavar="MODEL.gguf")
    parser.add_argument("--text", action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--cerium", default="./cerium")
    parser.add_argument("--no-llama", action="store_true", help="only cerium")
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--windows", type=int, default=0, help="maximum for each text")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--keep", metavar="FOLDER", help="for the scores")
    parser.add_argument("--option", action="append", default=[],
                        help="for cerium perplexity, such as --option=--kv=f16")
    args = parser.parse_args()
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], check=False, text=True,
                            stdout=subprocess.PIPE).stdout.strip()
    print(f"{flags(args)}; cerium {commit} {' '.join(args.option)}".rstrip())
    print("\n| file | text | tokens | engine | nats above float | likeliest token the same, % | "
          "mean error of a log-probability |\n|---|---|---|---|---|---|---|", flush=True)
    for model in args.models:
        llama = None
        for text in args.text:
            name, path = text.split("=", 1)
            label, on = os.path.basename(model), (os.path.realpath(model), os.path.realpath(path))
            exact = kept(args, lambda: in_floats(args, model, path), "floats", *on)
            have = kept(args, lambda: cerium(args, model, path, *args.option), commit,
                        *args.option, *on)
            print(row(label, name, "cerium", exact, have), flush=True)
            if args.no_llama:
                continue
            llama = llama or LlamaCpp(args, model)
            have = kept(args, lambda: score(args, llama, llama.tokens(path)), "llama.cpp", *on)
            print(row(label, name, "llama.cpp", exact, have), flush=True)


if __name__ == "__main__":
    main()
