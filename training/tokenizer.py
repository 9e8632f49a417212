#!/usr/bin/env python3
"""Train the byte-level BPE vocabulary on the corpus.

The pre-tokenizer is Qwen2's, letter for letter, so that every engine that
knows `tokenizer.ggml.pre = qwen2` splits text like this one.
"""

import argparse
import json
import random
from pathlib import Path

import gguf
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer

HERE = Path(__file__).parent

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|fim_prefix|>", "<|fim_suffix|>",
           "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"]


def documents(path):
    """Every document of a corpus file, as a dictionary."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def sample(path, limit, seed):
    """Texts up to `limit` bytes, drawn evenly over the corpus."""
    texts = [d["text"] for d in documents(path)]
    random.Random(seed).shuffle(texts)
    for text in texts:
        limit -= len(text)
        if limit < 0:
            return
        yield text


def untrained():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN2), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def train(texts, entries):
    tokenizer = untrained()
    tokenizer.train_from_iterator(texts, BpeTrainer(
        vocab_size=entries, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def of_gguf(path):
    """The vocabulary in a GGUF file of ours."""
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = fields["tokenizer.ggml.merges"].contents()
    tokenizer = untrained()
    tokenizer.model = models.BPE({t: i for i, t in enumerate(tokens)},
                                 [tuple(m.split(" ")) for m in merges])
    tokenizer.add_special_tokens(SPECIAL)
    assert [tokenizer.id_to_token(i) for i in range(len(tokens))] == tokens
    return tokenizer


def tiktoken_encoder(name):
    import tiktoken  # not of requirements.txt: nothing else needs it
    return tiktoken.get_encoding(name).encode_ordinary


def bytes_per_token(encode, path):
    """Bytes per token by language, the measure of a vocabulary; encode: gives the
    tokens of a text."""
    counts = {}
    for doc in documents(path):
        size, tokens = counts.get(doc["language"], (0, 0))
        counts[doc["language"]] = (
            size + len(doc["text"].encode()),
            tokens + len(encode(doc["text"])))
    return {l: round(s / t, 3) for l, (s, t) in counts.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, default=HERE / "work/corpus")
    parser.add_argument("--out", type=Path, default=HERE/"work/tokenizer.json")
    parser.add_argument("--entries", type=int, default=8192)
    parser.add_argument("--sample", type=int, default=40_000_000,
                        help="bytes of text to learn from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from-gguf", type=Path, metavar="MODEL",
                        help="take the vocabulary of a model, to continue "
                        "its training")
    parser.add_argument("--beside", nargs="*", default=[], metavar="NAME",
                        help="measure tiktoken's vocabularies, too, such as "
                        "o200k_base (pip install tiktoken, which fetches them)")
    args = parser.parse_args()
    if args.from_gguf:
        tokenizer = of_gguf(args.from_gguf)
    else:
        tokenizer = train(sample(args.corpus / "train.jsonl", args.sample,
                                 args.seed), args.entries)
    tokenizer.save(str(args.out))
    encoders = {args.out.name: lambda text: tokenizer.encode(text).ids}
    for name in args.beside:
        encoders[name] = tiktoken_encoder(name)
    for name, encode in encoders.items():
        print(f"{name}: held-out bytes a token:",
              bytes_per_token(encode, args.corpus / "held_out.jsonl"))


if __name__ == "__main__":
    main()
