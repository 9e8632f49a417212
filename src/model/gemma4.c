/* gemma4.c - Gemma 4: Gemma 3 whose layers with a window have other heads than those that see
 * everything, and whose last layers read keys and values of earlier ones.  Values have a norm, and
 * are the keys if a layer has no matrix for them.  Some models have experts beside the
 * feed-forward, the small ones an input of each token for every layer. */
#include <math.h>

#include "model/build.h"

enum { HEADS_MAX = 4096, WINDOWED_EVERY = 6 };

/* The differences between layers with a window and those that see everything. */
typedef struct {
    uint32_t windows[MODEL_LAYERS_MAX];
    uint32_t head_dim[2]; /* of all that see everything, of those with a window */
    const float *ones[2]; /* unit weights of the norms of values, which have no weights */
    uint32_t n_own;       /* layers that have keys and values */
} gemma4;

static void read_layers(builder *b, gemma4 *g)
{
    step_shape *s = &b->program.shape;
    build_windows(b, WINDOWED_EVERY, g->windows);
    g->head_dim[0] = s->head_dim;
    g->head_dim[1] = build_u32_or(b, "attention.key_length_swa", 2, 512, s->head_dim);
    const uint32_t values = build_u32_or(b, "attention.value_length_swa", 2, 512, g->head_dim[1]);
    if (!b->status && (g->head_dim[1] % 2 || values != g->head_dim[1]))
        build_fail(b, "windowed heads of %u channels, values of %u: they must be equal and even",
                   g->head_dim[1], values);
    const uint32_t n_shared =
        build_u32_or(b, "attention.shared_kv_layers", 0, s->n_layers ? s->n_layers - 1 : 0, 0);
    if (!b->status) g->n_own = s->n_layers - n_shared;
}

/* The last layer with its own keys and values and the same window as this one. */
static uint32_t layer_to_share(builder *b, const gemma4 *g, uint32_t layer)
{
    for (uint32_t own = g->n_own; own-- > 0;)
        if (g->windows[own] == g->windows[layer]) return own;
    build_fail(b, "layer %u shares keys and values, but no layer of its kind has any", layer);
    return 0;
}

static void attention(builder *b, const gemma4 *g, uint32_t layer)
{
    step_shape *s = &b->program.shape;
    const uint32_t window = g->windows[layer], is_windowed = window != 0;
    const bool is_own = layer < g->n_own;
    const uint32_t of = is_own ? layer : layer_to_share(b, g, layer);
    b->head_dim = g->head_dim[is_windowed];
    b->n_kv_heads =
        build_u32_of_layer(b, "attention.head_count_kv", of, 1, s->n_kv_heads, s->n_kv_heads);
    step_op *qkv = is_own ? build_attention(b, layer, window)
                          : build_attention_sharing(b, layer, window, of);
    qkv->rope = is_windowed;
    if (is_own) qkv->head_norm[2] = g->ones[is_windowed];
    qkv[2].post_norm = build_vector(b, "blk.%u.post_attention_norm.weight", layer, s->n_embd);
}

/* The feed-forward's result waits; the router has its own norm, and so have the experts. */
static step_op *mixture(builder *b, uint32_t layer)
{
    step_shape *s = &b->program.shape;
    step_op *down = build_ffn(b, layer, "blk.%u.ffn_norm.weight") + 1;
    down->post_norm = build_vector(b, "blk.%u.post_ffw_norm_1.weight", layer, s->n_embd);
    down->waits = true;
    step_op *up = build_experts_ffn(b, layer, "blk.%u.ffn_gate_inp.scale"), *route = up - 1;
    build_times(b, route->norm, s->n_embd, 1 / sqrtf((float)s->n_embd));
    route->expert_scale = build_vector(b, "blk.%u.ffn_down_exps.scale", layer, s->n_experts);
    up->norm = build_vector(b, "blk.%u.pre_ffw_norm_2.weight", layer, s->n_embd);
    up[1].post_norm = build_vector(b, "blk.%u.post_ffw_norm_2.weight", layer, s->n_embd);
    up[1].norm_of_sum = build_vector(b, "blk.%u.post_ffw_norm.weight", layer, s->n_embd);
    return up + 1;
}

/* The step that ends a feed-forward. */
static step_op *feed_forward(builder *b, uint32_t layer)
{
    step_shape *s = &b->program.shape;
    b->n_ff = build_u32_of_layer(b, "feed_forward_length", layer, 1, s->n_ff, 0);
    if (s->n_experts && build_has(b, "blk.%u.ffn_gate_inp.weight", layer)) return mixture(b, layer);
    step_op *down = build_ffn(b, layer, "blk.%u.ffn_norm.weight") + 1;
    down->post_norm = build_vector(b, "blk.%u.post_ffw_norm.weight", layer, s->n_embd);
    return down;
}

static void layer_inputs(builder *b)
{
    step_shape *s = &b->program.shape;
    const uint32_t all = s->n_layers * s->n_layer_input;
    step_op *op = build_op(b, STEP_LAYER_INPUTS);
    op->w[0] = build_matrix(b, "per_layer_model_proj.weight", 0, all, s->n_embd);
    op->post_norm = build_vector(b, "per_layer_proj_norm.weight", 0, s->n_layer_input);
    op->table = build_table(b, "per_layer_token_embd.weight", all);
}

/* The token's input of this layer, gated by x. */
static step_op *layer_gate(builder *b, uint32_t layer)
{
    step_shape *s = &b->program.shape;
    step_op *op = build_op(b, STEP_LAYER_GATE);
    op->layer = layer;
    op->w[0] = build_matrix(b, "blk.%u.inp_gate.weight", layer, s->n_layer_input, s->n_embd);
    op = build_op(b, STEP_FFN_DOWN);
    op->w[0] = build_matrix(b, "blk.%u.proj.weight", layer, s->n_embd, s->n_layer_input);
    op->post_norm = build_vector(b, "blk.%u.post_norm.weight", layer, s->n_embd);
    return op;
}

void build_gemma4(builder *b)
{
    step_shape *s = &b->program.shape;
    gemma4 g = {0};
    b->varies = b->is_v_optional = b->has_own_scales = true;
    build_shape(b, STEP_NORM_RMS);
    read_layers(b, &g);
    build_rope(b, STEP_ROPE_SPLIT, false);
    b->head_dim = g.head_dim[1];
    build_rope_windowed(b, 10000.0f);
    for (int i = 0; i < 2; i++) g.ones[i] = build_ones(b, g.head_dim[i]);
    s->activation = STEP_GELU_GATED;
    s->embedding_scale = sqrtf((float)s->n_embd);
    s->logit_cap = build_f32_or(b, "final_logit_softcapping", 0);
    if (!b->status && s->logit_cap < 0) build_fail(b, "a soft cap of logits below 0");
    b->attention_scale = 1; /* whatever the key's value, as queries have a norm */
    s->n_layer_input = build_u32_or(b, "embedding_length_per_layer_input", 0, 1 << 16, 0);
    if (build_u32_or(b, "expert_count", 0, 1024, 0)) build_routing(b, STEP_ROUTE_SOFTMAX_TOP);
    build_embed(b);
    if (s->n_layer_input) layer_inputs(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        attention(b, &g, layer);
        step_op *last = feed_forward(b, layer);
        if (s->n_layer_input) last = layer_gate(b, layer);
        const float *scale = build_vector_optional(b, "blk.%u.layer_output_scale.weight", layer, 1);
        if (scale) last->output_scale = *scale;
    }
    s->head_dim = g.head_dim[0] > g.head_dim[1] ? g.head_dim[0] : g.head_dim[1];
    build_head(b);
}
