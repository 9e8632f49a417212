#!/usr/bin/env python3
"""Make the golden fixtures: small random models as GGUF, and the logits transformers gives them.

Owns tests/golden/fixtures/: NAME.gguf, written the way llama.cpp's converter writes it, and
NAME.expect, the logits of transformers in float32 (eager attention) with the weights that
gguf.dequantize() reads back from the very bytes in the file; for float files with an F16 KV cache,
too.  Nothing is downloaded.

    python3 make_fixtures.py            make all, check all, print one line per fixture
    python3 make_fixtures.py qwen2      only the fixtures whose name begins so
    python3 make_fixtures.py float      only those whose matrices are F32, F16 or BF16
    python3 make_fixtures.py stories [DATA]
                                        stories260K.logits, of the model in ../shared/data

README.md says what the files hold, where the bounds come from, and what was learnt.
"""
import json
import math
import os
import struct
import sys

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Q
from gguf import LlamaFileType as F
from transformers import (
    DynamicCache, GptOssConfig, GptOssForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen2Config,
    Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM,
    Starcoder2Config, Starcoder2ForCausalLM)

import families
import hybrids
import latents
import layered

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "fixtures")
DATA = os.path.join(HERE, "..", "..", "..", "shared", "data")  # beside the repository

LONG = 160            # tokens of the first sequence: pages of a cache, many sliding windows
LONGEST = 560         # in two fixtures: more than a chunk of attention, too
SHORT = (4, 7, 10)    # and three short ones
ACT_GROUP = 128       # activations: int8, one scale for so many values along K
SAFETY = 3.0          # bound = so many times the error of the simulated engine
FLOAT_BOUND = 2e-3    # float files, of logits, against transformers with an F16 cache, too
STORY_BOUND = 1e-3    # that of stories260K
TIES = 0.5            # of that bound at most: what float32 noise costs by flipping F16 roundings
KL_LEAST = 1e-5
ABLATION_LEAST = 2.0  # dropping any tensor must exceed one of the bounds so many times

# ---- vocabulary: 256 bytes, a few merges, a few control tokens ----

MERGES = ["i n", "t h", "th e", "r e", "\u0120 t", "o n", "e r", "\u0120t he", "i f", "f o"]
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_prefix|>", "<|fim_middle|>",
           "<|fim_suffix|>"]
N_VOCAB = 256 + len(MERGES) + len(CONTROL)


def byte_alphabet():
    """GPT-2's printable stand-in for each byte; token b is byte b."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    extra = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(extra)) for b in range(256)]


def add_vocabulary(writer, n_vocab):
    tokens = byte_alphabet() + [m.replace(" ", "") for m in MERGES] + CONTROL
    types = [gguf.TokenType.NORMAL] * (256 + len(MERGES)) + [gguf.TokenType.CONTROL] * len(CONTROL)
    while len(tokens) < n_vocab:  # the converter pads so
        tokens.append(f"[PAD{len(tokens)}]")
        types.append(gguf.TokenType.UNUSED)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(MERGES)
    first = 256 + len(MERGES)
    writer.add_eos_token_id(first + 2)
    writer.add_bos_token_id(first)
    writer.add_pad_token_id(first)
    writer.add_add_bos_token(False)


# ---- weights ----

def randomise(model, rng):
    """Weights large enough that every tensor shows in the logits, whose deviation is near 2."""
    config = model.config
    for name, p in model.named_parameters():
        leaf = name.split(".")[-2] if name.endswith((".weight", ".bias")) else name.split(".")[-1]
        noise = torch.from_numpy(rng.standard_normal(tuple(p.shape)).astype(np.float32))
        own = hybrids.weight(name, p, noise, rng)
        if own is None:
            own = layered.weight(name, p, noise)
        if own is not None:
            p.data.copy_(own)
            continue
        if leaf == "sinks":
            w = noise
        elif leaf.endswith("_bias"):                    # experts' biases
            w = 0.6 * noise
        elif "norm" in leaf and name.endswith(".weight"):
            w = (1.0 + 0.3 * noise).clamp(0.3, 2.0)
        elif name.endswith(".bias"):
            w = {"q_proj": 0.7, "k_proj": 1.0, "router": 0.3}.get(leaf, 0.25) * noise
        elif leaf in ("embed_tokens", "lm_head"):
            w = 2.0 / math.sqrt(config.hidden_size) * noise
        else:
            transposed = isinstance(model, GptOssForCausalLM) and p.dim() == 3
            k = p.shape[-2] if transposed else p.shape[-1]
            gain = {"q_proj": 1.0, "k_proj": 1.0, "gate": 2.0, "router": 2.0}.get(leaf, 1.2)
            w = gain / math.sqrt(k) * noise
        if "norm" in leaf and config.model_type.startswith(("gemma3", "qwen3_5", "qwen3_next")):
            w = w - 1.0
        p.data.copy_(w)
    families.randomise_biases(model, rng)
    layered.randomise(model, rng)


class Tensor:
    """One GGUF tensor: its name and a view into the model's parameter, in GGUF's layout; the file's
    values are `more` above the model's."""

    def __init__(self, name, view, shape=None, more=0.0):
        self.name, self.view, self.more = name, view, more
        self.shape = tuple(shape or view.shape)

    def get(self):
        values = self.view.reshape(self.shape).contiguous().numpy()
        return (values + self.more).astype(np.float32)

    def set(self, array):
        values = np.array(array, np.float32) - np.float32(self.more)
        self.view.copy_(torch.from_numpy(values).reshape(self.view.shape))


def permuted(name, p, n_head):
    """llama: rows of a head go from halves (HF, NEOX) to pairs (GGUF, NORM)."""
    half = p.shape[0] // n_head // 2
    view = p.view(n_head, 2, half, *p.shape[1:]).swapaxes(1, 2)
    return Tensor(name, view, p.shape)


def norm_tensor(name, mod, arch):
    return Tensor(name, mod.weight.data, more=float(arch in families.ONE_MORE))


def attention_tensors(block, arch, config, prefix):
    att = block.self_attn
    heads = {"q": config.num_attention_heads, "k": config.num_key_value_heads}
    out = []
    for short, mod in (("q", att.q_proj), ("k", att.k_proj), ("v", att.v_proj),
                       ("output", att.o_proj)):
        for kind in ("weight", "bias"):
            p = getattr(mod, kind)
            if p is None:
                continue
            name = f"{prefix}attn_{short}.{kind}"
            if arch in families.PAIRS and short in heads:
                out.append(permuted(name, p.data, heads[short]))
            else:
                out.append(Tensor(name, p.data))
    for short in ("q_norm", "k_norm"):
        if hasattr(att, short):
            out.append(norm_tensor(f"{prefix}attn_{short}.weight", getattr(att, short), arch))
    if hasattr(att, "sinks"):
        out.append(Tensor(f"{prefix}attn_sinks.weight", att.sinks.data))
    return out


def ffn_tensors(block, arch, prefix):
    mlp, out = getattr(block, "mlp", None), []

    def add(short, mod):
        for kind in ("weight", "bias"):
            p = getattr(mod, kind, None)
            if p is not None:
                out.append(Tensor(f"{prefix}{short}.{kind}", p.data))

    if arch == "starcoder2":
        add("ffn_up", mlp.c_fc)
        add("ffn_down", mlp.c_proj)
    elif arch == "qwen3moe":
        ex = mlp.experts                                 # gate_up [e, 2 ff, k]: gate, then up
        ff = ex.gate_up_proj.shape[1] // 2
        add("ffn_gate_inp", mlp.gate)
        out.append(Tensor(f"{prefix}ffn_gate_exps.weight", ex.gate_up_proj.data[:, :ff]))
        out.append(Tensor(f"{prefix}ffn_up_exps.weight", ex.gate_up_proj.data[:, ff:]))
        out.append(Tensor(f"{prefix}ffn_down_exps.weight", ex.down_proj.data))
    elif arch == "gpt-oss":
        ex = mlp.experts                                 # gate_up [e, k, 2 ff]: interleaved
        gate_up, bias = ex.gate_up_proj.data, ex.gate_up_proj_bias.data
        add("ffn_gate_inp", mlp.router)
        for i, short in enumerate(("gate", "up")):
            out.append(Tensor(f"{prefix}ffn_{short}_exps.weight",
                              gate_up[..., i::2].transpose(1, 2)))
            out.append(Tensor(f"{prefix}ffn_{short}_exps.bias", bias[..., i::2]))
        out.append(Tensor(f"{prefix}ffn_down_exps.weight", ex.down_proj.data.transpose(1, 2)))
        out.append(Tensor(f"{prefix}ffn_down_exps.bias", ex.down_proj_bias.data))
    elif (mixture := families.experts(Tensor, block, prefix)) is not None:
        out += mixture
    else:
        add("ffn_gate", mlp.gate_proj)
        add("ffn_up", mlp.up_proj)
        add("ffn_down", mlp.down_proj)
    return out


def tensors_of(model, arch, is_old=False):
    """Every tensor of the GGUF file, as views into the model; is_old: as older files have them."""
    config = model.config
    out = [Tensor("token_embd.weight", model.model.embed_tokens.weight.data)]
    out += layered.model_tensors(Tensor, model)
    for i, block in enumerate(model.model.layers):
        prefix = f"blk.{i}."
        if arch in layered.ARCHS:
            out += layered.block_tensors(Tensor, block, arch, prefix)
        if arch == "gemma4":
            continue
        second = "post_attention_norm" if arch == "gpt-oss" else "ffn_norm"
        norms = families.NORMS.get(arch, {"attn_norm": "input_layernorm",
                                          second: "post_attention_layernorm"})
        for short, mod in ((s, getattr(block, m)) for s, m in norms.items()):
            out.append(norm_tensor(f"{prefix}{short}.weight", mod, arch))
            if getattr(mod, "bias", None) is not None:
                out.append(Tensor(f"{prefix}{short}.bias", mod.bias.data))
        if hybrids.is_recurrent(block):
            out += hybrids.tensors(Tensor, block, arch, config, prefix)
        elif arch in latents.ARCHS:
            out += latents.attention_tensors(Tensor, block, config, prefix, is_old)
        else:
            out += attention_tensors(block, arch, config, prefix)
        out += ffn_tensors(block, arch, prefix)
    out.append(norm_tensor("output_norm.weight", model.model.norm, arch))
    if getattr(model.model.norm, "bias", None) is not None:
        out.append(Tensor("output_norm.bias", model.model.norm.bias.data))
    if not config.tie_word_embeddings:
        out.append(Tensor("output.weight", model.lm_head.weight.data))
    return out


# ---- block formats that the gguf package reads and cannot write: random blocks ----

GRIDS = (Q.IQ2_XXS, Q.IQ2_XS, Q.IQ2_S, Q.IQ3_XXS, Q.IQ3_S)


def half_bytes(x):
    return np.asarray(x, np.float16).reshape(-1, 1).view(np.uint8)


def pack_k_scales(sc, m):
    """Eight 6-bit scales and eight 6-bit minima in twelve bytes (Q4_K, Q5_K)."""
    low = (sc[:, :4] & 63) | (sc[:, 4:] >> 4 << 6)
    mid = (m[:, :4] & 63) | (m[:, 4:] >> 4 << 6)
    return np.concatenate([low, mid, (sc[:, 4:] & 15) | ((m[:, 4:] & 15) << 4)], 1).astype(np.uint8)


def random_blocks(qtype, n, rng, scale):
    """n blocks of random quants and scales, the super-block scale being about `scale`."""
    def byte(k):
        return rng.integers(0, 256, (n, k), dtype=np.uint8)

    d = scale * rng.uniform(0.7, 1.3, n)
    if qtype in (Q.Q4_K, Q.Q5_K):
        middle = 7.5 if qtype == Q.Q4_K else 15.5
        sc = rng.integers(6, 64, (n, 8))
        m = np.clip(np.rint(sc * rng.uniform(0.8, 1.2, (n, 8))), 0, 63).astype(np.int64)
        tail = [byte(128)] if qtype == Q.Q4_K else [byte(32), byte(128)]
        return np.concatenate([half_bytes(d), half_bytes(d * middle), pack_k_scales(sc, m)] + tail,
                              1)
    if qtype == Q.Q6_K:
        return np.concatenate([byte(128), byte(64), byte(16), half_bytes(d)], 1)
    if qtype == Q.Q3_K:
        return np.concatenate([byte(32), byte(64), byte(12), half_bytes(d)], 1)
    if qtype == Q.Q2_K:
        sc = rng.integers(3, 16, (n, 16))
        m = np.clip(np.rint(sc * rng.uniform(0.8, 1.2, (n, 16))), 0, 15).astype(np.int64)
        return np.concatenate([(sc | m << 4).astype(np.uint8), byte(64), half_bytes(d),
                               half_bytes(d * 1.5)], 1)
    d *= rng.choice([-1.0, 1.0], n)
    if qtype in GRIDS:
        return np.concatenate([half_bytes(d), byte(gguf.GGML_QUANT_SIZES[qtype][1] - 2)], 1)
    if qtype == Q.IQ4_NL:
        return np.concatenate([half_bytes(d), byte(16)], 1)
    assert qtype == Q.IQ4_XS
    return np.concatenate([half_bytes(d), byte(2), byte(4), byte(128)], 1)


def encode(array, qtype, rng):
    """The tensor's bytes in the file: [..., bytes of a row]."""
    if qtype not in GRIDS + (Q.Q2_K, Q.Q3_K, Q.Q4_K, Q.Q5_K, Q.Q6_K, Q.IQ4_NL, Q.IQ4_XS):
        return gguf.quantize(array, qtype)
    block, size = gguf.GGML_QUANT_SIZES[qtype]
    assert array.shape[-1] % block == 0
    n = array.size // block
    seed = rng.integers(1 << 62)
    trial = random_blocks(qtype, n, np.random.default_rng(seed), 1e-2)
    scale = 1e-2 * array.std() / gguf.dequantize(trial, qtype).std()
    blocks = random_blocks(qtype, n, np.random.default_rng(seed), scale)
    return blocks.reshape(*array.shape[:-1], array.shape[-1] // block * size)


def type_of(name, shape, fixture):
    """As llama.cpp chooses: vectors, biases and the router stay F32."""
    if len(shape) == 1 or name.endswith((".bias", "conv1d.weight")) or "ffn_gate_inp" in name:
        return Q.F32
    if "_exps." in name:
        return fixture.get("experts", fixture["type"])
    return fixture.get("types", {}).get(name.split(".")[-2], fixture["type"])


def quantize_model(tensors, fixture, rng):
    """Bytes of each tensor; the model gets the weights that these bytes decode to."""
    out = []
    for t in tensors:
        qtype = type_of(t.name, t.shape, fixture)
        data = encode(t.get(), qtype, rng)
        t.set(gguf.dequantize(data, qtype).reshape(t.shape))
        out.append((t.name, data, qtype))
    return out


def fused(data):
    """Q, K and V of a block as one tensor, as some converters write them."""
    out, parts = [], {}
    for name, array, qtype in data:
        block, _, short = name.rpartition(".attn_")
        if short.split(".")[0] not in ("q", "k", "v"):
            out.append((name, array, qtype))
            continue
        kind = short.split(".")[1]
        parts.setdefault((block, kind), []).append(array)
        if len(parts[block, kind]) == 3:
            out.append((f"{block}.attn_qkv.{kind}", np.concatenate(parts[block, kind]), qtype))
    return out


# ---- GGUF ----

def rope_factors(config):
    """llama3 scaling as llama.cpp's converter writes it: what to divide each frequency by."""
    rope = config.rope_parameters
    dim = config.head_dim
    freqs = 1.0 / rope["rope_theta"] ** (np.arange(0, dim, 2, dtype=np.float32) / dim)
    low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
    high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
    out = []
    for freq in freqs:
        wave = 2 * math.pi / freq
        smooth = ((rope["original_max_position_embeddings"] / wave - rope["low_freq_factor"])
                  / (rope["high_freq_factor"] - rope["low_freq_factor"]))
        out.append(1.0 if wave < high else rope["factor"] if wave > low
                   else 1.0 / ((1.0 - smooth) / rope["factor"] + smooth))
    return np.array(out, np.float32)


def add_keys(w, arch, c, fixture):
    w.add_name(fixture["name"])
    w.add_file_type(fixture["file_type"])
    if fixture["file_type"] not in (F.ALL_F32, F.MOSTLY_F16, F.MOSTLY_BF16):
        w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    w.add_block_count(c.num_hidden_layers + fixture.get("ahead", 0))
    if fixture.get("ahead"):
        w.add_nextn_predict_layers(fixture["ahead"])
    if arch in hybrids.ARCHS:
        hybrids.add_keys(w, arch, c, fixture.get("listed"))
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    if hasattr(c, "intermediate_size"):
        w.add_feed_forward_length(layered.widths(c))
    by_layer = [1] * c.num_hidden_layers if fixture.get("arrays") else 1  # some converters do so
    if arch in layered.ARCHS:
        layered.head_keys(w, c, arch)
    elif arch in latents.ARCHS:
        latents.head_keys(w, c, fixture.get("old"))
    else:
        w.add_head_count(np.multiply(by_layer, c.num_attention_heads).tolist())
        w.add_head_count_kv(np.multiply(by_layer, c.num_key_value_heads).tolist())
    if fixture.get("head_dim"):  # the converter writes these when the config names head_dim
        w.add_key_length(c.head_dim)
        w.add_value_length(c.head_dim)
    if arch == "llama":
        w.add_vocab_size(c.vocab_size)
        w.add_rope_dimension_count(c.head_dim)
    rope = c.rope_parameters.get("full_attention", c.rope_parameters)
    w.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(rope["factor"])
    elif rope["rope_type"] == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(rope["factor"])
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if "beta_fast" in rope:
            w.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
            w.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
    if arch == "starcoder2":
        w.add_layer_norm_eps(c.norm_epsilon)
    else:
        w.add_layer_norm_rms_eps(c.rms_norm_eps)
    if arch in ("gpt-oss", "starcoder2"):
        w.add_sliding_window(c.sliding_window)
    families.add_keys(w, arch, c)
    if arch == "qwen3moe":
        w.add_expert_count(c.num_experts)
        w.add_expert_used_count(c.num_experts_per_tok)
        w.add_expert_feed_forward_length(c.moe_intermediate_size)
    if arch == "gpt-oss":
        w.add_expert_count(c.num_local_experts)
        w.add_expert_used_count(c.num_experts_per_tok)
        w.add_expert_feed_forward_length(c.intermediate_size)


def write_gguf(path, arch, config, fixture, data):
    writer = gguf.GGUFWriter(path, arch)
    add_keys(writer, arch, config, fixture)
    add_vocabulary(writer, config.vocab_size)
    if config.rope_parameters.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_factors(config))
    if arch == "gemma4":
        writer.add_tensor("rope_freqs.weight", layered.rope_divisors(config))
    for name, array, qtype in data:
        writer.add_tensor(name, array, raw_dtype=qtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---- what an engine with int8 activations and an F16 KV cache would compute ----

class HalfCache(DynamicCache):
    """K and V pass through F16."""

    def update(self, key_states, value_states, *args, **kwargs):
        return super().update(key_states.half().to(key_states.dtype),
                              value_states.half().to(value_states.dtype), *args, **kwargs)


def fake_quantize(x):
    """int8, scale amax/127 for each token and ACT_GROUP values of K, nearest even."""
    k = x.shape[-1]
    pad = -k % ACT_GROUP
    g = torch.nn.functional.pad(x, (0, pad))
    g = g.reshape(*x.shape[:-1], (k + pad) // ACT_GROUP, ACT_GROUP)
    scale = g.abs().amax(-1, keepdim=True) / 127.0
    q = torch.round(g / torch.where(scale == 0, 1.0, scale)) * scale
    return q.reshape(*x.shape[:-1], k + pad)[..., :k]


def quantized_experts(experts, gpt_oss):
    def forward(x, index, weights):
        out = torch.zeros_like(x)
        xq = fake_quantize(x)
        for e in range(experts.num_experts):
            token, slot = torch.where(index == e)
            if gpt_oss:
                a = xq[token] @ experts.gate_up_proj[e] + experts.gate_up_proj_bias[e]
                h = fake_quantize(experts._apply_gate(a))
                y = h @ experts.down_proj[e] + experts.down_proj_bias[e]
            else:
                g, u = (xq[token] @ experts.gate_up_proj[e].T).chunk(2, -1)
                y = fake_quantize(experts.act_fn(g) * u) @ experts.down_proj[e].T
            out.index_add_(0, token, y * weights[token, slot, None])
        return out
    return forward


class Simulated:
    """Within it the model's linear layers see int8 activations."""

    def __init__(self, model, active):
        self.model, self.active, self.hooks, self.experts = model, active, [], []

    def __enter__(self):
        if not self.active:
            return
        for m in self.model.modules():
            if isinstance(m, torch.nn.Linear):
                self.hooks.append(m.register_forward_pre_hook(
                    lambda _m, args: (fake_quantize(args[0]),)))
            elif type(m).__name__ in ("Qwen3MoeExperts", "GptOssExperts"):
                m.forward = quantized_experts(m, type(m).__name__ == "GptOssExperts")
                self.experts.append(m)

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()
        for m in self.experts:
            del m.forward


@torch.no_grad()
def run(model, tokens, half=False):
    """Logits of a batch of sequences, and the router logits of each MoE layer."""
    routers, hooks = [], []
    for m in model.modules():
        if type(m).__name__.lower().endswith("router"):
            hooks.append(m.register_forward_hook(lambda router, args, out: routers.append(
                families.choice_scores(router, out[0], args))))
    ids = torch.tensor(tokens).reshape(-1, np.shape(tokens)[-1])
    config = model.config if "linear_attention" in (getattr(model.config, "layer_types", None)
                                                    or ()) else None
    cache = HalfCache(config=config) if half else DynamicCache(config=config)
    logits = model(ids, past_key_values=cache, use_cache=True).logits
    for hook in hooks:
        hook.remove()
    return logits, [r.reshape(*ids.shape, -1) for r in routers]


def in_groups(scores, config):
    """Scores with -inf outside the chosen groups, and the distance of the last of these to the
    next group."""
    n, used = getattr(config, "n_group", 1), getattr(config, "topk_group", 1)
    if n == used:
        return scores, torch.full(scores.shape[:-1], math.inf)
    groups = scores.reshape(*scores.shape[:-1], n, -1)
    n_best = 1 if config.model_type == "deepseek_v2" else 2
    sums = torch.topk(groups, n_best, -1).values.sum(-1)
    best = torch.topk(sums, used + 1, -1)
    mask = torch.zeros_like(sums).scatter(-1, best.indices[..., :used], 1.0)
    masked = groups.masked_fill(mask[..., None] == 0, -math.inf).reshape(scores.shape)
    return masked, best.values[..., used - 1] - best.values[..., used]


def router_gaps(routers, config):
    """[batch][tokens]: least distance, over layers, of the last chosen expert or group to the
    next."""
    k, gaps = families.n_chosen(config), []
    for scores in routers:
        scores, gap = in_groups(scores, config)
        best = torch.topk(scores, k + 1, -1).values
        gaps += [best[..., k - 1] - best[..., k], gap]
    return torch.stack(gaps).amin(0)


def choose_tokens(model, n, rng):
    """Random tokens; in a mixture of experts, such that no choice of experts is close."""
    if families.n_chosen(model.config) is None:
        return rng.integers(0, N_VOCAB, n).tolist()
    chosen = []
    for _ in range(n):
        n_trials = 40 if n <= LONG else 8
        trial = [chosen + [t] for t in rng.integers(0, N_VOCAB, n_trials).tolist()]
        gaps = router_gaps(run(model, trial)[1], model.config)[:, -1]
        chosen = trial[int(gaps.argmax())]
    return chosen


def kl_rows(ref, got):
    p = torch.log_softmax(ref.double(), -1)
    q = torch.log_softmax(got.double(), -1)
    return (p.exp() * (p - q)).sum(-1)


# ---- one fixture ----

def excess(model, sequences, rows, reference, bounds):
    """How many times the changed model exceeds the bound that it exceeds most."""
    worst = 0.0
    for s, r, ref in zip(sequences, rows, reference):
        got = run(model, s)[0][0, r:]
        worst = max(worst, (got - ref[r:]).abs().max().item() / bounds[0],
                    kl_rows(ref[r:], got).max().item() / bounds[1])
    return worst


def ablate(model, tensors, *expected):
    """The tensor whose loss shows least, and by how much."""
    least = (math.inf, "")
    for t in tensors:
        saved = t.get()
        norm = "norm" in t.name and t.name.endswith(".weight")
        t.set(np.ones_like(saved) if norm else np.zeros_like(saved))
        least = min(least, (excess(model, *expected), t.name))
        t.set(saved)
    return least


def feature_check(model, fixture, *expected):
    """Rope scaling and the sliding window must show in the logits too."""
    notes = []
    for label, change in fixture.get("without", {}).items():
        other = make_model(fixture, change)
        other.load_state_dict(model.state_dict())
        times = excess(other, *expected)
        assert times > ABLATION_LEAST, (fixture["name"], label, times)
        notes.append(f"{label} x{times:.0f}")
    return notes


def make_model(fixture, change=None):
    config = fixture["config"](**{**fixture["options"], **(change or {})})
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    return fixture["model"](config).float().eval()


def write_expect(path, sequences, rows, references):
    """references: (logits of each sequence, (error bound, KL bound)), one or two of them."""
    with open(path, "wb") as f:
        f.write(b"CEXPECT%d" % len(references) + struct.pack("<I", len(sequences)))
        for _, bounds in references:
            f.write(struct.pack("<ff", *bounds))
        for i, (s, r) in enumerate(zip(sequences, rows)):
            f.write(struct.pack("<III", len(s), references[0][0][i].shape[-1], r))
            f.write(np.array(s, "<i4").tobytes())
            for logits, _ in references:
                f.write(logits[i][r:].numpy().astype("<f4").tobytes())


def simulate(model, sequences, rows, reference, quantized, routers):
    """Logits of the simulated engine, their largest error and KL, and routing's safety margin."""
    simulated, error, kl = [], 0.0, 0.0
    margin = math.inf
    with Simulated(model, quantized):
        for s, r, ref, gates in zip(sequences, rows, reference, routers):
            logits, got = run(model, s, half=True)
            simulated.append(logits[0])
            error = max(error, (logits[0, r:] - ref[r:]).abs().max().item())
            kl = max(kl, kl_rows(ref[r:], logits[0, r:]).max().item())
            if gates:
                moved = max((a - b).abs().max().item() for a, b in zip(gates, got))
                margin = min(margin, router_gaps(gates, model.config).min().item() / (2 * moved))
    return simulated, error, kl, margin


def float64_error(model, sequences, rows, reference, half=False):
    """How far float64 is from the reference; with half, what flipped roundings cost."""
    model.double()
    error = max((run(model, s, half)[0][0, r:] - ref[r:]).abs().max().item()
                for s, r, ref in zip(sequences, rows, reference))
    model.float()
    return error


def is_float(fixture):
    return fixture["file_type"] in (F.ALL_F32, F.MOSTLY_F16, F.MOSTLY_BF16)


def make(fixture):
    rng = np.random.default_rng(fixture["seed"])
    model = make_model(fixture)
    arch = fixture["arch"]
    randomise(model, rng)
    tensors = tensors_of(model, arch, fixture.get("old"))
    data = quantize_model(tensors, fixture, rng)
    name = fixture["name"]
    if fixture.get("fused"):
        data = fused(data)
    write_gguf(os.path.join(OUT, name + ".gguf"), arch, model.config, fixture, data)

    quantized = not is_float(fixture)
    long = fixture.get("long", LONG)
    short = fixture.get("short", SHORT)
    sequences = [choose_tokens(model, n, rng) for n in (long, *short)]
    kept = 2 if quantized else 10  # of each short one
    rows = [long - (6 if quantized else 16)] + [max(0, n - kept) for n in short]
    results = [run(model, s) for s in sequences]
    reference = [logits[0] for logits, _ in results]
    routers = [gates for _, gates in results]

    half, error, kl, margin = simulate(model, sequences, rows, reference, quantized, routers)
    bound = SAFETY * error if quantized else max(FLOAT_BOUND, SAFETY * error)
    kl_bound = max(KL_LEAST, SAFETY * kl)
    assert margin > 1.5, f"{name}: routing is too close to call ({margin:.2f})"
    exact = float64_error(model, sequences, rows, reference)
    flips = 0.0 if quantized else float64_error(model, sequences, rows, half, True)
    assert flips < TIES * FLOAT_BOUND, f"{name}: keys or values too near a tie ({flips:.1e})"
    tensors = tensors_of(model, arch, fixture.get("old"))  # float() made new storage
    expected = (sequences, rows, reference, (bound, kl_bound))
    least, which = ablate(model, tensors, *expected)
    assert least > ABLATION_LEAST, (name, which, least, bound)
    notes = feature_check(model, fixture, *expected)
    references = [(reference, (bound, kl_bound))]
    if not quantized:
        references.insert(0, (half, (FLOAT_BOUND, KL_LEAST)))
    write_expect(os.path.join(OUT, name + ".expect"), sequences, rows, references)
    std = torch.cat([r.reshape(-1) for r in reference]).std().item()
    size = sum(os.path.getsize(os.path.join(OUT, name + e)) for e in (".gguf", ".expect"))
    ties = "" if quantized else f"  with F16 cache {flips:.1e}"
    print(f"{name:16} {size / 1024:6.0f} KiB  std {std:.2f}  f32-f64 {exact:.1e}{ties}  "
          f"bound {bound:.4f}  kl {kl_bound:.1e}  least ablation x{least:.0f} ({which})"
          + (f"  routing x{margin:.1f}" if margin < math.inf else "")
          + "".join("  without " + n for n in notes), flush=True)


# ---- stories260K: a trained model outside the repository ----

def make_stories(data):
    """After the begin token and after the last id: logits with an F16 cache, and nothing else."""
    path = os.path.join(data, "weights", "stories260K")
    model = LlamaForCausalLM.from_pretrained(path, dtype=torch.float32, local_files_only=True,
                                             attn_implementation="eager").eval()
    with open(os.path.join(path, "expected.json"), encoding="utf-8") as f:
        expected = json.load(f)
    ids = expected["ids"]
    told = torch.tensor([expected["logits_after_bos"], expected["logits_last"]])

    def ends(half):  # logits_last are those that the last id was chosen by
        return torch.stack([run(model, ids[:n], half)[0][0, -1] for n in (1, len(ids) - 1)])

    plain, half = ends(False), ends(True)
    model.double()
    flips = (ends(True) - half).abs().max().item()
    assert (plain - told).abs().max() < 1e-4, "transformers and expected.json disagree"
    assert flips < STORY_BOUND, f"stories260K: keys or values too near a tie ({flips:.1e})"
    with open(os.path.join(OUT, "stories260K.logits"), "wb") as f:
        f.write(b"CSTORY01" + half.numpy().astype("<f4").tobytes())
    print(f"stories260K      f16-cache f32-f64 {flips:.1e}  plain-told "
          f"{(plain - told).abs().max().item():.1e}  f16-cache-told "
          + " and ".join(f"{e:.1e}" for e in (half - told).abs().amax(-1).tolist()), flush=True)


# ---- the list ----

def rope(kind, theta, **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


TINY = dict(vocab_size=N_VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
            tie_word_embeddings=True, bos_token_id=None, eos_token_id=None)
LLAMA3 = rope("llama3", 10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
LINEAR = rope("linear", 100000.0, factor=4.0)
YARN4 = rope("yarn", 1000000.0, factor=4.0, original_max_position_embeddings=64)
YARN32 = rope("yarn", 150000.0, factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
              original_max_position_embeddings=256)


def entry(name, arch, config, model, options, seed, qtype=Q.F32, file_type=F.ALL_F32, **more):
    return dict(name=name, arch=arch, config=config, model=model, options={**TINY, **options},
                seed=seed, type=qtype, file_type=file_type, **more)


def llama(name, options, seed, *args, **more):
    return entry(name, "llama", LlamaConfig, LlamaForCausalLM,
                 dict(rope_parameters=rope("default", 10000.0), rms_norm_eps=1e-5, **options)
                 if "rope_parameters" not in options else dict(rms_norm_eps=1e-5, **options),
                 seed, *args, **more)


def qwen2(name, options, seed, *args, **more):
    return entry(name, "qwen2", Qwen2Config, Qwen2ForCausalLM,
                 {"rope_parameters": rope("default", 1000000.0), "rms_norm_eps": 1e-6, **options},
                 seed, *args, **more)


def qwen3moe(name, options, seed, *args, **more):
    return entry(name, "qwen3moe", Qwen3MoeConfig, Qwen3MoeForCausalLM,
                 dict(hidden_size=32, moe_intermediate_size=32, num_experts=8,
                      num_experts_per_tok=2, norm_topk_prob=True, head_dim=16,
                      rope_parameters=rope("default", 1000000.0)) | options,
                 seed, *args, head_dim=True, **more)


def gpt_oss(name, options, seed, *args, **more):
    return entry(name, "gpt-oss", GptOssConfig, GptOssForCausalLM,
                 dict(hidden_size=32, intermediate_size=32, num_local_experts=4,
                      num_experts_per_tok=2, num_attention_heads=6, head_dim=16,
                      sliding_window=8, max_position_embeddings=8192, tie_word_embeddings=False,
                      rope_parameters=YARN32) | options,
                 seed, *args, head_dim=True, **more)


LEGACY = dict(hidden_size=128, intermediate_size=256)                   # K multiples of 32
SUPER = dict(hidden_size=256, intermediate_size=512, num_hidden_layers=1,
             num_key_value_heads=1)                                     # K multiples of 256

FIXTURES = [
    llama("llama", dict(intermediate_size=92, max_position_embeddings=1024), 1, long=LONGEST),
    llama("llama-rope3", dict(rope_parameters=LLAMA3, head_dim=32, intermediate_size=64), 2,
          head_dim=True, without={"rope scaling": dict(rope_parameters=rope("default", 10000.0))}),
    llama("llama-linear", dict(rope_parameters=LINEAR, attention_bias=True,
                               tie_word_embeddings=False, intermediate_size=64), 3,
          without={"rope scaling": dict(rope_parameters=rope("default", 100000.0))}),
    qwen2("qwen2", {}, 4),
    qwen2("qwen2-yarn", dict(rope_parameters=YARN4, tie_word_embeddings=False, vocab_size=275,
                             intermediate_size=64), 5,
          without={"rope scaling": dict(rope_parameters=rope("default", 1000000.0))}),
    qwen2("qwen2-fused", dict(intermediate_size=64), 11, fused=True),
    entry("qwen3", "qwen3", Qwen3Config, Qwen3ForCausalLM,
          dict(head_dim=32, intermediate_size=64, rms_norm_eps=1e-6,
               rope_parameters=rope("default", 1000000.0)), 6, head_dim=True),
    qwen3moe("qwen3moe", {}, 7),
    gpt_oss("gpt-oss", {}, 8, long=LONGEST, without={
        "exact yarn bounds": dict(rope_parameters={**YARN32, "truncate": True}),
        "rope scaling": dict(rope_parameters=rope("default", 150000.0)),
        "sliding window": dict(sliding_window=4096)}),
    entry("starcoder2", "starcoder2", Starcoder2Config, Starcoder2ForCausalLM,
          dict(rope_parameters=rope("default", 100000.0), sliding_window=12), 9,
          without={"sliding window": dict(sliding_window=None)}),
    qwen2("qwen2-f16", {}, 20, Q.F16, F.MOSTLY_F16),
    qwen2("qwen2-bf16", {}, 21, Q.BF16, F.MOSTLY_BF16),
    qwen2("qwen2-q8_0", LEGACY, 22, Q.Q8_0, F.MOSTLY_Q8_0),
    qwen2("qwen2-q4_0", LEGACY, 23, Q.Q4_0, F.MOSTLY_Q4_0),
    qwen2("qwen2-q4_1", LEGACY, 24, Q.Q4_1, F.MOSTLY_Q4_1),
    qwen2("qwen2-q5_0", LEGACY, 25, Q.Q5_0, F.MOSTLY_Q5_0),
    qwen2("qwen2-q5_1", LEGACY, 26, Q.Q5_1, F.MOSTLY_Q5_1),
    qwen2("qwen2-iq4_nl", LEGACY, 27, Q.IQ4_NL, F.MOSTLY_IQ4_NL),
    qwen2("qwen2-mxfp4", LEGACY, 28, Q.MXFP4, F.MOSTLY_MXFP4_MOE),
    llama("llama-q4_k", SUPER, 30, Q.Q4_K, F.MOSTLY_Q4_K_S),
    llama("llama-q5_k", SUPER, 31, Q.Q5_K, F.MOSTLY_Q5_K_S),
    llama("llama-q6_k", SUPER, 32, Q.Q6_K, F.MOSTLY_Q6_K),
    llama("llama-iq4_xs", SUPER, 33, Q.IQ4_XS, F.MOSTLY_IQ4_XS),
    llama("llama-q3_k", SUPER, 34, Q.Q3_K, F.MOSTLY_Q3_K_S),
    llama("llama-q2_k", SUPER, 37, Q.Q2_K, F.MOSTLY_Q2_K,
          types=dict(attn_v=Q.Q3_K, ffn_down=Q.Q3_K, token_embd=Q.Q6_K)),
    llama("llama-iq3", SUPER, 38, Q.IQ3_S, F.MOSTLY_IQ3_XS,
          types=dict(attn_q=Q.IQ3_XXS, ffn_up=Q.IQ3_XXS, ffn_down=Q.Q4_K, token_embd=Q.Q6_K)),
    llama("llama-iq2", SUPER, 39, Q.IQ2_XS, F.MOSTLY_IQ2_XS,
          types=dict(attn_q=Q.IQ2_XXS, ffn_gate=Q.IQ2_XXS, attn_v=Q.IQ2_S, ffn_down=Q.IQ2_S,
                     token_embd=Q.Q5_K)),
    llama("llama-tq1_0", SUPER, 35, Q.TQ1_0, F.MOSTLY_TQ1_0),
    llama("llama-tq2_0", SUPER, 36, Q.TQ2_0, F.MOSTLY_TQ2_0),
    qwen3moe("qwen3moe-q4_0", dict(hidden_size=128, moe_intermediate_size=64), 40, Q.Q4_0,
             F.MOSTLY_Q4_0),
    gpt_oss("gpt-oss-mxfp4", dict(hidden_size=128, intermediate_size=128), 41, Q.Q8_0,
            F.MOSTLY_MXFP4_MOE, experts=Q.MXFP4),
] + families.fixtures(entry, LONGEST)


def main():
    torch.set_num_threads(1)  # sums in one order, so the files come out the same each time
    os.makedirs(OUT, exist_ok=True)
    wanted = sys.argv[1:]
    if wanted[:1] == ["stories"]:
        make_stories(wanted[1] if len(wanted) > 1 else DATA)
        return
    for fixture in FIXTURES:
        if (not wanted or ("float" in wanted and is_float(fixture))
                or any(fixture["name"].startswith(w) for w in wanted)):
            make(fixture)


if __name__ == "__main__":
    main()
