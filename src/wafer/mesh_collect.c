/* mesh_collect.c - products whose sums go over the cores of an axis, and the count of what is sent.
 *
 * Every line of cores does the same with its own values at the same time, so values are computed
 * line by line, and events are counted for all lines. */
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

/* Rows of piece n, for one row of activations, in EQUAL order: accumulators go along. */
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

/* ---- counting ---- */

static mesh_core_events *core_at(mesh *m, wafer_axis axis, uint32_t line, uint32_t at)
{
    const uint32_t x = axis == WAFER_AXIS_X ? at : line, y = axis == WAFER_AXIS_X ? line : at;
    return &m->events[(size_t)(m->on->y + y) * m->layout.width + m->on->x + x];
}

static void count_vector(mesh *m, mesh_core_events *core, uint64_t n_issues, uint64_t length)
{
    const uint64_t steps = n_issues * ((length + m->layout.lanes - 1) / m->layout.lanes);
    core->issues += n_issues;
    core->steps += steps;
    m->kinds[m->kind].issues += n_issues;
    m->kinds[m->kind].steps += steps;
}

static void count_ramp(mesh *m, mesh_core_events *core, uint64_t up, uint64_t down)
{
    core->up += up;
    core->down += down;
    m->kinds[m->kind].up += up;
    m->kinds[m->kind].down += down;
}

void mesh_count_core(mesh *m, uint32_t x, uint32_t y, uint64_t n_issues, uint32_t length)
{
    count_vector(m, core_at(m, WAFER_AXIS_X, y, x), n_issues, length);
}

void mesh_count_send(mesh *m, wafer_axis axis, uint32_t line, uint32_t from, uint32_t to,
                     uint64_t n)
{
    const mesh_port ahead = axis == WAFER_AXIS_X ? MESH_EAST : MESH_SOUTH;
    const mesh_port port = to > from ? ahead : ahead + 1;
    if (from == to) return;
    count_ramp(m, core_at(m, axis, line, from), n, 0);
    count_ramp(m, core_at(m, axis, line, to), 0, n);
    for (uint32_t at = from; at != to; at = to > from ? at + 1 : at - 1)
        core_at(m, axis, line, at)->link[port] += n;
    m->kinds[m->kind].hops += n * (to > from ? to - from : from - to);
}

void mesh_count_broadcast(mesh *m, wafer_axis axis, uint32_t line, uint32_t root, uint32_t first,
                          uint32_t end, uint64_t n)
{
    const mesh_port ahead = axis == WAFER_AXIS_X ? MESH_EAST : MESH_SOUTH;
    if (end - first < 2) return;
    count_ramp(m, core_at(m, axis, line, root), n, 0);
    for (uint32_t at = first; at < end; at++) {
        if (at != root) count_ramp(m, core_at(m, axis, line, at), 0, n);
        if (at >= root && at + 1 < end) core_at(m, axis, line, at)->link[ahead] += n;
        if (at <= root && at > first) core_at(m, axis, line, at)->link[ahead + 1] += n;
    }
    m->kinds[m->kind].hops += n * (end - first - 1);
}

void mesh_count_adds(mesh *m, wafer_axis axis, uint32_t line, const mesh_schedule *s,
                     uint32_t first, uint64_t n)
{
    for (uint32_t i = 0; i < s->n_adds; i++) {
        const uint32_t from = first + s->adds[i].from, to = first + s->adds[i].to;
        mesh_count_send(m, axis, line, from, to, n);
        count_vector(m, core_at(m, axis, line, to), 1, n);
    }
}

void mesh_count_collective(mesh *m, wafer_axis axis, const mesh_split *lines, uint32_t n,
                           uint32_t n_times)
{
    const mesh_schedule *s = m->on->sum[axis];
    const uint32_t n_lines = mesh_side(m, axis == WAFER_AXIS_X ? WAFER_AXIS_Y : WAFER_AXIS_X);
    m->kinds[m->kind].collectives++;
    for (uint32_t line = 0; line < n_lines; line++) {
        if (lines && !lines->share[line]) continue;
        const uint64_t values = ((uint64_t)n + (lines ? lines->share[line] : 0)) * n_times;
        mesh_count_adds(m, axis, line, s, 0, values);
        mesh_count_broadcast(m, axis, line, s->root, 0, s->n, values);
    }
}

void mesh_count_work(mesh *m, uint32_t n, uint32_t n_times)
{
    for (uint32_t y = 0; y < m->on->height; y++)
        for (uint32_t x = 0; x < m->on->width; x++)
            count_vector(m, core_at(m, WAFER_AXIS_X, y, x), n_times, n);
}

/* Accumulators of EQUAL order that are handed on beside acc, where a slice ends inside a block or
 * group whose sums are integers: those, and of types with minima theirs. */
static void count_open_sums(mesh *m, const mesh_tiles *t, uint32_t n_rows)
{
    if (m->layout.order != MESH_EQUAL || !t->unit) return;
    const uint32_t more = 1 + t->has_min;
    for (uint32_t i = 0; i + 1 < t->k->n_pieces; i++) {
        const mesh_piece *k = &t->k->pieces[i];
        if (k->end % t->closes == 0) continue;
        for (uint32_t n = 0; n < t->n->n_cores; n++)
            mesh_count_send(m, t->k_axis, n, k->core, k[1].core,
                            (uint64_t)t->n->share[n] * n_rows * more);
    }
}

static void count_product(mesh *m, const mesh_tiles *t, uint32_t n_rows)
{
    for (uint32_t n = 0; n < t->n->n_cores; n++)
        for (uint32_t k = 0; k < t->k->n_cores; k++)
            count_vector(m, core_at(m, t->k_axis, n, k), (uint64_t)t->k->share[k] * n_rows,
                         t->n->share[n]);
    mesh_count_collective(m, t->k_axis, t->n, m->riding, n_rows);
    m->riding = false;
    count_open_sums(m, t, n_rows);
}

void mesh_count_rows(mesh *m, uint32_t n, uint32_t n_times)
{
    if (!m->is_prompt) mesh_count_work(m, n, n_times * m->n_rows);
    for (uint32_t r = 0; m->is_prompt && r < m->n_rows; r++) {
        mesh_at_row(m, r);
        mesh_count_work(m, n, n_times);
    }
    mesh_at_all(m);
}

/* ---- products ---- */

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
    count_product(m, t, n_rows);
}

void mesh_count_gather(mesh *m, const mesh_split *split, uint32_t n_times)
{
    const wafer_strips *t = &m->strips;
    for (uint32_t s = 0; s < t->strips; s++) {
        const uint32_t first = s * t->cores;
        uint64_t all = 0;
        for (uint32_t c = 0; c < t->cores; c++) all += split->share[first + c];
        for (uint32_t y = 0; y < m->on->height; y++) {
            mesh_count_adds(m, WAFER_AXIS_X, y, &m->strip_sum, first, all * n_times);
            mesh_count_broadcast(m, WAFER_AXIS_X, y, first + m->strip_sum.root, first,
                                 first + t->cores, all * n_times);
        }
    }
}
