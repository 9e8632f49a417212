/* qwen3.c - Qwen3 dense: like Qwen2 without biases, and with an RMSNorm on every Q and K head. */
#include "model/build.h"

void build_qwen3(builder *b)
{
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_SPLIT, false);
    b->program.shape.activation = STEP_SILU_GATED;
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < b->program.shape.n_layers; layer++) {
        build_attention(b, layer, 0);
        if (!build_has(b, "blk.%u.attn_q_norm.weight", layer))
            build_fail(b, "tensor blk.%u.attn_q_norm.weight is missing", layer);
        build_ffn(b, layer, "blk.%u.ffn_norm.weight");
    }
    build_head(b);
}
