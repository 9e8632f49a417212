/* mesh_expert_groups.c - experts on groups of cores: rows are sent to their experts, and the
 * results are summed. placement.h describes the routes; none depends on which experts the router
 * chose.
 *
 * EQUAL: a result is sent unchanged to all cores, which add experts in ascending order. MESH: the
 * group weights its result, and those of a row meet in one sum, along y and then along x. */
#include "wafer/mesh_core.h"

/* ---- the parts of each core ---- */

/* Each column has a part of every slice that the rows of a group need. */
static int split_parts(mesh *m)
{
    const uint32_t side = m->expert_groups.side, width = m->layout.width;
    mesh_split *s = &m->expert_group_part;
    RETURN_IF(mesh_split_begin(m, s, m->group_e.n, width, side * side));
    for (uint32_t j = 0; j < m->group_e.n_pieces; j++) {
        const mesh_piece *slice = &m->group_e.pieces[j];
        const uint32_t n = slice->end - slice->begin, part = expert_group_part(n, side);
        for (uint32_t c = 0; c < side; c++) {
            const wafer_range r = tile_range(n, part, c);
            mesh_split_add(s, c, slice->begin + r.begin, slice->begin + r.end);
        }
    }
    for (uint32_t x = side; x < m->expert_groups.columns * side; x++)
        s->share[x] = s->share[x - side];
    return CERIUM_OK;
}

int mesh_expert_groups_make(mesh *m)
{
    const mesh_layout *l = &m->layout;
    const uint32_t side = l->choice.group_side;
    m->expert_groups = expert_groups_of(l->width, l->height, side);
    m->grounds = mesh_own(m, m->expert_groups.n, sizeof *m->grounds);
    if (!m->grounds) return CERIUM_ERR_MEMORY;
    RETURN_IF(mesh_schedule_make(m, &m->group_sum, side, 1));
    RETURN_IF(mesh_split_even(m, &m->group_e, m->program->shape.n_embd, side));
    RETURN_IF(mesh_split_even(m, &m->group_h, m->program->shape.n_ff_expert, side));
    for (uint32_t i = 0; i < m->expert_groups.n; i++)
        m->grounds[i] = (mesh_ground){.x = i % m->expert_groups.columns * side,
                                      .y = i / m->expert_groups.columns * side,
                                      .width = side, .height = side,
                                      .sum = {&m->group_sum, &m->group_sum}};
    return split_parts(m);
}

int mesh_expert_groups_own(mesh *m)
{
    const step_shape *s = &m->program->shape;
    const size_t n = s->n_embd, used = s->n_experts_used, rows = m->layout.rows_max * used;
    m->received = (mesh_rows){.f = mesh_own(m, rows * n, sizeof(float)), .width = s->n_embd};
    for (int a = 0; a < KERNEL_ACTS_END; a++)
        m->received.q[a] = mesh_own(m, rows * kernel_n_groups(s->n_embd), sizeof(kernel_act));
    m->answers = mesh_own(m, used * n, sizeof *m->answers);
    m->met = mesh_own(m, m->expert_groups.columns * n, sizeof *m->met);
    return m->short_of_memory ? CERIUM_ERR_MEMORY : CERIUM_OK;
}

uint32_t mesh_expert_groups_held(const mesh *m, uint32_t x, uint32_t y, uint32_t n_experts)
{
    const wafer_expert_groups *i = &m->expert_groups;
    const uint32_t column = x / i->side, row = y / i->side;
    if (column >= i->columns || row >= i->rows) return 0;
    const uint32_t group = row * i->columns + column;
    return group < n_experts ? (n_experts - group - 1) / i->n + 1 : 0;
}

/* ---- sending rows ---- */

/* Part by part: the values as floats and, with their scales, in 8 bits. */
static void mesh_expert_groups_send_row(const mesh *m, const mesh_rows *to, uint32_t to_row,
                                        uint32_t row)
{
    const mesh_rows *from = &m->normed;
    const size_t n_groups = kernel_n_groups(from->width);
    const float *f = from->f + (size_t)row * from->width;
    float *to_f = to->f + (size_t)to_row * to->width;
    for (uint32_t i = 0; i < m->expert_group_part.n_pieces; i++)
        for (uint32_t k = m->expert_group_part.pieces[i].begin;
             k < m->expert_group_part.pieces[i].end; k++) {
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

void mesh_expert_groups_send(mesh *m, uint32_t acts)
{
    const uint32_t k = m->program->shape.n_experts_used;
    uint32_t n_scales = 0;
    for (int a = 0; a < KERNEL_ACTS_END; a++)
        if (acts >> a & 1) n_scales += kernel_n_scales((kernel_acts)a, m->normed.width);
    mesh_count_collective(m, WAFER_AXIS_Y, &m->expert_group_part, n_scales, m->n_rows);
    for (uint32_t i = 0; i < m->n_rows * k; i++) {
        bool is_first = true; /* of the row's experts on that group */
        for (uint32_t j = i / k * k; j < i; j++)
            is_first &= m->chosen[j] % m->expert_groups.n != m->chosen[i] % m->expert_groups.n;
        mesh_expert_groups_send_row(m, &m->received, i, i / k);
        mesh_expert_groups_enter(m, m->chosen[i]);
        if (is_first) mesh_count_collective(m, WAFER_AXIS_X, &m->group_e, 0, 1);
        mesh_at_all(m);
    }
}

uint32_t mesh_expert_groups_enter(mesh *m, uint32_t expert)
{
    const uint32_t n = m->expert_groups.n;
    if (!n) return expert;
    const bool astray = m->fault == MESH_FAULT_GROUP && expert % n == 0;
    if (astray) expert = (expert + 1) % m->program->shape.n_experts;
    m->on = &m->grounds[expert % n];
    return expert;
}

/* ---- sending results ---- */

static bool is_lost(const mesh *m, const mesh_piece *part)
{
    return m->fault == MESH_FAULT_ANSWER && part->core == m->expert_groups.side - 1;
}

static void answer_apart(mesh *m, uint32_t row)
{
    const step_shape *s = &m->program->shape;
    const uint32_t k = s->n_experts_used;
    for (uint32_t i = 0; i < k; i++) {
        float *from = m->answers + (size_t)i * s->n_embd;
        for (uint32_t p = 0; p < m->expert_group_part.n_pieces; p++) {
            const mesh_piece *part = &m->expert_group_part.pieces[p];
            if (is_lost(m, part))
                memset(from + part->begin, 0, (part->end - part->begin) * sizeof *from);
        }
        m->k.add_scaled(m->x + (size_t)row * s->n_embd, from, m->weight[row * k + i], s->n_embd);
        mesh_count_collective(m, WAFER_AXIS_Y, &m->expert_group_part, 0, 1);
        mesh_count_collective(m, WAFER_AXIS_X, &m->split_e, 0, 1);
        mesh_count_work(m, m->split_e.most, 1);
    }
}

/* The groups of a column pass their results of a part in at the rows that have its slice. */
static void meet_column(mesh *m, const uint32_t *chosen, uint32_t column, const mesh_piece *part)
{
    const step_shape *s = &m->program->shape;
    const uint32_t n = part->end - part->begin, h = m->layout.height;
    const uint32_t slice = part->begin / m->group_e.pieces[0].end; /* tiles are even */
    memset(m->partial, 0, (size_t)h * n * sizeof *m->partial);
    for (uint32_t i = 0; i < s->n_experts_used; i++) {
        const uint32_t group = chosen[i] % m->expert_groups.n;
        if (group % m->expert_groups.columns != column || is_lost(m, part)) continue;
        const float *from = m->answers + (size_t)i * s->n_embd + part->begin;
        m->k.add(m->partial + (size_t)(m->grounds[group].y + slice) * n, from, n);
    }
    memcpy(m->met + (size_t)column * s->n_embd + part->begin,
           mesh_meet(&m->sum[WAFER_AXIS_Y], m->partial, n), n * sizeof *m->met);
}

/* Along a row each column sends its part of the row's values. */
static void meet_row(mesh *m, const mesh_piece *piece, float *x)
{
    const uint32_t n = piece->end - piece->begin, side = m->expert_groups.side;
    memset(m->partial, 0, (size_t)m->layout.width * n * sizeof *m->partial);
    for (uint32_t p = 0; p < m->expert_group_part.n_pieces; p++) {
        const mesh_piece *part = &m->expert_group_part.pieces[p];
        for (uint32_t k = part->begin; k < part->end; k++) {
            if (k < piece->begin || k >= piece->end) continue;
            for (uint32_t c = 0; c < m->expert_groups.columns; c++)
                m->partial[(size_t)(c * side + part->core) * n + k - piece->begin] =
                    m->met[(size_t)c * m->program->shape.n_embd + k];
        }
    }
    m->k.add(x + piece->begin, mesh_meet(&m->sum[WAFER_AXIS_X], m->partial, n), n);
}

void mesh_expert_groups_answer(mesh *m, uint32_t row)
{
    const step_shape *s = &m->program->shape;
    if (m->layout.order == MESH_EQUAL) {
        answer_apart(m, row);
        return;
    }
    for (uint32_t c = 0; c < m->expert_groups.columns; c++)
        for (uint32_t p = 0; p < m->expert_group_part.n_pieces; p++)
            meet_column(m, m->chosen + (size_t)row * s->n_experts_used, c,
                        &m->expert_group_part.pieces[p]);
    for (uint32_t i = 0; i < m->split_e.n_pieces; i++)
        meet_row(m, &m->split_e.pieces[i], m->x + (size_t)row * s->n_embd);
    mesh_count_collective(m, WAFER_AXIS_Y, &m->expert_group_part, 0, 1);
    mesh_count_collective(m, WAFER_AXIS_X, &m->split_e, 0, 1);
    mesh_count_work(m, m->split_e.most, 1);
}
