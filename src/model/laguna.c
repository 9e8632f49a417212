/* laguna.c - Laguna: layers with a window have more query heads than those that see everything, and
 * turn all of a head with their own RoPE base; attention's result is times a gate of the layer's
 * input; experts that are chosen by their sigmoid and a bias, beside a shared one. */
#include "model/build.h"

/* One number for each head, or one for each of its channels. */
static void take_gate(builder *b, step_op *qkv, uint32_t layer)
{
    char name[64];
    if (b->status) return;
    snprintf(name, sizeof name, "blk.%u.attn_gate.weight", layer);
    const gguf_tensor *t = gguf_find_tensor(b->file, name);
    qkv->n_gates = t && t->dims[1] == b->n_heads ? 1 : b->head_dim;
    qkv[1].n_gates = qkv->n_gates;
    qkv->w[3] = build_matrix(b, "blk.%u.attn_gate.weight", layer, b->n_heads * qkv->n_gates,
                             b->program.shape.n_embd);
}

/* Layers with a window: those listed in the file, or all but the first of each period; or none. */
static void find_windows(builder *b, uint32_t *windows)
{
    const char *name = "attention.sliding_window_pattern";
    const uint32_t n = b->program.shape.n_layers;
    const uint32_t window = build_u32_or(b, "attention.sliding_window", 0, 1 << 24, 0);
    char key[96];
    snprintf(key, sizeof key, "%s.%s", b->arch, name);
    const gguf_value *pattern = gguf_find(b->file, key);
    if (window && pattern && pattern->type == GGUF_ARRAY) {
        build_windows(b, 0, windows);
        return;
    }
    const uint32_t every = build_u32_or(b, name, 1, MODEL_LAYERS_MAX, 4);
    for (uint32_t i = 0; !b->status && i < n; i++) windows[i] = i % every ? window : 0;
}

void build_laguna(builder *b)
{
    step_shape *s = &b->program.shape;
    uint32_t windows[MODEL_LAYERS_MAX] = {0};
    b->varies = true;
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_SPLIT, false);
    build_rope_windowed(b, 10000.0f);
    find_windows(b, windows);
    s->activation = STEP_SILU_GATED;
    build_routing(b, STEP_ROUTE_SIGMOID_TOP);
    b->n_ff_shared = build_u32_or(b, "expert_shared_feed_forward_length", 0, 1 << 20,
                                  s->n_ff_expert);
    const uint32_t n_dense = build_u32_or(b, "leading_dense_block_count", 0, MODEL_LAYERS_MAX, 1);
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        b->n_heads = build_u32_of_layer(b, "attention.head_count", layer, 1, s->n_heads, 0);
        step_op *qkv = build_attention(b, layer, windows[layer]);
        if (windows[layer]) qkv->rope = 1;
        take_gate(b, qkv, layer);
        if (layer < n_dense)
            build_ffn(b, layer, "blk.%u.ffn_norm.weight");
        else
            build_experts_ffn(b, layer, "blk.%u.ffn_norm.weight");
    }
    build_head(b);
}
