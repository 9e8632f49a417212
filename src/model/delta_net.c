/* delta_net.c - layers with a state in place of keys and values: Gated DeltaNet, by its usual names
 * in GGUF files. */
#include <math.h>

#include "model/build.h"

/* Units of work are heads, or their slices of 64 values, of many rows or layers. */
enum { STATE_HEADS_MAX = 128, STATE_DIM_MAX = 512, SLICE = 64, TAPS_MAX = 8 };

void build_recurrence(builder *b)
{
    step_recurrence *r = &b->program.shape.linear;
    r->n_taps = build_u32(b, "ssm.conv_kernel", 2, TAPS_MAX);
    r->key_dim = build_u32(b, "ssm.state_size", KERNEL_PANEL_ROWS, STATE_DIM_MAX);
    r->n_key_heads = build_u32(b, "ssm.group_count", 1, STATE_HEADS_MAX);
    r->n_value_heads = build_u32(b, "ssm.time_step_rank", 1, STATE_HEADS_MAX);
    uint32_t inner = build_u32(b, "ssm.inner_size", 1, STATE_HEADS_MAX * STATE_DIM_MAX);
    if (b->status) return;
    r->value_dim = inner / r->n_value_heads;
    if (inner % r->n_value_heads || r->value_dim == 0 || r->value_dim % KERNEL_PANEL_ROWS ||
        r->value_dim > STATE_DIM_MAX || (r->value_dim > SLICE && r->value_dim % SLICE))
        build_fail(b, "%u state heads of %u values together: a head must have 16, 32, 48 or a "
                   "multiple of %d, at most %d", r->n_value_heads, inner, SLICE, STATE_DIM_MAX);
    else if (r->n_value_heads % r->n_key_heads)
        build_fail(b, "%u state heads cannot share %u keys", r->n_value_heads, r->n_key_heads);
}

/* In the file the taps of a channel are adjacent, for kernels the channels of a tap. */
static const float *take_conv(builder *b, uint32_t layer)
{
    const step_recurrence *r = &b->program.shape.linear;
    const uint32_t n = step_channels(r);
    const float *own = build_vector(b, "blk.%u.ssm_conv1d.weight", layer, (uint64_t)n * r->n_taps);
    if (!own) return NULL;
    float *taps = arena_take(&b->vectors, (size_t)n * r->n_taps * sizeof *taps, MEMORY_ALIGN);
    if (!taps) {
        build_fail(b, "tensor blk.%u.ssm_conv1d.weight is too large", layer);
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < r->n_taps; j++) taps[j * n + i] = own[i * r->n_taps + j];
    return taps;
}

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

    step_op *op = build_op(b, STEP_CONV);
    op->conv = take_conv(b, layer);
    op->decay = build_vector(b, "blk.%u.ssm_a", layer, r->n_value_heads);
    op->dt = build_vector(b, "blk.%u.ssm_dt.bias", layer, r->n_value_heads);
    if (!b->l2[0]) {
        b->l2[0] = same_values(b, by_length * by_length);
        b->l2[1] = same_values(b, by_length);
    }
    op->head_norm[0] = b->l2[0];
    op->head_norm[1] = b->l2[1];
    for (uint32_t i = 0; !b->status && i < r->n_value_heads; i++)
        if (op->decay[i] > 0)
            build_fail(b, "tensor blk.%u.ssm_a has a value above 0: a state would grow", layer);

    op = build_op(b, STEP_DELTA);
    op->head_norm[0] = build_vector(b, "blk.%u.ssm_norm.weight", layer, r->value_dim);

    op = build_op(b, STEP_OUT);
    op->w[0] = build_matrix(b, "blk.%u.ssm_out.weight", layer, b->program.shape.n_embd,
                            r->n_value_heads * r->value_dim);
}
