/* granite.c - Granite 3 and 4, dense and with experts (granitemoe): Llama with a scale on
 * embeddings, on the output of each branch, on the products of attention, and on logits. */
#include "model/build.h"

void build_granite(builder *b)
{
    step_shape *s = &b->program.shape;
    const bool has_experts = !strcmp(b->arch, "granitemoe");
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_ADJACENT, false);
    s->activation = STEP_SILU_GATED;
    s->embedding_scale = build_scale(b, "embedding_scale");
    s->residual_scale = build_scale(b, "residual_scale");
    s->logit_scale = 1 / build_scale(b, "logit_scale"); /* the key is a divisor */
    if (has_experts) {
        b->n_ff_shared = build_u32_or(b, "expert_shared_feed_forward_length", 0, 1 << 20, 0);
        build_routing(b, STEP_ROUTE_TOP_SOFTMAX);
        s->routing_scale *= s->residual_scale;
    }
    const bool turns = build_bool_or(b, "rope.scaling.finetuned", true);
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        step_op *qkv = build_attention(b, layer, 0);
        if (!turns) qkv->rope = STEP_NO_ROPE;
        if (has_experts)
            build_experts_ffn(b, layer, "blk.%u.ffn_norm.weight");
        else
            build_ffn(b, layer, "blk.%u.ffn_norm.weight");
    }
    build_head(b);
}
