/* granite.c - Granite 3 and 4, dense and with experts: Llama with a scale on embeddings, on the
 * output of each branch, on the products of attention, and on logits.  Most layers of a hybrid
 * (Granite 4 H) keep a state (Mamba-2): those without KV heads. */
#include "model/build.h"

static bool is_hybrid(const builder *b) { return !strcmp(b->arch, "granitehybrid"); }

static bool find_experts(builder *b)
{
    if (is_hybrid(b)) return build_u32_or(b, "expert_count", 0, 1024, 0) > 0;
    return !strcmp(b->arch, "granitemoe");
}

/* KV heads of each layer: 0 if it keeps a state. */
static void find_heads(builder *b, uint32_t *n_kv_heads)
{
    const step_shape *s = &b->program.shape;
    bool keeps_state = false;
    for (uint32_t i = 0; !b->status && i < s->n_layers; i++) {
        n_kv_heads[i] = build_u32_of_layer(b, "attention.head_count_kv", i, !is_hybrid(b),
                                           s->n_kv_heads, s->n_kv_heads);
        keeps_state |= !n_kv_heads[i];
    }
    if (b->status || !keeps_state) return;
    b->program.shape.linear.is_scan = b->program.shape.linear.is_grouped = true;
    build_recurrence(b);
}

static void attention(builder *b, uint32_t layer, bool turns)
{
    step_op *qkv = build_attention(b, layer, 0);
    if (!turns) qkv->rope = STEP_NO_ROPE;
}

void build_granite(builder *b)
{
    step_shape *s = &b->program.shape;
    uint32_t n_kv_heads[MODEL_LAYERS_MAX];
    b->varies = is_hybrid(b);
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_ADJACENT, false);
    find_heads(b, n_kv_heads);
    s->activation = STEP_SILU_GATED;
    s->embedding_scale = build_scale(b, "embedding_scale");
    s->residual_scale = build_scale(b, "residual_scale");
    s->logit_scale = 1 / build_scale(b, "logit_scale"); /* the key is a divisor */
    const bool has_experts = find_experts(b);
    if (has_experts) {
        b->n_ff_shared = build_u32_or(b, "expert_shared_feed_forward_length", 0, 1 << 20, 0);
        build_routing(b, STEP_ROUTE_TOP_SOFTMAX);
        s->routing_scale *= s->residual_scale;
    }
    const bool turns = build_bool_or(b, "rope.scaling.finetuned", true);
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        b->n_kv_heads = n_kv_heads[layer];
        if (b->n_kv_heads)
            attention(b, layer, turns);
        else
            build_mamba2(b, layer);
        if (has_experts)
            build_experts_ffn(b, layer, "blk.%u.ffn_norm.weight");
        else
            build_ffn(b, layer, "blk.%u.ffn_norm.weight");
    }
    build_head(b);
}
