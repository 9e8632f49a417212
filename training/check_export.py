#!/usr/bin/env python3
"""Check an exported GGUF against the checkpoint it came from.

The file is read back with the gguf package alone, its weights dequantized,
and run by a second, plain forward pass in numpy written from the format's
conventions, not from model.py. Three things must hold: the file's numbers
equal the checkpoint's within the format's rounding; the plain pass over
the file gives the logits that model.py gives with the file's weights; and
the greedy continuation is the same token for token.
"""

import argparse
from pathlib import Path

import gguf
import numpy as np
import torch

from checkpoint import load_model
from export_gguf import gguf_name
from generate import generate

TEXT_IDS = 48
STEP = {gguf.LlamaFileType.MOSTLY_Q4_0: 1 / 8}  # of a block's largest


def read(path):
    """(keys, {name: float32 weights}) of a GGUF file."""
    reader = gguf.GGUFReader(path)
    keys = {name: field.contents() for name, field in reader.fields.items()}
    weights = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).reshape(
        t.shape[::-1]) for t in reader.tensors}
    return keys, weights


def norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rotate(x, base):
    """NEOX rotary positions over [length, heads, size]."""
    length, _, size = x.shape
    rates = base ** (-np.arange(0, size, 2) / size)
    angles = (np.arange(length)[:, None] * rates)[:, None, :]
    a, b = x[..., :size // 2], x[..., size // 2:]
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles),
                           b * np.cos(angles) + a * np.sin(angles)], -1)


def forward(keys, weights, ids):
    """Logits of every position, in double precision."""
    def key(name):
        return keys[f"qwen3.{name}"]
    eps = key("attention.layer_norm_rms_epsilon")
    heads, groups = key("attention.head_count"), key("attention.head_count_kv")
    size, length = key("attention.key_length"), len(ids)
    w = {n: t.astype(np.float64) for n, t in weights.items()}
    x = w["token_embd.weight"][ids]
    hidden = np.triu(np.full((length, length), -np.inf), 1)
    for i in range(key("block_count")):
        b = {n.split(".")[2]: t for n, t in w.items()
             if n.startswith(f"blk.{i}.")}
        h = norm(x, b["attn_norm"], eps)
        q = (h @ b["attn_q"].T).reshape(length, heads, size)
        k = (h @ b["attn_k"].T).reshape(length, groups, size)
        v = (h @ b["attn_v"].T).reshape(length, groups, size)
        q = rotate(norm(q, b["attn_q_norm"], eps), key("rope.freq_base"))
        k = rotate(norm(k, b["attn_k_norm"], eps), key("rope.freq_base"))
        mixed = np.empty_like(q)
        for head in range(heads):
            kv = head // (heads // groups)
            scores = q[:, head] @ k[:, kv].T / np.sqrt(size) + hidden
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
            mixed[:, head] = scores @ v[:, kv]
        x = x + mixed.reshape(length, -1) @ b["attn_output"].T
        h = norm(x, b["ffn_norm"], eps)
        gate = h @ b["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ b["ffn_up"].T)
                 ) @ b["ffn_down"].T
    return norm(x, w["output_norm.weight"], eps) @ w["token_embd.weight"].T


def greedy(keys, weights, ids, count, stop):
    """Like generate(), so that the two can be compared."""
    ids = list(ids)
    begin = len(ids)
    while len(ids) - begin < count:
        token = int(forward(keys, weights, ids)[-1].argmax())
        if token == stop:
            break
        ids.append(token)
    return ids[begin:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("--count", type=int, default=48,
                        help="tokens of the greedy continuation")
    args = parser.parse_args()
    model = load_model(args.checkpoint)
    keys, weights = read(args.gguf)

    worst = 0.0
    for name, own in model.state_dict().items():
        other = weights[gguf_name(name)]
        assert other.shape == tuple(own.shape), name
        worst = max(worst, np.abs(other - own.numpy()).max()
                    / own.abs().max().item())
    assert len(weights) == len(model.state_dict())
    print(f"weights: largest difference {worst:.5f} of a tensor's maximum")
    assert worst < STEP.get(keys["general.file_type"], 0.01)

    ids = np.random.default_rng(0).integers(7, model.config.vocab, TEXT_IDS)
    before = model.logits(torch.tensor(ids)[None])[0].detach().numpy()
    model.load_state_dict({n: torch.tensor(weights[gguf_name(n)])
                           for n in model.state_dict()})
    mine = model.logits(torch.tensor(ids)[None])[0].detach().numpy()
    plain = forward(keys, weights, ids)
    print(f"logits: plain pass against model.py {abs(plain - mine).max():.2e};"
          f" rounding of the weights moved them {abs(before - mine).max():.3f}"
          f" of {abs(before).max():.1f}")
    assert abs(plain - mine).max() < 1e-3 * abs(mine).max()

    tokens = keys["tokenizer.ggml.tokens"]
    start = tokens.index("<|endoftext|>")
    prompt = [start, tokens.index("def"), tokens.index("Ġ__"),
              tokens.index("init"), tokens.index("__(")]
    own = generate(model, prompt, args.count, 0.0, start)
    other = greedy(keys, weights, prompt, args.count, start)
    print("greedy:", "".join(tokens[t] for t in other))
    assert own == other
    print("the export is the checkpoint's model")


if __name__ == "__main__":
    main()
