"""Models of which most layers keep a state by a selective scan (Mamba-2): names in their GGUF
files.

llama.cpp's converter gives ssm_a and ssm_d a second dimension of 1, and ssm_norm one row per group.
"""
import gguf
from gguf import GGMLQuantizationType as Q
from gguf import LlamaFileType as F
from torch.nn import Linear
from transformers import (
    GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM, NemotronHConfig, NemotronHForCausalLM)

from hybrids import Decay

ARCHS = ("granitehybrid",)
NEMOTRON = ("nemotron_h", "nemotron_h_moe")  # a norm and one part per layer
LENGTHS = (1, 2, 3, 4, 5, 63, 64, 65)


class Column(Decay):
    """ssm_a = -exp(A_log), one value per row."""

    def __init__(self, name, view):
        super().__init__(name, view)
        self.shape = (view.numel(), 1)

    def get(self):
        return super().get().reshape(self.shape)


def mixer(block):
    """The part of a block that keeps a state, or None."""
    return getattr(block, "mamba", None)


def tensors(make, mamba, prefix):
    inner = mamba.norm.weight.numel()
    return [
        make(f"{prefix}ssm_in.weight", mamba.in_proj.weight.data),
        make(f"{prefix}ssm_conv1d.weight", mamba.conv1d.weight.data.squeeze(1)),
        make(f"{prefix}ssm_conv1d.bias", mamba.conv1d.bias.data),
        make(f"{prefix}ssm_dt.bias", mamba.dt_bias.data),
        Column(f"{prefix}ssm_a", mamba.A_log.data),
        make(f"{prefix}ssm_d", mamba.D.data, (mamba.num_heads, 1)),
        make(f"{prefix}ssm_norm.weight", mamba.norm.weight.data,
             (mamba.n_groups, inner // mamba.n_groups)),
        make(f"{prefix}ssm_out.weight", mamba.out_proj.weight.data),
    ]


def dense(make, block, prefix):
    """The feed-forward of a block without experts, gate and up in one; or None."""
    mlp = getattr(block, "shared_mlp", None)
    if mlp is None or block.block_sparse_moe is not None:
        return None
    both = mlp.input_linear.weight.data
    return [make(f"{prefix}ffn_gate.weight", both[:len(both) // 2]),
            make(f"{prefix}ffn_up.weight", both[len(both) // 2:]),
            make(f"{prefix}ffn_down.weight", mlp.output_linear.weight.data)]


def nemotron_tensors(make, model):
    """Every tensor of a Nemotron-H."""
    inner, out = model.model, []
    out.append(make("token_embd.weight", inner.embeddings.weight.data))
    for i, block in enumerate(inner.layers):
        prefix, part = f"blk.{i}.", block.mixer
        out.append(make(f"{prefix}attn_norm.weight", block.norm.weight.data))
        if block.block_type == "linear_attention":
            out += tensors(make, part, prefix)
        elif block.block_type == "full_attention":
            out += [make(f"{prefix}attn_{s}.weight", getattr(part, f"{n}_proj").weight.data)
                    for s, n in (("q", "q"), ("k", "k"), ("v", "v"), ("output", "o"))]
        elif block.block_type == "mlp":
            out += [make(f"{prefix}ffn_{s}.weight", getattr(part, f"{s}_proj").weight.data)
                    for s in ("up", "down")]
        else:
            out += [make(f"{prefix}ffn_gate_inp.weight", part.gate.weight.data),
                    make(f"{prefix}exp_probs_b.bias", part.gate.e_score_correction_bias),
                    make(f"{prefix}ffn_up_exps.weight", part.experts.up_proj.data),
                    make(f"{prefix}ffn_down_exps.weight", part.experts.down_proj.data)]
            if isinstance(part.fc1_latent_proj, Linear):
                out += [make(f"{prefix}ffn_latent_down.weight", part.fc1_latent_proj.weight.data),
                        make(f"{prefix}ffn_latent_up.weight", part.fc2_latent_proj.weight.data)]
            out += [make(f"{prefix}ffn_{s}_shexp.weight",
                         getattr(part.shared_experts, f"{s}_proj").weight.data)
                    for s in ("up", "down")]
    return out + [make("output_norm.weight", inner.norm_f.weight.data),
                  make("output.weight", model.lm_head.weight.data)]


def nemotron_keys(w, arch, c, n_ahead):
    kinds = c.layers_block_type + ["ahead"] * n_ahead
    width = c.moe_intermediate_size if arch == "nemotron_h_moe" else c.intermediate_size
    widths = [width if k in ("mlp", "moe", "ahead") else 0 for k in kinds]
    used = c.num_experts_per_tok
    if configs := getattr(c, "block_configs", None):
        width = widths = [one.get("moe_intermediate_size", 0) for one in configs]
        used = [one.get("num_experts_per_tok", 0) for one in configs]
    w.add_feed_forward_length(widths)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv([c.num_key_value_heads if k in ("full_attention", "ahead") else 0
                         for k in kinds])
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_layer_norm_rms_eps(c.layer_norm_epsilon)
    w.add_ssm_conv_kernel(c.conv_kernel)
    w.add_ssm_state_size(c.ssm_state_size)
    w.add_ssm_group_count(c.n_groups)
    w.add_ssm_inner_size(c.mamba_num_heads * c.mamba_head_dim)
    w.add_ssm_time_step_rank(c.mamba_num_heads)
    w.add_rope_scaling_finetuned(False)
    if arch == "nemotron_h":
        return
    w.add_expert_count(c.n_routed_experts)
    key = gguf.Keys.LLM.EXPERT_USED_COUNT.format(arch=arch)
    (w.add_array if isinstance(used, list) else w.add_uint32)(key, used)
    key = gguf.Keys.LLM.EXPERT_FEED_FORWARD_LENGTH.format(arch=arch)
    (w.add_array if isinstance(width, list) else w.add_uint32)(key, width)
    w.add_expert_shared_feed_forward_length(c.moe_shared_expert_intermediate_size)
    w.add_expert_shared_count(c.n_shared_experts)
    w.add_expert_weights_norm(c.norm_topk_prob)
    w.add_expert_weights_scale(c.routed_scaling_factor)
    w.add_expert_group_count(c.n_group)
    if c.moe_latent_size:
        w.add_moe_latent_size(c.moe_latent_size)


class NemotronHPuzzleForCausalLM(NemotronHForCausalLM):
    """Experts of another width in each layer, and another number of them for each token:
    transformers lacks it, so its layers are made from configurations of their own."""

    def __init__(self, config):
        super().__init__(config)
        for block, one in zip(self.model.layers, config.block_configs):
            if one["block_type"] == "moe":
                block.mixer = type(block.mixer)(NemotronHConfig(**{**config.to_dict(), **one}))


def nemotron_config(**options):
    """The number of layers is the length of their list."""
    return NemotronHConfig(**{k: v for k, v in options.items() if k != "num_hidden_layers"})


def head_keys(w, c):
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv([c.num_key_value_heads if t == "full_attention" else 0
                         for t in c.layer_types])


def add_keys(w, c):
    w.add_ssm_conv_kernel(c.mamba_d_conv)
    w.add_ssm_state_size(c.mamba_d_state)
    w.add_ssm_group_count(c.mamba_n_groups)
    w.add_ssm_inner_size(c.mamba_n_heads * c.mamba_d_head)
    w.add_ssm_time_step_rank(c.mamba_n_heads)
    w.add_rope_scaling_finetuned(c.position_embedding_type == "rope")


def fixtures(family, scales):
    state, full = "linear_attention", "full_attention"
    small = dict(hidden_size=32, intermediate_size=48, shared_intermediate_size=64,
                 num_hidden_layers=4, layer_types=[state, state, full, state],
                 mamba_n_heads=4, mamba_d_head=16, mamba_d_state=16, mamba_expand=2,
                 num_local_experts=8, num_experts_per_tok=2, max_position_embeddings=4096,
                 **scales)
    dense_one = dict(small, intermediate_size=64, num_local_experts=0, num_experts_per_tok=0)

    def granite(name, options, seed, **more):
        return family(name, "granitehybrid", GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM,
                      options, seed, **more)

    def nemotron(name, arch, options, seed, model=NemotronHForCausalLM, **more):
        both = dict(hidden_size=32, head_dim=16, mamba_num_heads=4, mamba_head_dim=16,
                    ssm_state_size=16, n_groups=2, tie_word_embeddings=False,
                    layer_norm_epsilon=1e-5, max_position_embeddings=4096)
        return family(name, arch, nemotron_config, model, {**both, **options}, seed,
                      lengths=LENGTHS, **more)

    return [
        nemotron("nemotron_h", "nemotron_h", dict(
            layers_block_type=[state, "mlp", full, "mlp", state], intermediate_size=64), 114,
                 long=560),
        nemotron("nemotron_h_moe", "nemotron_h_moe", dict(
            layers_block_type=[state, "moe", full, "moe"], intermediate_size=64,
            n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=32,
            moe_shared_expert_intermediate_size=48, routed_scaling_factor=1.7), 115, ahead=1),
        # experts of a latent, as in Nemotron 3 Super
        nemotron("nemotron_h_moe-latent", "nemotron_h_moe", dict(
            layers_block_type=[state, "moe", full, "moe"], intermediate_size=64,
            n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=40,
            moe_shared_expert_intermediate_size=48, routed_scaling_factor=1.7,
            moe_latent_size=24), 116, long=560),
        # layers of different widths, as in Nemotron 3 Puzzle
        nemotron("nemotron_h_moe-puzzle", "nemotron_h_moe", dict(
            layers_block_type=[state, "moe", full, "moe", "moe"], intermediate_size=64,
            block_configs=[{"block_type": "mamba"},
                           {"block_type": "moe", "moe_intermediate_size": 40,
                            "num_experts_per_tok": 3}, {"block_type": "attention"},
                           {"block_type": "moe", "moe_intermediate_size": 24,
                            "num_experts_per_tok": 1},
                           {"block_type": "moe", "moe_intermediate_size": 64,
                            "num_experts_per_tok": 2}],
            n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=64,
            moe_shared_expert_intermediate_size=48, routed_scaling_factor=1.7,
            moe_latent_size=24), 118, model=NemotronHPuzzleForCausalLM),
        # all experts are used: rounded activations would choose others
        nemotron("nemotron_h_moe-latent-q8_0", "nemotron_h_moe", dict(
            layers_block_type=[full, state, "moe"], hidden_size=128, intermediate_size=64,
            n_routed_experts=4, num_experts_per_tok=4, moe_intermediate_size=96,
            moe_shared_expert_intermediate_size=64, moe_latent_size=64, mamba_num_heads=16), 117,
                 qtype=Q.Q8_0, file_type=F.MOSTLY_Q8_0, idle=("exp_probs_b.bias",)),
        granite("granitehybrid", small, 110, long=560, lengths=LENGTHS,
                without={k: {k: 1.0} for k in scales if k != "rope_parameters"}),
        granite("granitehybrid-dense", dict(dense_one, mamba_n_heads=6, mamba_expand=3,
                                            mamba_n_groups=2), 111,
                long=2100, lengths=(*LENGTHS, 160, 560)),
        # heads as wide as published ones, and a rotation, as in Bamba
        granite("granitehybrid-wide", dict(dense_one, num_hidden_layers=2, mamba_n_heads=4,
                                           layer_types=[state, full], mamba_d_head=64,
                                           mamba_d_state=128, mamba_expand=8, mamba_d_conv=3,
                                           position_embedding_type="rope"), 112,
                long=560, lengths=LENGTHS,
                without={"rope": dict(position_embedding_type=None)}),
        granite("granitehybrid-q4_0", dict(dense_one, hidden_size=128, intermediate_size=128,
                                           shared_intermediate_size=128, num_hidden_layers=2,
                                           layer_types=[full, state], mamba_n_heads=16), 113,
                qtype=Q.Q4_0, file_type=F.MOSTLY_Q4_0),
    ]
