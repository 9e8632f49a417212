#!/usr/bin/env python3
"""Held-out bits per byte of a checkpoint, by language.

The held-out packages were never trained on. Each document is cut into
windows of the context length, each beginning with <|endoftext|> and scored on
its own: no token sees more than one context, and none is scored twice.
"""

import argparse
import math
import random
import re
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from checkpoint import load_model
from tokenizer import documents

HERE = Path(__file__).parent


def held_out(path, limit, skip=None, seed=0):
    """Whole documents up to `limit` bytes of each language, repeatable."""
    docs = [d for d in documents(path)
            if not (skip and re.search(skip, d["path"]))]
    random.Random(seed).shuffle(docs)
    sizes, kept = {}, []
    for doc in docs:
        size = sizes.get(doc["language"], 0) + len(doc["text"].encode())
        if size <= limit:
            sizes[doc["language"]] = size
            kept.append(doc)
    return kept


@torch.no_grad()
def bits_per_byte(model, tokenizer, docs, context, batch=8):
    """{language: bits per byte} and the mean over all bytes as "all"."""
    start = tokenizer.token_to_id("<|endoftext|>")
    bits, sizes = {}, {}
    windows = {}
    for doc in docs:
        language = doc["language"]
        sizes[language] = sizes.get(language, 0) + len(doc["text"].encode())
        ids = tokenizer.encode(doc["text"]).ids
        windows.setdefault(language, []).extend(
            [start, *ids[i:i + context]] for i in range(0, len(ids), context))
    for language, rows in windows.items():
        rows.sort(key=len)
        total = 0.0
        for i in range(0, len(rows), batch):
            total += nats(model, rows[i:i + batch])
        bits[language] = total / math.log(2)
    result = {l: bits[l] / sizes[l] for l in bits}
    result["all"] = sum(bits.values()) / sum(sizes.values())
    return result


def nats(model, rows):
    """The summed loss of rows of several lengths."""
    device = model.embedding.weight.device
    longest = max(map(len, rows))
    padded = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest - 1, dtype=torch.bool)
    for i, row in enumerate(rows):
        padded[i, :len(row)] = torch.tensor(row)
        mask[i, :len(row) - 1] = True
    padded, mask = padded.to(device), mask.to(device)
    logits = model.logits(padded[:, :-1])[mask]
    return F.cross_entropy(logits, padded[:, 1:][mask],
                           reduction="sum").item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--tokenizer", type=Path,
                        default=HERE / "work/tokenizer.json")
    parser.add_argument("--held-out", type=Path,
                        default=HERE / "work/corpus/held_out.jsonl")
    parser.add_argument("--limit", type=int, default=400_000,
                        help="bytes of each language")
    parser.add_argument("--skip", metavar="REGEX",
                        help="paths to leave out, such as '(^|/)tests?/'")
    parser.add_argument("--context", type=int, help="window, in tokens")
    args = parser.parse_args()
    model = load_model(args.checkpoint)
    docs = held_out(args.held_out, args.limit, args.skip)
    result = bits_per_byte(model, Tokenizer.from_file(str(args.tokenizer)),
                           docs, args.context or model.config.context)
    for language, value in result.items():
        print(f"{language:12} {value:.4f} bits a byte")


if __name__ == "__main__":
    main()
