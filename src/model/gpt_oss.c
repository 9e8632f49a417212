/* gpt_oss.c - gpt-oss-20b and 120b: even layers see a sliding window, odd ones everything; a sink
 * for each head; experts chosen first and weighted by softmax over the chosen; YaRN with the
 * unrounded correction range of the original implementation. */
#include "model/build.h"

void build_gpt_oss(builder *b)
{
    step_shape *s = &b->program.shape;
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_SPLIT, true);
    s->activation = STEP_SWIGLU_CLAMPED;
    build_routing(b, STEP_ROUTE_TOP_SOFTMAX);
    uint32_t window = build_u32_or(b, "attention.sliding_window", 1, 1 << 24, 128);
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        bool post = build_has(b, "blk.%u.post_attention_norm.weight", layer);
        build_attention(b, layer, layer % 2 == 0 ? window : 0);
        build_experts_ffn(b, layer,
                          post ? "blk.%u.post_attention_norm.weight" : "blk.%u.ffn_norm.weight");
    }
    build_head(b);
}
