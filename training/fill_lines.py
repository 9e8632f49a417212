#!/usr/bin/env python3
"""How often `cerium complete` writes exactly the line that was removed.

A line of a held-out file is removed and the command asked for it, with the
cursor at the end of the line before. Comments, very short lines and lines
after a blank one are skipped, and so are tests. Exact means equal but for
the white space around it; similar is the mean of difflib's ratio.
"""

import argparse
import difflib
import json
import random
import re
import subprocess
import tempfile
from pathlib import Path

from tokenizer import documents

HERE = Path(__file__).parent
TESTS = re.compile(r"(^|/)tests?(/|\.|_)")


def places(docs, count, seed):
    """(document, its lines, index of the line to ask for), at random."""
    draw = random.Random(seed)
    while count:
        doc = draw.choice(docs)
        lines = doc["text"].split("\n")
        index = draw.randrange(5, len(lines) - 2)
        line = lines[index].strip()
        if (len(line) >= 4 and lines[index - 1].strip()
                and not line.startswith(("#", "*", "/*", "//"))):
            count -= 1
            yield doc, lines, index


def completed(args, folder, doc, lines, index):
    """The first line of the command's output, stripped."""
    path = folder / Path(doc["path"]).name
    path.write_text("\n".join(lines[:index] + lines[index + 1:]))
    done = subprocess.run(
        [args.cerium, "complete", "-m", args.model, "-n", "40", "--threads",
         str(args.threads), "--json", "--quiet", f"{path}:{index}"],
        capture_output=True, text=True, check=True)
    path.unlink()
    return json.loads(done.stdout)["text"].lstrip("\n").split("\n")[0].strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="GGUF file")
    parser.add_argument("--cerium", default=HERE.parent / "cerium")
    parser.add_argument("--held-out", type=Path,
                        default=HERE / "work/corpus/held_out.jsonl")
    parser.add_argument("--count", type=int, default=200,
                        help="lines of each language")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--show", type=int, default=0,
                        help="print this many lines and completions")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    docs = {}
    for doc in documents(args.held_out):
        if not TESTS.search(doc["path"]) and doc["text"].count("\n") > 40:
            docs.setdefault(doc["language"], []).append(doc)
    for language, own in sorted(docs.items()):
        exact = empty = similar = 0
        with tempfile.TemporaryDirectory() as folder:
            for number, (doc, lines, index) in enumerate(
                    places(own, args.count, args.seed)):
                line = lines[index].strip()
                text = completed(args, Path(folder), doc, lines, index)
                exact += text == line
                empty += not text
                similar += difflib.SequenceMatcher(None, text, line).ratio()
                if number < args.show:
                    print(f"  {line}\n> {text}")
        print(f"{language:12} exact {exact / args.count:.3f}  similar "
              f"{similar / args.count:.3f}  empty {empty / args.count:.3f}",
              flush=True)


if __name__ == "__main__":
    main()
