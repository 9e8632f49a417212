#!/usr/bin/env python3
"""Prune a trained model to a smaller one, which is then distilled from it.

As in Minitron: the effect of each part is measured on a little text, and those
with the least effect are removed. Layers: those whose output is most like their input, the
except the first and the last. Feed-forward channels: those with the smallest
root mean square after the activation. Channels of the width: those with the
smallest mean square after the norms, together in all matrices.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import checkpoint
from model import Config, Decoder

HERE = Path(__file__).parent


class Seen:
    """Sums over text of the activations in the parts of a model."""

    def __init__(self, model):
        c = model.config
        self.ffn = [torch.zeros(c.ffn) for _ in model.blocks]
        self.width = torch.zeros(c.width)
        self.layers = torch.zeros(c.layers)
        for i, block in enumerate(model.blocks):
            block.down.register_forward_pre_hook(
                lambda _, args, i=i: self.add_ffn(i, args[0]))
            for norm in (block.attention_norm, block.ffn_norm):
                norm.register_forward_hook(
                    lambda _, __, out: self.add_width(out))
            block.register_forward_hook(
                lambda _, args, out, i=i: self.add_layer(i, args[0], out))

    def add_ffn(self, i, h):
        self.ffn[i] += h.float().square().flatten(0, -2).sum(0)

    def add_width(self, x):
        self.width += x.float().square().flatten(0, -2).sum(0)

    def add_layer(self, i, x, out):
        alike = F.cosine_similarity(x.float(), out.float(), dim=-1)
        self.layers[i] += (1 - alike).sum()


def largest(values, n):
    """Indices of the n largest, ascending."""
    return torch.topk(values, n).indices.sort().values


def kept_layers(seen, n):
    """Indices of n layers; the first and last stay."""
    values = seen.layers.clone()
    values[0] = values[-1] = float("inf")
    return largest(values, n).tolist()


def pruned(model, seen, layers, ffn, width):
    """A model of that size with the parts of `model` with the largest effect."""
    c = model.config
    small = Decoder(Config(**{**c.as_dict(), "layers": layers, "ffn": ffn,
                              "width": width}))
    keep = largest(seen.width, width)
    # Norms divide by a mean over fewer channels: their output stays the
    # same if the removed channels are zero.
    kept = seen.width[keep].sum() / seen.width.sum()
    norm = (c.width / width * kept).sqrt()
    weights = model.state_dict()
    out = {"embedding.weight": weights["embedding.weight"][:, keep],
           "output_norm.weight": weights["output_norm.weight"][keep] * norm}
    for place, i in enumerate(kept_layers(seen, layers)):
        channels = largest(seen.ffn[i], ffn)
        for name in (n for n in weights if n.startswith(f"blocks.{i}.")):
            rest = name.split(".", 2)[2]
            w = weights[name]
            if rest in ("gate.weight", "up.weight"):
                w = w[channels][:, keep]
            elif rest == "down.weight":
                w = w[keep][:, channels]
            elif rest == "attention.output.weight":
                w = w[keep]
            elif rest in ("attention_norm.weight", "ffn_norm.weight"):
                w = w[keep] * norm
            elif w.ndim == 2:
                w = w[:, keep]
            out[f"blocks.{place}.{rest}"] = w
    small.load_state_dict(out)
    return small.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("checkpoint", type=Path)
    add("out", type=Path)
    add("--layers", type=int, help="how many to keep (default: all)")
    add("--ffn", type=int, help="channels of the feed-forward to keep")
    add("--width", type=int, help="channels of the width to keep")
    add("--tokens", type=Path, default=HERE / "work/tokens/train_512.bin",
        help="packed rows to measure")
    add("--row", type=int, default=512)
    add("--count", type=int, default=64, help="rows of them")
    args = parser.parse_args()
    model = checkpoint.load_model(args.checkpoint)
    c = model.config
    data = np.memmap(args.tokens, dtype=np.uint16, mode="r")
    rows = data.reshape(-1, args.row + 1)[:args.count, :-1].astype(np.int64)
    seen = Seen(model)
    with torch.no_grad():
        for row in torch.from_numpy(rows):
            model.hidden(row[None])
    small = pruned(model, seen, args.layers or c.layers, args.ffn or c.ffn,
                   args.width or c.width)
    checkpoint.save(args.out, small)
    print(f"{model.parameter_count():,} parameters to "
          f"{small.parameter_count():,}; layers "
          f"{kept_layers(seen, small.config.layers)}")


if __name__ == "__main__":
    main()
