#!/usr/bin/env python3
"""The table of docs/quantization.md: the cost and quality of each type of weights.

Quantizes a model to every type narrower than its own, with and without an importance
matrix, and measures the files: bytes, perplexity, how often the likeliest token is the whole
model's, ends of lines written exactly as a paired difference, tokens a second. Prints Markdown.

    make bench-quant [QUANT="--set held_out.jsonl --calibrate text"]
"""
import argparse
import json
import os
import subprocess
import tempfile

TYPES = ["Q8_0", "Q8_W", "Q6_K", "Q5_K", "Q5_1", "Q5_0", "Q4_K", "Q4_1", "IQ4_NL", "Q4_0", "IQ4_XS",
         "MXFP4", "Q4_W"]


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL).stdout


def tokens_a_second(args, model):
    out = json.loads(run(args.cerium, "bench", "-m", model, "--prefill", "16", "--decode", "128",
                         "--depth", "0", "--runs", str(args.runs), "--json"))
    return out["decode_tokens_per_s"]


def measure(args, model, base):
    perplexity = json.loads(run(args.cerium, "perplexity", "-m", model, "-f", args.text, "--json"))
    out = json.loads(run(args.cerium, "eval", "-m", model, "--set", args.set, "--against", base,
                         "--within", "--lines", str(args.lines), "--tokens", str(args.tokens),
                         "--bytes", "1K", "--json"))
    lines = out["languages"]["all"]["infill"]["exact"]["value"]
    less = out["languages"]["all"]["difference"]["infill"]["exact"]
    return (f"{os.path.getsize(model):,} | {perplexity['perplexity']:.3f} | "
            f"{100 * out['agreement']:.1f} | {100 * lines:.1f} | "
            f"{100 * less['value']:+.1f} [{100 * less['low']:+.1f}, {100 * less['high']:+.1f}] | "
            f"{tokens_a_second(args, model):.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--cerium", default="./cerium")
    parser.add_argument("--model", default="models/cerium-line.gguf")
    parser.add_argument("--set", default="src", help="for cerium eval")
    parser.add_argument("--text", default="src/cpu/executor.c", help="for cerium perplexity")
    parser.add_argument("--calibrate", default="README.md", help="text for the importance matrix")
    parser.add_argument("--importance", action=argparse.BooleanOptionalAction, default=True,
                        help="each type also with an importance matrix")
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--types", nargs="+", default=TYPES)
    args = parser.parse_args()
    print("| type | bytes | perplexity | likeliest token the same, % | ends of lines exact, % | "
          "less the whole model's | tokens/s |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as work:
        matrix, to = os.path.join(work, "imatrix.gguf"), os.path.join(work, "model.gguf")
        if args.importance:
            run(args.cerium, "imatrix", "-m", args.model, args.calibrate, matrix)
        print(f"| as it is | {measure(args, args.model, args.model)} |", flush=True)
        for kind in args.types:
            by_importance = [(("--imatrix", matrix), kind + ", imatrix")]
            for more, name in [((), kind)] + by_importance * args.importance:
                run(args.cerium, "quantize", *more, "--head", kind, args.model, to, kind)
                if os.path.getsize(to) >= os.path.getsize(args.model):
                    continue  # not stored wider
                print(f"| {name} | {measure(args, to, args.model)} |", flush=True)


main()
