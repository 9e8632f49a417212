/* transformer.c - the steps that the architectures share, by their usual names in GGUF files. */
#include <math.h>

#include "model/build.h"

enum { WIDTH_MAX = 1 << 20, CONTEXT_MAX = 1 << 24, HEADS_MAX = 4096, HEAD_DIM_MAX = 512 };

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
    if (s->n_heads % s->n_kv_heads)
        build_fail(b, "%u query heads cannot share %u KV heads", s->n_heads, s->n_kv_heads);
    if (s->head_dim < 2 || s->head_dim > HEAD_DIM_MAX || s->head_dim % 2)
        build_fail(b, "a head of %u channels is not supported; even, 2 to %u", s->head_dim,
                   HEAD_DIM_MAX);
    if (value_dim != s->head_dim)
        build_fail(b, "keys of %u and values of %u channels: they must be equal", s->head_dim,
                   value_dim);
    s->norm_kind = norm;
    s->norm_eps = build_f32(b, norm == STEP_NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                                     : "attention.layer_norm_epsilon");
    s->attention_scale = build_f32_or(b, "attention.scale", 0);
    if (s->attention_scale == 0) s->attention_scale = 1.0f / sqrtf((float)s->head_dim);

    const gguf_tensor *embd = gguf_find_tensor(b->file, "token_embd.weight");
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

static void build_yarn(builder *b, yarn *y, double base, double factor, bool exact)
{
    step_shape *s = &b->program.shape;
    uint32_t original = build_u32_or(b, "rope.scaling.original_context_length", 1, CONTEXT_MAX,
                                     s->context_tokens);
    double fast = (double)build_f32_or(b, "rope.scaling.yarn_beta_fast", 32.0f);
    double slow = (double)build_f32_or(b, "rope.scaling.yarn_beta_slow", 1.0f);
    double attn = (double)build_f32_or(b, "rope.scaling.attn_factor", 1.0f);
    if (b->status) return;
    y->factor = factor;
    y->low = yarn_bound(s->n_rot, original, fast, base);
    y->high = yarn_bound(s->n_rot, original, slow, base);
    if (!exact) {
        y->low = floor(y->low);
        y->high = ceil(y->high);
    }
    y->low = fmax(y->low, 0);
    y->high = fmin(y->high, (double)s->n_rot - 1);
    s->rope_scale = (float)(attn * (1 + 0.1 * log(factor)));
}

static double yarn_frequency(const yarn *y, double frequency, uint32_t j)
{
    double ramp = (j - y->low) / fmax(0.001, y->high - y->low);
    ramp = fmin(fmax(ramp, 0), 1);
    return frequency / y->factor * ramp + frequency * (1 - ramp);
}

void build_rope(builder *b, step_rope kind, bool yarn_exact)
{
    step_shape *s = &b->program.shape;
    if (b->status) return;
    s->rope = kind;
    s->rope_scale = 1;
    s->n_rot = build_u32_or(b, "rope.dimension_count", 2, s->head_dim, s->head_dim);
    if (!b->status && s->n_rot % 2) build_fail(b, "rope.dimension_count %u is odd", s->n_rot);
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
    if (is_yarn) build_yarn(b, &y, base, factor, yarn_exact);
    if (view_equal(type, VIEW("longrope"))) build_fail(b, "longrope scaling is not supported");
    const float *divisor = build_vector_optional(b, "rope_freqs.weight", 0, s->n_rot / 2);
    if (b->status) return;

    double *frequency = arena_take(&b->vectors, s->n_rot / 2 * sizeof *frequency, MEMORY_ALIGN);
    CHECK(frequency);
    for (uint32_t j = 0; j < s->n_rot / 2; j++) {
        double f = pow(base, -2.0 * j / s->n_rot);
        if (divisor) f /= (double)divisor[j];
        if (is_yarn) f = yarn_frequency(&y, f, j);
        if (view_equal(type, VIEW("linear"))) f /= factor;
        frequency[j] = f;
    }
    s->rope_frequency = frequency;
}

void build_embed(builder *b)
{
    step_shape *s = &b->program.shape;
    step_op *op = build_op(b, STEP_EMBED);
    op->w[0] = build_matrix(b, "token_embd.weight", 0, s->n_vocab, s->n_embd);
}

void build_attention(builder *b, uint32_t layer, uint32_t window)
{
    step_shape *s = &b->program.shape;
    uint32_t n_q = s->n_heads * s->head_dim, n_kv = s->n_kv_heads * s->head_dim;
    step_op *op = build_op(b, STEP_QKV);
    op->layer = layer;
    op->window = window;
    op->norm = build_vector(b, "blk.%u.attn_norm.weight", layer, s->n_embd);
    op->norm_bias = build_vector_optional(b, "blk.%u.attn_norm.bias", layer, s->n_embd);
    op->w[0] = build_matrix(b, "blk.%u.attn_q.weight", layer, n_q, s->n_embd);
    op->w[1] = build_matrix(b, "blk.%u.attn_k.weight", layer, n_kv, s->n_embd);
    op->w[2] = build_matrix(b, "blk.%u.attn_v.weight", layer, n_kv, s->n_embd);
    op->bias[0] = build_vector_optional(b, "blk.%u.attn_q.bias", layer, n_q);
    op->bias[1] = build_vector_optional(b, "blk.%u.attn_k.bias", layer, n_kv);
    op->bias[2] = build_vector_optional(b, "blk.%u.attn_v.bias", layer, n_kv);
    op->head_norm[0] = build_vector_optional(b, "blk.%u.attn_q_norm.weight", layer, s->head_dim);
    op->head_norm[1] = build_vector_optional(b, "blk.%u.attn_k_norm.weight", layer, s->head_dim);

    op = build_op(b, STEP_ATTEND);
    op->layer = layer;
    op->window = window;
    op->sinks = build_vector_optional(b, "blk.%u.attn_sinks.weight", layer, s->n_heads);

    op = build_op(b, STEP_OUT);
    op->w[0] = build_matrix(b, "blk.%u.attn_output.weight", layer, s->n_embd, n_q);
    op->bias[0] = build_vector_optional(b, "blk.%u.attn_output.bias", layer, s->n_embd);
}

void build_ffn(builder *b, uint32_t layer, const char *norm_name)
{
    step_shape *s = &b->program.shape;
    bool gated = s->activation != STEP_GELU;
    if (!b->status && s->n_ff == 0) build_fail(b, "key %s.feed_forward_length is missing", b->arch);
    step_op *op = build_op(b, STEP_FFN_UP);
    op->norm = build_vector(b, norm_name, layer, s->n_embd);
    if (s->norm_kind == STEP_NORM_LAYER)
        op->norm_bias = build_vector_optional(b, "blk.%u.ffn_norm.bias", layer, s->n_embd);
    if (gated) {
        op->w[0] = build_matrix(b, "blk.%u.ffn_gate.weight", layer, s->n_ff, s->n_embd);
        op->bias[0] = build_vector_optional(b, "blk.%u.ffn_gate.bias", layer, s->n_ff);
    }
    op->w[gated] = build_matrix(b, "blk.%u.ffn_up.weight", layer, s->n_ff, s->n_embd);
    op->bias[gated] = build_vector_optional(b, "blk.%u.ffn_up.bias", layer, s->n_ff);

    op = build_op(b, STEP_FFN_DOWN);
    op->w[0] = build_matrix(b, "blk.%u.ffn_down.weight", layer, s->n_embd, s->n_ff);
    op->bias[0] = build_vector_optional(b, "blk.%u.ffn_down.bias", layer, s->n_embd);
}

void build_experts_ffn(builder *b, uint32_t layer, const char *norm_name)
{
    step_shape *s = &b->program.shape;
    uint32_t n = s->n_experts, n_ff = s->n_ff_expert, n_embd = s->n_embd;
    step_op *op = build_op(b, STEP_ROUTE);
    op->norm = build_vector(b, norm_name, layer, n_embd);
    op->w[0] = build_matrix(b, "blk.%u.ffn_gate_inp.weight", layer, n, n_embd);
    op->bias[0] = build_vector_optional(b, "blk.%u.ffn_gate_inp.bias", layer, n);

    op = build_op(b, STEP_EXPERTS_UP);
    bool fused = build_has(b, "blk.%u.ffn_gate_up_exps.weight", layer);
    if (fused) {
        const char *name = "blk.%u.ffn_gate_up_exps.weight";
        op->w[0] = build_experts(b, name, layer, n, n_ff, n_embd, 0, 2 * n_ff);
        op->w[1] = build_experts(b, name, layer, n, n_ff, n_embd, n_ff, 2 * n_ff);
    } else {
        op->w[0] = build_experts(b, "blk.%u.ffn_gate_exps.weight", layer, n, n_ff, n_embd, 0, n_ff);
        op->w[1] = build_experts(b, "blk.%u.ffn_up_exps.weight", layer, n, n_ff, n_embd, 0, n_ff);
    }
    if (fused && build_has(b, "blk.%u.ffn_gate_up_exps.bias", layer))
        build_fail(b, "a bias on fused gate and up experts is not supported");
    op->bias[0] =
        build_vector_optional(b, "blk.%u.ffn_gate_exps.bias", layer, (uint64_t)n * n_ff);
    op->bias[1] = build_vector_optional(b, "blk.%u.ffn_up_exps.bias", layer, (uint64_t)n * n_ff);

    op = build_op(b, STEP_EXPERTS_DOWN);
    op->w[0] =
        build_experts(b, "blk.%u.ffn_down_exps.weight", layer, n, n_embd, n_ff, 0, n_embd);
    op->bias[0] =
        build_vector_optional(b, "blk.%u.ffn_down_exps.bias", layer, (uint64_t)n * n_embd);
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
