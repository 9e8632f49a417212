/* eagle3.c - EAGLE-3: a head in a file of its own, made for one model, that says the next token but
 * one: from the inputs of some layers of that model, joined by one matrix, and an embedding.
 *
 * Applied repeatedly, it reads its own output in place of those.  What its file lacks of tables
 * is the model's (docs/decisions/0120-a-drafter-that-reads-three-layers.md).  EAGLE-3.1 is the same
 * with two more norms (docs/decisions/0169-norms-of-eagle-3-1.md). */
#include "model/build.h"

/* A norm for each tap, one after the other. */
static const float *build_tap_norms(builder *b)
{
    const step_shape *s = &b->program.shape;
    float *all = b->status ? NULL : arena_take(&b->vectors, (size_t)s->n_taps * s->n_tapped *
                                                                sizeof *all, MEMORY_ALIGN);
    for (uint32_t i = 0; i < s->n_taps && !b->status; i++) {
        const float *one = build_vector(b, "fc_norm.%u.weight", i, s->n_tapped);
        if (one && all) memcpy(all + (size_t)i * s->n_tapped, one, s->n_tapped * sizeof *all);
    }
    if (!b->status && !all)
        b->status = error_set(b->err, CERIUM_ERR_MEMORY, "%s: no memory for the weights",
                              gguf_path(b->file));
    return all;
}

static void build_input(builder *b, const model_matrix *embed, const float *norm)
{
    const step_shape *s = &b->program.shape;
    const uint32_t n_in = s->n_taps * s->n_tapped;
    step_op *op = build_op(b, STEP_EMBED);
    op->w[0] = embed;
    op->norms_taps = build_has(b, "fc_norm.%u.weight", 0);
    if (op->norms_taps)
        op->norm = build_tap_norms(b);
    else if (build_bool_or(b, "norm_before_fc", build_has(b, "enc.output_norm.weight", 0)))
        op->norm = build_vector(b, "enc.output_norm.weight", 0, n_in);
    op->head_norm[0] = norm;
    op = build_op(b, STEP_OUT);
    op->w[0] = build_matrix(b, "fc.weight", 0, s->n_embd, n_in);
    op->post_norm = norm;
}

/* The first layer reads the embedding, too; those after it are a Llama's. */
static void build_layers(builder *b, const model_matrix *embed, const float *norm, bool is_before)
{
    step_shape *s = &b->program.shape;
    for (uint32_t i = 0; i < s->n_layers && !b->status; i++) {
        b->qkv_cols = i == 0 ? 2 * s->n_embd : 0;
        step_op *op = build_attention(b, i, 0);
        if (i == 0) op->beside = embed;
        if (i == 0) op->beside_norm = is_before ? NULL : norm;
        build_ffn(b, i, "blk.%u.ffn_norm.weight");
    }
}

void build_eagle3(builder *b)
{
    step_shape *s = &b->program.shape;
    const step_program *of = b->options->of;
    if (!of) {
        build_fail(b, "an EAGLE-3 head drafts for another model, and is no model: see "
                   "--draft-model");
        return;
    }
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_ADJACENT, false);
    s->activation = STEP_SILU_GATED;
    s->n_tapped = build_u32(b, "target_hidden_size", 1, 1 << 20);
    if (!b->status && s->n_tapped != of->shape.n_embd)
        build_fail(b, "made for a model %u wide, and this one is %u", s->n_tapped,
                   of->shape.n_embd);
    build_taps(b, gguf_find(b->file, "eagle3.target_layers") ? "target_layers" : "extract_layers",
               1, MODEL_TAPS_MAX);
    build_said(b, of->shape.n_vocab);
    if (b->status) return;
    const model_matrix *embed = build_table_of(b, "token_embd.weight", of->shape.n_vocab,
                                               of->ops[0].w[0]);
    const float *norm = build_vector(b, "blk.%u.attn_norm_2.weight", 0, s->n_embd);
    const bool is_before = build_bool_or(b, "norm_before_residual", false);
    s->norms_state = build_bool_or(b, "norm_output", false);
    build_input(b, embed, is_before ? norm : NULL);
    build_layers(b, embed, norm, is_before);
    build_head_of(b, &of->ops[of->n_ops - 1]);
}
