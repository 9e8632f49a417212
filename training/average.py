#!/usr/bin/env python3
"""A checkpoint between two of one run: a mean of their weights.

    python average.py short.pt long.pt out.pt --share 0.4

The best weights for short rows and for long ones lie in one valley;
a point between them was better than either at all lengths (decision 0024).
"""

import argparse
from pathlib import Path

import torch

import checkpoint


def average(first, second, share):
    """The weights of the second, share of the way towards the first's."""
    return {name: torch.lerp(tensor.float(), first[name].float(),
                             share).to(tensor.dtype)
            for name, tensor in second.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("out", type=Path, help="weights alone")
    parser.add_argument("--share", type=float, default=0.5, help="of the first")
    args = parser.parse_args()
    first, second = (checkpoint.load_model(path)
                     for path in (args.first, args.second))
    if first.config != second.config:
        parser.exit(1, "average.py: checkpoints of different shapes\n")
    second.load_state_dict(average(first.state_dict(), second.state_dict(),
                                   args.share))
    checkpoint.save(args.out, second)


if __name__ == "__main__":
    main()
