/* recurrence.c - what layers with a state have in common, by its usual names in GGUF files: their
 * sizes, and the step of their convolution. */
#include "model/build.h"

/* Units of work are heads, or their slices of 64 values, of many rows or layers. */
enum { STATE_HEADS_MAX = 1024, STATE_DIM_MAX = 512, SLICE = 64, TAPS_MAX = 8 };

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

step_op *build_conv(builder *b, uint32_t layer)
{
    const uint32_t n = b->program.shape.linear.n_value_heads;
    step_op *op = build_op(b, STEP_CONV);
    op->conv = take_conv(b, layer);
    op->decay = build_vector(b, "blk.%u.ssm_a", layer, n);
    op->dt = build_vector(b, "blk.%u.ssm_dt.bias", layer, n);
    for (uint32_t i = 0; !b->status && i < n; i++)
        if (op->decay[i] > 0)
            build_fail(b, "tensor blk.%u.ssm_a has a value above 0: a state would grow", layer);
    return op;
}
