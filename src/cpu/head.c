/* head.c - the output head where only the best logits are wanted: a screen first, then the truth
 * of what may win.
 *
 * The screen (model/derive.c) gives every logit to within error |x|.  The n-th greatest of the
 * lower bounds is below the n-th greatest logit; a panel none of whose upper bounds reaches it
 * holds none of the n best, and gets -INFINITY.  The others are computed as ever: the same bits.
 * Lower bounds are counted by panel, one for each, which can only lower the mark. */
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
    if (op->kind != STEP_HEAD || !op->screen) return false;
    if (ex->n_head_rows == 0 || ex->n_head_rows > PASS_SEARCH_ROWS) return false;
    const pass_search_class *c = class_of(ex);
    if (c->rest > 0 || c->whole.n < PASS_SEARCH_TRIAL) return false;
    for (uint32_t i = 0; i < ex->n_head_rows; i++) {
        uint32_t n = ex->rows[ex->head_rows[i]].n_best;
        if (n == 0 || n > CPU_BEST_MAX || n > op->w[0]->n_panels) return false;
    }
    return true;
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

void pass_search_norm(cpu_executor *ex, const step_op *op, uint32_t i)
{
    const pass_rows *in = &ex->normed;
    const uint32_t parts = step_parts(op);
    float norm = 0; /* of a sum at most the sum of the norms, with its own rounding */
    for (uint32_t p = 0; p < parts; p++)
        norm += norm_of(pass_acts(in, op->w[0]->type, parts * i + p), (uint32_t)in->q_stride);
    ex->search.norm[i] = norm * (1 + 0x1p-20f);
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
 * where none is.  What is not finite proves nothing: no
 * lower bound then, and an upper one that is always reached; rows that the panel lacks have an
 * error without bounds.  Straight loops over sixteen, which compilers turn into vectors. */
static void bounds(const float *restrict logits, const float *restrict error, float norm,
                   uint32_t allowed, float *restrict low, float *restrict high)
{
    float l[KERNEL_PANEL_ROWS], h[KERNEL_PANEL_ROWS];
    for (uint32_t r = 0; r < KERNEL_PANEL_ROWS; r++) {
        float apart = error[r] * norm + 0x1p-100f; /* and what underflow may have lost */
        float below = logits[r] - apart, above = logits[r] + apart;
        bool counts = allowed >> r & 1;
        l[r] = below <= FLT_MAX && counts ? below : -INFINITY;
        h[r] = above == above ? above : INFINITY;
        if (!(h[r] > -FLT_MAX)) h[r] = -FLT_MAX; /* -INFINITY is what is not allowed */
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
    const size_t stride = pass_head_matmul(ex, op, scratch->y, w, &b, &ex->normed);
    for (uint32_t r = b.row; r < b.row + b.n_rows; r++, y += stride) {
        for (uint32_t p = 0; p < b.n_panels; p++) {
            size_t at = (size_t)r * w->n_panels + b.panel + p;
            uint32_t first = p * KERNEL_PANEL_ROWS;
            uint32_t allowed = allowed_in(&ex->rows[ex->head_rows[r]], b.panel + p);
            bounds(y + first, w->row_error + b.first + first, ex->search.norm[r], allowed,
                   &ex->search.low[at], &ex->search.high[at]);
        }
    }
}

/* The n-th greatest of low[n_low], n <= CPU_BEST_MAX: the least of a sorted list of the best. */
static float nth_greatest(const float *low, uint32_t n_low, uint32_t n)
{
    float best[CPU_BEST_MAX];
    for (uint32_t i = 0; i < n; i++) best[i] = -INFINITY;
    for (uint32_t i = 0; i < n_low; i++) {
        if (!(low[i] > best[n - 1])) continue;
        uint32_t at = n - 1;
        for (; at > 0 && best[at - 1] < low[i]; at--) best[at] = best[at - 1];
        best[at] = low[i];
    }
    return best[n - 1];
}

/* Where fewer panels than wanted logits are allowed, the mark is -INFINITY. */
static bool is_wanted(float high, float mark) { return high >= mark && high > -INFINITY; }

/* Tokens apart (to be penalised) are computed and set no mark, so whatever a penalty makes of them
 * is made of the truth, and the mark holds without them. */
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

/* Neighbours that are wanted go through the matrix together. */
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
            const pass_block b = {.row = r, .n_rows = 1, .panel = p, .n_panels = n};
            if (wanted) {
                pass_head_matmul(ex, op, scratch->y, w, &b, &ex->normed);
                memcpy(out, scratch->y, n * KERNEL_PANEL_ROWS * sizeof *out);
                pass_finish_logits(ex, out, n * KERNEL_PANEL_ROWS);
            }
            for (uint32_t i = 0; !wanted && i < n * KERNEL_PANEL_ROWS; i++) out[i] = -INFINITY;
        }
        if (!row->tops) continue;
        uint32_t at = first * KERNEL_PANEL_ROWS, last = smaller(end * KERNEL_PANEL_ROWS, w->rows);
        row->tops[unit] = greatest_of(logits + at, last - at);
    }
}

void pass_search_begins(cpu_executor *ex)
{
    uint64_t none = 0;
    if (atomic_load_explicit(&ex->search.begin_ns, memory_order_relaxed)) return;
    atomic_compare_exchange_strong(&ex->search.begin_ns, &none, clock_ns());
}

/* The least of the first passes, as they find cold memory and busy cores, then a running mean of
 * what is no accident. */
static void see_time(pass_time *t, double ns)
{
    if (t->n < PASS_SEARCH_TRIAL) {
        t->ns = t->n == 0 || ns < t->ns ? ns : t->ns;
        t->n++;
    } else {
        t->ns += ((ns < 2 * t->ns ? ns : 2 * t->ns) - t->ns) / 8;
    }
}

/* Time decides, because what the second look costs depends on where the head lies as much as on
 * what it must read again: beside a cache that holds the head, a screen saves nothing.  Where
 * searching took longer, the next passes read the whole head: the more of them, the more often
 * that was so in a row. */
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
