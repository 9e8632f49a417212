/* head.c - the output head when only the best logits are wanted: bounds first, then exact logits of
 * the candidates.
 *
 * The n-th greatest lower bound (the mark) is at most the n-th greatest logit; a panel without an
 * upper bound that reaches it has none of the n best, and gets -INFINITY.  The others are computed
 * as usual, with the same bits.  Each panel gives one lower bound, which can only lower the mark.
 *
 * Bounds come from a screen (model/derive.c), which gives the product with the first part of the
 * input to within error |x|; or, without one, from that product itself.  In both, the second part
 * of the input (the rounding error) moves a logit by at most its norm times that of the row (Cauchy
 * and Schwarz).  With a screen all bounds are known before a logit is computed; without one each
 * worker uses the bounds that it has seen, which are fewer, and still valid. */
#include "cpu/pass.h"

#include <float.h>
#include <math.h>

/* Of 1, 2, to 4, to 8, ... rows. */
static pass_search_class *class_of(cpu_executor *ex)
{
    uint32_t class = 0;
    _Static_assert(1 << (PASS_SEARCH_CLASSES - 1) >= PASS_SEARCH_ROWS, "every pass has a class");
    while (1u << class < ex->n_head_rows) class++;
    return &ex->search.by_rows[class];
}

bool pass_searches(cpu_executor *ex)
{
    const step_op *op = &ex->program->ops[ex->program->n_ops - 1];
    if (op->kind != STEP_HEAD || !op->screen || ex->observe || ex->panels) return false;
    if (ex->n_head_rows == 0 || ex->n_head_rows > PASS_SEARCH_ROWS) return false;
    const pass_search_class *c = class_of(ex);
    if (c->rest > 0 || c->whole.n < PASS_SEARCH_TRIAL) return false;
    for (uint32_t i = 0; i < ex->n_head_rows; i++) {
        uint32_t n = ex->rows[ex->head_rows[i]].n_best;
        if (n == 0 || n > CPU_BEST_MAX || n > op->w[0]->n_panels) return false;
    }
    return true;
}

/* Do all rows need n_best logits only?  The search handles tokens in `apart` (with penalties),
 * which set no mark and are computed. */
bool pass_goes_by_parts(const cpu_executor *ex)
{
    const step_op *op = &ex->program->ops[ex->program->n_ops - 1];
    if (op->kind != STEP_HEAD || !op->w[0]->panel_norm || ex->n_head_rows > PASS_SEARCH_ROWS)
        return false;
    for (uint32_t i = 0; i < ex->n_head_rows; i++) {
        const cpu_row *row = &ex->rows[ex->head_rows[i]];
        if (row->n_best == 0 || row->n_best > CPU_BEST_MAX) return false;
        if (row->n_apart[0] > 0 || row->n_apart[1] > 0) return false;
    }
    return ex->n_head_rows > 0;
}

/* |x| of a row in 8 bits, rounded upwards. */
static float norm_of(const kernel_act *x, uint32_t n_groups)
{
    double sum = 0;
    for (uint32_t i = 0; i < n_groups * KERNEL_GROUP; i += KERNEL_BLOCK) {
        const int8_t *q = x[i / KERNEL_GROUP].q + i % KERNEL_GROUP;
        const double scale = (double)kernel_act_scale(x, i);
        int32_t squares = 0; /* 32 * 127^2 < 2^19 */
        for (uint32_t j = 0; j < KERNEL_BLOCK; j++) squares += q[j] * q[j];
        sum += scale * scale * squares;
    }
    return (float)(sqrt(sum) * (1 + 0x1p-20));
}

float pass_rest_norm(const cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t i)
{
    const block_type type = op->w[0]->type;
    const uint32_t n_groups = (uint32_t)in->q_stride, n_cols = op->w[0]->cols;
    const float norm = norm_of(pass_acts(in, type, pass_part(ex, op, i, 0)), n_groups);
    const float rest = norm_of(pass_acts(in, type, pass_part(ex, op, i, 1)), n_groups);
    return rest + (float)model_product_rounding(n_cols) * (norm + rest) * (1 + 0x1p-20f) + 0x1p-60f;
}

void pass_search_norm(cpu_executor *ex, const step_op *op, uint32_t i)
{
    const pass_rows *in = &ex->normed;
    ex->search.norm[i] = norm_of(pass_acts(in, op->w[0]->type, pass_part(ex, op, i, 0)),
                                 (uint32_t)in->q_stride);
    ex->search.rest[i] = pass_rest_norm(ex, op, in, i);
}

/* Which of a panel's tokens are allowed in a row, as bits. */
static uint32_t allowed_in(const cpu_row *row, uint32_t panel)
{
    uint32_t first = panel * KERNEL_PANEL_ROWS;
    _Static_assert(64 % KERNEL_PANEL_ROWS == 0, "a panel is within a word");
    if (!row->allowed) return (1u << KERNEL_PANEL_ROWS) - 1;
    return (uint32_t)(row->allowed[first / 64] >> (first % 64)) & ((1u << KERNEL_PANEL_ROWS) - 1);
}

/* The greatest lower and upper bound of a panel's logits, of those that are allowed; -INFINITY
 * where none is.  rest: what the second part may add.  A value that is not finite proves nothing:
 * it gives no lower bound, and an upper bound of infinity; rows beyond the panel's end have an
 * infinite error.  Straight loops over sixteen, which compilers turn into vectors. */
static void bounds(const float *restrict logits, const float *restrict error, float norm,
                   float rest, uint32_t allowed, float *restrict low, float *restrict high)
{
    float l[KERNEL_PANEL_ROWS], h[KERNEL_PANEL_ROWS];
    for (uint32_t r = 0; r < KERNEL_PANEL_ROWS; r++) {
        float apart = error[r] * norm + rest;
        float below = logits[r] - apart, above = logits[r] + apart;
        bool counts = allowed >> r & 1;
        l[r] = below <= FLT_MAX && counts ? below : -INFINITY;
        h[r] = above == above ? above : INFINITY;
        if (!(h[r] > -FLT_MAX)) h[r] = -FLT_MAX; /* forbidden tokens are -INFINITY */
        if (!counts) h[r] = -INFINITY;
    }
    for (uint32_t n = KERNEL_PANEL_ROWS / 2; n > 0; n /= 2) {
        for (uint32_t r = 0; r < n; r++) {
            l[r] = l[r] > l[r + n] ? l[r] : l[r + n];
            h[r] = h[r] > h[r + n] ? h[r] : h[r + n];
        }
    }
    *low = l[0];
    *high = h[0];
}

void pass_screen(cpu_executor *ex, const step_op *op, uint32_t unit, pass_scratch *scratch)
{
    const model_matrix *w = op->screen;
    pass_block b = pass_head_block(ex, op, w, unit);
    const float *y = scratch->y;
    const size_t stride = (size_t)b.n_panels * KERNEL_PANEL_ROWS;
    pass_product(ex, scratch->y, stride, w, 0, b.panel, b.n_panels, &ex->normed,
                 pass_part(ex, op, b.row, 0), b.n_rows);
    for (uint32_t r = b.row; r < b.row + b.n_rows; r++, y += stride) {
        for (uint32_t p = 0; p < b.n_panels; p++) {
            size_t at = (size_t)r * w->n_panels + b.panel + p;
            uint32_t first = p * KERNEL_PANEL_ROWS;
            uint32_t allowed = allowed_in(&ex->rows[ex->head_rows[r]], b.panel + p);
            float rest = op->w[0]->panel_norm[b.panel + p] * ex->search.rest[r];
            bounds(y + first, w->row_error + b.first + first, ex->search.norm[r], rest, allowed,
                   &ex->search.low[at], &ex->search.high[at]);
        }
    }
}

/* Into best [n], descending. */
static void take_best(float *best, uint32_t n, float low)
{
    if (!(low > best[n - 1])) return;
    uint32_t at = n - 1;
    for (; at > 0 && best[at - 1] < low; at--) best[at] = best[at - 1];
    best[at] = low;
}

/* The n-th greatest of low[n_low], n <= CPU_BEST_MAX: the least of a sorted list of the best. */
static float nth_greatest(const float *low, uint32_t n_low, uint32_t n)
{
    float best[CPU_BEST_MAX];
    for (uint32_t i = 0; i < n; i++) best[i] = -INFINITY;
    for (uint32_t i = 0; i < n_low; i++) take_best(best, n, low[i]);
    return best[n - 1];
}

/* Where fewer panels than wanted logits are allowed, the mark is -INFINITY. */
static bool is_wanted(float high, float mark) { return high >= mark && high > -INFINITY; }

/* Tokens in `apart` are computed and set no mark, so penalties apply to exact logits, and the mark
 * holds without them. */
void pass_search_mark(cpu_executor *ex, const step_op *op, uint32_t i)
{
    const cpu_row *row = &ex->rows[ex->head_rows[i]];
    uint32_t n_panels = op->screen->n_panels, n = 0;
    float *low = ex->search.low + (size_t)i * n_panels;
    float *high = ex->search.high + (size_t)i * n_panels;
    for (int k = 0; k < 2; k++)
        for (uint32_t t = 0; t < row->n_apart[k]; t++) {
            uint32_t panel = (uint32_t)row->apart[k][t] / KERNEL_PANEL_ROWS;
            low[panel] = -INFINITY;
            high[panel] = INFINITY;
        }
    float mark = nth_greatest(low, n_panels, row->n_best);
    for (uint32_t p = 0; p < n_panels; p++) n += is_wanted(high[p], mark);
    ex->search.mark[i] = mark;
    ex->search.n_panels[i] = n;
}

/* y [n][16] += the products of panels with the second part of a row, which are in z then. */
static void add_rest(const cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t row,
                     uint32_t panel, uint32_t n, float *y, float *z)
{
    const uint32_t values = n * KERNEL_PANEL_ROWS;
    pass_product(ex, z, values, op->w[0], 0, panel, n, in, pass_part(ex, op, row, 1), 1);
    ex->k->add(y, z, values);
}

static void leave_out(float *logits, uint32_t n_panels)
{
    for (; n_panels > 0; n_panels--, logits += KERNEL_PANEL_ROWS)
        for (int r = 0; r < KERNEL_PANEL_ROWS; r++) logits[r] = -INFINITY;
}

/* Compute neighbouring wanted panels together. */
void pass_search(cpu_executor *ex, const step_op *op, uint32_t unit, pass_scratch *scratch)
{
    const model_matrix *w = op->w[0];
    uint32_t first = unit * PASS_HEAD_PANELS, end = smaller(first + PASS_HEAD_PANELS, w->n_panels);
    for (uint32_t r = 0; r < ex->n_head_rows; r++) {
        const float *high = ex->search.high + (size_t)r * w->n_panels, mark = ex->search.mark[r];
        const cpu_row *row = &ex->rows[ex->head_rows[r]];
        float *logits = row->logits;
        for (uint32_t p = first, n; p < end; p += n) {
            bool wanted = is_wanted(high[p], mark);
            for (n = 1; p + n < end && is_wanted(high[p + n], mark) == wanted; n++) continue;
            float *out = logits + (size_t)p * KERNEL_PANEL_ROWS;
            const uint32_t values = n * KERNEL_PANEL_ROWS;
            if (wanted) {
                pass_product(ex, scratch->y, values, w, 0, p, n, &ex->normed,
                             pass_part(ex, op, r, 0), 1);
                add_rest(ex, op, &ex->normed, r, p, n, scratch->y, scratch->y + values);
                memcpy(out, scratch->y, values * sizeof *out);
                pass_finish_logits(ex, out, values);
            }
            if (!wanted) leave_out(out, n);
        }
        if (!row->tops) continue;
        uint32_t at = first * KERNEL_PANEL_ROWS, last = smaller(end * KERNEL_PANEL_ROWS, w->rows);
        row->tops[unit] = greatest_of(logits + at, last - at);
    }
}

/* A worker's own lists and norms of a pass, at the first of its units. */
static void begin_best(const cpu_executor *ex, const step_op *op, const pass_rows *in,
                       pass_scratch *scratch)
{
    if (scratch->best_of == ex->number) return;
    scratch->best_of = ex->number;
    for (uint32_t i = 0; i < ex->n_head_rows; i++) {
        float *best = scratch->best + i * CPU_BEST_MAX;
        for (uint32_t k = 0; k < ex->rows[ex->head_rows[i]].n_best; k++) best[k] = -INFINITY;
        scratch->rest[i] = pass_rest_norm(ex, op, in, i);
    }
}

/* The greatest bounds of the first products of a panel, or of its n; apart: what the second part
 * may add to one. */
static void part_bounds(const float *y, uint32_t n, float apart, const cpu_row *row, uint32_t panel,
                        float *low, float *high)
{
    static const float no_error[KERNEL_PANEL_ROWS];
    if (row->allowed) {
        uint32_t allowed = allowed_in(row, panel);
        if (n < KERNEL_PANEL_ROWS) allowed &= (1u << n) - 1; /* no such tokens */
        bounds(y, no_error, 0, apart, allowed, low, high);
        return;
    }
    const float top = greatest_of(y, n < KERNEL_PANEL_ROWS ? n : KERNEL_PANEL_ROWS);
    *low = top - apart;
    *high = top + apart;
    if (!(*high <= FLT_MAX)) *high = INFINITY; /* what is not a number proves nothing */
}

/* y: the first products of row r in a unit's panels; those that may be among the best become its
 * logits, the others are left out.  Their maximum. */
static float complete_best(const cpu_executor *ex, const step_op *op, const pass_rows *in,
                           const pass_block *b, const float *norms, uint32_t r, float *y,
                           float *z, const pass_scratch *scratch)
{
    const cpu_row *row = &ex->rows[ex->head_rows[r]];
    const float rest = scratch->rest[r];
    float *best = scratch->best + r * CPU_BEST_MAX, high[PASS_HEAD_PANELS];
    if (greatest_of(y, b->n) + greatest_of(norms, b->n_panels) * rest < best[row->n_best - 1]) {
        leave_out(row->logits + b->first, b->n_panels);
        return -INFINITY;
    }
    for (uint32_t p = 0; p < b->n_panels; p++) {
        const uint32_t first = p * KERNEL_PANEL_ROWS;
        float low;
        part_bounds(y + first, b->n - first, norms[p] * rest, row, b->panel + p, &low, &high[p]);
        take_best(best, row->n_best, low);
    }
    const float mark = best[row->n_best - 1];
    for (uint32_t p = 0, n; p < b->n_panels; p += n) {
        const bool wanted = is_wanted(high[p], mark);
        const uint32_t most = pass_head_run(ex, b->panel + p, b->n_panels - p);
        float *out = y + p * KERNEL_PANEL_ROWS;
        for (n = 1; n < most && is_wanted(high[p + n], mark) == wanted; n++) continue;
        if (wanted) {
            add_rest(ex, op, in, r, pass_head_panel(ex, b->panel + p), n, out, z);
            pass_finish_logits(ex, out, n * KERNEL_PANEL_ROWS);
        } else {
            leave_out(out, n);
        }
    }
    memcpy(row->logits + b->first, y, b->n * sizeof *y);
    return greatest_of(y, b->n);
}

void pass_head_best(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
                    pass_scratch *scratch)
{
    const pass_block b = pass_head_block(ex, op, op->w[0], unit);
    const uint32_t stride = b.n_panels * KERNEL_PANEL_ROWS, first = pass_part(ex, op, b.row, 0);
    float *y = scratch->y, *z = y + (size_t)b.n_rows * stride;
    float norms[PASS_HEAD_PANELS];
    begin_best(ex, op, in, scratch);
    for (uint32_t p = 0; p < b.n_panels; p++)
        norms[p] = op->w[0]->panel_norm[pass_head_panel(ex, b.panel + p)];
    if (ex->observe && b.panel == 0) pass_observe(ex, op->w[0], 0, in, first, b.n_rows);
    pass_head_product(ex, op, y, &b, in, first, b.n_rows);
    for (uint32_t r = b.row; r < b.row + b.n_rows; r++, y += stride) {
        float *tops = ex->rows[ex->head_rows[r]].tops;
        const float top = complete_best(ex, op, in, &b, norms, r, y, z, scratch);
        if (tops) tops[b.panel / PASS_HEAD_PANELS] = top;
    }
}

void pass_search_begins(cpu_executor *ex)
{
    uint64_t none = 0;
    if (atomic_load_explicit(&ex->search.begin_ns, memory_order_relaxed)) return;
    atomic_compare_exchange_strong(&ex->search.begin_ns, &none, clock_ns());
}

/* The minimum of the first passes, as they may meet cold memory and busy cores, then a running mean
 * without outliers. */
static void see_time(pass_time *t, double ns)
{
    if (t->n < PASS_SEARCH_TRIAL) {
        t->ns = t->n == 0 || ns < t->ns ? ns : t->ns;
        t->n++;
    } else {
        t->ns += ((ns < 2 * t->ns ? ns : 2 * t->ns) - t->ns) / 8;
    }
}

/* Measured time decides, because the cost of the second read depends on where the head is as much
 * as on its size: if the head is in a cache, a screen saves nothing.  After a slower search the
 * next passes read the whole head, more of them after each such search in a row. */
void pass_search_learn(cpu_executor *ex)
{
    const uint64_t begin = atomic_load(&ex->search.begin_ns);
    if (begin == 0 || ex->n_head_rows > PASS_SEARCH_ROWS) return;
    pass_search_class *c = class_of(ex);
    see_time(ex->search.on ? &c->searched : &c->whole, (double)(clock_ns() - begin));
    if (!ex->search.on) {
        c->rest -= c->rest > 0;
        return;
    }
    if (c->searched.n < PASS_SEARCH_TRIAL || c->searched.ns <= c->whole.ns) {
        if (++c->n_good >= PASS_SEARCH_REST_MIN) c->rest_next = 0;
        if (c->n_good % PASS_SEARCH_REST_MAX == 0) c->rest = 1;
        return;
    }
    c->rest = c->rest_next < PASS_SEARCH_REST_MIN ? PASS_SEARCH_REST_MIN : c->rest_next;
    c->rest_next = smaller(2 * c->rest, PASS_SEARCH_REST_MAX);
    c->searched = (pass_time){0};
    c->n_good = 0;
}
