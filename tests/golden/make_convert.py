#!/usr/bin/env python3
"""Make the fixtures of `cerium convert`: tiny random models as Hugging Face publishes them.

Owns tests/golden/hf/NAME/: config.json and model*.safetensors by transformers' save_pretrained(),
tokenizer.json by tokenizers; and next to them NAME.expect, transformers' own logits in the form of
expect_file.py, and NAME.text and NAME.ids, a text and the ids that tokenizers gives it.

    python3 make_convert.py [NAME ...]
"""
import json
import os
import shutil
import sys

import numpy as np
import torch
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as pre
from tokenizers import processors, trainers
from transformers import MistralConfig, MistralForCausalLM
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from expect_file import FLOAT_BOUND, KL_LEAST, SAFETY, write_expect
from gguf_file import CONTROL, N_VOCAB, byte_alphabet
from model_list import FIXTURES, make_model
from model_tensors import randomise
from reference import choose_tokens, run, simulate

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hf")
TEXT = ("def naïve(x_1, y=12345):\n    return {'a': x_1 ** 2, \"ß\": [y // 7]}\n\n\n"
        "\tif (a!=b) { i'm++; they'LL }  // the end of 2026 \U0001f642\r\n<|im_end|> the thing")

# As many as in gguf_file.py; tokenizers needs both halves of each in the vocabulary.
MERGES = ["i n", "t h", "th e", "r e", "\u0120 t", "o n", "e r", "\u0120t h", "\u0120th e", "i f"]
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


TEKKEN = O200K.replace(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace(r"\p{N}{1,3}", r"\p{N}")


def split(pattern):
    return pre.Sequence([pre.Split(Regex(pattern), "isolated"),
                         pre.ByteLevel(add_prefix_space=False, use_regex=False)])


PRES = {
    "qwen2": lambda: split(QWEN2), "llama3": lambda: split(LLAMA3), "o200k": lambda: split(O200K),
    "tekken": lambda: split(TEKKEN),
    "gpt2": lambda: pre.ByteLevel(add_prefix_space=False),
    "starcoder": lambda: pre.Sequence([pre.Digits(individual_digits=True),
                                       pre.ByteLevel(add_prefix_space=False)]),
}


def byte_level(kind):
    """256 bytes, a few merges, a few control tokens; Llama 3 begins every text with one."""
    words = byte_alphabet() + [m.replace(" ", "") for m in MERGES]
    t = Tokenizer(models.BPE(vocab={w: i for i, w in enumerate(words)},
                             merges=[tuple(m.split(" ")) for m in MERGES],
                             ignore_merges=kind in ("llama3", "tekken")))
    t.pre_tokenizer = PRES[kind]()
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(c, special=True) for c in CONTROL])
    if kind == "llama3":
        first = CONTROL[0]
        t.post_processor = processors.TemplateProcessing(
            single=f"{first} $A", special_tokens=[(first, t.token_to_id(first))])
    return t


def sentencepiece():
    """Like Llama 2: bytes to fall back to, spaces as U+2581, one before the text."""
    t = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"),
                                         normalizers.Replace(" ", "\u2581")])
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=special[:3],
                                  initial_alphabet=list("abcdefghijklmnopqrstuvwxyz\u2581"))
    t.train_from_iterator([open(__file__, encoding="utf-8").read()], trainer)
    data = json.loads(t.to_str())
    words = [w for w in sorted(data["model"]["vocab"], key=data["model"]["vocab"].get)
             if w not in special and "\n" not in w]
    merges = [m for m in data["model"]["merges"] if "\n" not in "".join(m)]
    vocab = {w: i for i, w in enumerate(special + words)}
    data["model"]["vocab"], data["model"]["merges"] = vocab, merges
    return Tokenizer.from_str(json.dumps(data))


# ---- weights in special formats ----

def as_fp8(folder, block=16):
    """Matrices of the layers in E4M3 with a scale for each block; returns the decoded values."""
    path = os.path.join(folder, "model.safetensors")
    weights, plain = load_file(path), {}
    for name in list(weights):
        w = weights[name]
        if w.ndim != 2 or "_proj" not in name:
            continue
        rows, columns = (-(-n // block) for n in w.shape)
        scale = torch.zeros(rows, columns)
        quants = torch.zeros(w.shape)
        for r in range(rows):
            for c in range(columns):
                part = w[r * block:(r + 1) * block, c * block:(c + 1) * block].float()
                scale[r, c] = part.abs().max() / 448
                quants[r * block:(r + 1) * block, c * block:(c + 1) * block] = part / scale[r, c]
        quants = quants.to(torch.float8_e4m3fn)
        wide = scale.repeat_interleave(block, 0).repeat_interleave(block, 1)
        plain[name] = (quants.float() * wide[:w.shape[0], :w.shape[1]]).bfloat16()
        weights[name], weights[name + "_scale_inv"] = quants, scale
    save_file(weights, path)
    add_to_config(folder, quantization_config={"quant_method": "fp8",
                                               "weight_block_size": [block, block]})
    return plain


def as_mxfp4(folder, rng):
    """Experts in random MXFP4; transformers' own code decodes them."""
    path = os.path.join(folder, "model.safetensors")
    weights, plain = load_file(path), {}
    for name in list(weights):
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            continue
        n, k, rows = weights.pop(name).shape  # transposed: [experts, columns, rows]
        blocks = torch.from_numpy(rng.integers(0, 256, (n, rows, k // 32, 16), dtype=np.uint8))
        scales = torch.from_numpy(rng.integers(122, 126, (n, rows, k // 32), dtype=np.uint8))
        weights[name + "_blocks"], weights[name + "_scales"] = blocks, scales
        plain[name] = convert_moe_packed_tensors(blocks.clone(), scales.clone())
    save_file(weights, path)
    add_to_config(folder, quantization_config={"quant_method": "mxfp4"})
    return plain


def as_nvfp4(folder, rng, by_modelopt):
    """Projections in random NVFP4, by the names of ModelOpt or of compressed-tensors, whose own
    code unpacks them."""
    path = os.path.join(folder, "model.safetensors")
    weights, plain = load_file(path), {}
    for name in [n for n in weights if n.endswith("_proj.weight")]:
        rows, columns = weights.pop(name).shape
        packed = torch.from_numpy(rng.integers(0, 256, (rows, columns // 2), dtype=np.uint8))
        scales = torch.from_numpy(rng.integers(0x50, 0x70, (rows, columns // 16), dtype=np.uint8))
        scales = scales.view(torch.float8_e4m3fn)
        factor = torch.tensor(rng.uniform(0.5, 1.5) / (60 * columns ** 0.5), dtype=torch.float32)
        weights[name if by_modelopt else name + "_packed"] = packed
        weights[name + "_scale"] = scales
        if by_modelopt:
            weights[name + "_scale_2"] = factor
            weights[name.replace("weight", "input_scale")] = torch.tensor(0.01)
        else:
            weights[name + "_global_scale"] = (1 / factor).reshape(1)
            weights[name.replace("weight", "input_global_scale")] = torch.tensor([100.0])
            factor = 1 / weights[name + "_global_scale"]
        wide = scales.float().repeat_interleave(16, 1) * factor
        plain[name] = unpack_fp4_from_uint8(packed, rows, columns, torch.float32) * wide
    save_file(weights, path)
    add_to_config(folder, quantization_config=(
        {"quant_method": "modelopt", "quant_algo": "NVFP4"} if by_modelopt else
        {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}))
    return plain


def into_model(model, plain):
    """Experts are one parameter of the model, gate and up together, and apart in the folder."""
    for name, value in plain.items():
        block, _, rest = name.partition(".experts.")
        if not rest:
            parameter = model.get_parameter(name).data
        else:
            expert, short, _ = rest.split(".")
            fused = "down_proj" if short == "down_proj" else "gate_up_proj"
            parameter = model.get_parameter(f"{block}.experts.{fused}").data[int(expert)]
            if short != "down_proj":
                parameter = parameter.chunk(2)[short == "up_proj"]
        assert parameter.shape == value.shape, (name, parameter.shape, value.shape)
        parameter.copy_(value.float())


def add_to_config(folder, **keys):
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    config.update(keys)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f, indent=1)


# ---- the list ----

NVFP4 = ("modelopt", "compressed-tensors")
SMALL = dict(hidden_size=32, intermediate_size=48, vocab_size=N_VOCAB)


def change(name, base, options, tokenizer, **more):
    fixture = next(f for f in FIXTURES if f["name"] == base)
    return {**fixture, "name": name, "options": {**fixture["options"], **options},
            "tokenizer": tokenizer, **more}


MODELS = [
    change("llama3", "llama-rope3", {**SMALL, "head_dim": 16}, "llama3"),
    change("mistral", "llama", {**SMALL, "vocab_size": 0}, "sentencepiece", config=MistralConfig,
           model=MistralForCausalLM),
    change("qwen2", "qwen2-yarn", {**SMALL, "vocab_size": 280}, "qwen2"),
    change("qwen2-split", "qwen2", SMALL, "gpt2", shards=True, dtype=torch.float16),
    change("qwen3", "qwen3", {**SMALL, "head_dim": 16}, "qwen2", dtype=torch.float32),
    change("qwen3-fp8", "qwen3", {**SMALL, "head_dim": 16}, "qwen2", special="fp8"),
    change("qwen3-nvfp4", "qwen3", {"vocab_size": N_VOCAB, "hidden_size": 64, "head_dim": 16,
                                    "intermediate_size": 128}, "qwen2", special="modelopt"),
    change("qwen3moe-nvfp4", "qwen3moe",
           {"vocab_size": N_VOCAB, "num_experts": 4, "hidden_size": 64,
            "moe_intermediate_size": 64}, "qwen2", special="compressed-tensors"),
    change("qwen3moe", "qwen3moe", {"vocab_size": N_VOCAB, "num_experts": 4}, "qwen2"),
    change("gpt-oss", "gpt-oss", {}, "o200k"),
    change("gpt-oss-mxfp4", "gpt-oss", {}, "o200k", special="mxfp4"),
    change("starcoder2", "starcoder2", SMALL, "starcoder"),
    change("mistral3", "mistral3", {**SMALL, "head_dim": 16}, "tekken"),
    change("smollm3", "smollm3", SMALL, "llama3"),
    change("seed_oss", "seed_oss", {**SMALL, "head_dim": 16}, "qwen2"),
    change("granite", "granite", SMALL, "starcoder"),
    change("granitemoe", "granitemoe", {"vocab_size": N_VOCAB}, "starcoder"),
    change("granitehybrid", "granitehybrid", {"vocab_size": N_VOCAB},
           "starcoder"),
    change("granitehybrid-dense", "granitehybrid-dense", {"vocab_size": N_VOCAB}, "qwen2"),
    change("granite-attends", "granitehybrid-wide",
           {"vocab_size": N_VOCAB, "layer_types": ["full_attention"] * 2}, "qwen2"),
    change("nemotron_h", "nemotron_h", {"vocab_size": N_VOCAB}, "tekken"),
    change("nemotron_h_moe", "nemotron_h_moe", {"vocab_size": N_VOCAB}, "qwen2"),
    change("nemotron_h_moe-latent", "nemotron_h_moe-latent", {"vocab_size": N_VOCAB}, "qwen2"),
    change("nemotron_h_moe-puzzle", "nemotron_h_moe-puzzle", {"vocab_size": N_VOCAB}, "qwen2"),
    change("gemma3", "gemma3", {"vocab_size": 0, "head_dim": 16, "intermediate_size": 32,
                                "query_pre_attn_scalar": 24}, "sentencepiece"),
    change("mellum", "mellum", {"vocab_size": N_VOCAB}, "starcoder"),
    change("glm4moe", "glm4moe", {"vocab_size": N_VOCAB}, "llama3"),
    change("minimax-m2", "minimax-m2", {"vocab_size": N_VOCAB}, "o200k"),
    change("qwen35", "qwen35", {"vocab_size": N_VOCAB}, "qwen2"),
    change("qwen35moe", "qwen35moe", {"vocab_size": N_VOCAB, "num_experts": 4}, "qwen2"),
    change("gemma4", "gemma4-inputs", {"vocab_size": 0}, "sentencepiece"),
    change("laguna", "laguna", {"vocab_size": N_VOCAB, "num_experts": 4,
                                "gating": "per-element"}, "qwen2", seed=91),
    change("deepseek2", "deepseek2", {"vocab_size": N_VOCAB}, "llama3"),
    change("deepseek2-yarn", "deepseek2-yarn", {"vocab_size": N_VOCAB}, "qwen2"),
    change("deepseek2-softmax", "deepseek2-softmax", {"vocab_size": N_VOCAB}, "qwen2"),
    change("mistral4", "mistral4", {"vocab_size": N_VOCAB}, "tekken"),
    change("qwen3next", "qwen3next", {"vocab_size": N_VOCAB, "num_experts": 4}, "qwen2"),
]


def save(fixture, folder, rng):
    """The folder, and the model with exactly the weights in it."""
    tokenizer = (sentencepiece() if fixture["tokenizer"] == "sentencepiece"
                 else byte_level(fixture["tokenizer"]))
    if not fixture["options"]["vocab_size"]:
        fixture["options"]["vocab_size"] = tokenizer.get_vocab_size()
        if "vocab_size_per_layer_input" in fixture["options"]:
            fixture["options"]["vocab_size_per_layer_input"] = tokenizer.get_vocab_size()
    model = make_model(fixture)
    randomise(model, rng)
    dtype = fixture.get("dtype", torch.bfloat16)
    for p in model.parameters():
        p.data = p.data.to(dtype)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size="40KB" if fixture.get("shards") else "1GB")
    for name in os.listdir(folder):
        if not name.startswith(("model", "config")):
            os.remove(os.path.join(folder, name))
    tokenizer.save(os.path.join(folder, "tokenizer.json"), pretty=False)
    plain = {}
    if fixture.get("special") == "fp8":
        plain = as_fp8(folder)
    elif fixture.get("special") == "mxfp4":
        plain = as_mxfp4(folder, rng)
    elif fixture.get("special") in NVFP4:
        plain = as_nvfp4(folder, rng, fixture["special"] == "modelopt")
    model.float()
    into_model(model, plain)
    return model, tokenizer


def make(fixture):
    rng = np.random.default_rng(fixture["seed"] + 1000)
    name, folder = fixture["name"], os.path.join(OUT, fixture["name"])
    model, tokenizer = save(fixture, folder, rng)
    quantized = fixture.get("special") in ("mxfp4",) + NVFP4
    sequences = [choose_tokens(model, n, rng) for n in (40, 5)]
    rows = [len(s) - 3 for s in sequences]
    results = [run(model, s) for s in sequences]
    reference = [logits[0] for logits, _ in results]
    half, error, kl, _ = simulate(model, sequences, rows, reference, quantized,
                                  [gates for _, gates in results])
    bounds = ((SAFETY * error, SAFETY * kl) if quantized else
              (max(FLOAT_BOUND, SAFETY * error), max(KL_LEAST, SAFETY * kl)))
    references = [(reference, bounds)]
    if not quantized:
        references.insert(0, (half, (FLOAT_BOUND, KL_LEAST)))
    write_expect(os.path.join(OUT, name + ".expect"), sequences, rows, references)
    with open(os.path.join(OUT, name + ".text"), "w", encoding="utf-8", newline="") as f:
        f.write(TEXT)
    with open(os.path.join(OUT, name + ".ids"), "w", encoding="utf-8") as f:
        f.write("\n".join(map(str, tokenizer.encode(TEXT).ids)) + "\n")
    size = sum(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder))
    print(f"{name:14} {size / 1024:4.0f} KiB, bound {bounds[0]:.4f}", flush=True)


def main():
    torch.set_num_threads(1)
    os.makedirs(OUT, exist_ok=True)
    for fixture in MODELS:
        if len(sys.argv) < 2 or fixture["name"] in sys.argv[1:]:
            make(fixture)


if __name__ == "__main__":
    main()
