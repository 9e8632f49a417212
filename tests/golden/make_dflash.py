#!/usr/bin/env python3
"""Make DFlash drafters for models that are there, and the logits of their blocks.

Owns tests/golden/fixtures/dflash-* and dspark-*: drafters of random weights, named as llama.cpp's
converter names them.  NAME.dflash holds random inputs in the place of those of layers of the model,
and what the drafter makes of blocks after some of them, computed here in float64 from the weights
in the files, by the formulas of llama.cpp's graph (src/models/dflash.cpp), and not by any engine.
dflash-planted knows how mtp-planted-state counts (make_mtp.py, which comes first).

    python3 make_dflash.py

NAME.dflash (little endian): char magic[8] = "CEDFL001"; uint32 n_context, n_in, n_vocab, n_said,
n_blocks; float taps[n_context][n_in]; then of each block uint32 at, int32 token, float
logits[n_said][n_vocab]: after the first `at` of the context.
"""
import os
import struct

import gguf
import numpy as np

from make_eagle3 import random_weights
from make_mtp import OUT, read, silu

PLACES = [0, 1, 5, 63, 64, 70]  # more than a page


def write(name, keys, tensors, mask):
    w = gguf.GGUFWriter(os.path.join(OUT, f"{name}.gguf"), "dflash")
    w.add_name(name)
    for short, value in keys.items():
        add = {bool: w.add_bool, int: w.add_uint32, float: w.add_float32, list: w.add_array}
        add[type(value)](f"dflash.{short}", value)
    w.add_uint32("tokenizer.ggml.mask_token_id", mask)
    for tensor, array in tensors.items():
        w.add_tensor(tensor, array if array.dtype == np.int64 else array.astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def keys_of(width, layers, n_blocks, heads, kv_heads, dim, n_ff, rows, **more):
    return {"block_count": n_blocks, "context_length": 4096, "embedding_length": width,
            "feed_forward_length": n_ff, "attention.head_count": heads,
            "attention.head_count_kv": kv_heads, "attention.key_length": dim,
            "attention.value_length": dim, "attention.layer_norm_rms_epsilon": 1e-6,
            "rope.dimension_count": dim, "rope.freq_base": 1000000.0, "target_layers": layers,
            "block_size": rows} | more


def shapes_of(k, tapped, n_draft, n_vocab):
    n, dim, ff = k["embedding_length"], k["attention.key_length"], k["feed_forward_length"]
    n_q, n_kv = k["attention.head_count"] * dim, k["attention.head_count_kv"] * dim
    shapes = {"fc": (n, len(k["target_layers"]) * tapped), "enc.output_norm": (n,),
              "output_norm": (n,)}
    for i in range(k["block_count"]):
        block = {"attn_norm": (n,), "attn_q": (n_q, n), "attn_k": (n_kv, n), "attn_v": (n_kv, n),
                 "attn_output": (n, n_q), "attn_q_norm": (dim,), "attn_k_norm": (dim,),
                 "ffn_norm": (n,), "ffn_gate": (ff, n), "ffn_up": (ff, n), "ffn_down": (n, ff)}
        shapes |= {f"blk.{i}.{name}": shape for name, shape in block.items()}
    if n_draft:
        shapes["output"] = (n_draft, n)
    if n_vocab:
        shapes["token_embd"] = (n_vocab, n)
    return {f"{name}.weight": shape for name, shape in shapes.items()}


class Drafter:
    """Keys and values of a context, and blocks after its beginnings."""

    def __init__(self, keys, tensors, model, mask, taps):
        self.k, self.mask = keys, mask
        self.t = {name: t.astype(np.float64) for name, t in (model | tensors).items()}
        if "output.weight" not in self.t:
            self.t["output.weight"] = self.t["token_embd.weight"]
        context = self.norm(taps @ self.t["fc.weight"].T, "enc.output_norm")
        self.context = [self.keys_values(i, context, 0) for i in range(keys["block_count"])]

    def norm(self, x, weight):
        eps = self.k["attention.layer_norm_rms_epsilon"]
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * self.t[f"{weight}.weight"]

    def heads(self, i, what, x, first):
        """[rows, heads, dim] of q or k: normed, then turned, channels j and j + dim / 2."""
        dim = self.k["attention.key_length"]
        y = self.norm((x @ self.t[f"blk.{i}.attn_{what}.weight"].T).reshape(len(x), -1, dim),
                      f"blk.{i}.attn_{what}_norm")
        half = dim // 2
        places = first + np.arange(len(x))[:, None, None]
        angle = places * self.k["rope.freq_base"] ** (-np.arange(half) / half)
        a, b = y[..., :half], y[..., half:]
        return np.concatenate([a * np.cos(angle) - b * np.sin(angle),
                               b * np.cos(angle) + a * np.sin(angle)], -1)

    def keys_values(self, i, x, first):
        dim = self.k["attention.key_length"]
        v = (x @ self.t[f"blk.{i}.attn_v.weight"].T).reshape(len(x), -1, dim)
        return self.heads(i, "k", x, first), v

    def attention(self, i, x, at):
        q = self.heads(i, "q", x, at)
        k, v = (np.concatenate([old[:at], new])
                for old, new in zip(self.context[i], self.keys_values(i, x, at)))
        group = self.k["attention.head_count"] // self.k["attention.head_count_kv"]
        out = np.zeros_like(q)
        pattern = self.k.get("attention.sliding_window_pattern")
        for r in range(len(q)):
            first, end = 0, at + r + 1 if self.k.get("attention.causal") else None
            if pattern and pattern[i]:
                first = max(0, at + r + 1 - self.k["attention.sliding_window"])
            for h in range(q.shape[1]):
                scores = k[first:end, h // group] @ q[r, h] / np.sqrt(q.shape[2])
                p = np.exp(scores - scores.max())
                out[r, h] = p / p.sum() @ v[first:end, h // group]
        return out.reshape(len(q), -1) @ self.t[f"blk.{i}.attn_output.weight"].T

    def in_turn(self, logits, token):
        """DSpark: what the token before says is added; tokens are the likeliest."""
        for row in logits:
            row += self.t["markov_w2.weight"] @ self.t["markov_w1.weight"][token]
            token = int(row.argmax())
            if "d2t" in self.t:
                token = int(self.t["d2t"][token])
        return logits

    def block(self, at, token):
        """Logits of the masks after the first `at` tokens and this one, or of all rows."""
        rows = [token] + [self.mask] * (self.k["block_size"] - 1)
        x = self.t["token_embd.weight"][rows] * self.k.get("embedding_scale", 1)
        for i in range(self.k["block_count"]):
            x = x + self.attention(i, self.norm(x, f"blk.{i}.attn_norm"), at)
            n_in = self.norm(x, f"blk.{i}.ffn_norm")
            gate, up = (n_in @ self.t[f"blk.{i}.ffn_{s}.weight"].T for s in ("gate", "up"))
            x = x + (silu(gate) * up) @ self.t[f"blk.{i}.ffn_down.weight"].T
        logits = self.norm(x, "output_norm") @ self.t["output.weight"].T
        if not self.k.get("sample_from_anchor", "markov_w1.weight" in self.t):
            logits = logits[1:]
        return self.in_turn(logits, token) if "markov_w1.weight" in self.t else logits


def make(name, base, seed, layers, n_blocks, heads, kv_heads, dim, n_ff, rows, width=None,
         n_draft=None, mask=200, rank=0, **more):
    """A drafter for the fixture `base`: of another width it has an embedding of its own, and with
    n_draft an output for so many of the tokens; with a rank it is DSpark."""
    _, model = read(base)
    rng = np.random.default_rng(seed)
    n_vocab, tapped = model["token_embd.weight"].shape
    keys = keys_of(width or tapped, layers, n_blocks, heads, kv_heads, dim, n_ff, rows,
                   **{"attention.causal": False} | more)
    tensors = random_weights(shapes_of(keys, tapped, n_draft, n_vocab if width else None), rng)
    if n_draft:
        tensors["d2t"] = rng.permutation(n_vocab)[:n_draft].astype(np.int64)
    if rank:
        for part, n in (("1", n_vocab), ("2", n_draft or n_vocab)):
            tensors[f"markov_w{part}.weight"] = 1.4 * rng.standard_normal((n, rank)) / rank ** 0.25
    tensors = {t: x if x.dtype == np.int64 else x.astype(np.float32) for t, x in tensors.items()}
    write(name, keys, tensors, mask)
    taps = rng.standard_normal((max(PLACES), len(layers) * tapped)).astype(np.float32)
    drafter = Drafter(keys, tensors, model, mask, taps.astype(np.float64))
    blocks = []
    for at in PLACES:
        token = int(rng.integers(0, 256))
        logits = drafter.block(at, token)
        blocks.append(struct.pack("<Ii", at, token) + logits.astype(np.float32).tobytes())
    with open(os.path.join(OUT, f"{name}.dflash"), "wb") as f:
        f.write(b"CEDFL001" + struct.pack("<IIIII", len(taps), taps.shape[1], logits.shape[1],
                                          len(logits), len(blocks)))
        f.write(taps.tobytes() + b"".join(blocks))
    print(f"{name}: logits deviate by {logits.std():.2f}")


def planted():
    """A drafter for a model that counts: it is right exactly where the state of the last token but
    one is at its place, the rows of a block see each other, and positions are right.

    All embeddings are one constant channel, and queries and keys are made of it: by RoPE's middle
    pair a row sees the row before it, and nothing of its own place or later.  Keys of the context
    are 0; a window of two tokens leaves the newest.  A value is what stands there, turned by one
    step.  So the first row gets the last token from the context, and each layer makes one more row
    right.
    """
    _, model = read("mtp-planted-state")
    table = model["token_embd.weight"].astype(np.float64)
    (n_vocab, n), dim, rows, width = table.shape, 16, 5, 48
    step = np.linalg.lstsq(table, np.roll(table, -1, 0), rcond=None)[0].T
    assert np.abs(step @ table[5] - table[6]).max() < 1e-5
    windows = {"attention.sliding_window": 2, "attention.sliding_window_pattern": [True] * rows}
    keys = keys_of(width, [0, 2, 4], rows, n // dim, n // dim, dim, 32, rows, **windows)
    keys["rope.freq_base"] = 4.0  # pair dim / 4 turns by 1/2 a token
    tensors = {name: np.ones(shape) if len(shape) == 1 else np.zeros(shape)
               for name, shape in shapes_of(keys, n, n_vocab, n_vocab).items()}
    tensors["token_embd.weight"][:, n] = 1
    tensors["output.weight"][:, :n] = 4 * table
    tensors["fc.weight"][:n, n:2 * n] = np.eye(n)
    back = 0.5 + np.pi / 2 - 0.3  # the cosine of half a distance less this is above 0 at 1 alone
    for i in range(rows):
        for head in range(n // dim):
            at = head * dim + dim // 4
            pair = [at, at + dim // 2]
            tensors[f"blk.{i}.attn_q.weight"][pair, n] = np.cos(back), -np.sin(back)
            tensors[f"blk.{i}.attn_k.weight"][at, n] = 1
        for of in "qk":
            tensors[f"blk.{i}.attn_{of}_norm.weight"][:] = 6
        tensors[f"blk.{i}.attn_v.weight"][:, :n] = step
        tensors[f"blk.{i}.attn_output.weight"][:n] = np.eye(n)
    write("dflash-planted", keys, tensors, 7)
    taps = np.tile(table[3:9], (1, 3))
    said = Drafter(keys, tensors, model, 7, taps).block(6, 9).argmax(1)
    assert list(said) == [10, 11, 12, 13], said


if __name__ == "__main__":
    make("dflash-llama", "llama", 95, [0, 1, 2], 2, 4, 2, 16, 96, 8, n_draft=100)
    make("dflash-qwen35", "qwen35", 96, [1, 2, 3, 4], 3, 2, 2, 32, 64, 16)
    make("dflash-window", "qwen35", 97, [0, 3], 2, 3, 1, 16, 80, 7, width=48, n_draft=256,
         embedding_scale=1.5, **{"attention.sliding_window": 20,
                                 "attention.sliding_window_pattern": [True, False]})
    make("dflash-causal", "llama", 98, [2], 1, 2, 2, 16, 32, 4, **{"attention.causal": True})
    make("dspark-llama", "llama", 99, [0, 2], 1, 2, 2, 16, 32, 5, n_draft=150, rank=32)
    make("dspark-qwen35", "qwen35", 100, [2], 1, 2, 1, 16, 32, 4, rank=64,
         sample_from_anchor=False)
    planted()
