#!/usr/bin/env python3
"""Speed of cerium compared with its peers, on the same files, in one run.

    bench/peers.py --cerium ./cerium --make-model build/release/tool_make_model \\
        --llama-bench PATH [--ik-bench PATH] [--rounds 3] [--only TEXT] [-o FILE]

The programs take turns (A B A B ...), so that drift in the machine's speed affects all alike;
figures are medians over the rounds, ratios are medians of the ratios within a round. PATH is a
llama-bench of your own build, of llama.cpp or of ik_llama.cpp; llama-batched-bench, for parallel
continuations, is searched next to it.  Long tests run fewer rounds, and the deepest contexts with
cerium alone.  Each peer gets the best of its settings (at depth type of cache and flash attention;
ik_llama.cpp everywhere weights repacked or not), found before the first round.  The models have
random weights of real shapes: speed does not depend on the weights' values.  Nobody drafts.  The
hybrid shapes (bench/planted.py) need numpy and gguf.
"""
import argparse
import collections
import datetime
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import machine

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "build" / "bench-models"

Work = collections.namedtuple("Work", "title model test goal rounds alone", defaults=(99, False))
# test: the kind of run.  decode: 128 tokens; depth: 32 tokens after n; prefill: n tokens;
# parallel: n continuations of 64 tokens.  rounds: at most; alone: peers would take minutes.
# goal: ratio to llama.cpp, share of the roofline (0 = none stated).
Goal = collections.namedtuple("Goal", "ratio roofline", defaults=(0, 0))
PLANTED = "of bench/planted.py"
MODEL = {  # name: shape, type, further arguments of tool_make_model
    "15M Q4_0": ("tiny-15m", "q4_0", ("--context", "4096")),
    "15M Q8_0": ("tiny-15m", "q8_0", ("--context", "4096")),
    "60M Q4_0": ("60m", "q4_0", ("--context", "40960")),
    "60M Q8_0": ("60m", "q8_0", ()),
    "0.5B Q4_0": ("qwen2.5-coder-0.5b", "q4_0", ()),
    "0.5B Q8_0": ("qwen2.5-coder-0.5b", "q8_0", ()),
    "1.5B Q4_0": ("qwen2.5-coder-1.5b", "q4_0", ()),
    "1.5B Q4_K": ("qwen2.5-coder-1.5b", "q4_k", ()),
    "Qwen3-30B-A3B, 8 layers, Q4_0": ("qwen3-coder-30b-a3b", "q4_0", ("--layers", "8")),
    "gpt-oss-20b, 8 layers, MXFP4": ("gpt-oss-20b", "mxfp4", ("--layers", "8")),
    "ternary 2.4B TQ2_0": ("ternary-2b", "tq2_0", ("--head-type", "tq2_0")),
    "Qwen3.5 0.8B Q4_0": ("0.8b", PLANTED, ()),
    "Qwen3.5 2B Q4_0": ("2b", PLANTED, ()),
}
MOE = ("Qwen3-30B-A3B, 8 layers, Q4_0", "gpt-oss-20b, 8 layers, MXFP4")
WORKS = (
    [Work("decode", m, ("decode", 128), g, 2 if m.startswith("1.5B") else 99) for m, g in (
        ("15M Q4_0", Goal(1.8, 0.8)), ("15M Q8_0", Goal(1.8, 0.8)),
        ("60M Q4_0", Goal(1.3, 0.8)), ("60M Q8_0", Goal(1.3, 0.8)),
        ("0.5B Q4_0", Goal(1.3, 0.92)), ("0.5B Q8_0", Goal(1.15, 0.92)),
        ("1.5B Q4_0", Goal(1.3, 0.92)), ("1.5B Q4_K", Goal(2, 0.92)))] +
    [Work("decode", m, ("decode", 64), Goal(1.3), 2) for m in MOE] +
    [Work("decode", m, ("decode", 48), g) for m, g in (
        ("ternary 2.4B TQ2_0", Goal(2, 0.8)), ("Qwen3.5 0.8B Q4_0", Goal(1.5, 0.88)),
        ("Qwen3.5 2B Q4_0", Goal(1.5, 0.88)))] +
    [Work("decode at depth 4,096", m, ("depth", 4096), g, 2) for m, g in (
        ("60M Q4_0", Goal(4, 0.8)), ("0.5B Q4_0", Goal(3, 0.8)))] +
    [Work("decode at depth %s" % format(n, ","), m, ("depth", n), Goal(0, 0.8), 1, True)
     for m, n in (("60M Q4_0", 16384), ("60M Q4_0", 32768), ("0.5B Q4_0", 16384))] +
    [Work("prefill 512", m, ("prefill", 512), Goal(3), rounds) for m, rounds in (
        ("0.5B Q4_0", 99), ("1.5B Q4_0", 2), (MOE[0], 2), (MOE[1], 2))] +
    [Work("prefill 512", m, ("prefill", 512), g) for m, g in (
        ("ternary 2.4B TQ2_0", Goal()), ("Qwen3.5 0.8B Q4_0", Goal(2)),
        ("Qwen3.5 2B Q4_0", Goal(2)))] +
    [Work("prefill %d" % n, "0.5B Q4_0", ("prefill", n), Goal()) for n in (16, 64)] +
    [Work("prefill 4096", "0.5B Q4_0", ("prefill", 4096), Goal(), 1),
     Work("prefill 16384", "0.5B Q4_0", ("prefill", 16384), Goal(), 1, True)] +
    [Work("prefill %d" % n, "1.5B Q4_0", ("prefill", n), Goal(), 2) for n in (16, 64)] +
    [Work("16 continuations", m, ("parallel", 16), Goal(), 2) for m in ("0.5B Q4_0", "1.5B Q4_0")])


def run(command):
    out = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if out.returncode:
        sys.exit("%s\n%s" % (" ".join(map(str, command)), out.stderr[-600:]))
    return out.stdout


class Cerium:
    name = "cerium"

    def __init__(self, path, threads):
        self.path, self.threads = path, threads

    def prepare(self, model, test):
        return ()

    def measure(self, model, test, flags):
        """Tokens per second, and their share of the roofline beside it, or 0."""
        what, n = test
        words = {"decode": ("--prefill", 32, "--decode", n, "--depth", 0),
                 "depth": ("--prefill", 32, "--decode", 32, "--depth", n),
                 "prefill": ("--prefill", n, "--decode", 4, "--depth", 0),
                 "parallel": ("--prefill", 32, "--decode", 64, "--depth", 0, "--parallel", n)}[what]
        r = json.loads(run([self.path, "bench", "-m", model, "--threads", self.threads, "--runs", 1,
                            "--json", "--no-speculation", "--context", max(n + 256, 1024),
                            *words]))
        if what == "depth":
            return r["depth_tokens_per_s"], r.get("depth_roofline_share", 0)
        return r[what + "_tokens_per_s"], r["roofline_share"] if what == "decode" else 0


class LlamaBench:
    name = "llama.cpp"
    settings = ((),)  # one of them is chosen for each work, besides those at depth
    at_depth = staticmethod(lambda n: ("-p", 0, "-n", 32, "-d", n))

    def __init__(self, path, threads):
        self.path, self.threads = path, threads

    def prepare(self, model, test):
        """The settings with which it is fastest."""
        choices = self.settings if test[0] != "parallel" else ((),)
        if test[0] == "depth":
            choices = [("-fa", fa, "-ctk", kv, "-ctv", kv, *more)
                       for fa, kv, more in itertools.product((0, 1), ("f16", "q8_0"), choices)
                       if fa or kv == "f16"]  # values can be quantized with flash attention only
        if len(choices) == 1:
            return choices[0]
        return max(choices, key=lambda flags: self.measure(model, test, flags)[0])

    def measure(self, model, test, flags):
        what, n = test
        if what == "parallel":
            return self.measure_parallel(model, n), 0
        words = {"decode": ("-p", 0, "-n", n), "depth": self.at_depth(n),
                 "prefill": ("-p", n, "-n", 0)}[what]
        out = run([self.path, "-m", model, "-t", self.threads, "-r", 1, "-o", "json", *words,
                   *flags])
        return json.loads(out)[0]["avg_ts"], 0

    def measure_parallel(self, model, n):
        """Tokens per second of n together; 0 without the program that measures it."""
        path = pathlib.Path(self.path).parent / "llama-batched-bench"
        if not path.exists():
            return 0
        out = run([path, "-m", model, "-t", self.threads, "-c", 128 * n, "-npp", 4, "-ntg", 64,
                   "-npl", n, "--output-format", "jsonl"])
        rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return rows[-1]["speed_tg"]


class IkLlamaBench(LlamaBench):
    name = "ik_llama.cpp"
    settings = ((), ("-rtr", 1))  # weights repacked for several rows, or not
    at_depth = staticmethod(lambda n: ("-p", 0, "-n", 0, "-gp", "%d,32" % n))


def model_file(name, make_model):
    shape, kind, more = MODEL[name]
    path = MODELS / (re.sub(r"[^a-z0-9]+", "-", " ".join((name, *more)).lower()) + ".gguf")
    if not path.exists():
        MODELS.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        if kind == PLANTED:
            run([sys.executable, ROOT / "bench/planted.py", shape, part])
        else:
            run([make_model, "--shape", shape, "--type", kind, *more, "-o", part])
        part.rename(path)
    return path


def median(values):
    return statistics.median(values)


def compare(work, programs, args):
    """One row: each program's median, and the ratio to each peer within the rounds."""
    path = model_file(work.model, args.make_model)
    running = programs[:1] if work.alone else programs
    flags = [p.prepare(path, work.test) for p in running]
    figures, shares = [[] for _ in programs], []
    for r in range(min(args.rounds, work.rounds)):
        print("\r%s, %s: round %d " % (work.title, work.model, r + 1), end="", file=sys.stderr)
        for p, f, into in zip(running, flags, figures):
            rate, share = p.measure(path, work.test, f)
            into.append(rate)
            if p is programs[0] and share:
                shares.append(share)
    row = {"work": work.title, "model": work.model, "goal": work.goal._asdict(),
           "share": median(shares) if shares else None,
           "settings": {p.name: " ".join(map(str, f)) for p, f in zip(running, flags) if f}}
    for i, p in enumerate(programs):
        row[p.name] = median(figures[i]) if figures[i] else 0
        if i:
            row["ratio to " + p.name] = median([a / b for a, b in zip(figures[0], figures[i])
                                                if b] or [0])
    return row


def cells(row, programs):
    goal = row["goal"]
    yield "%s, %s" % (row["model"], row["work"])
    for p in programs:
        yield ("%.0f" if row[p.name] >= 100 else "%.1f") % row[p.name] if row[p.name] else ""
    for p in programs[1:]:
        yield "%.2f" % row["ratio to " + p.name] if row["ratio to " + p.name] else ""
    yield "%.2f" % goal["ratio"] if goal["ratio"] else ""
    yield "%.0f %%" % (100 * row["share"]) if row["share"] else ""
    yield "%.0f %%" % (100 * goal["roofline"]) if goal["roofline"] else ""


def head(programs, args):
    yield ("%s, %d threads, %d rounds in turn; tokens/s, medians; ratios within a round.  Random "
           "weights." % (machine.here(), args.threads, args.rounds))
    yield ""
    names = [p.name for p in programs]
    yield "| " + " | ".join(["work", *names, *("/ " + n for n in names[1:]), "goal",
                             "of the roofline", "goal"]) + " |"
    yield "|---" * (4 + 2 * len(names) - 1) + "|"


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cerium", default=ROOT / "cerium")
    p.add_argument("--make-model", default=ROOT / "build/release/tool_make_model")
    p.add_argument("--llama-bench", default=os.environ.get("LLAMA_BENCH"))
    p.add_argument("--ik-bench", default=os.environ.get("IK_BENCH"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--only", default="", help="works whose title and model contain this")
    p.add_argument("-o", "--output", help="a Markdown file; its figures go beside it as .json")
    args = p.parse_args()
    if not args.llama_bench:
        sys.exit("peers.py: no peer: name llama.cpp's llama-bench by --llama-bench or LLAMA_BENCH")
    programs = [Cerium(args.cerium, args.threads), LlamaBench(args.llama_bench, args.threads)]
    if args.ik_bench:
        programs.append(IkLlamaBench(args.ik_bench, args.threads))
    works = [w for w in WORKS if args.only in "%s, %s" % (w.model, w.title)]
    lines, rows = list(head(programs, args)), []
    print("\n".join(lines))
    start = time.monotonic()
    for i, work in enumerate(works):
        rows.append(compare(work, programs, args))
        print("\r%d of %d works, %.0f minutes\033[K" % (
            i + 1, len(works), (time.monotonic() - start) / 60), file=sys.stderr)
        lines.append("| " + " | ".join(cells(rows[-1], programs)) + " |")
        print(lines[-1], flush=True)
    for row in rows:
        for name, settings in row["settings"].items():
            lines.append("\n%s, %s: %s ran with `%s`." % (row["model"], row["work"], name,
                                                          settings))
            print(lines[-1])
    if args.output:
        out = pathlib.Path(args.output)
        out.write_text("# Beside its peers, %s\n\n%s\n" % (datetime.date.today(), "\n".join(lines)))
        out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
