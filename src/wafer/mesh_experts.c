/* mesh_experts.c - mixture of experts: every core has a part of each expert, or they are on groups
 * (mesh_expert_groups.c).
 *
 * All cores of a row get the router's best in a reduction along x; ties go to the lower index, so
 * the order in which candidates meet does not matter. */
#include "wafer/mesh_bound.h"
#include "wafer/mesh_core.h"

/* The k largest, best first, ties to the lower index; their values are copied out. */
static void mesh_experts_take_top(const float *values, uint32_t n, uint32_t k, uint32_t *chosen,
                                  float *best)
{
    for (uint32_t i = 0, n_taken = 0; i < n; i++) {
        if (n_taken == k && !(values[i] > best[k - 1])) continue;
        uint32_t rank = n_taken < k ? n_taken++ : k - 1;
        for (; rank > 0 && values[i] > best[rank - 1]; rank--) {
            chosen[rank] = chosen[rank - 1];
            best[rank] = best[rank - 1];
        }
        chosen[rank] = i;
        best[rank] = values[i];
    }
}

/* For the k chosen: the weights, then both in ascending order of experts. */
static void mesh_experts_choose(mesh *m, float *logits, uint32_t *chosen, float *weight)
{
    const step_shape *s = &m->program->shape;
    const uint32_t k = s->n_experts_used;
    float sum = 0;
    switch (s->routing) {
    case STEP_ROUTE_SOFTMAX_TOP:
        mesh_softmax(m, logits, &m->split_r);
        mesh_experts_take_top(logits, s->n_experts, k, chosen, weight);
        for (uint32_t i = 0; i < k; i++) sum += weight[i];
        sum = sum > 6.103515625e-5f ? sum : 6.103515625e-5f; /* as the CPU's */
        for (uint32_t i = 0; i < k; i++) weight[i] = weight[i] / sum * s->routing_scale;
        break;
    case STEP_ROUTE_TOP_SOFTMAX:
        mesh_experts_take_top(logits, s->n_experts, k, chosen, weight);
        mesh_softmax_local(m, weight, k); /* every core has all k */
        break;
    case STEP_ROUTE_SIGMOID_TOP: CHECK(false); break; /* wafer_check_modelled() */
    }
    mesh_count_collective(m, WAFER_AXIS_X, NULL, 2 * k, 1);
    for (uint32_t i = 1; i < k; i++)
        for (uint32_t j = i; j > 0 && chosen[j] < chosen[j - 1]; j--) {
            const uint32_t e = chosen[j];
            const float w = weight[j];
            chosen[j] = chosen[j - 1], weight[j] = weight[j - 1];
            chosen[j - 1] = e, weight[j - 1] = w;
        }
}

void mesh_route(mesh *m, const step_op *op, const mesh_tiles *const *w)
{
    const step_shape *s = &m->program->shape;
    const uint32_t n = s->n_experts, k = s->n_experts_used;
    const uint32_t acts = step_acts(op) | step_acts(op + 1);
    for (uint32_t r = 0; r < m->n_rows; r++) mesh_norm(m, op, r, r, acts);
    mesh_matmul(m, m->y, n, w[0], 0, &m->normed, 0, m->n_rows);
    for (uint32_t r = 0; r < m->n_rows; r++) {
        float *logits = m->y + (size_t)r * n;
        mesh_at_row(m, r);
        mesh_scale_output(m, logits, w[0]->n, r);
        mesh_norm_end(m, r);
        if (op->bias[0]) m->k.add(logits, op->bias[0], n);
        if (m->bound) mesh_bound_route(m, op, w[0], r, logits);
        mesh_experts_choose(m, logits, m->chosen + (size_t)r * k, m->weight + (size_t)r * k);
    }
    mesh_at_all(m);
}

/* y = W_e x[row], for row r of the pass.  Rows of a prompt that chose the same expert go through it
 * together, and are counted so. */
static void mesh_experts_product(mesh *m, float *y, const mesh_tiles *w, uint32_t e,
                                 const mesh_rows *x, uint32_t row, uint32_t r)
{
    if (m->is_prompt) mesh_gemm_row(m, y, w, e, x, row, r / m->line_rows);
    else mesh_matmul(m, y, w->w->rows, w, e, x, row, 1);
}

/* Row r, expert number i of its chosen: hidden row r k + i. */
void mesh_experts_up(mesh *m, const step_op *op, const mesh_tiles *const *w)
{
    const step_shape *s = &m->program->shape;
    const uint32_t n = s->n_ff_expert, k = s->n_experts_used;
    const bool apart = m->expert_groups.n != 0;
    if (apart) mesh_expert_groups_send(m, step_acts(op));
    for (uint32_t i = 0; i < m->n_rows * k; i++) {
        const uint32_t r = i / k, e = mesh_expert_groups_enter(m, m->chosen[i]);
        float *y[2] = {m->y, m->up};
        mesh_at_row(m, r);
        for (int j = 0; j < 2; j++) {
            mesh_experts_product(m, y[j], w[j], e, apart ? &m->received : &m->normed,
                                 apart ? i : r, r);
            if (op->bias[j]) m->k.add(y[j], op->bias[j] + (size_t)e * n, n);
        }
        if (m->bound) mesh_bound_up(m, NULL, w, e, r, i, y[0], y[1]);
        mesh_activate(m, y[0], y[1], n);
        memcpy(m->hidden.f + (size_t)i * n, y[0], n * sizeof(float));
        mesh_count_work(m, w[0]->n->most, 8);
        mesh_at_all(m);
    }
    for (int j = 0; m->is_prompt && j < 2; j++) mesh_gemm_count_experts(m, w[j]);
}

/* The output of an expert for hidden row i, on its group. */
static void mesh_experts_answer(mesh *m, uint32_t i, const mesh_tiles *w)
{
    const uint32_t n = m->program->shape.n_embd, k = m->program->shape.n_experts_used;
    float *to = m->answers + (size_t)(i % k) * n;
    memcpy(to, m->y, n * sizeof *to);
    if (m->layout.order == MESH_EQUAL) return;
    for (uint32_t j = 0; j < n; j++) to[j] *= m->weight[i];
    mesh_count_work(m, w->n->most, 1);
}

/* In ascending order of experts, for every row. */
void mesh_experts_down(mesh *m, const step_op *op, const mesh_tiles *const *w)
{
    const step_shape *s = &m->program->shape;
    const uint32_t n = s->n_embd, k = s->n_experts_used;
    for (uint32_t i = 0; i < m->n_rows * k; i++) {
        const uint32_t r = i / k, e = mesh_expert_groups_enter(m, m->chosen[i]);
        mesh_at_row(m, r);
        mesh_quantize(m, &m->hidden, i, step_acts(op), WAFER_AXIS_X);
        mesh_experts_product(m, m->y, w[0], e, &m->hidden, i, r);
        if (op->bias[0]) m->k.add(m->y, op->bias[0] + (size_t)e * n, n);
        if (m->bound) mesh_bound_down(m, w[0], e, r, i, m->weight[i], m->y);
        if (m->expert_groups.n) {
            mesh_experts_answer(m, i, w[0]);
            mesh_at_all(m);
            if (i % k == k - 1) mesh_expert_groups_answer(m, r);
            continue;
        }
        m->k.add_scaled(m->x + (size_t)r * n, m->y, m->weight[i], n);
        mesh_count_work(m, mesh_stream(m)->most, 1);
        mesh_at_all(m);
    }
    if (m->is_prompt) mesh_gemm_count_experts(m, w[0]);
}
