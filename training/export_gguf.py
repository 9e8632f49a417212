#!/usr/bin/env python3
"""Write a checkpoint as GGUF, in F16, Q8_0 or Q4_0.

Norm weights stay F32: they are tiny and every engine expects them so. The
output matrix is the embedding table and is not stored twice; beside Q4_0,
for models that learned to be rounded (train.py --four-bits), it is in Q8_0.
"""

import argparse
import json
import os
from pathlib import Path

import gguf
import numpy as np

import checkpoint
from model import Config

HERE = Path(__file__).parent

TYPES = {"f16": gguf.GGMLQuantizationType.F16,
         "q8_0": gguf.GGMLQuantizationType.Q8_0,
         "q4_0": gguf.GGMLQuantizationType.Q4_0}
FILE_TYPES = {"f16": gguf.LlamaFileType.MOSTLY_F16,
              "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
              "q4_0": gguf.LlamaFileType.MOSTLY_Q4_0}
BLOCK_NAMES = {
    "attention_norm": "attn_norm", "attention.q": "attn_q",
    "attention.k": "attn_k", "attention.v": "attn_v",
    "attention.output": "attn_output", "attention.q_norm": "attn_q_norm",
    "attention.k_norm": "attn_k_norm", "ffn_norm": "ffn_norm",
    "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}


FIM_TOKENS = {
    "fim_pre": "<|fim_prefix|>", "fim_suf": "<|fim_suffix|>",
    "fim_mid": "<|fim_middle|>", "fim_pad": "<|fim_pad|>",
    "fim_rep": "<|repo_name|>", "fim_sep": "<|file_sep|>"}


def gguf_name(name):
    """blocks.3.attention.q.weight -> blk.3.attn_q.weight"""
    if name == "embedding.weight":
        return "token_embd.weight"
    if not name.startswith("blocks."):
        return name
    _, index, rest = name.split(".", 2)
    return f"blk.{index}.{BLOCK_NAMES[rest.removesuffix('.weight')]}.weight"


def add_config(writer, config, name, kind):
    writer.add_name(name)
    writer.add_license("apache-2.0")
    writer.add_file_type(FILE_TYPES[kind])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_block_count(config.layers)
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.width)
    writer.add_feed_forward_length(config.ffn)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_rope_freq_base(config.rope_base)
    writer.add_vocab_size(config.vocab)


def add_tokenizer(writer, path):
    """The vocabulary in the form that engines know from GPT-2."""
    data = json.loads(path.read_text())
    special = {t["content"]: t["id"] for t in data["added_tokens"]}
    tokens = sorted(data["model"]["vocab"], key=data["model"]["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if t in special
                            else gguf.TokenType.NORMAL for t in tokens])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m)
                             for m in data["model"]["merges"]])
    end = special["<|endoftext|>"]
    writer.add_eos_token_id(end)
    writer.add_pad_token_id(special["<|fim_pad|>"])
    writer.add_add_bos_token(False)
    # The order in pack.py's examples; readers that do not know the key use
    # the other order.
    writer.add_bool("cerium.fim_suffix_first", True)
    # Such a small model fills holes better with words from the file.
    writer.add_float32("cerium.pointer", 1.0)
    # Measured by `cerium eval`: half of the shown completions are right.
    writer.add_float32("cerium.confidence", 0.35)
    writer.add_bool("cerium.completes_only", True)
    for key, token in FIM_TOKENS.items():
        writer.add_uint32(f"tokenizer.ggml.{key}_token_id", special[token])


def add_weights(writer, weights, kind):
    for name, tensor in weights.items():
        data = tensor.float().numpy()
        if data.ndim == 1:
            writer.add_tensor(gguf_name(name), data)
            continue
        embeds = name == "embedding.weight"
        type_ = TYPES["q8_0" if embeds and kind == "q4_0" else kind]
        data = gguf.quants.quantize(np.ascontiguousarray(data), type_)
        writer.add_tensor(gguf_name(name), data, raw_dtype=type_)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--type", choices=TYPES, default="q8_0")
    parser.add_argument("--name", default="cerium-line")
    parser.add_argument("--context", type=int, metavar="TOKENS",
                        help="the context that the file declares, if more "
                        "than the rows was measured to do (evaluate.py)")
    parser.add_argument("--tokenizer", type=Path,
                        default=HERE / "work/tokenizer.json")
    args = parser.parse_args()
    state = checkpoint.load(args.checkpoint)
    partial = args.out.with_name(args.out.name + ".partial")
    writer = gguf.GGUFWriter(partial, "qwen3")
    config = Config(**state["config"])
    config.context = args.context or config.context
    add_config(writer, config, args.name, args.type)
    add_tokenizer(writer, args.tokenizer)
    add_weights(writer, state["weights"], args.type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(partial, args.out)
    print(f"{args.out}: {args.out.stat().st_size:,} bytes, {args.type}")


if __name__ == "__main__":
    main()
