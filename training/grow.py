#!/usr/bin/env python3
"""Give a checkpoint more or wider layers without changing what it computes.

A new layer is a copy of the one before it, with the two matrices that write
to the residual stream at zero. New columns of a feed-forward network begin as
train.py begins all of them, and their outputs are zero as well. `train.py
--init` trains the result.
"""

import argparse
import re
from pathlib import Path

import torch

import checkpoint
from model import Config, Decoder


def grown(weights, after):
    """The weights with a neutral copy after each layer named in `after`."""
    out = {}
    for name, weight in weights.items():
        match = re.match(r"blocks\.(\d+)\.(.*)", name)
        if not match:
            out[name] = weight
            continue
        index, rest = int(match.group(1)), match.group(2)
        place = index + sum(a < index for a in after)
        out[f"blocks.{place}.{rest}"] = weight
        if index in after:
            silent = rest in ("attention.output.weight", "down.weight")
            out[f"blocks.{place + 1}.{rest}"] = (
                torch.zeros_like(weight) if silent else weight.clone())
    return out


def widened(weights, ffn):
    """The weights with feed-forward networks of `ffn` columns."""
    out = dict(weights)
    for name, weight in weights.items():
        if name.endswith((".gate.weight", ".up.weight")):
            missing = ffn - weight.shape[0]
            new = torch.randn(missing, weight.shape[1], dtype=weight.dtype)
            new *= weight.shape[1] ** -0.5 / 2
            out[name] = torch.cat((weight, new))
        elif name.endswith(".down.weight"):
            missing = ffn - weight.shape[1]
            new = weight.new_zeros(weight.shape[0], missing)
            out[name] = torch.cat((weight, new), dim=1)
    return out


def larger(old, after, ffn):
    """A Decoder that computes what `old` does, with room to learn."""
    config = Config(**{**old.config.as_dict(), "ffn": ffn,
                       "layers": old.config.layers + len(after)})
    model = Decoder(config)
    model.load_state_dict(widened(grown(old.state_dict(), after), ffn))
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--after", type=int, nargs="+", default=[],
                        metavar="LAYER", help="layers, from 0, to put one "
                        "behind")
    parser.add_argument("--ffn", type=int, metavar="N", help="columns of the "
                        "feed-forward networks (default: as many as it has)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    old = checkpoint.load_model(args.checkpoint)
    after, ffn = set(args.after), args.ffn or old.config.ffn
    if ffn < old.config.ffn:
        parser.error(f"{args.checkpoint} has {old.config.ffn} columns: "
                     "prune.py takes some away")
    if not after <= set(range(old.config.layers)):
        parser.error(f"{args.checkpoint} has layers 0 to "
                     f"{old.config.layers - 1}")
    model = larger(old, after, ffn)
    ids = torch.arange(64)[None]
    assert torch.allclose(old.logits(ids), model.logits(ids), atol=1e-4)
    checkpoint.save(args.out, model)
    print(f"{model.config.layers} layers, {model.parameter_count():,} "
          "parameters")


if __name__ == "__main__":
    main()
