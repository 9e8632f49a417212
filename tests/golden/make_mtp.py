#!/usr/bin/env python3
"""Make models with a head for the token after the next (MTP), and the logits of that head.

Owns tests/golden/fixtures/mtp-*: each model is an existing fixture (make_fixtures.py) with one
more block of random weights, named as llama.cpp's converter names it.  NAME.mtp holds tokens,
random states in place of the model's, and the head's logits for them, computed here in float64
from the weights in the file, by the formulas of the architecture and not by any engine.

    python3 make_mtp.py

NAME.mtp (little endian): char magic[8] = "CEMTP001"; uint32 n_tokens, n_embd, n_vocab; int32
tokens[]; float states[n_tokens][n_embd], that of the token before each, the first unused; float
logits[n_tokens][n_vocab].
"""
import os
import struct

import gguf
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "fixtures")
N_TOKENS = 70  # more than a page


def read(name):
    """Keys, and tensors as arrays of floats: float fixtures have no others."""
    reader = gguf.GGUFReader(os.path.join(OUT, f"{name}.gguf"))
    return reader, {t.name: np.array(t.data, np.float32) for t in reader.tensors}


def write(path, reader, tensors, more_keys):
    arch = reader.fields["general.architecture"].contents()
    w = gguf.GGUFWriter(path, arch)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        value = more_keys.pop(key, field.contents())
        item = field.types[1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        w.add_key_value(key, value, field.types[0], item)
    for key, value in more_keys.items():
        w.add_uint32(key, value)
    for name, array in tensors.items():
        w.add_tensor(name, array)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def key(reader, name, otherwise=None):
    field = reader.fields.get(f"{reader.fields['general.architecture'].contents()}.{name}")
    return field.contents() if field else otherwise


def random_block(tensors, last, rng, n_embd, n_vocab, own):
    """Weights as large as those of the last block, which has attention, and those that only a head
    has."""
    to, block = f"blk.{last + 1}.", {}
    for name, like in tensors.items():
        if name.startswith(f"blk.{last}."):
            short = name.split(".", 2)[2]
            noise = rng.standard_normal(like.shape).astype(np.float32)
            if "norm" in short:
                noise = np.clip(1 + 0.3 * noise, 0.3, 2.0)
            elif like.ndim > 1 or "inp" in short:
                noise *= (2.0 if "inp" in short else 1.2) / np.sqrt(like.shape[-1])
            else:
                noise *= 0.5
            block[to + short] = noise.astype(np.float32)
    block[to + "nextn.eh_proj.weight"] = (
        1.2 / np.sqrt(2 * n_embd) * rng.standard_normal((n_embd, 2 * n_embd))).astype(np.float32)
    for norm in ("enorm", "hnorm", "shared_head_norm"):
        noise = rng.standard_normal(n_embd)
        block[to + f"nextn.{norm}.weight"] = np.clip(1 + 0.3 * noise, 0.3, 2).astype(np.float32)
    for table in ("embed_tokens", "shared_head_head") if own else ():
        noise = 2 / np.sqrt(n_embd) * rng.standard_normal((n_vocab, n_embd))
        block[to + f"nextn.{table}.weight"] = noise.astype(np.float32)
    return block


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


class Head:
    """The forward pass of a head: one layer of the architecture between its inputs and output."""

    def __init__(self, reader, tensors, layer):
        self.reader, self.layer = reader, layer
        self.tensors = {name: t.astype(np.float64) for name, t in tensors.items()}
        self.eps = key(reader, "attention.layer_norm_rms_epsilon")
        self.gated = key(reader, "ssm.state_size") is not None
        self.heads, self.kv_heads, self.dim = (
            key(reader, f"attention.{k}") for k in ("head_count", "head_count_kv", "key_length"))

    def get(self, short, otherwise=None):
        return self.tensors.get(f"blk.{self.layer}.{short}", otherwise)

    def norm(self, x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * weight

    def linear(self, x, short):
        return x @ self.get(f"{short}.weight").T + self.get(f"{short}.bias", 0)

    def turn(self, x):
        """Rotates halves of the first n_rot channels, [n, heads, dim]."""
        n_rot = key(self.reader, "rope.dimension_count")
        half = n_rot // 2
        angle = np.arange(len(x))[:, None] * key(self.reader, "rope.freq_base") ** (
            -2.0 * np.arange(half) / n_rot)
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        a, b = x[..., :half], x[..., half:n_rot]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., n_rot:]], -1)

    def attention(self, x):
        n, dim = len(x), self.dim
        n_in = self.norm(x, self.get("attn_norm.weight"))
        q = self.linear(n_in, "attn_q").reshape(n, self.heads, -1)
        gate = q[..., dim:] if self.gated else None
        k = self.linear(n_in, "attn_k").reshape(n, self.kv_heads, dim)
        v = self.linear(n_in, "attn_v").reshape(n, self.kv_heads, dim)
        q = self.turn(self.norm(q[..., :dim], self.get("attn_q_norm.weight")))
        k = self.turn(self.norm(k, self.get("attn_k_norm.weight")))
        k, v = (np.repeat(t, self.heads // self.kv_heads, 1) for t in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(dim)
        scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        out = np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v)
        if gate is not None:
            out = out * sigmoid(gate)
        return self.linear(out.reshape(n, -1), "attn_output")

    def choose(self, scores):
        """[(expert, weight)] of a row."""
        n_used, n = key(self.reader, "expert_used_count"), len(scores)
        if self.gated:
            p = np.exp(scores - scores.max())
            weights, by = p / p.sum(), p
        else:
            weights = sigmoid(scores)
            by = weights + self.get("exp_probs_b.bias")
            groups = key(self.reader, "expert_group_count")
            best = np.sort(by.reshape(groups, -1))[:, -2:].sum(-1)
            used = np.argsort(best)[-key(self.reader, "expert_group_used_count"):]
            by = np.where(np.isin(np.arange(n) // (n // groups), used), by, -np.inf)
        chosen = np.argsort(by)[-n_used:]
        scale = key(self.reader, "expert_weights_scale", 1) / weights[chosen].sum()
        return [(e, weights[e] * scale) for e in chosen]

    def feed_forward(self, x):
        n_in = self.norm(x, self.get("post_attention_norm.weight"))
        if self.get("ffn_gate_inp.weight") is None:
            h = silu(self.linear(n_in, "ffn_gate")) * self.linear(n_in, "ffn_up")
            return self.linear(h, "ffn_down")
        h = silu(self.linear(n_in, "ffn_gate_shexp")) * self.linear(n_in, "ffn_up_shexp")
        out = self.linear(h, "ffn_down_shexp")
        if self.gated:
            out *= sigmoid(n_in @ self.get("ffn_gate_inp_shexp.weight"))[:, None]
        gate, up, down = (self.get(f"ffn_{s}_exps.weight") for s in ("gate", "up", "down"))
        for i, row in enumerate(n_in):
            for e, weight in self.choose(row @ self.get("ffn_gate_inp.weight").T):
                out[i] += weight * (down[e] @ (silu(gate[e] @ row) * (up[e] @ row)))
        return out

    def logits(self, tokens, states):
        table = self.get("nextn.embed_tokens.weight", self.tensors["token_embd.weight"])
        e = self.norm(table[tokens], self.get("nextn.enorm.weight"))
        h = self.norm(states, self.get("nextn.hnorm.weight"))
        h[0] = 0
        x = np.concatenate([e, h], -1) @ self.get("nextn.eh_proj.weight").T
        x = x + self.attention(x)
        x = x + self.feed_forward(x)
        output = self.tensors.get("output.weight", self.tensors["token_embd.weight"])
        output = self.get("nextn.shared_head_head.weight", output)
        norm = self.get("nextn.shared_head_norm.weight", self.tensors["output_norm.weight"])
        return self.norm(x, norm) @ output.T


def make(base, seed, own=False):
    reader, tensors = read(base)
    rng = np.random.default_rng(seed)
    blocks = key(reader, "block_count")
    n_vocab, n_embd = tensors["token_embd.weight"].shape
    tensors |= random_block(tensors, blocks - 1, rng, n_embd, n_vocab, own)
    arch = reader.fields["general.architecture"].contents()
    path = os.path.join(OUT, f"mtp-{base}")
    write(f"{path}.gguf", reader, tensors,
          {f"{arch}.block_count": blocks + 1, f"{arch}.nextn_predict_layers": 1,
           f"{arch}.context_length": 4096})
    tokens = rng.integers(0, 256, N_TOKENS).astype(np.int32)
    states = rng.standard_normal((N_TOKENS, n_embd)).astype(np.float32)
    logits = Head(reader, tensors, blocks).logits(tokens, states.astype(np.float64))
    with open(f"{path}.mtp", "wb") as f:
        f.write(b"CEMTP001" + struct.pack("<III", N_TOKENS, n_embd, n_vocab))
        f.write(tokens.tobytes() + states.tobytes() + logits.astype(np.float32).tobytes())
    print(f"mtp-{base}: logits deviate by {logits.std():.2f}")


def planted():
    """Models that count, and heads that know it: token t is followed by t + 1.

    Only embeddings matter: a block adds nothing, and the embedding of t + 1 is that of t rotated by
    R.  The head of mtp-planted-state rotates the state that it gets, so it is right exactly when
    that is the state of the token before; that of mtp-planted-token rotates nothing and uses the
    token, in a table of its own in which one of five is wrong.
    """
    reader, tensors = read("mtp-qwen35")
    n_vocab, n_embd = tensors["token_embd.weight"].shape
    layer = key(reader, "block_count") - 1
    for name, t in tensors.items():
        if name.endswith(("attn_output.weight", "ffn_down.weight", "ssm_out.weight")):
            t[:] = 0
        elif name.endswith("norm.weight") and "nextn" in name or name == "output_norm.weight":
            t[:] = 1
    k = np.array([1, 5, 9, 17, 25, 37, 49, 57, 69, 81, 93, 101, 109, 117, 125, 133])[:n_embd // 2]
    angle = 2 * np.pi * k * np.arange(n_vocab)[:, None] / n_vocab
    table = np.stack([np.cos(angle), np.sin(angle)], -1).reshape(n_vocab, n_embd)
    step = 2 * np.pi * k / n_vocab
    turn = np.zeros((n_embd, n_embd))
    for i, a in enumerate(step):
        turn[2 * i:2 * i + 2, 2 * i:2 * i + 2] = [[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]
    scores = table @ table.T - 2 * n_embd * np.eye(n_vocab)
    assert scores.max() < 0.8 * n_embd / 2, scores.max()
    tensors["token_embd.weight"] = table.astype(np.float32)
    tensors["output.weight"] = 4 * np.roll(table, 1, 0).astype(np.float32)
    to = f"blk.{layer}.nextn."
    zero = np.zeros((n_embd, n_embd))
    tensors[to + "eh_proj.weight"] = np.concatenate([zero, turn], 1).astype(np.float32)
    write(os.path.join(OUT, "mtp-planted-state.gguf"), reader, tensors, {})
    wrong = table.copy()
    wrong[::5] = np.roll(table, 7, 0)[::5]
    tensors[to + "embed_tokens.weight"] = wrong.astype(np.float32)
    tensors[to + "eh_proj.weight"] = np.concatenate([np.eye(n_embd), zero], 1).astype(np.float32)
    write(os.path.join(OUT, "mtp-planted-token.gguf"), reader, tensors, {})


if __name__ == "__main__":
    make("qwen35", 80)
    make("qwen35moe", 81)
    make("glm4moe", 82, own=True)
    planted()
