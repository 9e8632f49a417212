"""Families besides those of model_list.py: names in their GGUF files, and small models.

For each architecture: the norms of a block, the tensors of its feed-forward, and the keys that
llama.cpp's converter writes for it alone.
"""
import gguf
import torch
from transformers import (
    Gemma3ForCausalLM, Gemma3TextConfig, Glm4MoeConfig, Glm4MoeForCausalLM, GraniteConfig,
    GraniteForCausalLM, GraniteMoeSharedConfig, GraniteMoeSharedForCausalLM, MellumConfig,
    MellumForCausalLM, MiniMaxM2Config, MiniMaxM2ForCausalLM, Ministral3Config,
    Ministral3ForCausalLM, SeedOssConfig, SeedOssForCausalLM, SmolLM3Config, SmolLM3ForCausalLM)

import hybrids
import latents
import layered
import scans
import vision


class MapleForCausalLM(MellumForCausalLM):
    """transformers has no Maple: Mellum with global layers without rotation and experts that
    clamp."""

    LIMIT = 0.7  # published models have 7; random weights would not reach that

    def __init__(self, config):
        super().__init__(config)
        for kind, block in zip(config.layer_types, self.model.layers):
            if kind == "full_attention":
                block.self_attn.register_forward_pre_hook(self.still, with_kwargs=True)
            block.mlp.experts.forward = self.clamped(block.mlp.experts)

    @staticmethod
    def still(_attention, args, kwargs):
        cos, sin = kwargs["position_embeddings"]
        return args, {**kwargs, "position_embeddings": (torch.ones_like(cos),
                                                        torch.zeros_like(sin))}

    def clamped(self, experts):
        def forward(x, index, weights):
            out = torch.zeros_like(x)
            for e in range(experts.num_experts):
                token, slot = torch.where(index == e)
                gate, up = (x[token] @ experts.gate_up_proj[e].T).chunk(2, -1)
                h = experts.act_fn(gate.clamp(max=self.LIMIT)) * up.clamp(-self.LIMIT, self.LIMIT)
                out.index_add_(0, token, h @ experts.down_proj[e].T * weights[token, slot, None])
            return out
        return forward


PAIRS = ("llama", "mistral3", "smollm3", "granite", "granitemoe",
         *scans.ARCHS)  # NORM rope: rows are permuted
ONE_MORE = ("gemma3", *hybrids.ARCHS)  # norms multiply by 1 + weight, and files hold the sum
SHORTS = (1, 2, 3, 5, 63, 64, 65)  # tokens of the sequences besides the long one
BEHIND = {"post_attention_norm": "post_attention_layernorm"}
NORMS = {
    "seed_oss": {"attn_norm": "input_layernorm", **BEHIND},
    "glm4moe": {"attn_norm": "input_layernorm", **BEHIND},
    **{arch: {"attn_norm": "input_layernorm", **BEHIND} for arch in hybrids.ARCHS},
    "gemma3": {"attn_norm": "input_layernorm", **BEHIND, "ffn_norm": "pre_feedforward_layernorm",
               "post_ffw_norm": "post_feedforward_layernorm"},
}


def experts(make, block, prefix):
    """[(name, view)] of a mixture of experts, or None if the block has none."""
    mlp = getattr(block, "block_sparse_moe", None) or getattr(block, "mlp", None)
    if not hasattr(mlp, "experts"):
        return None
    both = mlp.experts.gate_up_proj.data                     # [e, 2 ff, k]: gate, then up
    router = mlp.gate if hasattr(mlp, "gate") else mlp.router
    ff = both.shape[1] // 2
    out = [make(f"{prefix}ffn_gate_inp.weight", router.weight.data),
           make(f"{prefix}ffn_gate_exps.weight", both[:, :ff]),
           make(f"{prefix}ffn_up_exps.weight", both[:, ff:]),
           make(f"{prefix}ffn_down_exps.weight", mlp.experts.down_proj.data)]
    bias = choice_bias(mlp)
    if bias is not None:
        out.append(make(f"{prefix}exp_probs_b.bias", bias))
    shared = getattr(mlp, "shared_experts", None) or getattr(block, "shared_mlp", None)
    if hasattr(mlp, "shared_expert"):
        shared = mlp.shared_expert
        gate = mlp.shared_expert_gate.weight.data
        out.append(make(f"{prefix}ffn_gate_inp_shexp.weight", gate, (gate.shape[-1],)))
    if shared is not None and hasattr(shared, "input_linear"):   # Granite: gate and up in one
        both = shared.input_linear.weight.data
        parts = (both[:len(both) // 2], both[len(both) // 2:], shared.output_linear.weight.data)
    elif shared is not None:
        parts = [getattr(shared, f"{s}_proj").weight.data for s in ("gate", "up", "down")]
    else:
        parts = ()
    return out + [make(f"{prefix}ffn_{s}_shexp.weight", p)
                  for s, p in zip(("gate", "up", "down"), parts)]


def n_chosen(config):
    """Experts of a token, or None."""
    if config.model_type == "nemotron_h" and "moe" not in config.layers_block_type:
        return None
    if getattr(config, "first_k_dense_replace", 0) >= config.num_hidden_layers:
        return None
    return getattr(config, "num_experts_per_tok", None) or getattr(config, "top_k_experts", None)


def choice_bias(mlp):
    for where in (mlp, getattr(mlp, "gate", None)):
        bias = getattr(where, "e_score_correction_bias", None)
        if bias is not None:
            return bias.data
    return None


def choice_scores(router, logits, args):
    """How experts are chosen: by sigmoid and bias, in groups, if the router has a bias."""
    bias = getattr(router, "e_score_correction_bias", args[1] if len(args) > 1 else None)
    return logits if bias is None else logits.sigmoid() + bias


def add_keys(w, arch, c):
    if arch in layered.ARCHS:
        layered.add_keys(w, arch, c)
        return
    if arch in latents.ARCHS:
        latents.add_keys(w, c)
        return
    if arch in vision.ARCHS:
        vision.add_keys(w, c)
    full = c.rope_parameters.get("full_attention", c.rope_parameters)
    if "sliding_attention" in c.rope_parameters:
        w.add_sliding_window(c.sliding_window)
        local = c.rope_parameters["sliding_attention"]["rope_theta"]
        if arch == "maple":
            w.add_float32("maple.swiglu_clamp_exp", MapleForCausalLM.LIMIT)
        if arch in ("mellum", "maple"):
            w.add_sliding_window_pattern([t == "sliding_attention" for t in c.layer_types])
            w.add_rope_freq_base_swa(local)
        else:
            assert local == 10000.0  # published files do not contain it
    if getattr(c, "final_logit_softcapping", None):
        w.add_final_logit_softcapping(c.final_logit_softcapping)
    if arch == "mistral3":
        w.add_rope_scaling_yarn_log_mul(full["mscale_all_dim"])
        w.add_attn_temperature_scale(full["llama_4_scaling_beta"])
    if arch in scans.ARCHS:
        scans.add_keys(w, c)
    if arch in ("granite", "granitemoe", "granitehybrid"):
        w.add_embedding_scale(c.embedding_multiplier)
        w.add_residual_scale(c.residual_multiplier)
        w.add_attention_scale(c.attention_multiplier)
        w.add_logit_scale(c.logits_scaling)
    part = full.get("partial_rotary_factor", 1.0)
    if part != 1.0:
        w.add_rope_dimension_count(int(c.head_dim * part))
    add_experts(w, arch, c)


def add_experts(w, arch, c):
    n = getattr(c, "num_local_experts", None)
    if not n or arch in hybrids.ARCHS or arch in ("gpt-oss", "qwen3moe"):
        return
    w.add_expert_count(n)
    w.add_expert_used_count(c.num_experts_per_tok)
    if arch not in ("granitemoe", "granitehybrid"):
        w.add_expert_feed_forward_length(getattr(c, "moe_intermediate_size", c.intermediate_size))
    elif c.shared_intermediate_size:
        w.add_expert_shared_feed_forward_length(c.shared_intermediate_size)
    if arch == "minimax-m2":
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if arch == "glm4moe":
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        w.add_expert_shared_count(c.n_shared_experts)
        w.add_leading_dense_block_count(c.first_k_dense_replace)
        w.add_expert_weights_scale(c.routed_scaling_factor)
        w.add_expert_weights_norm(c.norm_topk_prob)
        w.add_expert_group_count(c.n_group)
        w.add_expert_group_used_count(c.topk_group)


def rope(kind, theta, **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


GROWING = rope("yarn", 1000000.0, factor=4.0, original_max_position_embeddings=48, beta_fast=32.0,
               beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1,
               max_position_embeddings=256)
GEMMA = {"full_attention": rope("linear", 1000000.0, factor=8.0),
         "sliding_attention": rope("default", 10000.0)}
MELLUM = {"full_attention": rope("yarn", 500000.0, factor=2.0, beta_fast=32.0, beta_slow=1.0,
                                 original_max_position_embeddings=64),
          "sliding_attention": rope("default", 10000.0)}
HALF = rope("default", 1000000.0, partial_rotary_factor=0.5)
EXPERTS = dict(hidden_size=32, num_experts_per_tok=2, head_dim=16, tie_word_embeddings=False)
SCALES = dict(embedding_multiplier=1.7, residual_multiplier=0.6, attention_multiplier=0.35,
              logits_scaling=0.8, rope_parameters=rope("default", 10000.0))
PLAIN = {k: v for k, v in GROWING.items() if k != "llama_4_scaling_beta"}


def fixtures(entry, longest):
    gemma = dict(num_hidden_layers=6, head_dim=32, query_pre_attn_scalar=32, sliding_window=8,
                 hidden_size=32, intermediate_size=64, max_position_embeddings=1024,
                 rope_parameters=GEMMA)
    no_linear = {**GEMMA, "full_attention": rope("default", 1000000.0)}
    no_yarn = {**MELLUM, "full_attention": rope("default", 500000.0)}

    def family(name, arch, config, model, options, seed, **more):
        options = {"pad_token_id": None, **options}
        return entry(name, arch, config, model, options, seed,
                     short=more.pop("lengths", SHORTS), **more)

    return [
        family("mistral3", "mistral3", Ministral3Config, Ministral3ForCausalLM,
               dict(rope_parameters=GROWING, head_dim=32, intermediate_size=64), 50, head_dim=True,
               without={"growing queries": dict(rope_parameters={**PLAIN,
                                                                 "llama_4_scaling_beta": 0.0}),
                        "log multiplier": dict(rope_parameters={**GROWING, "mscale": None})}),
        family("smollm3", "smollm3", SmolLM3Config, SmolLM3ForCausalLM,
               dict(num_hidden_layers=4, hidden_size=32, intermediate_size=64,
                    rope_parameters=rope("default", 2000000.0)), 51,
               without={"a layer without rope": dict(no_rope_layers=[1, 1, 1, 1])}),
        family("seed_oss", "seed_oss", SeedOssConfig, SeedOssForCausalLM,
               dict(head_dim=32, intermediate_size=64, attention_bias=True,
                    attention_out_bias=False, tie_word_embeddings=False,
                    rope_parameters=rope("default", 10000000.0)), 52, head_dim=True),
        family("granite", "granite", GraniteConfig, GraniteForCausalLM, SCALES, 53,
               without={k: {k: 1.0} for k in SCALES if k != "rope_parameters"}),
        family("granitemoe", "granitemoe", GraniteMoeSharedConfig, GraniteMoeSharedForCausalLM,
               dict(hidden_size=32, intermediate_size=48, shared_intermediate_size=64,
                    num_local_experts=8, num_experts_per_tok=2, **SCALES), 54,
               without={k: {k: 1.0} for k in SCALES if k != "rope_parameters"}),
        family("gemma3", "gemma3", Gemma3TextConfig, Gemma3ForCausalLM, gemma, 55, head_dim=True,
               long=longest, without={"rope scaling": dict(rope_parameters=no_linear),
                                      "window": dict(sliding_window=4096)}),
        family("gemma3-cap", "gemma3", Gemma3TextConfig, Gemma3ForCausalLM,
               {**gemma, "final_logit_softcapping": 3.0}, 66, head_dim=True,
               without={"cap": dict(final_logit_softcapping=None)}),
        family("mellum", "mellum", MellumConfig, MellumForCausalLM,
               dict({**EXPERTS, "head_dim": 32}, num_hidden_layers=3, num_experts=8,
                    moe_intermediate_size=32, sliding_window=8, rope_parameters=MELLUM,
                    layer_types=["sliding_attention", "full_attention", "sliding_attention"]), 57,
               head_dim=True,
               without={"rope scaling": dict(rope_parameters=no_yarn),
                        "window": dict(sliding_window=4096)}),
        family("maple", "maple", MellumConfig, MapleForCausalLM,
               dict({**EXPERTS, "head_dim": 32}, num_hidden_layers=3, num_experts=8,
                    moe_intermediate_size=32, sliding_window=8, rope_parameters=no_yarn,
                    layer_types=["sliding_attention", "full_attention", "sliding_attention"]), 60,
               head_dim=True, arrays=True, without={"window": dict(sliding_window=4096)}),
        family("glm4moe", "glm4moe", Glm4MoeConfig, Glm4MoeForCausalLM,
               dict(EXPERTS, num_hidden_layers=3, n_routed_experts=8, moe_intermediate_size=32,
                    n_shared_experts=2, routed_scaling_factor=1.8, n_group=4, topk_group=2,
                    first_k_dense_replace=1, use_qk_norm=True, attention_bias=True,
                    intermediate_size=80, rope_parameters=HALF), 58, head_dim=True,
               without={"groups": dict(topk_group=4)}),
        family("minimax-m2", "minimax-m2", MiniMaxM2Config, MiniMaxM2ForCausalLM,
               dict(EXPERTS, num_local_experts=8, intermediate_size=32,
                    rope_parameters=HALF), 59, head_dim=True,
               without={"half of each head": dict(rope_parameters=rope("default", 1000000.0))}),
        *hybrids.fixtures(family),
        *layered.fixtures(family),
        *latents.fixtures(family),
        *vision.fixtures(family),
        *scans.fixtures(family, SCALES),
    ]


@torch.no_grad()
def randomise_biases(model, rng):
    """Tensors for the choice of experts, which are not parameters."""
    for name, b in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            b.copy_(torch.from_numpy(0.3 * rng.standard_normal(b.shape[0])).to(b.dtype))
