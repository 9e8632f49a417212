/* qwen3moe.c - Qwen3-Coder-30B-A3B and similar models: Qwen3 attention, and in every layer experts
 * that are chosen by softmax over all of them and weighted by their share among the chosen. */
#include "model/build.h"

void build_qwen3moe(builder *b)
{
    step_shape *s = &b->program.shape;
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_SPLIT, false);
    s->activation = STEP_SILU_GATED;
    build_routing(b, STEP_ROUTE_SOFTMAX_TOP);
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        build_attention(b, layer, 0);
        build_experts_ffn(b, layer, "blk.%u.ffn_norm.weight");
    }
    build_head(b);
}
