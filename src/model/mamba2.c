/* mamba2.c - layers with a state in place of keys and values: Mamba-2, by its usual names in GGUF
 * files. */
#include "model/build.h"

/* Rows of one matrix: z, x B C, and the step (dt) of each head. */
static void take_inputs(builder *b, step_op *op, uint32_t layer)
{
    static const char name[] = "blk.%u.ssm_in.weight";
    const step_recurrence *r = &b->program.shape.linear;
    const uint32_t n_embd = b->program.shape.n_embd, n = step_channels(r);
    const uint32_t inner = r->n_value_heads * r->value_dim, all = inner + n + r->n_value_heads;
    op->norm = build_vector(b, "blk.%u.attn_norm.weight", layer, n_embd);
    op->w[0] = build_experts(b, name, layer, 1, n, n_embd, inner, all);
    op->w[1] = build_experts(b, name, layer, 1, inner, n_embd, 0, all);
    op->w[2] = build_experts(b, name, layer, 1, r->n_value_heads, n_embd, inner + n, all);
}

void build_mamba2(builder *b, uint32_t layer)
{
    const step_recurrence *r = &b->program.shape.linear;
    const uint32_t inner = r->n_value_heads * r->value_dim;
    CHECK(r->is_scan);
    take_inputs(b, build_op(b, STEP_LINEAR_IN), layer);
    step_op *op = build_conv(b, layer);
    op->bias[0] = build_vector(b, "blk.%u.ssm_conv1d.bias", layer, step_channels(r));

    op = build_op(b, STEP_DELTA);
    op->head_norm[0] = build_vector(b, "blk.%u.ssm_norm.weight", layer, inner);
    op->skip = build_vector(b, "blk.%u.ssm_d", layer, r->n_value_heads);

    op = build_op(b, STEP_OUT);
    op->w[0] = build_matrix(b, "blk.%u.ssm_out.weight", layer, b->program.shape.n_embd, inner);
}
