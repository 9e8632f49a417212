/* llama.c - Llama 2 and 3, Mistral, DeepSeek-Coder, CodeLlama, SmolLM2: adjacent-pair RoPE,
 * RMSNorm, gated SiLU; a mixture of experts if the file has one (Mixtral). */
#include "model/build.h"

void build_llama(builder *b)
{
    step_shape *s = &b->program.shape;
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_ADJACENT, false);
    s->activation = STEP_SILU_GATED;
    s->n_experts = build_u32_or(b, "expert_count", 0, 1024, 0);
    if (s->n_experts) {
        s->n_experts_used = build_u32(b, "expert_used_count", 1, s->n_experts);
        s->n_ff_expert = s->n_ff;
        b->n_experts_used = s->n_experts_used;
        b->n_ff_expert = s->n_ff_expert;
        s->routing = STEP_ROUTE_SOFTMAX_TOP;
        s->weights_sum_to_one = true;
        s->routing_scale = 1;
    }
    uint32_t window = build_u32_or(b, "attention.sliding_window", 0, 1 << 24, 0);
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        build_attention(b, layer, window);
        if (s->n_experts)
            build_experts_ffn(b, layer, "blk.%u.ffn_norm.weight");
        else
            build_ffn(b, layer, "blk.%u.ffn_norm.weight");
    }
    build_head(b);
}
