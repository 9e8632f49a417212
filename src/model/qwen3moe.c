/* qwen3moe.c - Qwen3-Coder-30B-A3B and its kin: Qwen3 attention, and in every layer experts that
 * are chosen by softmax over all of them and weighted by their share among the chosen. */
#include "model/build.h"

void build_qwen3moe(builder *b)
{
    step_shape *s = &b->program.shape;
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_SPLIT, false);
    s->activation = STEP_SILU_GATED;
    s->n_experts = build_u32(b, "expert_count", 1, 1024);
    s->n_experts_used = build_u32(b, "expert_used_count", 1, s->n_experts ? s->n_experts : 1);
    s->n_ff_expert = build_u32(b, "expert_feed_forward_length", 1, 1 << 20);
    s->routing = STEP_ROUTE_SOFTMAX_TOP;
    s->routing_scale = build_f32_or(b, "expert_weights_scale", 1);
    if (s->routing_scale == 0) s->routing_scale = 1;
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        build_attention(b, layer, 0);
        build_experts_ffn(b, layer, "blk.%u.ffn_norm.weight");
    }
    build_head(b);
}
