/* delta_net.c - layers with a state in place of keys and values: Gated DeltaNet, by its usual names
 * in GGUF files. */
#include <math.h>

#include "model/build.h"

/* Norms to length 1 are norms to a mean square of 1 times these; q is also scaled, like in
 * attention. */
static const float *same_values(builder *b, float value)
{
    const uint32_t n = b->program.shape.linear.key_dim;
    float *out = b->status ? NULL : arena_take(&b->vectors, n * sizeof *out, MEMORY_ALIGN);
    for (uint32_t i = 0; out && i < n; i++) out[i] = value;
    if (!out) build_fail(b, "the file has too few vectors for its layers");
    return out;
}

static void take_inputs(builder *b, step_op *op, uint32_t layer)
{
    const step_recurrence *r = &b->program.shape.linear;
    const uint32_t n_embd = b->program.shape.n_embd, n = r->n_value_heads;
    op->norm = build_vector(b, "blk.%u.attn_norm.weight", layer, n_embd);
    if (!b->status && build_has(b, "blk.%u.ssm_in.weight", layer))
        build_fail(b, "tensor blk.%u.ssm_in.weight is of an older conversion: convert it again",
                   layer);
    op->w[0] = build_matrix(b, "blk.%u.attn_qkv.weight", layer, step_channels(r), n_embd);
    op->w[1] = build_matrix(b, "blk.%u.attn_gate.weight", layer, n * r->value_dim, n_embd);
    if (r->is_grouped) {
        op->w[2] = build_matrix(b, "blk.%u.ssm_ba.weight", layer, 2 * n, n_embd);
    } else {
        op->w[2] = build_matrix(b, "blk.%u.ssm_beta.weight", layer, n, n_embd);
        op->w[3] = build_matrix(b, "blk.%u.ssm_alpha.weight", layer, n, n_embd);
    }
}

void build_recurrent(builder *b, uint32_t layer)
{
    const step_recurrence *r = &b->program.shape.linear;
    const float by_length = (float)(1 / sqrt((double)r->key_dim));
    take_inputs(b, build_op(b, STEP_LINEAR_IN), layer);

    step_op *op = build_conv(b, layer);
    if (!b->l2[0]) {
        b->l2[0] = same_values(b, by_length * by_length);
        b->l2[1] = same_values(b, by_length);
    }
    op->head_norm[0] = b->l2[0];
    op->head_norm[1] = b->l2[1];

    op = build_op(b, STEP_DELTA);
    op->head_norm[0] = build_vector(b, "blk.%u.ssm_norm.weight", layer, r->value_dim);

    op = build_op(b, STEP_OUT);
    op->w[0] = build_matrix(b, "blk.%u.ssm_out.weight", layer, b->program.shape.n_embd,
                            r->n_value_heads * r->value_dim);
}
