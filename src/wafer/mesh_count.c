/* mesh_count.c - counts what cores compute and send. */
#include "wafer/mesh_core.h"

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

/* Accumulators of EQUAL order that are passed on beside acc, if a slice ends inside a block or
 * group whose sums are integers: those, and for types with minima theirs. */
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

void mesh_count_product(mesh *m, const mesh_tiles *t, uint32_t n_rows)
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
