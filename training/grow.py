#!/usr/bin/env python3
"""Give a checkpoint more layers; what it computes stays the same.

A new layer is a copy of the one before it, with the two matrices that write
to the residual stream at zero. `train.py --init` trains the result.
"""

import argparse
import re
from pathlib import Path

import torch

import checkpoint
from model import Config, Decoder


def grown(weights, after):
    """The weights with a silent copy behind each layer named in `after`."""
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--after", type=int, nargs="+", required=True,
                        metavar="LAYER", help="layers, from 0, to put one "
                        "behind")
    args = parser.parse_args()
    state = checkpoint.load(args.checkpoint)
    config = Config(**state["config"])
    old = Decoder(config)
    old.load_state_dict(state["weights"])
    config.layers += len(args.after)
    model = Decoder(config)
    model.load_state_dict(grown(state["weights"], set(args.after)))
    ids = torch.arange(64)[None]
    assert torch.allclose(old.logits(ids), model.logits(ids), atol=1e-4)
    checkpoint.save(args.out, model)
    print(f"{config.layers} layers, {model.parameter_count():,} parameters")


if __name__ == "__main__":
    main()
