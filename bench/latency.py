#!/usr/bin/env python3
"""The gain of speculation: recorded edits, the bundled model's own text, and the overhead.

    bench/latency.py [--cerium ./cerium] [--make-model PATH] [--shape NAME]... [--edits FILE]...
                     [--files DIR] [--model FILE]... [--count 100] [--limit N] [-o FOLDER]

1. Edits are replayed (`cerium bench --replay`) with each model, with drafts and plainly in turn;
   with --make-model also with random weights of the 0.5B and 1.5B shapes (or those named), in Q4_0
   and in Q4_W.
2. The bundled model continues the first halves of files (of a folder, or of the edits, and if
   those are fewer than --count, of this project): 256 greedy tokens with drafts and without, in
   turn; the texts must be equal.
3. From the same runs: time between passes, time for drafting, allocations.

Writes a table (latency.md) and, if there is gnuplot, a plot of the gain by edit (latency.svg).
"""
import argparse
import datetime
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import machine

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"latency: {' '.join(map(str, command))}: {done.stderr.strip()}")
    return done


def replay(cerium, model, edits, limit, prediction):
    command = [cerium, "bench", "--replay", edits, "--json"]
    if model:
        command += ["-m", model]
        if "bench-models" in str(model):  # random weights: their tokens are not words
            command += ["--tokenizer", ROOT / "models" / "cerium-line.gguf"]
    if limit:
        command += ["--edits", limit]
    if not prediction:
        command += ["--no-prediction"]
    return json.loads(run(command).stdout)


def make_shape(make_model, cerium, shape):
    """Its files in Q4_0 and, from one in Q8_0, in Q4_W."""
    folder = ROOT / "build" / "bench-models"
    folder.mkdir(parents=True, exist_ok=True)
    first, second = folder / f"{shape}-q4_0.gguf", folder / f"{shape}-q4_w.gguf"
    if not first.exists():
        run([make_model, "--shape", shape, "--type", "q4_0", "-o", first])
    if not second.exists():
        source = folder / f"{shape}-q8_0.gguf"
        run([make_model, "--shape", shape, "--type", "q8_0", "-o", source])
        run([cerium, "quantize", "--head", "q4_w", source, second, "q4_w"])
        source.unlink()
    return [first, second]


def read_all(paths):
    return [p.read_bytes().decode("utf-8", "replace") for p in sorted(paths) if p.is_file()]


def texts_of(files, edits, count):
    if files:
        return read_all(pathlib.Path(files).rglob("*"))[:count]
    texts = [json.loads(line)["before"] for name in edits for line in open(name, encoding="utf-8")]
    if len(texts) < count:
        texts += read_all((ROOT / "src").rglob("*.c"))
    return texts[:count]


def own_text(cerium, text, folder):
    """Tokens/s with drafts and without; the texts are compared."""
    prompt = pathlib.Path(folder) / "prompt"
    lines = text.splitlines(keepends=True)
    prompt.write_text("".join(lines[:len(lines) // 2])[-6000:], encoding="utf-8")
    speeds, outputs = [], []
    for options in ([], ["--no-speculation"]):
        done = run([cerium, "run", "--raw", "-n", 256, "--ignore-end", *options, "-f", prompt])
        outputs.append(done.stdout)
        speeds.append(float(re.search(r"at ([0-9.]+) tokens/s", done.stderr).group(1)))
    if outputs[0] != outputs[1]:
        sys.exit("latency: with drafts the text differs, which must never happen")
    return speeds


def plot(rows, target):
    """The gain of each edit, sorted, one line per model."""
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for i, (name, ratios) in enumerate(rows):
            data = pathlib.Path(folder) / f"{i}.dat"
            data.write_text("".join(f"{r}\n" for r in sorted(ratios)), encoding="utf-8")
            lines.append(f"'{data}' using ($0+1):1 with linespoints lw 2 title '{name}'")
        script = (f"set terminal svg size 800,480 background 'white'\nset output '{target}'\n"
                  "set xlabel 'edits, the least gain first'\nset ylabel 'times plain decoding'\n"
                  "set grid\nset yrange [0:*]\nset key below noenhanced\n"
                  f"plot {', '.join(lines)}\n")
        subprocess.run(["gnuplot"], input=script, text=True, check=True)


def main():
    ask = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ask.add_argument("--cerium", default=str(ROOT / "cerium"))
    ask.add_argument("--make-model")
    ask.add_argument("--shape", action="append")
    ask.add_argument("--edits", action="append")
    ask.add_argument("--files")
    ask.add_argument("--model", action="append", default=[])
    ask.add_argument("--count", type=int, default=100)
    ask.add_argument("--limit", type=int, default=0)
    ask.add_argument("-o", "--output", default=str(ROOT / "bench" / "results"))
    asked = ask.parse_args()
    edits = asked.edits or [str(ROOT / "bench" / "edits" / "edits.jsonl")]
    models = [None] + asked.model
    if asked.make_model:
        for shape in asked.shape or SHAPES:
            models += make_shape(asked.make_model, asked.cerium, shape)

    out = [f"# Speculation, {datetime.date.today()}", "",
           f"{machine.here()}, `make bench-latency`. With drafts and plainly in turn.", "",
           "| edits | model | drafts from | edits | tokens/s | plain | times | median edit | "
           "times, processor time | tokens a pass | right |", "|" + "---|" * 11]
    overhead = ["", "Between passes and for drafting, us:", "",
                "| model | a pass with drafts | a token of it | a token plainly | "
                "drafting a pass | allocations |", "|" + "---|" * 6]
    lines = []
    for name in edits:
        for model in models:
            for prediction in (True, False):
                r = replay(asked.cerium, model, name, asked.limit, prediction)
                label = f"{r['model']} {r['type']}"
                out.append(
                    f"| {pathlib.Path(name).name} | {label} | "
                    f"{'prediction' if prediction else 'prompt'} | {r['edits']} | "
                    f"{r['tokens_per_s']:.0f} | {r['plain_tokens_per_s']:.0f} | {r['ratio']:.2f} | "
                    f"{r['median_ratio']:.2f} | {r['processor_ratio']:.2f} | "
                    f"{r['tokens_per_pass']:.1f} | {100 * r['acceptance']:.0f} % |")
                if prediction:
                    lines.append((f"{label}, {pathlib.Path(name).name}", r["ratios"]))
                    overhead.append(
                        f"| {label} | {r['gap_us']:.1f} | "
                        f"{r['gap_us'] / r['tokens_per_pass']:.1f} | {r['plain_gap_us']:.1f} | "
                        f"{r['drafting_us_per_pass']:.2f} | {r['allocations']} |")
    out += overhead
    texts = texts_of(asked.files, edits, asked.count)
    with tempfile.TemporaryDirectory() as folder:
        speeds = [own_text(asked.cerium, text, folder) for text in texts]
    fast, plain = (statistics.mean(s[k] for s in speeds) for k in (0, 1))
    out += ["", f"The bundled model's own text after {len(speeds)} files, 256 greedy tokens each, "
            f"the same with drafts and without: {fast:.0f} tokens/s against {plain:.0f} "
            f"(means; median gain {statistics.median(s[0] / s[1] for s in speeds):.2f})."]
    target = pathlib.Path(asked.output)
    target.mkdir(parents=True, exist_ok=True)
    (target / "latency.md").write_text("\n".join(out) + "\n", encoding="utf-8")
    print("\n".join(out))
    try:
        plot(lines, target / "latency.svg")
    except FileNotFoundError:
        print("no plot: gnuplot is not here (Debian: gnuplot-nox)", file=sys.stderr)


if __name__ == "__main__":
    main()
