/* minimax_m2.c - MiniMax-M2: half of each head turns, one RMSNorm over all Q heads of a row and one
 * over its K heads; experts that are chosen by their sigmoid and a bias. */
#include "model/build.h"

void build_minimax_m2(builder *b)
{
    step_shape *s = &b->program.shape;
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_SPLIT, false);
    s->activation = STEP_SILU_GATED;
    build_routing(b, STEP_ROUTE_SIGMOID_TOP);
    b->is_row_norm = true;
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        build_attention(b, layer, 0);
        build_experts_ffn(b, layer, "blk.%u.ffn_norm.weight");
    }
    build_head(b);
}
