#!/usr/bin/env python3
"""Golden values of real weights: a Llama in float32 by numpy, from what gguf decodes of a file.

    python3 make_real.py MODEL.gguf SCORES >real/NAME.scores

SCORES is what `cerium perplexity --scores` wrote for the text, of one window that begins at the
text's begin; only its token ids are read, and `--first ID` says what stands before them.  Written
are lines of the same form: the token, its log-probability, the likeliest token.  Nothing of cerium
is in the way from the file to the numbers.
"""
import argparse

import gguf
import numpy as np


class Llama:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.tensors = {t.name: t for t in reader.tensors}
        keys = {name: field.contents() for name, field in reader.fields.items()
                if name.startswith("llama.")}
        self.layers = keys["llama.block_count"]
        self.heads = keys["llama.attention.head_count"]
        self.kv_heads = keys.get("llama.attention.head_count_kv", self.heads)
        self.eps = keys["llama.attention.layer_norm_rms_epsilon"]
        self.base = keys.get("llama.rope.freq_base", 10000.0)
        self.size = keys["llama.embedding_length"] // self.heads

    def weight(self, name):
        t = self.tensors[name]
        return gguf.dequantize(t.data, t.tensor_type).astype(np.float32).reshape(
            *reversed([int(n) for n in t.shape]))

    def norm(self, x, name):
        scale = 1 / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + self.eps)
        return (x * scale).astype(np.float32) * self.weight(name)

    def turn(self, x):
        """RoPE of neighbouring pairs, [tokens][heads][size]; files have Q and K permuted for it."""
        at = np.arange(x.shape[0])[:, None] * self.base ** (
            -np.arange(0, self.size, 2, dtype=np.float64) / self.size)
        c, s = np.cos(at)[:, None], np.sin(at)[:, None]
        out = np.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
        out[..., 1::2] = x[..., 1::2] * c + x[..., 0::2] * s
        return out

    def attend(self, x, layer):
        n = len(x)
        q, k, v = ((x @ self.weight(f"blk.{layer}.attn_{w}.weight").T).reshape(n, -1, self.size)
                   for w in "qkv")
        q, k = self.turn(q), self.turn(k)
        out = np.empty_like(q)
        unseen = np.triu(np.full((n, n), -np.inf, np.float32), 1)
        for h in range(self.heads):
            kv = h * self.kv_heads // self.heads
            scores = q[:, h] @ k[:, kv].T / np.float32(self.size ** 0.5) + unseen
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            out[:, h] = scores @ v[:, kv] / scores.sum(-1, keepdims=True)
        return out.reshape(n, -1) @ self.weight(f"blk.{layer}.attn_output.weight").T

    def feed(self, x, layer):
        gate, up = (x @ self.weight(f"blk.{layer}.ffn_{w}.weight").T for w in ("gate", "up"))
        return (gate / (1 + np.exp(-gate)) * up) @ self.weight(f"blk.{layer}.ffn_down.weight").T

    def logits(self, tokens):
        embed = self.weight("token_embd.weight")
        x = embed[tokens]
        for layer in range(self.layers):
            x = x + self.attend(self.norm(x, f"blk.{layer}.attn_norm.weight"), layer)
            x = x + self.feed(self.norm(x, f"blk.{layer}.ffn_norm.weight"), layer)
        head = self.weight("output.weight") if "output.weight" in self.tensors else embed
        return (self.norm(x, "output_norm.weight") @ head.T).astype(np.float64)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model")
    parser.add_argument("scores")
    parser.add_argument("--first", type=int, required=True, help="the token before those of SCORES")
    args = parser.parse_args()
    tokens = [args.first] + [int(line.split()[0]) for line in open(args.scores, encoding="utf-8")]
    logits = Llama(args.model).logits(tokens)[:-1]
    top = logits.max(-1, keepdims=True)
    logs = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    for i, token in enumerate(tokens[1:]):
        print(token, f"{logs[i, token]:.6f}", logits[i].argmax())


if __name__ == "__main__":
    main()
