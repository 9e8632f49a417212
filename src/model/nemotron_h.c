/* nemotron_h.c - Nemotron-H and Nemotron 3, dense and with experts (nemotron_h_moe): each layer has
 * one norm and one part, which keeps a state (Mamba-2), attends without a rotation, or is a
 * feed-forward by squared ReLU.  Experts may read a latent of the layer's input (Nemotron 3 Super),
 * and their width and how many a token uses may differ by layer (Puzzle).
 * Blocks after the last layer, which predict further tokens, are left out. */
#include "model/build.h"

static void feed_forward(builder *b, uint32_t layer)
{
    static const char norm[] = "blk.%u.attn_norm.weight";
    const step_shape *s = &b->program.shape;
    if (!s->n_experts || !build_has(b, "blk.%u.ffn_gate_inp.weight", layer)) {
        build_ffn(b, layer, norm);
        return;
    }
    b->n_ff_expert = build_u32_of_layer(b, "expert_feed_forward_length", layer, 1, s->n_ff_expert,
                                        s->n_ff_expert);
    b->n_experts_used = build_u32_of_layer(b, "expert_used_count", layer, 1, s->n_experts_used, 1);
    build_experts_ffn(b, layer, norm);
}

/* Its kind is told by its heads and the width of its feed-forward. */
static void build_layer(builder *b, uint32_t layer)
{
    const step_shape *s = &b->program.shape;
    b->n_ff = build_u32_of_layer(b, "feed_forward_length", layer, 0, s->n_ff, 0);
    b->n_kv_heads =
        build_u32_of_layer(b, "attention.head_count_kv", layer, 0, s->n_kv_heads, 0);
    if (b->status) return;
    if (b->n_ff && b->n_kv_heads)
        build_fail(b, "layer %u attends and has a feed-forward: it must be one of them", layer);
    else if (b->n_ff)
        feed_forward(b, layer);
    else if (b->n_kv_heads)
        build_attention(b, layer, 0)->rope = STEP_NO_ROPE;
    else
        build_mamba2(b, layer);
}

void build_nemotron_h(builder *b)
{
    step_shape *s = &b->program.shape;
    b->varies = true;
    build_shape(b, STEP_NORM_RMS);
    build_without_mtp(b);
    s->linear.is_scan = s->linear.is_grouped = true;
    build_recurrence(b);
    s->activation = STEP_RELU_SQUARED;
    if (!strcmp(b->arch, "nemotron_h_moe")) {
        build_routing(b, STEP_ROUTE_SIGMOID_TOP);
        b->n_ff_shared = build_u32_or(b, "expert_shared_feed_forward_length", 0, 1 << 20, 0);
        b->n_expert_latent = build_u32_or(b, "moe_latent_size", 0, 1 << 20, 0);
    }
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) build_layer(b, layer);
    build_head(b);
}
