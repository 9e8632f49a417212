/* qwen35.c - Qwen3-Next, Qwen3.5 and similar models: three of four layers keep a state (Gated
 * DeltaNet), the fourth attends with a gate on its result; feed-forward dense, or experts beside a
 * gated shared one.  A block for the token after the next (MTP) attends, too, and drafts. */
#include "model/build.h"

/* The layers with a state: the file's list, or all but the last of this many. */
static void find_recurrent(builder *b, bool *is_recurrent)
{
    const uint32_t n = b->program.shape.n_layers;
    uint32_t every = build_u32_or(b, "full_attention_interval", 1, MODEL_LAYERS_MAX, 4);
    char key[96];
    snprintf(key, sizeof key, "%s.attention.recurrent_layers", b->arch);
    const gguf_value *list = gguf_find(b->file, key);
    const bool is_list = list && list->type == GGUF_ARRAY && list->n_items >= n &&
                         list->item_type != GGUF_STRING && list->item_type != GGUF_ARRAY;
    if (b->status) return;
    if (list && !is_list) {
        build_fail(b, "key %s must have a flag for each of %u layers", key, n);
        return;
    }
    bool attends = false;
    for (uint32_t i = 0; i < n; i++) {
        is_recurrent[i] = is_list ? gguf_item_i64(list, i) != 0 : (i + 1) % every != 0;
        attends |= !is_recurrent[i];
    }
    if (!attends) build_fail(b, "no layer attends: not supported for this architecture");
}

static void build_experts_of(builder *b)
{
    build_routing(b, STEP_ROUTE_SOFTMAX_TOP);
    b->n_ff_shared = build_u32_or(b, "expert_shared_feed_forward_length", 0, 1 << 20, 0);
    b->is_shared_gated = b->n_ff_shared > 0;
    if (!b->status && !b->n_ff_shared && build_has(b, "blk.%u.ffn_gate_shexp.weight", 0))
        build_fail(b, "key %s.expert_shared_feed_forward_length is missing", b->arch);
}

static void build_feed_forward(builder *b, uint32_t layer, bool has_experts)
{
    static const char norm[] = "blk.%u.post_attention_norm.weight";
    if (has_experts)
        build_experts_ffn(b, layer, norm);
    else
        build_ffn(b, layer, norm);
}

void build_qwen35(builder *b)
{
    step_shape *s = &b->program.shape;
    bool is_recurrent[MODEL_LAYERS_MAX] = {0};
    build_shape(b, STEP_NORM_RMS);
    build_without_mtp(b);
    build_rope(b, STEP_ROPE_SPLIT, false);
    build_sections(b);
    find_recurrent(b, is_recurrent);
    build_recurrence(b);
    s->linear.is_grouped = view_equal(view_of(b->arch), VIEW("qwen3next"));
    s->activation = STEP_SILU_GATED;
    const bool has_experts = !view_equal(view_of(b->arch), VIEW("qwen35"));
    if (has_experts) build_experts_of(b);
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        if (is_recurrent[layer])
            build_recurrent(b, layer);
        else
            build_attention_gated(b, layer);
        build_feed_forward(b, layer, has_experts);
    }
    build_head(b);
    if (!build_mtp_begin(b)) return;
    build_attention_gated(b, s->n_layers);
    build_feed_forward(b, s->n_layers, has_experts);
    build_mtp_end(b);
}
