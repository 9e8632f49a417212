/* seed_oss.c - Seed-OSS-36B: Qwen2, but the norm before the feed-forward has another name. */
#include "model/build.h"

void build_seed_oss(builder *b)
{
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_SPLIT, false);
    b->program.shape.activation = STEP_SILU_GATED;
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < b->program.shape.n_layers; layer++) {
        build_attention(b, layer, 0);
        build_ffn(b, layer, "blk.%u.post_attention_norm.weight");
    }
    build_head(b);
}
