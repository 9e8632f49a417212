/* eagle3.c - EAGLE-3: a head in a file of its own, made for one model, that says the next token but
 * one: from the inputs of three layers of that model, joined by one matrix, and an embedding.
 *
 * Applied repeatedly, it reads its own output in place of the three.  What its file lacks of tables
 * is the model's (docs/decisions/0120-a-drafter-that-reads-three-layers.md). */
#include "model/build.h"

enum { TAPS = 3 };

static void build_input(builder *b, const model_matrix *embed, const float *norm)
{
    const step_shape *s = &b->program.shape;
    const uint32_t n_in = s->n_taps * s->n_tapped;
    step_op *op = build_op(b, STEP_EMBED);
    op->w[0] = embed;
    if (build_bool_or(b, "norm_before_fc", build_has(b, "enc.output_norm.weight", 0)))
        op->norm = build_vector(b, "enc.output_norm.weight", 0, n_in);
    op->head_norm[0] = norm;
    op = build_op(b, STEP_OUT);
    op->w[0] = build_matrix(b, "fc.weight", 0, s->n_embd, n_in);
    op->post_norm = norm;
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
    if (!b->status && s->n_layers != 1)
        build_fail(b, "%u layers: an EAGLE-3 head has one", s->n_layers);
    s->n_tapped = build_u32(b, "target_hidden_size", 1, 1 << 20);
    if (!b->status && s->n_tapped != of->shape.n_embd)
        build_fail(b, "made for a model %u wide, and this one is %u", s->n_tapped,
                   of->shape.n_embd);
    build_taps(b, gguf_find(b->file, "eagle3.target_layers") ? "target_layers" : "extract_layers",
               TAPS, TAPS);
    build_said(b, of->shape.n_vocab);
    if (b->status) return;
    const model_matrix *embed = build_table_of(b, "token_embd.weight", of->shape.n_vocab,
                                               of->ops[0].w[0]);
    const float *norm = build_vector(b, "blk.%u.attn_norm_2.weight", 0, s->n_embd);
    const bool is_before = build_bool_or(b, "norm_before_residual", false);
    build_input(b, embed, is_before ? norm : NULL);
    b->qkv_cols = 2 * s->n_embd;
    step_op *op = build_attention(b, 0, 0);
    op->beside = embed;
    op->beside_norm = is_before ? NULL : norm;
    build_ffn(b, 0, "blk.%u.ffn_norm.weight");
    build_head_of(b, &of->ops[of->n_ops - 1]);
}
