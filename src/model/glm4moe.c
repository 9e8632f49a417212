/* glm4moe.c - GLM-4.5 to 4.7: biases on Q, K and V, half of each head turns, the first layers are
 * dense; then experts that are chosen by their sigmoid and a bias, beside a shared one.  The last
 * block is a head for the token after the next (MTP): it drafts. */
#include "model/build.h"

static const char norm[] = "blk.%u.post_attention_norm.weight";

void build_glm4moe(builder *b)
{
    step_shape *s = &b->program.shape;
    build_shape(b, STEP_NORM_RMS);
    build_without_mtp(b);
    build_rope(b, STEP_ROPE_SPLIT, false);
    s->activation = STEP_SILU_GATED;
    build_routing(b, STEP_ROUTE_SIGMOID_TOP);
    uint32_t n_shared = build_u32_or(b, "expert_shared_count", 0, 64, 0);
    uint32_t n_dense = build_u32_or(b, "leading_dense_block_count", 0, MODEL_LAYERS_MAX, 0);
    b->n_ff_shared = n_shared * s->n_ff_expert;
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        build_attention(b, layer, 0);
        if (layer < n_dense)
            build_ffn(b, layer, norm);
        else
            build_experts_ffn(b, layer, norm);
    }
    build_head(b);
    if (!build_mtp_begin(b)) return;
    build_attention(b, s->n_layers, 0);
    build_experts_ffn(b, s->n_layers, norm);
    build_mtp_end(b);
}
