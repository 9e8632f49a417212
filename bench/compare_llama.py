#!/usr/bin/env python3
"""Decode and prefill speed of cerium beside llama.cpp's, on the same files, in one run.

    bench/compare_llama.py --llama-bench PATH [--rounds 5] [--threads 2] MODEL.gguf ...

The two programs take turns (A B A B ...), so that a machine whose speed drifts slows both alike;
the table gives medians over the rounds and the median of the ratios within a round.  PATH is a
llama-bench of your own build.  Models with random weights of real shapes do: speed does not depend
on what the weights say (build/release/tool_make_model).
"""
import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent


def cerium(model, threads, args):
    out = subprocess.run([str(HERE / "cerium"), "bench", "-m", model, "--threads", str(threads),
                          "--prefill", str(args.prefill), "--decode", str(args.decode), "--depth",
                          "0", "--runs", "1", "--json"], capture_output=True, text=True, check=True)
    r = json.loads(out.stdout)
    return {"decode": r["decode_tokens_per_s"], "prefill": r["prefill_tokens_per_s"],
            "roofline": r["roofline_tokens_per_s"], "first": r["open_to_first_token_s"]}


def llama(model, threads, args):
    out = subprocess.run([args.llama_bench, "-m", model, "-t", str(threads), "-p",
                          str(args.prefill), "-n", str(args.decode), "-r", "1", "-o", "json"],
                         capture_output=True, text=True, check=True)
    r = {}
    for test in json.loads(out.stdout):
        r["decode" if test["n_gen"] else "prefill"] = test["avg_ts"]
        r["build"] = test.get("build_commit", "?")
    return r


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--llama-bench", required=True)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--prefill", type=int, default=512)
    p.add_argument("--decode", type=int, default=128)
    p.add_argument("models", nargs="+")
    args = p.parse_args()

    commit = subprocess.run(["git", "-C", str(HERE), "describe", "--always", "--dirty"],
                            capture_output=True, text=True).stdout.strip()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo")
                if line.startswith("model name")), platform.machine())
    print(f"{cpu}, {args.threads} threads, cerium {commit}, {args.rounds} rounds in turn; "
          "tokens/s, medians\n")
    print("| model | decode: cerium | llama.cpp | ratio | of the roofline | "
          "prefill: cerium | llama.cpp | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for model in args.models:
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(cerium(model, args.threads, args))
            theirs.append(llama(model, args.threads, args))

        def med(rows, key):
            return statistics.median(r[key] for r in rows)

        def ratio(key):
            return statistics.median(a[key] / b[key] for a, b in zip(ours, theirs))

        share = statistics.median(r["decode"] / r["roofline"] for r in ours)
        print(f"| {pathlib.Path(model).stem} | {med(ours, 'decode'):.1f} | "
              f"{med(theirs, 'decode'):.1f} | {ratio('decode'):.2f} | {100 * share:.0f} % | "
              f"{med(ours, 'prefill'):.0f} | {med(theirs, 'prefill'):.0f} | "
              f"{ratio('prefill'):.2f} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
