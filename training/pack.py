#!/usr/bin/env python3
"""Turn the corpus into rows of tokens, most of them fill-in-the-middle.

A row is exactly one training sequence (row length + 1 tokens). A
fill-in-the-middle example never crosses a row, because a middle without its
prefix teaches nothing; plain documents fill the rest and continue in the
next row. Rows are in one uint16 array, to be mapped into memory.
"""

import argparse
import collections
import json
import random
import re
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from tokenizer import documents

HERE = Path(__file__).parent
NEIGHBOUR_TOKENS_MIN = 64  # less of another file is useless
LINE_END = "\u010a"  # as spelled in tokens of byte-level vocabularies


class Writer:
    """Fills rows from a stream of plain text and whole examples."""

    def __init__(self, row, ratio):
        self.row = row
        self.ratio = ratio  # example tokens for each plain token
        self.rows = []
        self.current = []
        self.examples = []
        self.totals = {"plain": 0, "fim": 0}

    def add_example(self, tokens):
        self.examples.append(tokens)

    def add_plain(self, tokens):
        """Place plain tokens, examples first wherever they are due."""
        position = 0
        while position < len(tokens):
            self.place_examples()
            space = self.row - len(self.current)
            taken = tokens[position:position + space]
            self.current += taken
            self.totals["plain"] += len(taken)
            position += len(taken)
            self.close_row()

    def place_examples(self):
        """Whole examples, while they fit and are below their share."""
        while (self.examples and self.totals["fim"]
               <= self.ratio * self.totals["plain"]):
            if len(self.examples[-1]) > self.row - len(self.current):
                return
            example = self.examples.pop()
            self.current += example
            self.totals["fim"] += len(example)
            self.close_row()

    def close_row(self):
        if len(self.current) == self.row:
            self.rows.append(self.current)
            self.current = []


class Openings:
    """How much of a line's end begins a longer token: token healing.

    Infill takes that off the prefix and lets the middle begin
    with it, so that no token ends just because of the cursor. At the
    beginning of a line it is empty.
    """

    TOKENS = 4      # last tokens of the text that a longer one may span
    CHARACTERS = 64

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        special = {t.content for t in
                   tokenizer.get_added_tokens_decoder().values()}
        self.begun = {token[:n] for token in tokenizer.get_vocab()
                      if token not in special for n in range(1, len(token))}

    def __call__(self, text):
        tail = text[-self.CHARACTERS:]
        found = self.tokenizer.encode(tail)
        piece, characters = "", 0
        for token, (begin, _) in list(zip(found.tokens, found.offsets)
                                      )[:0:-1][:self.TOKENS]:
            if LINE_END in token:
                break
            piece = token + piece
            if piece in self.begun:
                characters = len(tail) - begin
        return characters


class Packer:
    def __init__(self, tokenizer, seed, row, args):
        self.encode = lambda text: tokenizer.encode(text).ids
        self.opening = Openings(tokenizer)
        self.token = {name: tokenizer.token_to_id(f"<|{name}|>") for name in (
            "endoftext", "fim_prefix", "fim_suffix", "fim_middle",
            "repo_name", "file_sep")}
        self.random = random.Random(seed)
        self.row = row
        self.args = args

    def header(self, doc):
        """The file's path or its name, sometimes below its project's name."""
        draw = self.random.random()
        if draw > self.args.header_share:
            return []
        tokens = []
        if draw < self.args.header_share / 4:
            tokens = [self.token["repo_name"],
                      *self.encode(doc["package"] + "\n")]
        path = doc["path"]
        if self.random.random() < 0.5:  # as an editor names it
            path = path.rpartition("/")[2]
        return tokens + [self.token["file_sep"], *self.encode(path + "\n")]

    def neighbour(self, doc, others, room):
        """Another file of the package, or its beginning, as earlier text in
        the context: at most `room` tokens, or nothing."""
        if len(others) < 2 or self.random.random() >= self.args.neighbours:
            return []
        other = others[self.random.randrange(len(others))]
        if other is doc:
            return []
        token = self.token
        tokens = [token["repo_name"], *self.encode(doc["package"] + "\n"),
                  token["file_sep"], *self.encode(other["path"] + "\n"),
                  *self.encode(other["text"][:4 * max(room, 0)])][:room]
        return tokens if len(tokens) >= NEIGHBOUR_TOKENS_MIN else []

    def named(self, doc):
        """The header of a file after another one: its path."""
        return [self.token["file_sep"], *self.encode(doc["path"] + "\n")]

    def plain(self, doc):
        return (self.header(doc) + self.encode(doc["text"])
                + [self.token["endoftext"]])

    def pieces(self, text):
        """Stretches of whole lines, of the sizes that a row can hold."""
        position = 0
        while position < len(text):
            size = self.random.randint(150, int(self.row * 2.9))
            end = text.find("\n", position + size) + 1 or len(text)
            yield text[position:end]
            position = end

    def lines_on(self, text, position):
        """The end of the line of `position`, or of one a little below it."""
        lines = 1
        if self.random.random() < 0.5:
            lines = min(self.random.randint(1, 8), self.random.randint(1, 8))
        for _ in range(lines):
            position = text.find("\n", position + 1)
            if position < 0:
                return len(text)
        return position

    def span(self, text):
        """Where the middle begins and ends: mostly at a likely cursor."""
        begin = self.random.randrange(len(text))
        start = text.rfind("\n", 0, begin) + 1
        stop = text.find("\n", begin)
        stop = len(text) if stop < 0 else stop
        kind = self.random.random()
        if kind < 0.30:  # the end of a line: the lines below
            return stop, self.lines_on(text, stop)
        if kind < 0.48:  # the beginning of a line, to the end of a line
            return start, self.lines_on(text, start - 1)
        if kind < 0.60:  # after the indentation
            start += re.match(r"[ \t]*", text[start:]).end()
            return start, self.lines_on(text, start - 1)
        if kind < 0.82:  # within a line, to its end
            return begin, stop
        if kind < 0.88:  # within a line
            return begin, self.random.randint(begin, stop)
        if kind < 0.94:  # whole lines, with their last line break
            return start, min(len(text), self.lines_on(text, start - 1) + 1)
        length = int(len(text) * self.random.random() ** 2 / 2)
        return begin, min(len(text), begin + length)  # any two characters

    def hole(self, text):
        """A span with something in it, and rarely a blank line first."""
        for _ in range(20):
            begin, end = self.span(text)
            middle = text[begin:end]
            if middle.strip() and (not middle.startswith("\n\n")
                                   or self.random.random() < 0.2):
                return begin, end
        return 0, len(text)

    def example(self, head, text):
        begin, end = self.hole(text)
        begin -= self.opening(text[:begin])
        token = self.token
        # The suffix first: then the text before the hole comes right before the
        # middle, and a small model need not learn to look for it.
        return [*head, token["fim_suffix"], *self.encode(text[end:]),
                token["fim_prefix"], *self.encode(text[:begin]),
                token["fim_middle"], *self.encode(text[begin:end]),
                token["endoftext"]]

    def room(self, kind):
        """How many tokens documents of a kind may fill."""
        if not self.args.limit:
            return float("inf")
        mix = self.args.mix or {"all": 1}
        return self.args.limit * mix.get(kind, 0) / sum(mix.values())

    def pack(self, docs):
        docs = list(docs)
        self.random.shuffle(docs)
        share = self.args.fim_share
        writer = Writer(self.row + 1, share / (1 - share))
        taken = collections.Counter()
        packages = collections.defaultdict(list)
        for doc in docs:
            packages[doc["package"]].append(doc)
        for doc in docs:
            kind = doc["language"] if self.args.mix else "all"
            if taken[kind] >= self.room(kind):
                continue
            if self.random.random() >= share:
                tokens = self.plain(doc)
                taken[kind] += len(tokens)
                writer.add_plain(tokens)
                continue
            for piece in self.pieces(doc["text"]):
                example = self.example(self.header(doc), piece)
                if len(example) > self.row + 1:
                    continue
                before = self.neighbour(doc, packages[doc["package"]],
                                        (self.row + 1 - len(example)) * 7 // 8)
                if before:
                    example = before + self.example(self.named(doc), piece)
                if len(example) <= self.row + 1:
                    taken[kind] += len(example)
                    writer.add_example(example)
        order = np.array(writer.rows, dtype=np.uint16)
        np.random.default_rng(0).shuffle(order)
        return order, writer.totals


def part(word):
    """python=34 as ("python", 34.0)."""
    language, _, weight = word.partition("=")
    return language, float(weight)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, default=HERE / "work/corpus")
    parser.add_argument("--tokenizer", type=Path,
                        default=HERE / "work/tokenizer.json")
    parser.add_argument("--out", type=Path, default=HERE / "work/tokens")
    parser.add_argument("--rows", type=int, nargs="+", default=[512, 1024],
                        help="row lengths; each is packed with another seed")
    parser.add_argument("--limit", type=int, default=0, metavar="TOKENS",
                        help="for each row length, if not all are seen")
    parser.add_argument("--mix", type=part, nargs="+", default=[],
                        metavar="LANGUAGE=PART", help="the share of the limit "
                        "for each language (none if not named); without: "
                        "as it comes")
    parser.add_argument("--fim-share", type=float, default=0.65)
    parser.add_argument("--header-share", type=float, default=0.75)
    parser.add_argument("--neighbours", type=float, default=0.2,
                        help="share of examples after another "
                        "file of their package, if a row has room for it")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.mix = dict(args.mix)
    if args.mix and not args.limit:
        parser.error("--mix divides what --limit gives")
    tokenizer = Tokenizer.from_file(str(args.tokenizer))
    args.out.mkdir(parents=True, exist_ok=True)
    facts = {}
    for index, row in enumerate(args.rows):
        packer = Packer(tokenizer, args.seed + index, row, args)
        rows, totals = packer.pack(documents(args.corpus / "train.jsonl"))
        rows.tofile(args.out / f"train_{row}.bin")
        facts[f"train_{row}"] = {"rows": len(rows), **totals}
        print(f"train_{row}:", facts[f"train_{row}"], flush=True)
    (args.out / "facts.json").write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
