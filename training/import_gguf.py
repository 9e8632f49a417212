#!/usr/bin/env python3
"""Make a checkpoint from one of our GGUF files, to train it further.

The inverse of export_gguf.py: weights are dequantized to float32, the
configuration comes from the file's keys. The loss by rounding stays; a run
that continues regains it within its first steps.
"""

import argparse
from pathlib import Path

import gguf
import torch

import checkpoint
from export_gguf import gguf_name
from model import Config, Decoder


def config_of(keys):
    """The Config that export_gguf.add_config wrote."""
    def key(name):
        value = keys[f"qwen3.{name}"]
        # Reals are stored as float32: take the shortest decimal that gives it.
        return float(f"{value:.7g}") if isinstance(value, float) else value
    return Config(
        vocab=len(keys["tokenizer.ggml.tokens"]),
        width=key("embedding_length"), layers=key("block_count"),
        heads=key("attention.head_count"),
        kv_heads=key("attention.head_count_kv"),
        head_dim=key("attention.key_length"), ffn=key("feed_forward_length"),
        context=key("context_length"), rope_base=key("rope.freq_base"),
        norm_eps=key("attention.layer_norm_rms_epsilon"))


def load(path):
    """A Decoder with a file's weights; KeyError names a missing key."""
    reader = gguf.GGUFReader(path)
    keys = {name: field.contents() for name, field in reader.fields.items()}
    if keys["general.architecture"] != "qwen3":
        raise SystemExit(f"{path}: {keys['general.architecture']}, not the "
                         "qwen3 that model.py computes")
    weights = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).reshape(
        t.shape[::-1]) for t in reader.tensors}
    model = Decoder(config_of(keys))
    model.load_state_dict({
        name: torch.tensor(weights[gguf_name(name)]).view(own.shape)
        for name, own in model.state_dict().items()})
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("gguf", type=Path)
    parser.add_argument("out", type=Path, help="checkpoint to write")
    args = parser.parse_args()
    model = load(args.gguf)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.save(args.out, model)
    print(f"{args.out}: {model.parameter_count():,} parameters, "
          f"{model.config.layers} layers of width {model.config.width}")


if __name__ == "__main__":
    main()
