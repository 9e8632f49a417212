#!/usr/bin/env python3
"""Golden values of real weights: a Llama or Gemma 3 in float32 by numpy, from the weights that gguf
decodes from a file.

    python3 make_real.py MODEL.gguf SCORES >real/NAME.scores

SCORES is the output of `cerium perplexity --scores` for the text, with one window that begins at
the text's begin; only its token ids are read, and `--first ID` is the token before them.  The
output has lines of the same form: the token, its log-probability, the likeliest token.  No code of
cerium is used between the file and the numbers.
"""
import argparse

import gguf
import numpy as np


class Llama:
    def __init__(self, reader, arch):
        self.tensors = {t.name: t for t in reader.tensors}
        self.weights = {}
        self.keys = {name[len(arch) + 1:]: field.contents() for name, field in reader.fields.items()
                     if name.startswith(arch + ".")}
        self.layers = self.keys["block_count"]
        self.width = self.keys["embedding_length"]
        self.heads = self.keys["attention.head_count"]
        self.kv_heads = self.keys.get("attention.head_count_kv", self.heads)
        self.eps = self.keys["attention.layer_norm_rms_epsilon"]
        self.size = self.keys.get("attention.key_length", self.width // self.heads)

    def weight(self, name):
        if name not in self.weights:
            t = self.tensors[name]
            self.weights[name] = gguf.dequantize(t.data, t.tensor_type).astype(
                np.float32).reshape(*reversed([int(n) for n in t.shape]))
        return self.weights[name]

    def norm(self, x, name):
        scale = 1 / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + self.eps)
        return (x * scale).astype(np.float32) * self.weight(name)

    def angles(self, n, layer):
        """Angles of a head's pairs at each position."""
        base = self.base(layer)
        return np.arange(n)[:, None, None] * base ** (
            -np.arange(0, self.size, 2, dtype=np.float64) / self.size)

    def base(self, _layer):
        return self.keys.get("rope.freq_base", 10000.0)

    def window(self, _layer):
        return None

    def turn(self, x, layer):
        """RoPE of neighbouring pairs, [tokens][heads][size]; files have Q and K permuted for it."""
        at = self.angles(len(x), layer)
        c, s = np.cos(at), np.sin(at)
        out = np.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
        out[..., 1::2] = x[..., 1::2] * c + x[..., 0::2] * s
        return out

    def of_head(self, x, layer, _which):
        return self.turn(x, layer)

    def attend(self, x, layer):
        n = len(x)
        q, k, v = ((x @ self.weight(f"blk.{layer}.attn_{w}.weight").T).reshape(n, -1, self.size)
                   for w in "qkv")
        q, k = self.of_head(q, layer, "q"), self.of_head(k, layer, "k")
        out = np.empty_like(q)
        unseen = np.triu(np.full((n, n), -np.inf, np.float32), 1)
        if self.window(layer):
            unseen += np.tril(np.full((n, n), -np.inf, np.float32), -self.window(layer))
        for h in range(self.heads):
            kv = h * self.kv_heads // self.heads
            scores = q[:, h] @ k[:, kv].T / np.float32(self.size ** 0.5) + unseen
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            out[:, h] = scores @ v[:, kv] / scores.sum(-1, keepdims=True)
        return out.reshape(n, -1) @ self.weight(f"blk.{layer}.attn_output.weight").T

    def feed(self, x, layer):
        gate, up = (x @ self.weight(f"blk.{layer}.ffn_{w}.weight").T for w in ("gate", "up"))
        return (gate / (1 + np.exp(-gate)) * up) @ self.weight(f"blk.{layer}.ffn_down.weight").T

    def block(self, x, layer):
        x = x + self.attend(self.norm(x, f"blk.{layer}.attn_norm.weight"), layer)
        return x + self.feed(self.norm(x, f"blk.{layer}.ffn_norm.weight"), layer)

    def embedding(self, tokens):
        return self.weight("token_embd.weight")[tokens]

    def logits(self, tokens, first=0):
        """Logits after tokens [first, end)."""
        embed = self.weight("token_embd.weight")
        x = self.embedding(tokens)
        for layer in range(self.layers):
            x = self.block(x, layer)
        head = self.weight("output.weight") if "output.weight" in self.tensors else embed
        return self.norm(x[first:], "output_norm.weight") @ head.T


class Gemma3(Llama):
    """Norms after the branches, norms of heads, gated GELU; five of six layers have a window."""

    def is_windowed(self, layer):
        return layer % 6 < 5

    def base(self, layer):
        return 10000.0 if self.is_windowed(layer) else self.keys["rope.freq_base"]

    def window(self, layer):
        return self.keys["attention.sliding_window"] if self.is_windowed(layer) else None

    def turn(self, x, layer):
        at, half = self.angles(len(x), layer), self.size // 2
        c, s, a, b = np.cos(at), np.sin(at), x[..., :half], x[..., half:]
        return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(np.float32)

    def of_head(self, x, layer, which):
        return self.turn(self.norm(x, f"blk.{layer}.attn_{which}_norm.weight"), layer)

    def feed(self, x, layer):
        gate, up = (x @ self.weight(f"blk.{layer}.ffn_{w}.weight").T for w in ("gate", "up"))
        inner = np.sqrt(2 / np.pi) * (gate + 0.044715 * gate ** 3)
        gelu = 0.5 * gate * (1 + np.tanh(inner.astype(np.float64)))
        return (gelu.astype(np.float32) * up) @ self.weight(f"blk.{layer}.ffn_down.weight").T

    def embedding(self, tokens):
        return super().embedding(tokens) * np.float32(self.width ** 0.5)

    def block(self, x, layer):
        name = f"blk.{layer}."
        a = self.attend(self.norm(x, name + "attn_norm.weight"), layer)
        x = x + self.norm(a, name + "post_attention_norm.weight")
        h = self.feed(self.norm(x, name + "ffn_norm.weight"), layer)
        return x + self.norm(h, name + "post_ffw_norm.weight")


MODELS = {"llama": Llama, "gemma3": Gemma3}


def open_model(path):
    reader = gguf.GGUFReader(path)
    arch = reader.fields["general.architecture"].contents()
    return MODELS[arch](reader, arch)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model")
    parser.add_argument("scores")
    parser.add_argument("--first", type=int, required=True, help="the token before those of SCORES")
    args = parser.parse_args()
    tokens = [args.first] + [int(line.split()[0]) for line in open(args.scores, encoding="utf-8")]
    logits = open_model(args.model).logits(tokens)[:-1].astype(np.float64)
    top = logits.max(-1, keepdims=True)
    logs = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    for i, token in enumerate(tokens[1:]):
        print(token, f"{logs[i, token]:.6f}", logits[i].argmax())


if __name__ == "__main__":
    main()
