/* logits.c - the output head: the products of all panels that a pass wants.
 *
 * Those are all, or the same list of some for each row (cpu_row.panels): then places in that list
 * stand for panels, and logits follow each other as the list says. */
#include "cpu/pass.h"

void pass_finish_logits(const cpu_executor *ex, float *logits, uint32_t n)
{
    const step_shape *s = &ex->program->shape;
    const float cap = s->logit_cap;
    for (uint32_t i = 0; s->logit_scale != 1 && i < n; i++) logits[i] *= s->logit_scale;
    /* tanh(u) as 1 - 2 / (1 + e^2u): both ends are exact, and so is 0. */
    for (uint32_t i = 0; cap != 0 && i < n; i++)
        logits[i] = cap * (1.0f - 2.0f / (1.0f + kernel_exp_ref(2.0f * (logits[i] / cap))));
}

uint32_t pass_head_panels(const cpu_executor *ex, const model_matrix *w)
{
    return ex->panels ? ex->n_panels : w->n_panels;
}

uint32_t pass_head_panel(const cpu_executor *ex, uint32_t at)
{
    return ex->panels ? ex->panels[at] : at;
}

uint32_t pass_head_run(const cpu_executor *ex, uint32_t at, uint32_t n_max)
{
    uint32_t n = 1;
    if (!ex->panels) return n_max;
    while (n < n_max && ex->panels[at + n] == ex->panels[at] + n) n++;
    return n;
}

pass_block pass_head_block(const cpu_executor *ex, const step_op *op, const model_matrix *w,
                           uint32_t unit)
{
    const uint32_t parts = step_parts(op), n_panels = pass_head_panels(ex, w);
    const uint32_t last = pass_head_panel(ex, n_panels - 1) * KERNEL_PANEL_ROWS;
    const uint32_t n = (n_panels - 1) * KERNEL_PANEL_ROWS + smaller(w->rows - last,
                                                                    KERNEL_PANEL_ROWS);
    pass_block b = pass_block_of(n_panels, n, PASS_HEAD_PANELS, parts * ex->n_head_rows, unit);
    b.row /= parts;
    b.n_rows /= parts;
    return b;
}

void pass_head_product(const cpu_executor *ex, const step_op *op, float *y, const pass_block *b,
                       const pass_rows *in, uint32_t row, uint32_t n_rows)
{
    const uint32_t stride = b->n_panels * KERNEL_PANEL_ROWS;
    for (uint32_t p = 0, n; p < b->n_panels; p += n, y += n * KERNEL_PANEL_ROWS) {
        n = pass_head_run(ex, b->panel + p, b->n_panels - p);
        pass_product(ex, y, stride, op->w[0], 0, pass_head_panel(ex, b->panel + p), n, in, row,
                     n_rows);
    }
}

/* y [b->n_rows][panels] = the products of rows, both parts of each; weights are read once. */
static void whole_products(const cpu_executor *ex, const step_op *op, float *y,
                           const pass_block *b, const pass_rows *in)
{
    const uint32_t stride = b->n_panels * KERNEL_PANEL_ROWS, parts = step_parts(op);
    const uint32_t row = pass_part(ex, op, b->row, 0);
    if (ex->observe && b->panel == 0) /* without what rounding lost */
        pass_observe(ex, op->w[0], 0, in, row, b->n_rows);
    pass_head_product(ex, op, y, b, in, row, parts * b->n_rows);
    if (parts == 2) ex->k->add(y, y + b->n_rows * stride, b->n_rows * stride);
}

static void add_bias(const cpu_executor *ex, const float *bias, float *y, const pass_block *b)
{
    for (uint32_t p = 0, n; p < b->n_panels; p += n) {
        const uint32_t at = p * KERNEL_PANEL_ROWS;
        n = pass_head_run(ex, b->panel + p, b->n_panels - p);
        ex->k->add(y + at, bias + pass_head_panel(ex, b->panel + p) * KERNEL_PANEL_ROWS,
                   smaller(n * KERNEL_PANEL_ROWS, b->n - at));
    }
}

/* in: row i is head_rows[i]. */
void pass_head(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
               pass_scratch *scratch)
{
    pass_block b = pass_head_block(ex, op, op->w[0], unit);
    float *y = scratch->y;
    whole_products(ex, op, y, &b, in);
    for (uint32_t r = 0; r < b.n_rows; r++, y += b.n_panels * KERNEL_PANEL_ROWS) {
        if (op->bias[0]) add_bias(ex, op->bias[0], y, &b);
        pass_finish_logits(ex, y, b.n);
        const cpu_row *row = &ex->rows[ex->head_rows[b.row + r]];
        memcpy(row->logits + b.first, y, b.n * sizeof *y);
        if (row->tops) row->tops[b.panel / PASS_HEAD_PANELS] = greatest_of(y, b.n);
    }
}
