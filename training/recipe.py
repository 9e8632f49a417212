#!/usr/bin/env python3
"""The whole way to a model in one command: from packages to a checked GGUF.

    python recipe.py                                    two cores, 100 minutes
    python recipe.py --init ../models/cerium-line.gguf   continues a model
    python recipe.py --size 31m --device cuda --minutes 25

Each step is one of the programs here, run as by hand and printed
first; --dry-run only prints. A step whose result exists is skipped,
so that an interrupted run continues with the same command; --from STEP repeats
it and those after it.
"""

import argparse
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

# Two cores can train five million weights in two hours; an accelerator
# thirty-one in half an hour. Every row is whole groups of 128.
SIZES = {
    "5m": {"layers": 4, "width": 256, "heads": 4, "kv_heads": 2, "ffn": 768,
           "vocab": 8192},
    "10m": {"layers": 8, "width": 256, "heads": 4, "kv_heads": 2, "ffn": 1024,
            "vocab": 8192},
    "11m": {"layers": 5, "width": 384, "heads": 6, "kv_heads": 2,
            "ffn": 1024, "vocab": 8192},
    "31m": {"layers": 8, "width": 512, "heads": 8, "kv_heads": 2,
            "ffn": 1408, "vocab": 16384},
}
DEVICES = {
    "cpu": {"batch": 8192, "micro": 1024, "chunk": 256, "workers": 2},
    "cuda": {"batch": 131072, "micro": 65536, "chunk": 8192, "workers": 1},
}
STEPS = ["fetch", "build", "tokenizer", "pack", "init", "grow", "train",
         "evaluate", "export", "check", "lines"]


def flags(options):
    return [word for name, value in options.items()
            for word in ("--" + name.replace("_", "-"), str(value))]


def plan(args):
    """[(step, its result or None, arguments of the command)], in order."""
    work, out = args.work, args.out
    size, device = SIZES[args.size], DEVICES[args.device]
    corpus, tokens = work / "corpus", work / "tokens"
    tokenizer, run = work / "tokenizer.json", work / "run"
    checkpoint, start = run / "checkpoint.pt", work / "start.pt"
    grown = work / "grown.pt"
    texts = ["--corpus", corpus, "--tokenizer", tokenizer]
    rows = [str(row) for row in args.rows]

    vocabulary = (["--from-gguf", args.init] if args.init
                  else flags({"entries": size["vocab"]}))
    train = [*flags(size), *flags(device), "--device", args.device,
             "--rows", *rows, "--long-share", "0.25",  # 8 % of the tokens
             "--minutes", str(args.minutes),
             "--middles", "4", "--z-loss", "0.0001",
             "--tokens", tokens, "--tokenizer", tokenizer,
             "--held-out", corpus / "held_out.jsonl", "--out", run]
    if args.four_bits:
        train += ["--four-bits", str(args.four_bits)]
    if args.init:
        train += ["--init", grown if args.after else start]
    steps = [
        # Downloads are only for the corpus: not needed if that exists.
        ("fetch", corpus / "train.jsonl",
         ["corpus.py", "fetch", "--downloads", work / "downloads"]),
        ("build", corpus / "train.jsonl",
         ["corpus.py", "build", "--downloads", work / "downloads", "--out",
          corpus, "--exclude", *args.exclude]),
        ("tokenizer", tokenizer, ["tokenizer.py", "--corpus", corpus, "--out",
                                  tokenizer, *vocabulary]),
        ("pack", tokens / "facts.json",
         ["pack.py", *texts, "--out", tokens, "--rows", *rows, "--limit",
          str(args.limit), *(["--mix", *args.mix] if args.mix else [])]),
        ("train", run / "done", ["train.py", *train]),
        ("evaluate", None,
         ["evaluate.py", checkpoint, "--tokenizer", tokenizer, "--held-out",
          corpus / "held_out.jsonl", "--context", "1024",
          "--skip", r"(^|/)tests?/"]),
        ("export", out, ["export_gguf.py", checkpoint, out, "--name", out.stem,
                         "--tokenizer", tokenizer, "--type",
                         "q4_0" if args.four_bits else "q8_0"]),
        ("check", None, ["check_export.py", checkpoint, out]),
        ("lines", None, ["fill_lines.py", out, "--held-out",
                         corpus / "held_out.jsonl"]),
    ]
    if args.init and args.after:
        steps.insert(4, ("grow", grown, [
            "grow.py", start, grown, "--after", *map(str, args.after),
            *flags({"ffn": size["ffn"]})]))
    if args.init:
        steps.insert(4, ("init", start, ["import_gguf.py", args.init, start]))
    return steps


def perform(step, words):
    """Run one step; its failure ends us."""
    done = subprocess.run([sys.executable, HERE / words[0], *words[1:]])
    if done.returncode:
        raise SystemExit(f"{step}: ended with status {done.returncode}; the "
                         "same command continues from here")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--size", choices=SIZES, default="5m")
    add("--device", choices=DEVICES, default="cpu")
    add("--minutes", type=float, default=100, help="of training")
    add("--init", type=Path, metavar="GGUF", help="a model of this size to "
        "continue; its vocabulary is kept")
    add("--after", type=int, nargs="+", default=[], metavar="LAYER",
        help="that model is smaller: put a layer behind each of these")
    add("--exclude", nargs="*", default=[], metavar="JSONL",
        help="evaluation sets that training text must not copy")
    add("--rows", type=int, nargs="+", default=[512, 8192],
        help="row lengths, the last for the end of the run")
    add("--limit", type=int, default=0, metavar="TOKENS",
        help="pack no more of each row length; 0: all")
    add("--mix", nargs="+", default=[], metavar="LANGUAGE=PART",
        help="the share of that limit for each language")
    add("--four-bits", type=float, default=0, metavar="SHARE", help="of the "
        "run, at its end, learns to be rounded, and the file is in Q4_0")
    add("--work", type=Path, default=HERE / "work")
    add("--out", type=Path, default=HERE / "work/model.gguf",
        help="the GGUF file")
    add("--from", dest="first", choices=STEPS, metavar="STEP",
        help="repeat this step and all after it: " + ", ".join(STEPS))
    add("--to", dest="last", choices=STEPS, metavar="STEP", default="lines")
    add("--dry-run", action="store_true", help="only print the commands")
    args = parser.parse_args()
    if args.after and not args.init:
        parser.error("--after says how a model of --init grows")
    anew = False
    for step, made, words in plan(args):
        if STEPS.index(step) > STEPS.index(args.last):
            break
        anew |= step == args.first
        if made and made.exists() and not anew:
            print(f"# {step}: {made} exists", flush=True)
            continue
        if not made and args.first and not anew:  # only prints something
            continue
        words = [str(word) for word in words]
        print(f"# {step}\n{shlex.join(['python', *words])}", flush=True)
        if args.dry_run:
            continue
        if anew and step == "train":  # otherwise it would continue with what it has
            shutil.rmtree(made.parent, ignore_errors=True)
        perform(step, words)
        if step == "train":  # a checkpoint alone does not mean that the run ended
            made.touch()


if __name__ == "__main__":
    main()
