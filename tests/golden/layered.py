"""Models whose layers differ in their heads (Gemma 4, Laguna): names in GGUF files."""
import gguf
import numpy as np
import torch
from transformers import Gemma4ForCausalLM, Gemma4TextConfig, LagunaConfig, LagunaForCausalLM

ARCHS = ("gemma4", "laguna")
LENGTHS = (1, 2, 3, 4, 5, 63, 64, 65)
GEMMA4_NORMS = {
    "attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm",
    "post_ffw_norm_1": "post_feedforward_layernorm_1",
    "post_ffw_norm_2": "post_feedforward_layernorm_2",
    "pre_ffw_norm_2": "pre_feedforward_layernorm_2", "post_norm": "post_per_layer_input_norm",
}


def weight(name, p, noise):
    """Values of parameters whose usual size would hide them, or None."""
    if name.endswith("router.scale"):
        return 2.0 * p.shape[0] ** 0.5 * (1.0 + 0.3 * noise).clamp(0.3, 2.0)
    if name.endswith("per_expert_scale"):
        return (1.0 + 0.3 * noise).clamp(0.3, 2.0)
    if name.endswith("router.proj.weight"):
        return 1.2 / p.shape[-1] ** 0.5 * noise
    if name.endswith("embed_tokens_per_layer.weight"):
        return 0.3 * noise
    return None


@torch.no_grad()
def randomise(model, rng):
    """Without a scale for products, queries are made smaller, for longer fixtures more so:
    roundings of an F16 cache must not decide.  Buffers are not parameters."""
    for name, p in model.named_parameters():
        if model.config.model_type == "gemma4_text" and name.endswith("q_norm.weight"):
            p.mul_(0.1 if model.config.hidden_size_per_layer_input else 0.35)
    for name, b in model.named_buffers():
        if name.endswith("layer_scalar"):
            b.copy_(torch.from_numpy(rng.uniform(0.6, 1.4, 1)).to(b.dtype))


def head_keys(w, c, arch):
    """Heads of every layer, and their widths."""
    layers = [c.per_layer_config[i] for i in range(c.num_hidden_layers)] if arch == "gemma4" else []
    if arch == "laguna":
        w.add_head_count(c.num_attention_heads_per_layer)
        w.add_head_count_kv(c.num_key_value_heads)
        w.add_key_length(c.head_dim)
        w.add_value_length(c.head_dim)
        return
    full, windowed = (layers[c.layer_types.index(f"{kind}_attention")]
                      for kind in ("full", "sliding"))
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv([layer.num_key_value_heads for layer in layers])
    w.add_key_length(full.head_dim)
    w.add_value_length(full.head_dim)
    w.add_key_length_swa(windowed.head_dim)
    w.add_value_length_swa(windowed.head_dim)
    w.add_rope_dimension_count(full.head_dim)
    w.add_rope_dimension_count_swa(windowed.head_dim)


def add_keys(w, arch, c):
    if "sliding_attention" in c.layer_types:
        w.add_sliding_window(c.sliding_window)
        w.add_sliding_window_pattern([t == "sliding_attention" for t in c.layer_types])
        w.add_rope_freq_base_swa(c.rope_parameters["sliding_attention"]["rope_theta"])
    if arch == "gemma4":
        w.add_shared_kv_layers(c.num_kv_shared_layers)
        w.add_embedding_length_per_layer_input(c.hidden_size_per_layer_input)
        if c.final_logit_softcapping:
            w.add_final_logit_softcapping(c.final_logit_softcapping)
        if c.enable_moe_block:
            w.add_expert_count(c.num_experts)
            w.add_expert_used_count(c.top_k_experts)
            w.add_expert_feed_forward_length(c.moe_intermediate_size)
        return
    part = c.rope_parameters["full_attention"].get("partial_rotary_factor", 1.0)
    w.add_rope_dimension_count(int(c.head_dim * part))
    if "sliding_attention" in c.layer_types:
        w.add_rope_dimension_count_swa(c.head_dim)
    w.add_expert_count(c.num_experts)
    w.add_expert_used_count(c.num_experts_per_tok)
    w.add_expert_feed_forward_length(c.moe_intermediate_size)
    w.add_expert_shared_feed_forward_length(c.shared_expert_intermediate_size)
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    w.add_expert_weights_norm(True)
    w.add_expert_weights_scale(c.moe_routed_scaling_factor)
    w.add_leading_dense_block_count(c.mlp_layer_types.count("dense"))


def widths(c):
    """Width of the feed-forward: one number, or one for each layer."""
    if not getattr(c, "use_double_wide_mlp", False):
        return c.intermediate_size
    return [c.intermediate_size * (2 if mode == "reuse" else 1) for mode in c.kv_sharing_modes]


def rope_divisors(c):
    """Gemma 4: global layers rotate only the first part of their channels."""
    full = c.per_layer_config[c.layer_types.index("full_attention")]
    n_turn = int(c.rope_parameters["full_attention"]["partial_rotary_factor"] * full.head_dim // 2)
    return np.array([1.0] * n_turn + [1e30] * (full.head_dim // 2 - n_turn), np.float32)


def block_tensors(make, block, arch, prefix):
    """For Gemma 4, all of a block; for Laguna, its gate."""
    att = block.self_attn
    if arch == "laguna":
        return [make(f"{prefix}attn_gate.weight", att.g_proj.weight.data)]
    out = [make(f"{prefix}{short}.weight", getattr(block, name).weight.data)
           for short, name in GEMMA4_NORMS.items() if hasattr(block, name)]
    for short, name in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("output", "o_proj"),
                        ("q_norm", "q_norm"), ("k_norm", "k_norm")):
        if getattr(att, name, None) is not None:
            out.append(make(f"{prefix}attn_{short}.weight", getattr(att, name).weight.data))
    out += [make(f"{prefix}ffn_{s}.weight", getattr(block.mlp, f"{s}_proj").weight.data)
            for s in ("gate", "up", "down")]
    if hasattr(block, "router"):
        router, experts = block.router, block.experts
        out += [make(f"{prefix}ffn_gate_inp.weight", router.proj.weight.data),
                make(f"{prefix}ffn_gate_inp.scale", router.scale.data),
                make(f"{prefix}ffn_gate_up_exps.weight", experts.gate_up_proj.data),
                make(f"{prefix}ffn_down_exps.weight", experts.down_proj.data),
                make(f"{prefix}ffn_down_exps.scale", router.per_expert_scale.data)]
    if hasattr(block, "per_layer_input_gate"):
        out += [make(f"{prefix}inp_gate.weight", block.per_layer_input_gate.weight.data),
                make(f"{prefix}proj.weight", block.per_layer_projection.weight.data)]
    return out + [make(f"{prefix}layer_output_scale.weight", block.layer_scalar)]


def model_tensors(make, model):
    """Tensors for the inputs of every layer, if there are any."""
    if not getattr(model.config, "hidden_size_per_layer_input", 0):
        return []
    inner = model.model
    return [make("per_layer_token_embd.weight", inner.embed_tokens_per_layer.weight.data),
            make("per_layer_model_proj.weight", inner.per_layer_model_projection.weight.data),
            make("per_layer_proj_norm.weight", inner.per_layer_projection_norm.weight.data)]


def rope(kind, theta, **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


PROPORTIONAL = {"full_attention": rope("proportional", 1000000.0, partial_rotary_factor=0.25),
                "sliding_attention": rope("default", 10000.0)}
ALL_TURN = {**PROPORTIONAL,
            "full_attention": rope("proportional", 1000000.0, partial_rotary_factor=1.0)}
YARN = rope("yarn", 500000.0, factor=4.0, beta_fast=32.0, beta_slow=1.0,
            original_max_position_embeddings=64, partial_rotary_factor=0.5)
LAGUNA = {"full_attention": YARN, "sliding_attention": rope("default", 10000.0)}
UNSCALED = {**LAGUNA,
            "full_attention": rope("default", 500000.0, partial_rotary_factor=0.5)}


def fixtures(family):
    windowed, full = "sliding_attention", "full_attention"
    gemma = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=4, head_dim=16,
                 global_head_dim=32, sliding_window=8, layer_types=[windowed, full] * 2,
                 max_position_embeddings=4096, final_logit_softcapping=30.0,
                 hidden_size_per_layer_input=0, rope_parameters=PROPORTIONAL)
    small = dict(gemma, num_kv_shared_layers=2, use_double_wide_mlp=True,
                 hidden_size_per_layer_input=16, vocab_size_per_layer_input=272)
    laguna = dict(hidden_size=32, head_dim=16, intermediate_size=64, num_hidden_layers=3,
                  num_key_value_heads=2, sliding_window=8, num_experts=8, num_experts_per_tok=2,
                  moe_intermediate_size=32, shared_expert_intermediate_size=48,
                  moe_routed_scaling_factor=1.7, rope_parameters=LAGUNA,
                  tie_word_embeddings=False, max_position_embeddings=1024)
    window = {"window": dict(sliding_window=4096)}

    def gemma4(name, options, seed, **more):
        return family(name, "gemma4", Gemma4TextConfig, Gemma4ForCausalLM, options, seed,
                      lengths=LENGTHS, **more)

    def of_laguna(name, options, seed, **more):
        return family(name, "laguna", LagunaConfig, LagunaForCausalLM, {**laguna, **options}, seed,
                      lengths=LENGTHS, **more)

    return [
        gemma4("gemma4", dict(gemma, attention_k_eq_v=True, num_global_key_value_heads=1), 80,
               long=560, without={**window, "still channels": dict(rope_parameters=ALL_TURN)}),
        gemma4("gemma4-inputs", small, 81, long=560, without=window),
        gemma4("gemma4-experts", dict(gemma, attention_k_eq_v=True, num_global_key_value_heads=1,
                                      enable_moe_block=True, num_experts=8, top_k_experts=2,
                                      moe_intermediate_size=32), 82),
        of_laguna("laguna", dict(
            num_attention_heads_per_layer=[4, 6, 6], gating="per-head",
            layer_types=[full, windowed, windowed], mlp_layer_types=["dense", "sparse", "sparse"]),
            83, without={**window, "rope scaling": dict(rope_parameters=UNSCALED)}),
    ]
