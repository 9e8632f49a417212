/* maple.c - Maple: Qwen3 with experts, some of whose layers have a window and RoPE, while those
 * that see everything have no positions; gates and ups of experts are clamped. */
#include <float.h>

#include "model/build.h"

void build_maple(builder *b)
{
    step_shape *s = &b->program.shape;
    uint32_t windows[MODEL_LAYERS_MAX];
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_SPLIT, false);
    build_rope_windowed(b, build_f32_or(b, "rope.freq_base", 10000.0f));
    build_windows(b, 0, windows);
    s->activation = STEP_SILU_CLAMPED;
    build_routing(b, STEP_ROUTE_SOFTMAX_TOP);
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        step_op *qkv = build_attention(b, layer, windows[layer]);
        qkv->rope = windows[layer] ? 1 : STEP_NO_ROPE;
        float limit = build_f32_of_layer(b, "swiglu_clamp_exp", layer, 7.0f);
        step_op *up = build_experts_ffn(b, layer, "blk.%u.ffn_norm.weight");
        up->activation_limit = limit > 0 ? limit : FLT_MAX;
    }
    build_head(b);
}
