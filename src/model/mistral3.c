/* mistral3.c - Ministral 3, Devstral 2, Mistral Small 3.2 and later: Llama, with YaRN whose factor
 * on cosine and sine a key can cancel, and queries that grow with the logarithm of their position
 * beyond the context of the first training. */
#include "model/build.h"

void build_mistral3(builder *b)
{
    step_shape *s = &b->program.shape;
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_ADJACENT, false);
    s->activation = STEP_SILU_GATED;
    s->query_growth = build_f32_or(b, "attention.temperature_scale", 0);
    if (s->query_growth != 0)
        s->query_growth_tokens = build_u32(b, "rope.scaling.original_context_length", 1, 1 << 24);
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        build_attention(b, layer, 0);
        build_ffn(b, layer, "blk.%u.ffn_norm.weight");
    }
    build_head(b);
}
