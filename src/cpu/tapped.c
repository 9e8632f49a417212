/* tapped.c - inputs of layers that a drafter reads: kept for each row of a pass, for later layers
 * change them. */
#include "base/memory.h"
#include "cpu/pass.h"

uint64_t cpu_executor_tap_bytes(const cpu_executor *ex)
{
    return (uint64_t)ex->rows_max * ex->n_taps * ex->program->shape.n_embd * sizeof *ex->tapped;
}

int cpu_executor_tap(cpu_executor *ex, const uint32_t *ops, uint32_t n)
{
    const size_t width = (size_t)n * ex->program->shape.n_embd;
    CHECK(n <= EXECUTOR_TAPS_MAX && !ex->tapped);
    ex->tapped = memory_alloc(ex->rows_max * width * sizeof *ex->tapped);
    if (!ex->tapped) return CERIUM_ERR_MEMORY;
    memcpy(ex->tap_ops, ops, n * sizeof *ops);
    ex->n_taps = n;
    return CERIUM_OK;
}

static float *place_of(const cpu_executor *ex, uint32_t tap, uint32_t row)
{
    return ex->tapped + ((size_t)row * ex->n_taps + tap) * ex->program->shape.n_embd;
}

void cpu_executor_tapped(const cpu_executor *ex, uint32_t row, float *out)
{
    CHECK(ex->n_taps && row < ex->n_rows);
    memcpy(out, place_of(ex, 0, row), ex->n_taps * ex->program->shape.n_embd * sizeof *out);
}

uint32_t pass_tap_before(const cpu_executor *ex, uint32_t op)
{
    uint32_t tap = 0;
    while (tap < ex->n_taps && ex->tap_ops[tap] != op) tap++;
    return tap;
}

void pass_tap(cpu_executor *ex, uint32_t op, uint32_t row)
{
    const uint32_t n = ex->program->shape.n_embd;
    memcpy(place_of(ex, pass_tap_before(ex, op), row), ex->x + (size_t)row * n, n * sizeof(float));
}
