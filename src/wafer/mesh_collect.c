/* mesh_collect.c - products whose sums go over the cores of an axis.
 *
 * Every line of cores does the same with its own values at the same time, so values are computed
 * line by line, and events are counted for all lines (mesh_count.c). */
#include "wafer/mesh_core.h"

const float *mesh_meet(const mesh_schedule *s, float *partials, uint32_t n)
{
    for (uint32_t i = 0; i < s->n_adds; i++) {
        const float *from = partials + (size_t)s->adds[i].from * n;
        float *to = partials + (size_t)s->adds[i].to * n;
        for (uint32_t j = 0; j < n; j++) to[j] += from[j];
    }
    return partials + (size_t)s->root * n;
}

const mesh_piece *mesh_turn(const mesh *m, wafer_axis axis, const mesh_split *split, uint32_t i)
{
    const bool swapped =
        m->fault == MESH_FAULT_ORDER && axis == WAFER_AXIS_Y && split->n_pieces > 1;
    return &split->pieces[swapped && i < 2 ? 1 - i : i];
}

/* Rows of piece n, for one row of activations, in EQUAL order: accumulators are passed along. */
static void run_equal(mesh *m, float *y, const mesh_tiles *t, uint32_t matrix, const mesh_piece *n,
                      const void *x)
{
    const uint32_t rows = n->end - n->begin;
    memset(m->sums, 0, rows * sizeof *m->sums);
    for (uint32_t i = 0; i < t->k->n_pieces; i++)
        mesh_tile_run(t, matrix, n, mesh_turn(m, t->k_axis, t->k, i), x, m->sums, false);
    for (uint32_t i = 0; i < rows; i++) y[i] = m->sums[i].acc;
}

/* In MESH order: every core from zero, then the schedule. */
static void run_apart(mesh *m, float *y, const mesh_tiles *t, uint32_t matrix, const mesh_piece *n,
                      const void *x)
{
    const uint32_t rows = n->end - n->begin;
    const size_t all = (size_t)t->k->n_cores * rows;
    memset(m->sums, 0, all * sizeof *m->sums);
    for (uint32_t i = 0; i < t->k->n_pieces; i++) {
        const mesh_piece *k = &t->k->pieces[i];
        mesh_tile_run(t, matrix, n, k, x, m->sums + (size_t)k->core * rows, true);
    }
    for (size_t i = 0; i < all; i++) m->partial[i] = m->sums[i].acc;
    memcpy(y, mesh_meet(m->on->sum[t->k_axis], m->partial, rows), rows * sizeof *y);
}

void mesh_matmul(mesh *m, float *y, size_t stride, const mesh_tiles *t, uint32_t matrix,
                 const mesh_rows *x, uint32_t row, uint32_t n_rows)
{
    for (uint32_t r = 0; m->is_prompt && r < n_rows; r++)
        mesh_gemm_row(m, y + r * stride, t, matrix, x, row + r, (row + r) / m->line_rows);
    if (m->is_prompt) {
        mesh_gemm_count(m, t);
        return;
    }
    for (uint32_t r = row; r < row + n_rows; r++, y += stride) {
        const void *in = t->unit ? (const void *)mesh_acts(x, t->w->type, r)
                                 : (const void *)(x->f + (size_t)r * x->width);
        for (uint32_t i = 0; i < t->n->n_pieces; i++) {
            const mesh_piece *n = &t->n->pieces[i];
            if (m->layout.order == MESH_EQUAL) run_equal(m, y + n->begin, t, matrix, n, in);
            else run_apart(m, y + n->begin, t, matrix, n, in);
        }
    }
    mesh_count_product(m, t, n_rows);
}
