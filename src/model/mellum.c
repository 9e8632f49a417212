/* mellum.c - Mellum 2: Qwen3 with experts, some of whose layers have a window and plain RoPE, while
 * those that see everything have YaRN. */
#include "model/build.h"

void build_mellum(builder *b)
{
    step_shape *s = &b->program.shape;
    uint32_t windows[MODEL_LAYERS_MAX];
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_SPLIT, false);
    build_rope_windowed(b, build_f32_or(b, "rope.freq_base", 10000.0f));
    build_windows(b, 0, windows);
    s->activation = STEP_SILU_GATED;
    build_routing(b, STEP_ROUTE_SOFTMAX_TOP);
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        step_op *qkv = build_attention(b, layer, windows[layer]);
        if (windows[layer]) qkv->rope = 1;
        build_experts_ffn(b, layer, "blk.%u.ffn_norm.weight");
    }
    build_head(b);
}
