"""Models of which most layers keep a state by a selective scan (Mamba-2): what their GGUF files
call things.

llama.cpp's converter gives ssm_a and ssm_d a second dimension of 1, and ssm_norm one row a group.
"""
from gguf import GGMLQuantizationType as Q
from gguf import LlamaFileType as F
from transformers import GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM

from hybrids import Decay

ARCHS = ("granitehybrid",)
LENGTHS = (1, 2, 3, 4, 5, 63, 64, 65)


class Column(Decay):
    """ssm_a = -exp(A_log), a value a row."""

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

    return [
        granite("granitehybrid", small, 110, long=560, lengths=LENGTHS,
                without={k: {k: 1.0} for k in scales if k != "rope_parameters"}),
        granite("granitehybrid-dense", dict(dense_one, mamba_n_heads=6, mamba_expand=3,
                                            mamba_n_groups=2), 111,
                long=2100, lengths=(*LENGTHS, 160, 560)),
        # heads as wide as published ones, and a rotation, as Bamba has it
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
