#!/usr/bin/env python3
"""Compare ways of computing a training step on this processor.

    python speed.py                the bundled model's shape, rows of 512
    python speed.py --row 8192

Tokens per second of processor time, one thread, one micro-batch forward and
back, without the optimizer: the median of rounds in which each way runs once.
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F

import model as decoder
from model import Config, Decoder, mean_loss
from recipe import DEVICES, SIZES
from train import keep_memory


def torch_attention(q, k, v):
    """Torch's own kernel, instead of products of blocks."""
    return F.scaled_dot_product_attention(
        q.to(v.dtype), k.to(v.dtype), v, is_causal=True)


# Variants of the step, one more change per line: product type, compiled, attention.
WAYS = [
    ("float32", torch.float32, False, torch_attention),
    ("bfloat16", torch.bfloat16, False, torch_attention),
    ("bfloat16, compiled", torch.bfloat16, True, torch_attention),
    ("bfloat16, compiled, attention in blocks", torch.bfloat16, True,
     decoder.attend),
    ("float32, compiled, attention in blocks", torch.float32, True,
     decoder.attend),
]


def prepare(way, args, shape):
    """A step of this variant: a function without arguments."""
    _, dtype, compiled, attend = way
    plain_loss = decoder.logit_loss
    model = Decoder(Config(context=args.row, **shape))
    tokens = torch.randint(shape["vocab"], (max(1, args.micro // args.row),
                                            args.row + 1))
    hidden, loss = model.hidden, plain_loss
    if compiled:
        hidden = torch.compile(hidden, dynamic=False)
        loss = torch.compile(loss, dynamic=False)

    def step():
        decoder.attend, decoder.logit_loss = attend, loss
        try:
            with torch.autocast("cpu", torch.bfloat16,
                                enabled=dtype == torch.bfloat16):
                out = hidden(tokens[:, :-1])
            mean_loss(out, model.embedding.weight, tokens[:, 1:],
                      DEVICES["cpu"]["chunk"], dtype, 1e-4).backward()
        finally:
            decoder.logit_loss = plain_loss
        model.zero_grad(set_to_none=True)
        return tokens.numel() - len(tokens)
    step()  # compiles, and touches memory
    return step


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="5m")
    parser.add_argument("--row", type=int, default=512)
    parser.add_argument("--micro", type=int, default=1024,
                        help="tokens per forward pass, at least a row")
    parser.add_argument("--turns", type=int, default=9)
    args = parser.parse_args()
    keep_memory()
    torch.set_num_threads(1)
    torch.manual_seed(1)

    steps = [prepare(way, args, SIZES[args.size]) for way in WAYS]
    speeds = [[] for _ in WAYS]
    for _ in range(args.turns):
        for step, found in zip(steps, speeds):
            began = time.process_time()
            count = step()
            found.append(count / (time.process_time() - began))
    for (name, *_), found in zip(WAYS, speeds):
        print(f"{statistics.median(found):7,.0f}  {name}")


if __name__ == "__main__":
    main()
