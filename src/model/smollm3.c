/* smollm3.c - SmolLM3: Llama in which every fourth layer has no positions. */
#include "model/build.h"

enum { NO_ROPE_EVERY = 4 }; /* layers; no key of the file has it */

void build_smollm3(builder *b)
{
    step_shape *s = &b->program.shape;
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_ADJACENT, false);
    s->activation = STEP_SILU_GATED;
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        step_op *qkv = build_attention(b, layer, 0);
        if ((layer + 1) % NO_ROPE_EVERY == 0) qkv->rope = STEP_NO_ROPE;
        build_ffn(b, layer, "blk.%u.ffn_norm.weight");
    }
    build_head(b);
}
