/* mesh_islands.c - experts on islands of cores: a row told to them, and their answers on their way
 * back; placement.h says how, and that no route depends on which experts a router chose.
 *
 * EQUAL: an answer goes to all cores as it is, and they add experts in ascending order.
 * MESH: the island weights its answer, and those of a row meet in one sum, along y and then along
 * x. */
#include "wafer/mesh_core.h"

/* ---- who has what ---- */

/* Of every slice that the rows of an island need, the columns have a part each. */
static int split_parts(mesh *m)
{
    const uint32_t side = m->islands.side, width = m->layout.width;
    mesh_split *s = &m->island_part;
    RETURN_IF(mesh_split_begin(m, s, m->island_e.n, width, side * side));
    for (uint32_t j = 0; j < m->island_e.n_pieces; j++) {
        const mesh_piece *slice = &m->island_e.pieces[j];
        const uint32_t n = slice->end - slice->begin, part = island_part(n, side);
        for (uint32_t c = 0; c < side; c++) {
            const wafer_range r = tile_range(n, part, c);
            mesh_split_add(s, c, slice->begin + r.begin, slice->begin + r.end);
        }
    }
    for (uint32_t x = side; x < m->islands.columns * side; x++) s->share[x] = s->share[x - side];
    return CERIUM_OK;
}

int mesh_islands_make(mesh *m)
{
    const mesh_layout *l = &m->layout;
    const uint32_t side = l->choice.island;
    m->islands = islands_of(l->width, l->height, side);
    m->grounds = mesh_own(m, m->islands.n, sizeof *m->grounds);
    if (!m->grounds) return CERIUM_ERR_MEMORY;
    RETURN_IF(mesh_schedule_make(m, &m->island_sum, side, 1));
    RETURN_IF(mesh_split_even(m, &m->island_e, m->program->shape.n_embd, side));
    RETURN_IF(mesh_split_even(m, &m->island_h, m->program->shape.n_ff_expert, side));
    for (uint32_t i = 0; i < m->islands.n; i++)
        m->grounds[i] = (mesh_ground){.x = i % m->islands.columns * side,
                                      .y = i / m->islands.columns * side,
                                      .width = side, .height = side,
                                      .sum = {&m->island_sum, &m->island_sum}};
    return split_parts(m);
}

int mesh_islands_own(mesh *m)
{
    const step_shape *s = &m->program->shape;
    const size_t n = s->n_embd, used = s->n_experts_used, rows = m->layout.rows_max * used;
    m->told = (mesh_rows){.f = mesh_own(m, rows * n, sizeof(float)),
                          .width = s->n_embd};
    for (int a = 0; a < KERNEL_ACTS_END; a++)
        m->told.q[a] = mesh_own(m, rows * kernel_n_groups(s->n_embd), sizeof(kernel_act));
    m->answers = mesh_own(m, used * n, sizeof *m->answers);
    m->met = mesh_own(m, m->islands.columns * n, sizeof *m->met);
    return m->short_of_memory ? CERIUM_ERR_MEMORY : CERIUM_OK;
}

uint32_t mesh_islands_held(const mesh *m, uint32_t x, uint32_t y, uint32_t n_experts)
{
    const wafer_islands *i = &m->islands;
    const uint32_t column = x / i->side, row = y / i->side;
    if (column >= i->columns || row >= i->rows) return 0;
    const uint32_t island = row * i->columns + column;
    return island < n_experts ? (n_experts - island - 1) / i->n + 1 : 0;
}

/* ---- there ---- */

/* Part by part: the values as floats and, with their scales, in 8 bits. */
static void tell(const mesh *m, const mesh_rows *to, uint32_t to_row, uint32_t row)
{
    const mesh_rows *from = &m->normed;
    const size_t n_groups = kernel_n_groups(from->width);
    const float *f = from->f + (size_t)row * from->width;
    float *to_f = to->f + (size_t)to_row * to->width;
    for (uint32_t i = 0; i < m->island_part.n_pieces; i++)
        for (uint32_t k = m->island_part.pieces[i].begin; k < m->island_part.pieces[i].end; k++) {
            const uint32_t g = k / KERNEL_GROUP, at = k % KERNEL_GROUP;
            to_f[k] = f[k];
            for (int a = 0; a < KERNEL_ACTS_END; a++)
                to->q[a][to_row * n_groups + g].q[at] = from->q[a][row * n_groups + g].q[at];
        }
    for (int a = 0; a < KERNEL_ACTS_END; a++)
        for (uint32_t g = 0; g < n_groups; g++)
            memcpy(to->q[a][to_row * n_groups + g].scale, from->q[a][row * n_groups + g].scale,
                   sizeof to->q[a]->scale);
}

void mesh_islands_tell(mesh *m, uint32_t acts)
{
    const uint32_t k = m->program->shape.n_experts_used;
    uint32_t n_scales = 0;
    for (int a = 0; a < KERNEL_ACTS_END; a++)
        if (acts >> a & 1) n_scales += kernel_n_scales((kernel_acts)a, m->normed.width);
    mesh_count_collective(m, WAFER_AXIS_Y, &m->island_part, n_scales, m->n_rows);
    for (uint32_t i = 0; i < m->n_rows * k; i++) {
        bool is_first = true; /* of the row's experts on that island */
        for (uint32_t j = i / k * k; j < i; j++)
            is_first &= m->chosen[j] % m->islands.n != m->chosen[i] % m->islands.n;
        tell(m, &m->told, i, i / k);
        mesh_islands_enter(m, m->chosen[i]);
        if (is_first) mesh_count_collective(m, WAFER_AXIS_X, &m->island_e, 0, 1);
        mesh_at_all(m);
    }
}

uint32_t mesh_islands_enter(mesh *m, uint32_t expert)
{
    const uint32_t n = m->islands.n;
    if (!n) return expert;
    const bool astray = m->fault == MESH_FAULT_ISLAND && expert % n == 0;
    if (astray) expert = (expert + 1) % m->program->shape.n_experts;
    m->on = &m->grounds[expert % n];
    return expert;
}

/* ---- and back ---- */

static bool is_lost(const mesh *m, const mesh_piece *part)
{
    return m->fault == MESH_FAULT_ANSWER && part->core == m->islands.side - 1;
}

static void answer_apart(mesh *m, uint32_t row)
{
    const step_shape *s = &m->program->shape;
    const uint32_t k = s->n_experts_used;
    for (uint32_t i = 0; i < k; i++) {
        float *from = m->answers + (size_t)i * s->n_embd;
        for (uint32_t p = 0; p < m->island_part.n_pieces; p++) {
            const mesh_piece *part = &m->island_part.pieces[p];
            if (is_lost(m, part))
                memset(from + part->begin, 0, (part->end - part->begin) * sizeof *from);
        }
        m->k.add_scaled(m->x + (size_t)row * s->n_embd, from, m->weight[row * k + i], s->n_embd);
        mesh_count_collective(m, WAFER_AXIS_Y, &m->island_part, 0, 1);
        mesh_count_collective(m, WAFER_AXIS_X, &m->split_e, 0, 1);
        mesh_count_work(m, m->split_e.most, 1);
    }
}

/* The islands of a column hand their answers to a part in at the rows that have its slice. */
static void meet_column(mesh *m, const uint32_t *chosen, uint32_t column, const mesh_piece *part)
{
    const step_shape *s = &m->program->shape;
    const uint32_t n = part->end - part->begin, h = m->layout.height;
    const uint32_t slice = part->begin / m->island_e.pieces[0].end; /* tiles are even */
    memset(m->partial, 0, (size_t)h * n * sizeof *m->partial);
    for (uint32_t i = 0; i < s->n_experts_used; i++) {
        const uint32_t island = chosen[i] % m->islands.n;
        if (island % m->islands.columns != column || is_lost(m, part)) continue;
        const float *from = m->answers + (size_t)i * s->n_embd + part->begin;
        m->k.add(m->partial + (size_t)(m->grounds[island].y + slice) * n, from, n);
    }
    memcpy(m->met + (size_t)column * s->n_embd + part->begin,
           mesh_meet(&m->sum[WAFER_AXIS_Y], m->partial, n), n * sizeof *m->met);
}

/* Along a row each column gives what of the row's values lies in its part. */
static void meet_row(mesh *m, const mesh_piece *piece, float *x)
{
    const uint32_t n = piece->end - piece->begin, side = m->islands.side;
    memset(m->partial, 0, (size_t)m->layout.width * n * sizeof *m->partial);
    for (uint32_t p = 0; p < m->island_part.n_pieces; p++) {
        const mesh_piece *part = &m->island_part.pieces[p];
        for (uint32_t k = part->begin; k < part->end; k++) {
            if (k < piece->begin || k >= piece->end) continue;
            for (uint32_t c = 0; c < m->islands.columns; c++)
                m->partial[(size_t)(c * side + part->core) * n + k - piece->begin] =
                    m->met[(size_t)c * m->program->shape.n_embd + k];
        }
    }
    m->k.add(x + piece->begin, mesh_meet(&m->sum[WAFER_AXIS_X], m->partial, n), n);
}

void mesh_islands_answer(mesh *m, uint32_t row)
{
    const step_shape *s = &m->program->shape;
    if (m->layout.order == MESH_EQUAL) {
        answer_apart(m, row);
        return;
    }
    for (uint32_t c = 0; c < m->islands.columns; c++)
        for (uint32_t p = 0; p < m->island_part.n_pieces; p++)
            meet_column(m, m->chosen + (size_t)row * s->n_experts_used, c,
                        &m->island_part.pieces[p]);
    for (uint32_t i = 0; i < m->split_e.n_pieces; i++)
        meet_row(m, &m->split_e.pieces[i], m->x + (size_t)row * s->n_embd);
    mesh_count_collective(m, WAFER_AXIS_Y, &m->island_part, 0, 1);
    mesh_count_collective(m, WAFER_AXIS_X, &m->split_e, 0, 1);
    mesh_count_work(m, m->split_e.most, 1);
}
