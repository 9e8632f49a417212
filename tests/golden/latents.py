"""Attention by latents (MLA: DeepSeek V2 and V3, GLM-4.7-Flash, Mistral Small 4): names in their
GGUF files.

kv_b is split: each head's rows for keys and for values are two tensors, the former transposed;
older files have it whole, and keys for heads only.
"""
import gguf
from gguf import GGMLQuantizationType as Q
from gguf import LlamaFileType as F
from transformers import (
    DeepseekV2Config, DeepseekV2ForCausalLM, DeepseekV3Config, DeepseekV3ForCausalLM,
    Glm4MoeLiteConfig, Glm4MoeLiteForCausalLM, Mistral4Config, Mistral4ForCausalLM)

ARCHS = ("deepseek2", "mistral4")
LENGTHS = (1, 2, 3, 4, 5, 63, 64, 65)


def attention_tensors(make, block, c, prefix, is_old):
    """Tensors of attention."""
    att = block.self_attn
    out = []
    for short, name in (("q", "q_proj"), ("q_a", "q_a_proj"), ("q_a_norm", "q_a_layernorm"),
                        ("q_b", "q_b_proj"), ("kv_a_mqa", "kv_a_proj_with_mqa"),
                        ("kv_a_norm", "kv_a_layernorm"), ("output", "o_proj")):
        if getattr(att, name, None) is not None:
            out.append(make(f"{prefix}attn_{short}.weight", getattr(att, name).weight.data))
    both = att.kv_b_proj.weight.data
    if is_old:
        return out + [make(f"{prefix}attn_kv_b.weight", both)]
    heads = both.view(c.num_attention_heads, -1, c.kv_lora_rank)
    keys, values = heads[:, :c.qk_nope_head_dim], heads[:, c.qk_nope_head_dim:]
    return out + [make(f"{prefix}attn_k_b.weight", keys.transpose(1, 2)),
                  make(f"{prefix}attn_v_b.weight", values)]


def head_keys(w, c, is_old):
    n_key = c.qk_nope_head_dim + c.qk_rope_head_dim
    w.add_head_count(c.num_attention_heads)
    w.add_kv_lora_rank(c.kv_lora_rank)
    if c.q_lora_rank:
        w.add_q_lora_rank(c.q_lora_rank)
    if is_old:
        w.add_head_count_kv(c.num_attention_heads)
        w.add_key_length(n_key)
        w.add_value_length(c.v_head_dim)
    else:
        w.add_head_count_kv(1)
        w.add_key_length(c.kv_lora_rank + c.qk_rope_head_dim)
        w.add_value_length(c.kv_lora_rank)
        w.add_key_length_mla(n_key)
        w.add_value_length_mla(c.v_head_dim)
    w.add_rope_dimension_count(c.qk_rope_head_dim)


def n_dense(c):
    types = getattr(c, "mlp_layer_types", None)
    return types.count("dense") if types else c.first_k_dense_replace


def add_keys(w, c):
    rope = c.rope_parameters
    if rope.get("mscale_all_dim"):
        w.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])
    w.add_leading_dense_block_count(n_dense(c))
    w.add_expert_count(c.n_routed_experts)
    w.add_expert_used_count(c.num_experts_per_tok)
    w.add_expert_feed_forward_length(c.moe_intermediate_size)
    w.add_expert_shared_count(c.n_shared_experts)
    w.add_expert_weights_scale(c.routed_scaling_factor)
    if c.n_group:
        w.add_expert_group_count(c.n_group)
        w.add_expert_group_used_count(c.topk_group)
    if c.model_type == "deepseek_v2":  # files of it lack the two keys below
        return
    w.add_expert_weights_norm(c.norm_topk_prob)
    if c.model_type == "mistral4":
        w.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
        return
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def rope(kind, theta, **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


YARN = rope("yarn", 10000.0, factor=40.0, original_max_position_embeddings=64, beta_fast=32.0,
            beta_slow=1.0, mscale=0.707, mscale_all_dim=0.707)
GROWING = rope("yarn", 10000.0, factor=4.0, original_max_position_embeddings=64, beta_fast=32.0,
               beta_slow=1.0, mscale=0.5, mscale_all_dim=0.5, llama_4_scaling_beta=0.1,
               max_position_embeddings=4096)
PLAIN = rope("default", 10000.0)


def fixtures(family):
    small = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_key_value_heads=4,
                 kv_lora_rank=24, qk_nope_head_dim=20, qk_rope_head_dim=8, v_head_dim=12,
                 rms_norm_eps=1e-6, tie_word_embeddings=False, max_position_embeddings=4096)
    experts = dict(n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=32)
    dense = dict(first_k_dense_replace=2, q_lora_rank=None, n_shared_experts=1, n_group=1,
                 topk_group=1, rope_parameters=YARN, **experts)

    def deepseek(name, options, seed, **more):
        return family(name, "deepseek2", DeepseekV3Config, DeepseekV3ForCausalLM,
                      {**small, **dense, **options}, seed, **more)

    # K multiples of 32
    wide = dict(hidden_size=64, kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=16,
                v_head_dim=32, rope_parameters=PLAIN)

    return [
        family("deepseek2", "deepseek2", Glm4MoeLiteConfig, Glm4MoeLiteForCausalLM,
               dict(small, **experts, num_hidden_layers=3, q_lora_rank=28, n_shared_experts=1,
                    mlp_layer_types=["dense", "sparse", "sparse"], routed_scaling_factor=1.8,
                    n_group=4, topk_group=2, rope_parameters=rope("default", 1000000.0)), 90,
               long=560, lengths=LENGTHS, without={"groups": dict(topk_group=4)}),
        deepseek("deepseek2-yarn", {}, 91, old=True, long=2100, lengths=(*LENGTHS, 160, 560),
                 without={"rope scaling": dict(rope_parameters=PLAIN),
                          "scale of products": dict(rope_parameters={
                              **YARN, "mscale": None, "mscale_all_dim": None,
                              "attention_factor": 1.0})}),
        family("deepseek2-softmax", "deepseek2", DeepseekV2Config, DeepseekV2ForCausalLM,
               dict(small, **experts, first_k_dense_replace=1, q_lora_rank=None,
                    n_shared_experts=2, routed_scaling_factor=1.3, n_group=4, topk_group=1,
                    topk_method="group_limited_greedy", rope_parameters=PLAIN), 92,
               lengths=LENGTHS, without={"groups": dict(topk_method="greedy")}),
        family("mistral4", "mistral4", Mistral4Config, Mistral4ForCausalLM,
               dict(small, **experts, q_lora_rank=28, n_shared_experts=1, rope_parameters=GROWING),
               97, lengths=(*LENGTHS, 160),
               without={"growth of queries": dict(rope_parameters={
                   **GROWING, "llama_4_scaling_beta": 0.0}),
                        "scale of products": dict(rope_parameters={
                            **GROWING, "mscale": None, "mscale_all_dim": None,
                            "attention_factor": 1.0})}),
        deepseek("deepseek2-q4_0", {**wide, "q_lora_rank": 96}, 93, qtype=Q.Q4_0,
                 file_type=F.MOSTLY_Q4_0, lengths=LENGTHS),
        deepseek("deepseek2-old-q8_0", wide, 94, old=True, qtype=Q.Q8_0,
                 file_type=F.MOSTLY_Q8_0, lengths=LENGTHS),
    ]
