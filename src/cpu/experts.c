/* experts.c - mixture of experts: routing, and the chosen experts' feed-forward.
 *
 * Rows are sorted by expert into entries, so that each expert's weights are read once for all rows
 * that chose it, and other experts are not read at all.  Sums over experts run in ascending order
 * of their index for every row, so a row's bits do not depend on the batch. */
#include "cpu/pass.h"

#include <math.h>

enum { EXPERTS_MAX = 1024 }; /* src/model refuses more */

static uint32_t router_stride(const step_shape *s)
{
    return (uint32_t)size_round_up(s->n_experts, KERNEL_PANEL_ROWS);
}

static uint32_t choice_units(const cpu_executor *ex, const step_op *op)
{
    return divide_up(op->w[0]->n_panels, PASS_BLOCK_PANELS) * divide_up(ex->n_rows, PASS_TILE);
}

uint32_t pass_route_units(const cpu_executor *ex, const step_op *op)
{
    return choice_units(ex, op) + (op->w[1] ? divide_up(ex->n_rows, PASS_TILE) : 0);
}

/* The gates of the shared expert for the rows of a tile. */
static void find_gates(cpu_executor *ex, const step_op *op, uint32_t tile)
{
    const uint32_t row = tile * PASS_TILE, n_rows = smaller(ex->n_rows - row, PASS_TILE);
    float y[PASS_TILE][KERNEL_PANEL_ROWS];
    pass_matmul(ex, y[0], KERNEL_PANEL_ROWS, op->w[1], 0, 0, 1, &ex->normed, row, n_rows);
    for (uint32_t r = 0; r < n_rows; r++)
        ex->routes.shared_gate[row + r] = kernel_sigmoid_ref(y[r][0]);
}

/* Router logits of one tile and block of experts; then the gates of the tiles. */
void pass_route(cpu_executor *ex, const step_op *op, uint32_t unit)
{
    const step_shape *s = &ex->program->shape;
    const model_matrix *w = op->w[0];
    if (unit >= choice_units(ex, op)) {
        find_gates(ex, op, unit - choice_units(ex, op));
        return;
    }
    pass_block b = pass_block_at(w, PASS_BLOCK_PANELS, ex->n_rows, unit);
    uint32_t stride = router_stride(s);
    float *y = ex->routes.logits + (size_t)b.row * stride + b.first;
    pass_matmul(ex, y, stride, w, 0, b.panel, b.n_panels, &ex->normed, b.row, b.n_rows);
    for (uint32_t r = 0; op->bias[0] && r < b.n_rows; r++)
        ex->k->add(y + (size_t)r * stride, op->bias[0] + b.first, b.n);
}

/* The k largest, best first, ties to the lower index; their values are copied out. */
static void take_top(const float *values, uint32_t n, uint32_t k, uint32_t *chosen, float *out)
{
    for (uint32_t i = 0, n_taken = 0; i < n; i++) {
        if (n_taken == k && !(values[i] > out[k - 1])) continue;
        uint32_t rank = n_taken < k ? n_taken++ : k - 1;
        for (; rank > 0 && values[i] > out[rank - 1]; rank--) {
            chosen[rank] = chosen[rank - 1];
            out[rank] = out[rank - 1];
        }
        chosen[rank] = i;
        out[rank] = values[i];
    }
}

/* Experts outside the best groups count as the worst; a group is as good as its two best, of
 * softmax as its best. */
static void leave_groups(const step_shape *s, float *scores)
{
    const uint32_t group_best = s->routing == STEP_ROUTE_SOFTMAX_TOP ? 1 : 2;
    float of_group[EXPERTS_MAX], best[EXPERTS_MAX];
    uint32_t which[EXPERTS_MAX], per_group = s->n_experts / s->n_expert_groups;
    bool is_best[EXPERTS_MAX] = {0};
    const uint32_t n_best = smaller(per_group, group_best);
    for (uint32_t g = 0; g < s->n_expert_groups; g++) {
        take_top(scores + g * per_group, per_group, n_best, which, best);
        of_group[g] = n_best > 1 ? best[0] + best[1] : best[0];
    }
    take_top(of_group, s->n_expert_groups, s->n_groups_used, which, best);
    for (uint32_t i = 0; i < s->n_groups_used; i++) is_best[which[i]] = true;
    for (uint32_t e = 0; e < s->n_experts; e++)
        if (!is_best[e / per_group]) scores[e] = -INFINITY;
}

/* The best experts by values [n_experts], which may have a bias and groups, and their values. */
static void take_best(const cpu_executor *ex, const step_op *op, const float *values,
                      uint32_t *chosen, float *weight)
{
    const step_shape *s = &ex->program->shape;
    float scores[EXPERTS_MAX];
    if (!op->choice_bias && !s->n_expert_groups) {
        take_top(values, s->n_experts, op->n_used, chosen, weight);
        return;
    }
    CHECK(s->n_experts <= EXPERTS_MAX);
    for (uint32_t e = 0; e < s->n_experts; e++)
        scores[e] = values[e] + (op->choice_bias ? op->choice_bias[e] : 0.0f);
    if (s->n_expert_groups) leave_groups(s, scores);
    take_top(scores, s->n_experts, op->n_used, chosen, weight);
    for (uint32_t i = 0; i < op->n_used; i++) weight[i] = values[chosen[i]];
}

static void choose(cpu_executor *ex, const step_op *op, uint32_t row)
{
    const step_shape *s = &ex->program->shape;
    uint32_t k = op->n_used;
    float *logits = ex->routes.logits + (size_t)row * router_stride(s);
    uint32_t *chosen = ex->routes.chosen + (size_t)row * k;
    float *weight = ex->routes.chosen_weight + (size_t)row * k, sum = 0;
    switch (s->routing) {
    case STEP_ROUTE_TOP_SOFTMAX:
        take_best(ex, op, logits, chosen, weight);
        ex->k->softmax(weight, k);
        for (uint32_t i = 0; i < k; i++) weight[i] *= s->routing_scale;
        return;
    case STEP_ROUTE_SOFTMAX_TOP: ex->k->softmax(logits, s->n_experts); break;
    case STEP_ROUTE_SIGMOID_TOP:
        for (uint32_t i = 0; i < s->n_experts; i++)
            logits[i] = 1.0f / (1.0f + kernel_exp_ref(-logits[i]));
        break;
    }
    take_best(ex, op, logits, chosen, weight);
    for (uint32_t i = 0; i < k; i++) sum += weight[i];
    /* The smallest normal half keeps a row of vanishing weights from dividing by zero. */
    sum = sum > 6.103515625e-5f ? sum : 6.103515625e-5f;
    if (!s->weights_sum_to_one) sum = 1;
    for (uint32_t i = 0; i < k; i++) weight[i] = weight[i] / sum * s->routing_scale;
    for (uint32_t i = 0; op->expert_scale && i < k; i++) weight[i] *= op->expert_scale[chosen[i]];
}

/* Counting sort of (row, rank) by expert; rows stay in order within an expert. */
void pass_pick(cpu_executor *ex, const step_op *op)
{
    pass_routes *routes = &ex->routes;
    uint32_t n_experts = ex->program->shape.n_experts, k = op->n_used;
    uint32_t n = ex->n_rows * k, at = 0;
    uint32_t *count = routes->begin; /* by expert at first */
    memset(count, 0, (n_experts + 1) * sizeof *count);
    for (uint32_t r = 0; r < ex->n_rows; r++) choose(ex, op, r);
    for (uint32_t i = 0; i < n; i++) count[routes->chosen[i]]++;
    for (uint32_t e = 0; e < n_experts; e++) {
        uint32_t c = count[e];
        count[e] = at;
        at += c;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t entry = count[routes->chosen[i]]++;
        routes->row[entry] = i / k;
        routes->weight[entry] = routes->chosen_weight[i];
    }
    /* count[e] is now the end of expert e: keep the experts that have entries. */
    uint32_t n_active = 0, begin = 0;
    for (uint32_t e = 0; e < n_experts; e++) {
        uint32_t end = count[e];
        if (end == begin) continue;
        routes->active[n_active] = e;
        routes->begin[n_active++] = begin;
        begin = end;
    }
    routes->begin[n_active] = n;
    routes->n_active = n_active;
    routes->n_entries = n;
}

/* What experts read of each row. */
static pass_rows input_of(const cpu_executor *ex, const step_op *op)
{
    return op->is_narrow ? ex->narrowed : ex->normed;
}

void pass_experts_in(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
                     pass_scratch *scratch)
{
    const pass_block b = pass_block_at(op->w[0], PASS_BLOCK_PANELS, ex->n_rows, unit);
    const size_t stride = (size_t)b.n_panels * KERNEL_PANEL_ROWS;
    const float *y = scratch->y;
    pass_matmul(ex, scratch->y, stride, op->w[0], 0, b.panel, b.n_panels, in, b.row, b.n_rows);
    for (uint32_t r = b.row; r < b.row + b.n_rows; r++, y += stride)
        memcpy(ex->narrowed.f + r * ex->narrowed.f_stride + b.first, y, b.n * sizeof *y);
}

void pass_experts_in_finish(cpu_executor *ex, const step_op *op, uint32_t row)
{
    const pass_rows *to = &ex->narrowed;
    const uint32_t acts = step_acts(op + 1);
    for (int a = 0; a < KERNEL_ACTS_END; a++)
        if (acts >> a & 1)
            ex->k->quantize[a](to->q[a] + row * to->q_stride, to->f + row * to->f_stride,
                               op->w[0]->rows);
}

void pass_gather(cpu_executor *ex, const step_op *op, uint32_t entry)
{
    if (entry >= ex->routes.n_entries) return; /* planned for the most experts of any layer */
    const uint32_t row = ex->routes.row[entry];
    const pass_rows from = input_of(ex, op), to = ex->gathered;
    for (int a = 0; a < KERNEL_ACTS_END; a++)
        if (to.q[a] && from.q[a])
            memcpy(to.q[a] + entry * to.q_stride, from.q[a] + row * from.q_stride,
                   to.q_stride * sizeof(kernel_act));
    if (to.f)
        memcpy(to.f + entry * to.f_stride, from.f + row * from.f_stride,
               to.f_stride * sizeof(float));
}

/* Unit: (active expert, block of 128 rows of gate and up), for all entries of the expert. */
void pass_experts_up(cpu_executor *ex, const step_op *op, uint32_t unit, pass_scratch *scratch)
{
    const model_matrix *w = op->w[0];
    uint32_t n_blocks = divide_up(w->n_panels, PASS_UP_PANELS), a = unit / n_blocks;
    if (a >= ex->routes.n_active) return; /* planned for the most experts that rows can choose */
    uint32_t expert = ex->routes.active[a], block = unit % n_blocks;
    uint32_t panel = block * PASS_UP_PANELS;
    uint32_t n_panels = smaller(w->n_panels - panel, PASS_UP_PANELS);
    uint32_t first = panel * KERNEL_PANEL_ROWS;
    uint32_t n = smaller(w->rows - first, n_panels * KERNEL_PANEL_ROWS);
    float *y[2] = {scratch->y, scratch->y + PASS_TILE * KERNEL_GROUP};
    const pass_rows only = input_of(ex, op);
    uint32_t end = ex->routes.begin[a + 1];
    for (uint32_t e = ex->routes.begin[a]; e < end; e += PASS_TILE) {
        uint32_t n_rows = smaller(end - e, PASS_TILE);
        bool one = ex->n_rows == 1; /* one row feeds all its experts: nothing was gathered */
        for (int i = 0; i < 2 && op->w[i]; i++) {
            pass_matmul(ex, y[i], KERNEL_GROUP, op->w[i], expert, panel, n_panels,
                        one ? &only : &ex->gathered, one ? 0 : e, n_rows);
            const float *bias = op->bias[i];
            for (uint32_t r = 0; bias && r < n_rows; r++)
                ex->k->add(y[i] + r * KERNEL_GROUP, bias + (size_t)expert * w->rows + first, n);
        }
        pass_activate(ex, op, y[0], y[1], n_rows, n, block, e);
    }
}

/* Unit: a block of output rows, for all experts in ascending order. */
void pass_experts_down(cpu_executor *ex, const step_op *op, uint32_t unit, pass_scratch *scratch)
{
    const model_matrix *w = op->w[0];
    uint32_t panel = unit * PASS_BLOCK_PANELS;
    uint32_t n_panels = smaller(w->n_panels - panel, PASS_BLOCK_PANELS);
    uint32_t first = panel * KERNEL_PANEL_ROWS;
    uint32_t n = smaller(w->rows - first, n_panels * KERNEL_PANEL_ROWS);
    size_t stride = (size_t)n_panels * KERNEL_PANEL_ROWS;
    const pass_rows hidden = pass_rows_of(&ex->hidden, w->cols);
    const bool is_apart = op->post_norm || op->is_narrow;
    float *sum = op->is_narrow ? ex->attended.f : op->post_norm ? ex->branch : ex->x;
    for (uint32_t r = 0; is_apart && r < ex->n_rows; r++)
        memset(sum + (size_t)r * w->rows + first, 0, n * sizeof *sum);
    for (uint32_t a = 0; a < ex->routes.n_active; a++) {
        uint32_t expert = ex->routes.active[a], end = ex->routes.begin[a + 1];
        const float *bias = op->bias[0] ? op->bias[0] + (size_t)expert * w->rows + first : NULL;
        for (uint32_t e = ex->routes.begin[a]; e < end; e += PASS_TILE) {
            uint32_t n_rows = smaller(end - e, PASS_TILE);
            float *y = scratch->y;
            pass_matmul(ex, y, stride, w, expert, panel, n_panels, &hidden, e, n_rows);
            for (uint32_t r = 0; r < n_rows; r++, y += stride) {
                if (bias) ex->k->add(y, bias, n);
                ex->k->add_scaled(sum + (size_t)ex->routes.row[e + r] * w->rows + first, y,
                                  ex->routes.weight[e + r], n);
            }
        }
    }
}
