/* transformer.c - steps shared by the architectures, by their usual names in GGUF files. */
#include <math.h>

#include "model/build.h"

enum {
    WIDTH_MAX = 1 << 20,
    CONTEXT_MAX = 1 << 24,
    HEADS_MAX = 4096,
    HEAD_DIM_MAX = KERNEL_HEAD_MAX,
};

void build_shape(builder *b, step_norm_kind norm)
{
    step_shape *s = &b->program.shape;
    s->n_layers = build_u32(b, "block_count", 1, MODEL_LAYERS_MAX);
    s->n_embd = build_u32(b, "embedding_length", 1, WIDTH_MAX);
    s->n_ff = build_u32_or(b, "feed_forward_length", 0, WIDTH_MAX, 0);
    s->n_heads = build_u32(b, "attention.head_count", 1, HEADS_MAX);
    s->n_kv_heads = build_u32_or(b, "attention.head_count_kv", 1, HEADS_MAX, s->n_heads);
    s->context_tokens = build_u32(b, "context_length", 1, CONTEXT_MAX);
    if (b->status) return;
    s->head_dim = build_u32_or(b, "attention.key_length", 2, HEAD_DIM_MAX, s->n_embd / s->n_heads);
    uint32_t value_dim = build_u32_or(b, "attention.value_length", 2, HEAD_DIM_MAX, s->head_dim);
    if (b->status) return;
    if (s->head_dim < 2 || s->head_dim > HEAD_DIM_MAX || s->head_dim % 2)
        build_fail(b, "a head of %u channels is not supported; even, 2 to %u", s->head_dim,
                   HEAD_DIM_MAX);
    if (value_dim != s->head_dim && !b->is_latent)
        build_fail(b, "keys of %u and values of %u channels: they must be equal", s->head_dim,
                   value_dim);
    s->norm_kind = norm;
    s->norm_eps = build_f32(b, norm == STEP_NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                                     : "attention.layer_norm_epsilon");
    b->attention_scale = build_f32_or(b, "attention.scale", 0);
    if (b->attention_scale == 0) b->attention_scale = 1.0f / sqrtf((float)s->head_dim);
    s->embedding_scale = s->residual_scale = s->logit_scale = 1;
    b->n_heads = s->n_heads;
    b->n_kv_heads = s->n_kv_heads;
    b->head_dim = s->head_dim;
    b->n_ff = s->n_ff;

    const gguf_tensor *embd = gguf_find_tensor(b->file, "token_embd.weight");
    if (!embd && b->options->of) return; /* drafters.c */
    if (!embd) {
        build_fail(b, "tensor token_embd.weight is missing");
        return;
    }
    if (embd->dims[1] > INT32_MAX / 2) build_fail(b, "a vocabulary of that size is not supported");
    s->n_vocab = (uint32_t)embd->dims[1];
}

/* YaRN's blend (arXiv 2309.00071, section 3.2): channels that turn slowly are interpolated, those
 * that turn fast are left alone, with a linear ramp between low and high. */
typedef struct {
    double factor, low, high;
} yarn;

static double yarn_bound(double n_rot, double original, double turns, double base)
{
    return n_rot * log(original / (turns * 2 * M_PI)) / (2 * log(base));
}

static void build_yarn(builder *b, yarn *y, step_rope_table *t, double base, double factor,
                       bool exact)
{
    uint32_t original = build_u32_or(b, "rope.scaling.original_context_length", 1, CONTEXT_MAX,
                                     b->program.shape.context_tokens);
    double fast = (double)build_f32_or(b, "rope.scaling.yarn_beta_fast", 32.0f);
    double slow = (double)build_f32_or(b, "rope.scaling.yarn_beta_slow", 1.0f);
    double attn = (double)build_f32_or(b, "rope.scaling.attn_factor", 1.0f);
    double less = (double)build_f32_or(b, "rope.scaling.yarn_log_multiplier", 0.0f);
    if (b->status) return;
    y->factor = factor;
    y->low = yarn_bound(t->n_rot, original, fast, base);
    y->high = yarn_bound(t->n_rot, original, slow, base);
    if (!exact) {
        y->low = floor(y->low);
        y->high = ceil(y->high);
    }
    y->low = fmax(y->low, 0);
    y->high = fmin(y->high, (double)t->n_rot - 1);
    t->scale = (float)(attn * (1 + 0.1 * log(factor)) / (1 + 0.1 * less * log(factor)));
    if (!(t->scale > 0 && t->scale < 1e6f)) build_fail(b, "YaRN's factors are out of range");
}

static double yarn_frequency(const yarn *y, double frequency, uint32_t j)
{
    double ramp = (j - y->low) / fmax(0.001, y->high - y->low);
    ramp = fmin(fmax(ramp, 0), 1);
    return frequency / y->factor * ramp + frequency * (1 - ramp);
}

/* Turning channels, of a key or all of a head. */
static uint32_t rope_channels(builder *b, const char *key, uint32_t otherwise)
{
    uint32_t n = build_u32_or(b, key, 2, b->head_dim, otherwise);
    if (!b->status && n % 2) build_fail(b, "%s %u is odd", key, n);
    return n;
}

static step_rope_table *add_rope(builder *b, uint32_t n_rot)
{
    step_shape *s = &b->program.shape;
    CHECK(s->n_ropes < STEP_ROPES_MAX);
    step_rope_table *t = &s->ropes[s->n_ropes++];
    *t = (step_rope_table){.n_rot = n_rot, .scale = 1};
    return t;
}

static double *take_frequencies(builder *b, step_rope_table *t)
{
    double *frequency = arena_take(&b->vectors, t->n_rot / 2 * sizeof *frequency, MEMORY_ALIGN);
    CHECK(frequency);
    t->frequency = frequency;
    return frequency;
}

void build_rope(builder *b, step_rope kind, bool yarn_exact)
{
    step_shape *s = &b->program.shape;
    if (b->status) return;
    s->rope = kind;
    step_rope_table *t = add_rope(b, rope_channels(b, "rope.dimension_count", s->head_dim));
    double base = (double)build_f32_or(b, "rope.freq_base", 10000.0f);
    double factor = (double)build_f32_or(b, "rope.scaling.factor", 1.0f);
    if (!b->status && (base <= 1 || factor <= 0)) build_fail(b, "rope base or factor out of range");
    if (b->status) return;

    char key[128];
    view type = VIEW("none");
    snprintf(key, sizeof key, "%s.rope.scaling.type", b->arch);
    gguf_get_string(b->file, key, &type);
    yarn y = {1, 0, 1};
    bool is_yarn = view_equal(type, VIEW("yarn")) && factor != 1;
    if (is_yarn) build_yarn(b, &y, t, base, factor, yarn_exact);
    if (view_equal(type, VIEW("longrope"))) build_fail(b, "longrope scaling is not supported");
    const float *divisor = build_vector_optional(b, "rope_freqs.weight", 0, t->n_rot / 2);
    if (b->status) return;

    double *frequency = take_frequencies(b, t);
    for (uint32_t j = 0; j < t->n_rot / 2; j++) {
        double f = pow(base, -2.0 * j / t->n_rot);
        if (divisor) f /= (double)divisor[j];
        if (is_yarn) f = yarn_frequency(&y, f, j);
        if (view_equal(type, VIEW("linear"))) f /= factor;
        frequency[j] = f;
    }
}

void build_rope_windowed(builder *b, float base)
{
    if (b->status) return;
    const uint32_t all = b->program.shape.ropes[0].n_rot;
    const uint32_t usual = all < b->head_dim ? all : b->head_dim;
    step_rope_table *t = add_rope(b, rope_channels(b, "rope.dimension_count_swa", usual));
    base = build_f32_or(b, "rope.freq_base_swa", base);
    if (!b->status && base <= 1) build_fail(b, "rope.freq_base_swa is out of range");
    if (b->status) return;
    double *frequency = take_frequencies(b, t);
    for (uint32_t j = 0; j < t->n_rot / 2; j++)
        frequency[j] = pow((double)base, -2.0 * j / t->n_rot);
}

void build_windows(builder *b, uint32_t every, uint32_t *windows)
{
    const char *name = "attention.sliding_window_pattern";
    const uint32_t n = b->program.shape.n_layers;
    uint32_t window = build_u32(b, "attention.sliding_window", 1, CONTEXT_MAX);
    char key[128];
    snprintf(key, sizeof key, "%s.%s", b->arch, name);
    const gguf_value *pattern = gguf_find(b->file, key);
    const bool is_array = pattern && pattern->type == GGUF_ARRAY;
    if (!is_array) every = build_u32_or(b, name, 0, MODEL_LAYERS_MAX, every);
    if (b->status) return;
    if (is_array && (pattern->n_items != n || pattern->item_type == GGUF_STRING ||
                     pattern->item_type == GGUF_ARRAY)) {
        build_fail(b, "key %s must have a number or a flag for each of %u layers", key, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        bool is_windowed = is_array ? gguf_item_i64(pattern, i) != 0
                                    : every > 0 && i % every < every - 1;
        windows[i] = is_windowed ? window : 0;
    }
}

void build_embed(builder *b)
{
    step_shape *s = &b->program.shape;
    step_op *op = build_op(b, STEP_EMBED);
    op->w[0] = build_matrix(b, "token_embd.weight", 0, s->n_vocab, s->n_embd);
}

/* Q, K and V, as three tensors or as one with their rows one after the other. */
static void take_qkv(builder *b, step_op *op, uint32_t n_q, uint32_t n_kv)
{
    const uint32_t n_embd = b->qkv_cols ? b->qkv_cols : b->program.shape.n_embd;
    const uint32_t layer = op->layer, all = n_q + 2 * n_kv;
    if (!op->is_gated && build_has(b, "blk.%u.attn_qkv.weight", layer)) {
        const char *name = "blk.%u.attn_qkv.weight";
        op->w[0] = build_experts(b, name, layer, 1, n_q, n_embd, 0, all);
        op->w[1] = build_experts(b, name, layer, 1, n_kv, n_embd, n_q, all);
        op->w[2] = build_experts(b, name, layer, 1, n_kv, n_embd, n_q + n_kv, all);
        const float *bias = build_vector_optional(b, "blk.%u.attn_qkv.bias", layer, all);
        for (uint32_t i = 0; bias && i < 3; i++)
            op->bias[i] = bias + (i == 0 ? 0 : i == 1 ? n_q : n_q + n_kv);
        return;
    }
    if (op->is_gated) n_q *= 2;
    op->w[0] = build_matrix(b, "blk.%u.attn_q.weight", layer, n_q, n_embd);
    op->w[1] = build_matrix(b, "blk.%u.attn_k.weight", layer, n_kv, n_embd);
    if (!b->is_v_optional || build_has(b, "blk.%u.attn_v.weight", layer))
        op->w[2] = build_matrix(b, "blk.%u.attn_v.weight", layer, n_kv, n_embd);
    op->bias[0] = build_vector_optional(b, "blk.%u.attn_q.bias", layer, n_q);
    op->bias[1] = build_vector_optional(b, "blk.%u.attn_k.bias", layer, n_kv);
    op->bias[2] = build_vector_optional(b, "blk.%u.attn_v.bias", layer, n_kv);
}

static step_op *attention(builder *b, uint32_t layer, uint32_t window, bool is_gated, bool has_kv)
{
    step_shape *s = &b->program.shape;
    const uint32_t n_q = b->n_heads * b->head_dim, n_kv = b->n_kv_heads * b->head_dim;
    if (!b->status && (!b->n_kv_heads || b->n_heads % b->n_kv_heads))
        build_fail(b, "%u query heads cannot share %u KV heads", b->n_heads, b->n_kv_heads);
    step_op *op = build_op(b, STEP_QKV), *const qkv = op;
    op->layer = layer;
    op->n_heads = b->n_heads;
    op->n_kv_heads = b->n_kv_heads;
    op->head_dim = b->head_dim;
    op->window = window;
    op->is_gated = is_gated;
    op->attention_scale = b->attention_scale;
    op->norm = build_vector(b, "blk.%u.attn_norm.weight", layer, s->n_embd);
    op->norm_bias = build_vector_optional(b, "blk.%u.attn_norm.bias", layer, s->n_embd);
    if (has_kv)
        take_qkv(b, op, n_q, n_kv);
    else
        op->w[0] = build_matrix(b, "blk.%u.attn_q.weight", layer, n_q, s->n_embd);
    op->is_row_norm = b->is_row_norm;
    op->head_norm[0] = build_vector_optional(b, "blk.%u.attn_q_norm.weight", layer,
                                             b->is_row_norm ? n_q : b->head_dim);
    if (has_kv)
        op->head_norm[1] = build_vector_optional(b, "blk.%u.attn_k_norm.weight", layer,
                                                 b->is_row_norm ? n_kv : b->head_dim);

    op = build_op(b, STEP_ATTEND);
    op->layer = layer;
    op->n_heads = b->n_heads;
    op->n_kv_heads = b->n_kv_heads;
    op->head_dim = b->head_dim;
    op->window = window;
    op->is_gated = is_gated;
    op->sinks = build_vector_optional(b, "blk.%u.attn_sinks.weight", layer, b->n_heads);

    op = build_op(b, STEP_OUT);
    op->w[0] = build_matrix(b, "blk.%u.attn_output.weight", layer, s->n_embd, n_q);
    op->bias[0] = build_vector_optional(b, "blk.%u.attn_output.bias", layer, s->n_embd);
    return qkv;
}

step_op *build_attention(builder *b, uint32_t layer, uint32_t window)
{
    return attention(b, layer, window, false, true);
}

step_op *build_attention_sharing(builder *b, uint32_t layer, uint32_t window, uint32_t of)
{
    step_op *qkv = attention(b, layer, window, false, false);
    qkv->layer = of;
    return qkv;
}

step_op *build_attention_gated(builder *b, uint32_t layer)
{
    return attention(b, layer, 0, true, true);
}

step_op *build_ffn(builder *b, uint32_t layer, const char *norm_name)
{
    step_shape *s = &b->program.shape;
    const bool gated = step_is_gated(s->activation);
    if (!b->status && b->n_ff == 0) build_fail(b, "key %s.feed_forward_length is missing", b->arch);
    step_op *op = build_op(b, STEP_FFN_UP), *const up = op;
    op->norm = build_vector(b, norm_name, layer, s->n_embd);
    if (s->norm_kind == STEP_NORM_LAYER)
        op->norm_bias = build_vector_optional(b, "blk.%u.ffn_norm.bias", layer, s->n_embd);
    if (gated) {
        op->w[0] = build_matrix(b, "blk.%u.ffn_gate.weight", layer, b->n_ff, s->n_embd);
        op->bias[0] = build_vector_optional(b, "blk.%u.ffn_gate.bias", layer, b->n_ff);
    }
    op->w[gated] = build_matrix(b, "blk.%u.ffn_up.weight", layer, b->n_ff, s->n_embd);
    op->bias[gated] = build_vector_optional(b, "blk.%u.ffn_up.bias", layer, b->n_ff);

    op = build_op(b, STEP_FFN_DOWN);
    op->w[0] = build_matrix(b, "blk.%u.ffn_down.weight", layer, s->n_embd, b->n_ff);
    op->bias[0] = build_vector_optional(b, "blk.%u.ffn_down.bias", layer, s->n_embd);
    return up;
}

static void build_shared_expert(builder *b, uint32_t layer)
{
    step_shape *s = &b->program.shape;
    const uint32_t n_ff = b->n_ff_shared;
    const bool gated = step_is_gated(s->activation);
    step_op *op = build_op(b, STEP_FFN_UP);
    if (gated) op->w[0] = build_matrix(b, "blk.%u.ffn_gate_shexp.weight", layer, n_ff, s->n_embd);
    op->w[gated] = build_matrix(b, "blk.%u.ffn_up_shexp.weight", layer, n_ff, s->n_embd);
    op = build_op(b, STEP_FFN_DOWN);
    op->is_gated = b->is_shared_gated;
    op->w[0] = build_matrix(b, "blk.%u.ffn_down_shexp.weight", layer, s->n_embd, n_ff);
}

void build_routing(builder *b, step_routing routing)
{
    static const step_routing of_key[] = {0, STEP_ROUTE_SOFTMAX_TOP, STEP_ROUTE_SIGMOID_TOP,
                                          STEP_ROUTE_TOP_SOFTMAX};
    step_shape *s = &b->program.shape;
    s->n_experts = build_u32(b, "expert_count", 1, 1024);
    s->n_experts_used = build_u32(b, "expert_used_count", 1, s->n_experts ? s->n_experts : 1);
    s->n_ff_expert = build_u32_or(b, "expert_feed_forward_length", 1, WIDTH_MAX, s->n_ff);
    b->n_ff_expert = s->n_ff_expert;
    b->n_experts_used = s->n_experts_used;
    if (!b->status && s->n_ff_expert == 0)
        build_fail(b, "key %s.expert_feed_forward_length is missing", b->arch);
    s->routing_scale = build_f32_or(b, "expert_weights_scale", 1);
    if (s->routing_scale == 0) s->routing_scale = 1;
    uint32_t key = build_u32_or(b, "expert_gating_func", 0, ARRAY_LEN(of_key) - 1, 0);
    s->routing = key ? of_key[key] : routing;
    s->weights_sum_to_one = build_bool_or(b, "expert_weights_norm", true);
    s->n_expert_groups = build_u32_or(b, "expert_group_count", 0, s->n_experts, 0);
    s->n_groups_used = build_u32_or(b, "expert_group_used_count", 0, s->n_expert_groups, 0);
    if (b->status || s->n_expert_groups <= 1 || s->n_groups_used == s->n_expert_groups)
        s->n_expert_groups = s->n_groups_used = 0; /* no choice among them */
    if (b->status || !s->n_expert_groups) return;
    if (s->n_experts % s->n_expert_groups || s->n_groups_used == 0 ||
        s->n_experts / s->n_expert_groups * s->n_groups_used < s->n_experts_used)
        build_fail(b, "%u experts cannot be chosen from %u of %u groups of %u experts",
                   s->n_experts_used, s->n_groups_used, s->n_expert_groups, s->n_experts);
}

step_op *build_experts_ffn(builder *b, uint32_t layer, const char *norm_name)
{
    step_shape *s = &b->program.shape;
    uint32_t n = s->n_experts, n_ff = b->n_ff_expert, n_embd = s->n_embd;
    step_op *op = build_op(b, STEP_ROUTE);
    op->n_used = b->n_experts_used;
    op->norm = build_vector(b, norm_name, layer, n_embd);
    op->w[0] = build_matrix(b, "blk.%u.ffn_gate_inp.weight", layer, n, n_embd);
    op->bias[0] = build_vector_optional(b, "blk.%u.ffn_gate_inp.bias", layer, n);
    op->choice_bias = build_vector_optional(b, "blk.%u.exp_probs_b.bias", layer, n);
    if (b->is_shared_gated)
        op->w[1] = build_matrix(b, "blk.%u.ffn_gate_inp_shexp.weight", layer, 1, n_embd);
    if (b->n_ff_shared) build_shared_expert(b, layer);
    const uint32_t latent = b->n_expert_latent, width = latent ? latent : n_embd;
    if (latent) {
        op = build_op(b, STEP_EXPERTS_IN);
        op->w[0] = build_matrix(b, "blk.%u.ffn_latent_down.weight", layer, latent, n_embd);
    }

    op = build_op(b, STEP_EXPERTS_UP);
    op->n_used = b->n_experts_used;
    op->is_narrow = latent > 0;
    step_op *const up = op;
    const bool gated = step_is_gated(s->activation);
    bool fused = gated && build_has(b, "blk.%u.ffn_gate_up_exps.weight", layer);
    if (fused) {
        const char *name = "blk.%u.ffn_gate_up_exps.weight";
        op->w[0] = build_experts(b, name, layer, n, n_ff, width, 0, 2 * n_ff);
        op->w[1] = build_experts(b, name, layer, n, n_ff, width, n_ff, 2 * n_ff);
    } else {
        const char *gate = "blk.%u.ffn_gate_exps.weight", *ups = "blk.%u.ffn_up_exps.weight";
        if (gated) op->w[0] = build_experts(b, gate, layer, n, n_ff, width, 0, n_ff);
        op->w[gated] = build_experts(b, ups, layer, n, n_ff, width, 0, n_ff);
    }
    if (fused && build_has(b, "blk.%u.ffn_gate_up_exps.bias", layer))
        build_fail(b, "a bias on fused gate and up experts is not supported");
    if (gated)
        op->bias[0] =
            build_vector_optional(b, "blk.%u.ffn_gate_exps.bias", layer, (uint64_t)n * n_ff);
    op->bias[gated] =
        build_vector_optional(b, "blk.%u.ffn_up_exps.bias", layer, (uint64_t)n * n_ff);

    op = build_op(b, STEP_EXPERTS_DOWN);
    op->n_used = b->n_experts_used;
    op->is_narrow = latent > 0;
    op->w[0] = build_experts(b, "blk.%u.ffn_down_exps.weight", layer, n, width, n_ff, 0, width);
    op->bias[0] =
        build_vector_optional(b, "blk.%u.ffn_down_exps.bias", layer, (uint64_t)n * width);
    if (latent) {
        op = build_op(b, STEP_OUT);
        op->w[0] = build_matrix(b, "blk.%u.ffn_latent_up.weight", layer, n_embd, latent);
    }
    return up;
}

void build_head(builder *b)
{
    step_shape *s = &b->program.shape;
    bool tied = !build_has(b, "output.weight", 0);
    step_op *op = build_op(b, STEP_HEAD);
    op->norm = build_vector(b, "output_norm.weight", 0, s->n_embd);
    op->norm_bias = build_vector_optional(b, "output_norm.bias", 0, s->n_embd);
    op->w[0] = build_matrix(b, tied ? "token_embd.weight" : "output.weight", 0, s->n_vocab,
                            s->n_embd);
    op->bias[0] = build_vector_optional(b, "output.bias", 0, s->n_vocab);
    build_head_options(b, op, tied);
}
