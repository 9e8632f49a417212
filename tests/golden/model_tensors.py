"""The tensors of a model of transformers, under their names in GGUF, and their random weights."""
import math

import numpy as np
import torch
from transformers import GptOssForCausalLM

import families
import hybrids
import latents
import layered
import scans


def randomise(model, rng):
    """Weights large enough that every tensor affects the logits, whose deviation is near 2."""
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
    values are the model's plus `more`."""

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
    elif (dense := scans.dense(Tensor, block, prefix)) is not None:
        out += dense
    else:
        add("ffn_gate", mlp.gate_proj)
        add("ffn_up", mlp.up_proj)
        add("ffn_down", mlp.down_proj)
    return out


def tensors_of(model, arch, is_old=False):
    """Every tensor of the GGUF file, as views into the model; is_old: as older files have them."""
    config = model.config
    if arch in scans.NEMOTRON:
        return scans.nemotron_tensors(Tensor, model)
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
        if scans.mixer(block) is not None:
            out += scans.tensors(Tensor, scans.mixer(block), prefix)
        elif hybrids.is_recurrent(block):
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
