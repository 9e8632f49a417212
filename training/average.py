#!/usr/bin/env python3
"""A checkpoint between two of one run: a mean of their weights.

    python average.py short.pt long.pt out.pt --share 0.4

What is best for short rows and what is best for long ones lie in one valley;
a point between them was better than either at all lengths (decision 0024).
"""

import argparse
from pathlib import Path

import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path, help="all but the weights is its")
    parser.add_argument("out", type=Path)
    parser.add_argument("--share", type=float, default=0.5, help="of the first")
    args = parser.parse_args()
    first, second = (torch.load(path, map_location="cpu", weights_only=False)
                     for path in (args.first, args.second))
    weights = second["weights"]
    if first["config"] != second["config"]:
        parser.exit(1, "average.py: checkpoints of different shapes\n")
    for name, tensor in weights.items():
        mean = torch.lerp(tensor.float(), first["weights"][name].float(),
                          args.share)
        weights[name] = mean.to(tensor.dtype)
    torch.save(second, args.out)


if __name__ == "__main__":
    main()
