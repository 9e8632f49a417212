/* deepseek2.c - DeepSeek V2 and V3, their coder models, and GLM-4.7-Flash: attention by latents
 * (MLA); the first layers are dense, then experts beside a shared one.  Blocks for tokens further
 * on (MTP) are not run. */
#include "model/build.h"

/* Files without a key for the choice of experts: GLM-4.7-Flash is recognized by its number of
 * layers, with or without the one for tokens further on, and by its vocabulary. */
static step_routing usual_routing(builder *b)
{
    enum { GLM_LAYERS = 47, GLM_VOCABULARY = 154880 };
    const uint32_t n = build_u32(b, "block_count", 1, MODEL_LAYERS_MAX);
    const bool is_glm = (n == GLM_LAYERS || n == GLM_LAYERS + 1) &&
                        b->program.shape.n_vocab == GLM_VOCABULARY;
    return is_glm ? STEP_ROUTE_SIGMOID_TOP : STEP_ROUTE_SOFTMAX_TOP;
}

static void read_experts(builder *b)
{
    step_shape *s = &b->program.shape;
    build_routing(b, usual_routing(b));
    s->weights_sum_to_one = build_bool_or(b, "expert_weights_norm", false);
    b->n_ff_shared = build_u32_or(b, "expert_shared_count", 0, 64, 0) * s->n_ff_expert;
}

void build_deepseek2(builder *b)
{
    step_shape *s = &b->program.shape;
    b->is_latent = true;
    build_shape(b, STEP_NORM_RMS);
    build_without_mtp(b);
    build_latents(b);
    s->activation = STEP_SILU_GATED;
    s->query_growth = build_f32_or(b, "attention.temperature_scale", 0);
    if (s->query_growth != 0)
        s->query_growth_tokens = build_u32(b, "rope.scaling.original_context_length", 1, 1 << 24);
    const bool has_experts = build_u32_or(b, "expert_count", 0, 1024, 0) > 0;
    if (has_experts) read_experts(b);
    const uint32_t n_dense = build_u32_or(b, "leading_dense_block_count", 0, MODEL_LAYERS_MAX, 0);
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        build_attention_latent(b, layer);
        if (!has_experts || layer < n_dense)
            build_ffn(b, layer, "blk.%u.ffn_norm.weight");
        else
            build_experts_ffn(b, layer, "blk.%u.ffn_norm.weight");
    }
    build_head(b);
}
