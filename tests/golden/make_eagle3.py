#!/usr/bin/env python3
"""Make EAGLE-3 heads for models that are there, and the logits of those heads.

Owns tests/golden/fixtures/eagle3-*: heads of random weights, named as llama.cpp's converter names
them.  NAME.eagle3 holds tokens, random inputs in the place of those of three layers, and what the
head makes of them, computed here in float64 from the weights in the files, by the formulas of the
paper, of llama.cpp's graph and, for EAGLE-3.1 and several layers, of speculators (vLLM's library),
and not by any engine.  eagle3-planted knows how mtp-planted-state
counts (make_mtp.py, which comes first).

    python3 make_eagle3.py

NAME.eagle3 (little endian): char magic[8] = "CEEAG001"; uint32 n_tokens, n_tapped, n_vocab, the
last of logits; int32 tokens[n_tokens]; float taps[n_tokens - 1][3][n_tapped], of the token before
each, the first unused; float logits[n_tokens][n_vocab].  The last token follows with the head's own
state.
"""
import os
import struct

import gguf
import numpy as np

from make_mtp import OUT, key, read, silu

N_TOKENS = 71  # more than a page, and one with the head's own state


def write(name, keys, tensors):
    w = gguf.GGUFWriter(os.path.join(OUT, f"{name}.gguf"), "eagle3")
    w.add_name(name)
    for short, value in keys.items():
        add = {bool: w.add_bool, int: w.add_uint32, float: w.add_float32, list: w.add_array}
        add[type(value)](f"eagle3.{short}", value)
    for tensor, array in tensors.items():
        w.add_tensor(tensor, array if array.dtype == np.int64 else array.astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def keys_of(width, tapped, layers, heads, kv_heads, dim, n_ff, **more):
    return {"block_count": more.pop("n_layers", 1), "context_length": 4096,
            "embedding_length": width, "feed_forward_length": n_ff, "attention.head_count": heads,
            "attention.head_count_kv": kv_heads, "attention.key_length": dim,
            "attention.value_length": dim, "attention.layer_norm_rms_epsilon": 1e-5,
            "rope.dimension_count": dim, "rope.freq_base": 10000.0,
            "target_layers": layers, "target_hidden_size": tapped} | more


def shapes_of(k, n_draft, n_vocab):
    n, dim = k["embedding_length"], k["attention.key_length"]
    n_q, n_kv = k["attention.head_count"] * dim, k["attention.head_count_kv"] * dim
    n_in = 3 * k["target_hidden_size"]
    shapes = {"fc": (n, n_in)}
    for i in range(k["block_count"]):
        wide, second = (2 * n, {"attn_norm_2": (n,)}) if i == 0 else (n, {})
        of_layer = {"attn_norm": (n,)} | second
        of_layer |= {"attn_q": (n_q, wide), "attn_k": (n_kv, wide), "attn_v": (n_kv, wide),
                     "attn_output": (n, n_q), "ffn_norm": (n,),
                     "ffn_gate": (k["feed_forward_length"], n),
                     "ffn_up": (k["feed_forward_length"], n),
                     "ffn_down": (n, k["feed_forward_length"])}
        shapes |= {f"blk.{i}.{name}": shape for name, shape in of_layer.items()}
    shapes["output_norm"] = (n,)
    if k.get("norm_before_fc"):
        shapes["enc.output_norm"] = (n_in,)
    if k.get("fc_norm"):
        shapes |= {f"fc_norm.{i}": (k["target_hidden_size"],) for i in range(3)}
    if n_draft:
        shapes["output"] = (n_draft, n)
    if n_vocab:
        shapes["token_embd"] = (n_vocab, n)
    return {f"{name}.weight": shape for name, shape in shapes.items()}


def random_weights(shapes, rng):
    tensors = {}
    for name, shape in shapes.items():
        noise = rng.standard_normal(shape)
        if len(shape) == 1:
            noise = np.clip(1 + 0.3 * noise, 0.3, 2)
        elif name != "token_embd.weight":
            noise *= (2 if name == "output.weight" else 1.2) / np.sqrt(shape[-1])
        tensors[name] = noise.astype(np.float32)
    return tensors


class Head:
    """The forward pass, a token after another."""

    def __init__(self, keys, tensors, model):
        self.k = keys
        self.t = {name: t.astype(np.float64) for name, t in (model | tensors).items()}
        if "output.weight" not in self.t:
            self.t["output.weight"] = self.t["token_embd.weight"]
        self.cache = [[] for _ in range(keys["block_count"])]

    def norm(self, x, weight):
        eps = self.k["attention.layer_norm_rms_epsilon"]
        return x / np.sqrt((x * x).mean() + eps) * self.t[f"{weight}.weight"]

    def turn(self, x, position):
        """Neighbours turn together, [heads, dim]."""
        half = x.shape[-1] // 2
        angle = position * self.k["rope.freq_base"] ** (-np.arange(half) / half)
        pairs = x.reshape(len(x), half, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        turned = [a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)]
        return np.stack(turned, -1).reshape(x.shape)

    def attention(self, n_in, layer):
        dim, heads = self.k["attention.key_length"], self.k["attention.head_count"]
        q, k, v = (self.t[f"blk.{layer}.attn_{s}.weight"] @ n_in for s in "qkv")
        cache = self.cache[layer]
        at = len(cache)
        cache.append((self.turn(k.reshape(-1, dim), at), v.reshape(-1, dim)))
        q = self.turn(q.reshape(-1, dim), at)
        out = []
        for h in range(heads):
            of = h // (heads // self.k["attention.head_count_kv"])
            scores = np.array([q[h] @ keys[of] for keys, _ in cache]) / np.sqrt(dim)
            p = np.exp(scores - scores.max())
            out.append(sum(w * v[of] for w, (_, v) in zip(p / p.sum(), cache)))
        return self.t[f"blk.{layer}.attn_output.weight"] @ np.concatenate(out)

    def fuse(self, taps):
        if self.k.get("norm_before_fc"):
            taps = self.norm(taps, "enc.output_norm")
        if self.k.get("fc_norm"):
            taps = np.concatenate([self.norm(tap, f"fc_norm.{i}")
                                   for i, tap in enumerate(np.split(taps, 3))])
        return self.t["fc.weight"] @ taps

    def feed_forward(self, x, layer):
        n_in = self.norm(x, f"blk.{layer}.ffn_norm")
        gate, up = (self.t[f"blk.{layer}.ffn_{s}.weight"] @ n_in for s in ("gate", "up"))
        return x + self.t[f"blk.{layer}.ffn_down.weight"] @ (silu(gate) * up)

    def step(self, token, f):
        """Logits, and the state for the next."""
        e = self.norm(self.t["token_embd.weight"][token], "blk.0.attn_norm")
        g = self.norm(f, "blk.0.attn_norm_2")
        x = g if self.k.get("norm_before_residual") else f
        x = self.feed_forward(x + self.attention(np.concatenate([e, g]), 0), 0)
        for i in range(1, self.k["block_count"]):
            x = x + self.attention(self.norm(x, f"blk.{i}.attn_norm"), i)
            x = self.feed_forward(x, i)
        last = self.norm(x, "output_norm")
        return self.t["output.weight"] @ last, last if self.k.get("norm_output") else x


def make(name, base, seed, layers, heads, kv_heads, dim, n_ff, width=None, n_draft=None, **more):
    """A head for the fixture `base`: of another width it has an embedding of its own, and with
    n_draft an output for so many of the tokens."""
    reader, model = read(base)
    rng = np.random.default_rng(seed)
    n_vocab, tapped = model["token_embd.weight"].shape
    keys = keys_of(width or tapped, tapped, layers, heads, kv_heads, dim, n_ff, **more)
    tensors = random_weights(shapes_of(keys, n_draft, n_vocab if width else None), rng)
    if n_draft:
        tensors["d2t"] = rng.permutation(n_vocab)[:n_draft].astype(np.int64)
    write(name, keys, tensors)
    tokens = rng.integers(0, 256, N_TOKENS).astype(np.int32)
    taps = rng.standard_normal((N_TOKENS - 1, 3 * tapped)).astype(np.float32)
    head, logits, state = Head(keys, tensors, model), [], None
    for i, token in enumerate(tokens):
        f = np.zeros(keys["embedding_length"]) if i == 0 else state
        if 0 < i < N_TOKENS - 1:
            f = head.fuse(taps[i].astype(np.float64))
        row, state = head.step(token, f)
        logits.append(row)
    logits = np.array(logits)
    with open(os.path.join(OUT, f"{name}.eagle3"), "wb") as f:
        f.write(b"CEEAG001" + struct.pack("<III", N_TOKENS, tapped, logits.shape[1]))
        f.write(tokens.tobytes() + taps.tobytes() + logits.astype(np.float32).tobytes())
    print(f"{name}: {key(reader, 'block_count')} layers, logits deviate by {logits.std():.2f}")


def planted():
    """The head of a model that counts: it turns the state that it reads by one step, as its model's
    embeddings turn, so it is right exactly where that is the state of the token before.

    Queries and keys are the embedding, so each token sees itself alone; its values turn the state.
    It says even tokens and odd ones, each by a row in an order of its own.
    """
    _, model = read("mtp-planted-state")
    table = model["token_embd.weight"].astype(np.float64)
    n_vocab, n = table.shape
    step = np.linalg.lstsq(table, np.roll(table, -1, 0), rcond=None)[0].T
    assert np.abs(step @ table[5] - table[6]).max() < 1e-5
    keys = keys_of(n, n, [1, 2, 3], 1, 1, n, 32, norm_before_residual=True)
    tensors = {name: np.ones(shape) if len(shape) == 1 else np.zeros(shape)
               for name, shape in shapes_of(keys, n_vocab - 1, None).items()}
    zero, one = np.zeros((n, n)), np.eye(n)
    said = np.concatenate([np.arange(1, n_vocab, 2), np.arange(2, n_vocab, 2)])[::-1]
    tensors["d2t"] = said.astype(np.int64)
    tensors["output.weight"] = model["output.weight"][said]
    tensors["fc.weight"] = np.concatenate([zero, one, zero], 1)
    for short in ("attn_q", "attn_k"):
        tensors[f"blk.0.{short}.weight"] = np.concatenate([6 * one, zero], 1)
    tensors["blk.0.attn_v.weight"] = np.concatenate([zero, step - one], 1)
    tensors["blk.0.attn_output.weight"] = one
    write("eagle3-planted", keys, tensors)


if __name__ == "__main__":
    make("eagle3-llama", "llama", 90, [0, 1, 2], 4, 2, 16, 96, n_draft=100)
    make("eagle3-qwen35", "qwen35", 91, [1, 2, 4], 2, 2, 32, 64, norm_before_residual=True,
         norm_before_fc=True)
    make("eagle3-wide", "qwen35", 92, [0, 2, 3], 3, 1, 16, 80, width=48, n_draft=256)
    make("eagle3-norms", "llama", 93, [0, 1, 2], 4, 1, 16, 64, n_draft=120, fc_norm=True,
         norm_output=True)
    make("eagle3-layers", "qwen35", 94, [0, 2, 4], 4, 2, 16, 48, n_layers=3)
    planted()
