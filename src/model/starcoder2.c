/* starcoder2.c - StarCoder2: LayerNorm with bias, biases everywhere, a plain GELU feed-forward,
 * split-pair RoPE. */
#include "model/build.h"

void build_starcoder2(builder *b)
{
    step_shape *s = &b->program.shape;
    build_shape(b, STEP_NORM_LAYER);
    build_rope(b, STEP_ROPE_SPLIT, false);
    s->activation = STEP_GELU;
    uint32_t window = build_u32_or(b, "attention.sliding_window", 0, 1 << 24, 0);
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        build_attention(b, layer, window);
        build_ffn(b, layer, "blk.%u.ffn_norm.weight");
    }
    build_head(b);
}
