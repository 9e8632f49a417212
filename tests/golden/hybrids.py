"""Models of which most layers keep a state (Gated DeltaNet): names in their GGUF files.

llama.cpp's converter puts the value heads of qwen35 and qwen35moe in another order if there are
more of them than key heads: head p of the file is head p % n_keys * r + p // n_keys of
transformers, r value heads sharing a key.  Those of qwen3next stay, but q, k, v and z are taken
apart.
"""
import numpy as np
import torch
from transformers import (
    Qwen3_5ForCausalLM, Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig, Qwen3_5TextConfig,
    Qwen3NextConfig, Qwen3NextForCausalLM)

ARCHS = ("qwen35", "qwen35moe", "qwen3next")
LENGTHS = (1, 2, 3, 4, 5, 63, 64, 65)


class Decay:
    """ssm_a = -exp(A_log)."""

    def __init__(self, name, view):
        self.name, self.view, self.shape = name, view, (view.numel(),)

    def get(self):
        return -np.exp(self.view.reshape(-1).numpy().astype(np.float32))

    def set(self, array):
        values = torch.from_numpy(-np.array(array, np.float32)).log()
        self.view.copy_(values.reshape(self.view.shape))


class Joined:
    """Tensors whose rows follow each other in the file."""

    def __init__(self, name, parts):
        self.name, self.parts = name, parts
        self.shape = (sum(p.shape[0] for p in parts), *parts[0].shape[1:])

    def get(self):
        return np.concatenate([p.get() for p in self.parts])

    def set(self, array):
        at = 0
        for p in self.parts:
            p.set(array[at:at + p.shape[0]])
            at += p.shape[0]


def is_recurrent(block):
    return hasattr(block, "linear_attn")


def tiled(p, c, width, axis=0):
    """A view of [..., heads * width, ...] whose value heads are in the file's order."""
    keys, values = c.linear_num_key_heads, c.linear_num_value_heads
    shape = (*p.shape[:axis], keys, values // keys, width, *p.shape[axis + 1:])
    return p.view(shape).swapaxes(axis, axis + 1)


def tensors(make, block, arch, c, prefix):
    """Tensors of the part of a block that replaces attention."""
    att = block.linear_attn
    dk, dv = c.linear_key_head_dim, c.linear_value_head_dim
    nk, nv = c.linear_num_key_heads, c.linear_num_value_heads
    conv = att.conv1d.weight.data.squeeze(1)
    rows = 2 * nk * dk
    if arch == "qwen3next":
        qkvz = att.in_proj_qkvz.weight.data
        heads, r = qkvz.view(nk, -1, qkvz.shape[-1]), nv // nk
        parts = torch.split(heads, [dk, dk, r * dv, r * dv], 1)
        parts = [make("", p, (p.shape[0] * p.shape[1], p.shape[2])) for p in parts]
        out = [Joined(f"{prefix}attn_qkv.weight", parts[:3])]
        parts[3].name = f"{prefix}attn_gate.weight"
        out += [parts[3], make(f"{prefix}ssm_ba.weight", att.in_proj_ba.weight.data),
                make(f"{prefix}ssm_conv1d.weight", conv),
                Decay(f"{prefix}ssm_a", att.A_log.data),
                make(f"{prefix}ssm_dt.bias", att.dt_bias.data),
                make(f"{prefix}ssm_out.weight", att.out_proj.weight.data)]
        return out + [make(f"{prefix}ssm_norm.weight", att.norm.weight.data)]

    def own(name, p, width, axis=0):
        return make(name, tiled(p, c, width, axis), tuple(p.shape))

    qkv = att.in_proj_qkv.weight.data
    return [
        Joined(f"{prefix}attn_qkv.weight", [make("", qkv[:rows]), own("", qkv[rows:], dv)]),
        own(f"{prefix}attn_gate.weight", att.in_proj_z.weight.data, dv),
        own(f"{prefix}ssm_beta.weight", att.in_proj_b.weight.data, 1),
        own(f"{prefix}ssm_alpha.weight", att.in_proj_a.weight.data, 1),
        Joined(f"{prefix}ssm_conv1d.weight", [make("", conv[:rows]), own("", conv[rows:], dv)]),
        Decay(f"{prefix}ssm_a", tiled(att.A_log.data, c, 1)),
        own(f"{prefix}ssm_dt.bias", att.dt_bias.data, 1),
        make(f"{prefix}ssm_norm.weight", att.norm.weight.data),
        own(f"{prefix}ssm_out.weight", att.out_proj.weight.data, dv, axis=1),
    ]


def weight(name, p, noise, rng):
    """Random weights for states, or None: decays near 0 and near 1, and plain norms."""
    if name.endswith("A_log"):
        return torch.from_numpy(np.log(rng.uniform(0.003, 1, p.shape) ** 2 * 16)).float()
    if name.endswith("linear_attn.norm.weight"):
        return (1.0 + 0.3 * noise).clamp(0.3, 2.0)
    return None


def add_keys(w, arch, c, listed):
    w.add_ssm_conv_kernel(c.linear_conv_kernel_dim)
    w.add_ssm_state_size(c.linear_key_head_dim)
    w.add_ssm_group_count(c.linear_num_key_heads)
    w.add_ssm_time_step_rank(c.linear_num_value_heads)
    w.add_ssm_inner_size(c.linear_num_value_heads * c.linear_value_head_dim)
    recurrent = [t == "linear_attention" for t in c.layer_types]
    if listed:
        w.add_array(f"{arch}.attention.recurrent_layers", recurrent)
    else:
        assert recurrent == [(i + 1) % 4 != 0 for i in range(len(recurrent))]
        w.add_uint32(f"{arch}.full_attention_interval", 4)
    if arch != "qwen3next":
        w.add_rope_dimension_sections([*c.rope_parameters["mrope_section"], 0])
    if arch == "qwen35":
        return
    w.add_expert_count(c.num_experts)
    w.add_expert_used_count(c.num_experts_per_tok)
    w.add_expert_feed_forward_length(c.moe_intermediate_size)
    w.add_expert_shared_feed_forward_length(c.shared_expert_intermediate_size)


def rope(part, n_rot, **more):
    third = n_rot // 2 // 3
    sections = [n_rot // 2 - 2 * third, third, third]
    return {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": part,
            "mrope_section": sections, "mrope_interleaved": True, **more}


NEXT = {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25}


def fixtures(family):
    small = dict(hidden_size=32, num_hidden_layers=4, head_dim=32, rms_norm_eps=1e-6,
                 rope_parameters=rope(0.5, 16), linear_key_head_dim=16, linear_value_head_dim=32,
                 linear_num_key_heads=2, linear_num_value_heads=4, max_position_embeddings=4096)
    experts = dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=32,
                   shared_expert_intermediate_size=48)
    no_turn = {"rope": dict(rope_parameters=rope(0.25, 8))}
    return [
        family("qwen35", "qwen35", Qwen3_5TextConfig, Qwen3_5ForCausalLM,
               {**small, "intermediate_size": 64}, 70, head_dim=True, long=2100,
               lengths=(*LENGTHS, 160, 560), without=no_turn),
        family("qwen35-wide", "qwen35", Qwen3_5TextConfig, Qwen3_5ForCausalLM,
               {**small, "intermediate_size": 64, "num_hidden_layers": 2, "layer_types":
                ["linear_attention", "full_attention"], "linear_key_head_dim": 128,
                "linear_value_head_dim": 128, "linear_num_value_heads": 2,
                "tie_word_embeddings": False}, 71, head_dim=True, long=560, lengths=LENGTHS,
               listed=True, ahead=1),
        family("qwen35-turned", "qwen35", Qwen3_5TextConfig, Qwen3_5ForCausalLM,
               {**small, "intermediate_size": 96}, 74, head_dim=True, lengths=LENGTHS, turned=32),
        family("qwen35moe-turned", "qwen35moe", Qwen3_5MoeTextConfig, Qwen3_5MoeForCausalLM,
               {**small, **experts, "shared_expert_intermediate_size": 64}, 76, head_dim=True,
               lengths=LENGTHS, turned=16),
        family("qwen35moe", "qwen35moe", Qwen3_5MoeTextConfig, Qwen3_5MoeForCausalLM,
               {**small, **experts}, 72, head_dim=True, lengths=LENGTHS),
        family("qwen3next", "qwen3next", Qwen3NextConfig, Qwen3NextForCausalLM,
               {**small, **experts, "intermediate_size": 64, "linear_num_value_heads": 6,
                "rope_parameters": NEXT, "norm_topk_prob": True}, 73, head_dim=True,
               lengths=LENGTHS),
    ]
