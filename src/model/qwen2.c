/* qwen2.c - Qwen2.5 and Qwen2.5-Coder: split-pair RoPE, biases on Q, K and V, gated SiLU. */
#include "model/build.h"

void build_qwen2(builder *b)
{
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_SPLIT, false);
    b->program.shape.activation = STEP_SILU_GATED;
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < b->program.shape.n_layers; layer++) {
        build_attention(b, layer, 0);
        build_ffn(b, layer, "blk.%u.ffn_norm.weight");
    }
    build_head(b);
}
