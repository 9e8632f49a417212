/* mla.c - attention by latents (MLA), by its usual names in GGUF files.
 *
 * Keys and values of all heads are products of one short row of a token, its latent.  Only the
 * latent is kept: the matrix for keys is applied to queries instead, and the matrix for values to
 * the weighted sum of latents, so that all heads attend to one key, whose first channels are the
 * value. Files have these matrices apart (attn_k_b, transposed, and attn_v_b) or, older ones, as
 * one in which each head has some rows for keys, then some for values (attn_kv_b). */
#include <math.h>

#include "model/build.h"

enum { RANK_MAX = 1 << 16, WIDTH_MAX = 1 << 16 };

/* For a layer: channels of a head's query that do not turn, of its value, of the latent, and of the
 * input of queries; 0: the layer's input. */
typedef struct {
    uint32_t n_plain, n_value, n_latent, n_low;
} latent_widths;

static latent_widths widths_of(builder *b)
{
    const step_shape *s = &b->program.shape;
    const uint32_t n_rot = s->ropes[0].n_rot;
    latent_widths w = {.n_latent = s->head_dim - n_rot};
    /* Older files use for the head the keys that newer ones use for the latent. */
    const uint32_t key = build_u32_or(b, "attention.key_length_mla", 1, WIDTH_MAX, 0);
    const uint32_t query = key ? key : build_u32(b, "attention.key_length", 1, WIDTH_MAX);
    w.n_value = build_u32(b, key ? "attention.value_length_mla" : "attention.value_length", 1,
                          WIDTH_MAX);
    w.n_low = build_u32_or(b, "attention.q_lora_rank", 0, RANK_MAX, 0);
    if (!b->status && query <= n_rot)
        build_fail(b, "heads of %u channels, of which %u turn: some must not", query, n_rot);
    w.n_plain = query - n_rot;
    return w;
}

/* YaRN: the scale of the product of queries and keys replaces the factor on both, as only a part of
 * them turns. */
static void scale_of(builder *b, uint32_t query)
{
    step_shape *s = &b->program.shape;
    const double less = (double)build_f32_or(b, "rope.scaling.yarn_log_multiplier", 0);
    const double factor = (double)build_f32_or(b, "rope.scaling.factor", 1);
    double by = 1;
    char key[96];
    view type = VIEW("");
    snprintf(key, sizeof key, "%s.rope.scaling.type", b->arch);
    gguf_get_string(b->file, key, &type);
    if (less != 0 && factor != 1 && view_equal(type, VIEW("yarn"))) {
        s->ropes[0].scale = build_f32_or(b, "rope.scaling.attn_factor", 1);
        by = (double)s->ropes[0].scale * (1 + less * log(factor)); /* the key has a tenth of it */
        if (!b->status && !(s->ropes[0].scale > 0 && by > 0 && by < 1e6))
            build_fail(b, "YaRN's factors are out of range");
    }
    b->attention_scale = (float)(by * by / sqrt((double)query));
}

void build_latents(builder *b)
{
    step_shape *s = &b->program.shape;
    const uint32_t n_latent = build_u32(b, "attention.kv_lora_rank", 1, RANK_MAX);
    const uint32_t n_rot = build_u32(b, "rope.dimension_count", 2, KERNEL_HEAD_MAX);
    if (b->status) return;
    if (n_latent + n_rot > KERNEL_HEAD_MAX || n_latent % 2 || n_rot % 2) {
        build_fail(b, "latents of %u and %u channels are not supported; even, together at most %d",
                   n_latent, n_rot, KERNEL_HEAD_MAX);
        return;
    }
    s->n_kv_heads = b->n_kv_heads = 1;
    s->head_dim = b->head_dim = n_latent + n_rot;
    build_rope(b, STEP_ROPE_ADJACENT, false);
    if (b->status) return;
    scale_of(b, widths_of(b).n_plain + n_rot);
}

static step_op *latent_op(builder *b, step_kind kind, uint32_t layer, const latent_widths *w)
{
    step_op *op = build_op(b, kind);
    op->layer = layer;
    op->n_heads = b->n_heads;
    op->n_kv_heads = 1;
    op->head_dim = b->head_dim;
    op->n_latent = w->n_latent;
    op->attention_scale = b->attention_scale;
    return op;
}

/* For every head the matrix for keys, transposed, or the one for values. */
static const model_matrix *of_heads(builder *b, uint32_t layer, const latent_widths *w,
                                    bool is_value)
{
    static const char both[] = "blk.%u.attn_kv_b.weight";
    const char *name = is_value ? "blk.%u.attn_v_b.weight" : "blk.%u.attn_k_b.weight";
    const uint32_t rows = is_value ? w->n_value : w->n_latent;
    const uint32_t cols = is_value ? w->n_latent : w->n_plain;
    if (b->status || build_has(b, name, layer) || !build_has(b, both, layer))
        return build_experts(b, name, layer, b->n_heads, rows, cols, 0, rows);
    const model_matrix head = {.rows = rows,
                               .cols = cols,
                               .source_row = is_value ? w->n_plain : 0,
                               .source_rows = w->n_plain + w->n_value,
                               .is_transposed = !is_value};
    return build_heads_of(b, both, layer, b->n_heads, &head);
}

void build_attention_latent(builder *b, uint32_t layer)
{
    const step_shape *s = &b->program.shape;
    const latent_widths w = widths_of(b);
    const uint32_t n_q = b->n_heads * (w.n_plain + s->ropes[0].n_rot);
    step_op *op = latent_op(b, STEP_LATENT, layer, &w), *const in = op;
    op->norm = build_vector(b, "blk.%u.attn_norm.weight", layer, s->n_embd);
    op->w[0] = build_matrix(b, "blk.%u.attn_kv_a_mqa.weight", layer, b->head_dim, s->n_embd);
    op->head_norm[0] = build_vector(b, "blk.%u.attn_kv_a_norm.weight", layer, w.n_latent);
    op = latent_op(b, STEP_LATENT_Q, layer, &w);
    if (w.n_low) {
        in->w[1] = build_matrix(b, "blk.%u.attn_q_a.weight", layer, w.n_low, s->n_embd);
        in->head_norm[1] = build_vector(b, "blk.%u.attn_q_a_norm.weight", layer, w.n_low);
        op->w[0] = build_matrix(b, "blk.%u.attn_q_b.weight", layer, n_q, w.n_low);
    } else {
        op->norm = in->norm;
        op->w[0] = build_matrix(b, "blk.%u.attn_q.weight", layer, n_q, s->n_embd);
    }
    op = latent_op(b, STEP_LATENT_QUERY, layer, &w);
    op->w[0] = of_heads(b, layer, &w, false);
    latent_op(b, STEP_ATTEND, layer, &w);
    op = latent_op(b, STEP_LATENT_VALUE, layer, &w);
    op->w[0] = of_heads(b, layer, &w, true);
    op = build_op(b, STEP_OUT);
    op->w[0] = build_matrix(b, "blk.%u.attn_output.weight", layer, s->n_embd,
                            b->n_heads * w.n_value);
}
