#!/usr/bin/env python3
"""Continue a prompt, or fill a hole, with a checkpoint (for looking at it).

    python generate.py work/run/checkpoint.pt --prompt 'def add(a, b):'
    python generate.py work/run/checkpoint.pt --prefix 'for (i = 0; ' \\
        --suffix ') {'
"""

import argparse
from pathlib import Path

import torch
from tokenizers import Tokenizer

from checkpoint import load_model

HERE = Path(__file__).parent


@torch.no_grad()
def generate(model, ids, count, temperature, stop):
    """Token ids after `ids`; greedy at temperature 0."""
    ids = list(ids)
    begin = len(ids)
    while len(ids) - begin < count:
        window = torch.tensor([ids[-model.config.context:]])
        logits = model.logits(window)[0, -1]
        if temperature > 0:
            token = torch.multinomial((logits / temperature).softmax(-1), 1)
        else:
            token = logits.argmax()
        if token.item() == stop:
            break
        ids.append(token.item())
    return ids[begin:]


def prompt_ids(tokenizer, args):
    def one(name):
        return tokenizer.token_to_id(f"<|{name}|>")
    if args.prefix is None:
        return [one("endoftext"), *tokenizer.encode(args.prompt).ids]
    return [one("endoftext"),
            one("fim_prefix"), *tokenizer.encode(args.prefix).ids,
            one("fim_suffix"), *tokenizer.encode(args.suffix).ids,
            one("fim_middle")]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--tokenizer", type=Path,
                        default=HERE / "work/tokenizer.json")
    parser.add_argument("--prompt", default="")
    parser.add_argument("--prefix")
    parser.add_argument("--suffix", default="")
    parser.add_argument("-n", "--count", type=int, default=80)
    parser.add_argument("--temp", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    tokenizer = Tokenizer.from_file(str(args.tokenizer))
    model = load_model(args.checkpoint)
    ids = generate(model, prompt_ids(tokenizer, args), args.count, args.temp,
                   tokenizer.token_to_id("<|endoftext|>"))
    print((args.prompt if args.prefix is None else "") + tokenizer.decode(ids))


if __name__ == "__main__":
    main()
