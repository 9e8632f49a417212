/* latent.c - attention by latents (MLA): LATENT, LATENT_Q, LATENT_QUERY and LATENT_VALUE.
 *
 * The cache has one row for a token, which is key and value of all heads.  Each head has two
 * matrices: one makes its query as wide as a key, one makes its value from the weighted sum of
 * latents.  Rows of a head are adjacent, as matrices need them: row r of head h is at h rows_max +
 * r. */
#include "cpu/pass.h"

size_t pass_latent_width(const step_op *op)
{
    return pass_padded(op->head_dim) + (op->w[1] ? pass_padded(op->w[1]->rows) : 0);
}

/* The output of LATENT for a row: [c k], then low; each filled up to whole panels. */
static float *latent_of(const cpu_executor *ex, const step_op *op, uint32_t row)
{
    return ex->latents + row * pass_latent_width(op);
}

void pass_latent(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit)
{
    const uint32_t first = pass_blocks_of(op->w[0]) * divide_up(ex->n_rows, PASS_TILE);
    const int part = unit >= first;
    const model_matrix *w = op->w[part];
    const pass_block b =
        pass_block_at(w, PASS_BLOCK_PANELS, ex->n_rows, part ? unit - first : unit);
    float *y = latent_of(ex, op, b.row) + (part ? pass_padded(op->head_dim) : 0) + b.first;
    pass_matmul(ex, y, pass_latent_width(op), w, 0, b.panel, b.n_panels, in, b.row, b.n_rows);
}

/* x [n] of a row in 8 bits, in the form of w; the floats are in place. */
static void quantize(const cpu_executor *ex, const pass_rows *to, const step_op *op, uint32_t row,
                     const float *x)
{
    const model_matrix *w = op->w[0];
    if (!kernel_takes_acts(w->type)) return;
    const kernel_acts acts = kernel_acts_of(w->type);
    ex->k->quantize[acts](to->q[acts] + row * to->q_stride, x, w->cols);
}

void pass_latent_finish(cpu_executor *ex, const step_op *op, uint32_t row)
{
    const float eps = ex->program->shape.norm_eps;
    const cpu_row *to = &ex->rows[row];
    const kv_page page = kv_sequence_page(to->sequence, op->layer, 0, to->position / KERNEL_PAGE);
    float *key = latent_of(ex, op, row);
    ex->k->rms_norm(key, key, op->head_norm[0], op->n_latent, eps);
    pass_turn(ex, op, key + op->n_latent, row);
    ex->k->kv_write[kv_sequence_type(to->sequence)](
        page.keys, page.values, to->position % KERNEL_PAGE, key, key, op->head_dim);
    if (!op->w[1]) return;
    const pass_rows low = pass_rows_of(&ex->low, op->w[1]->rows);
    float *x = low.f + row * low.f_stride;
    ex->k->rms_norm(x, key + pass_padded(op->head_dim), op->head_norm[1], op->w[1]->rows, eps);
    quantize(ex, &low, op + 1, row, x);
}

/* Rows of w[0] of LATENT_Q for a head. */
static uint32_t query_rows(const step_op *op) { return op->w[0]->rows / op->n_heads; }

uint32_t pass_latent_heads(const step_op *op)
{
    return pass_heads_of_panels(query_rows(op));
}

uint32_t pass_latent_units(const cpu_executor *ex, const step_op *op)
{
    uint32_t n = op->n_heads; /* LATENT_QUERY */
    if (op->kind == STEP_LATENT) n = pass_blocks_of(op->w[0]) + pass_blocks_of(op->w[1]);
    if (op->kind == STEP_LATENT_Q) n = divide_up(n, pass_latent_heads(op));
    if (op->kind == STEP_LATENT_VALUE) n *= pass_blocks_of(op->w[0]);
    return n * divide_up(ex->n_rows, PASS_TILE);
}

/* The rotated part of a head's query. */
static float *turning_of(const cpu_executor *ex, const step_op *op, uint32_t row, uint32_t head)
{
    const uint32_t n_rot = op->head_dim - op->n_latent;
    return ex->turning + ((size_t)row * op->n_heads + head) * n_rot;
}

static void keep_query(cpu_executor *ex, const step_op *op, float *q, uint32_t row, uint32_t head)
{
    const uint32_t n_rot = op->head_dim - op->n_latent, n = query_rows(op) - n_rot;
    const pass_rows to = pass_rows_of(&ex->of_heads, n);
    const uint32_t at = head * ex->rows_max + row;
    pass_turn(ex, op, q + n, row);
    memcpy(turning_of(ex, op, row, head), q + n, n_rot * sizeof *q);
    memcpy(to.f + at * to.f_stride, q, n * sizeof *q);
    quantize(ex, &to, op + 1, at, q);
}

void pass_latent_q(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
                   pass_scratch *scratch)
{
    const uint32_t heads = pass_latent_heads(op), d = query_rows(op);
    const uint32_t n_units = divide_up(op->n_heads, heads);
    const uint32_t row = unit / n_units * PASS_TILE, n_rows = smaller(ex->n_rows - row, PASS_TILE);
    const uint32_t head = unit % n_units * heads, n_heads = smaller(op->n_heads - head, heads);
    const uint32_t n_panels = divide_up(n_heads * d, KERNEL_PANEL_ROWS);
    const size_t stride = (size_t)n_panels * KERNEL_PANEL_ROWS;
    float *q = scratch->y;
    pass_matmul(ex, q, stride, op->w[0], 0, head * d / KERNEL_PANEL_ROWS, n_panels, in, row,
                n_rows);
    for (uint32_t r = row; r < row + n_rows; r++, q += stride)
        for (uint32_t h = 0; h < n_heads; h++) keep_query(ex, op, q + h * d, r, head + h);
}

/* Unit: (tile, head). */
void pass_latent_query(cpu_executor *ex, const step_op *op, uint32_t unit, pass_scratch *scratch)
{
    const model_matrix *w = op->w[0];
    const pass_rows in = pass_rows_of(&ex->of_heads, w->cols);
    const uint32_t head = unit % op->n_heads, row = unit / op->n_heads * PASS_TILE;
    const uint32_t n_rows = smaller(ex->n_rows - row, PASS_TILE);
    const size_t stride = (size_t)w->n_panels * KERNEL_PANEL_ROWS;
    const float *y = scratch->y;
    pass_matmul(ex, scratch->y, stride, w, head, 0, w->n_panels, &in, head * ex->rows_max + row,
                n_rows);
    for (uint32_t r = row; r < row + n_rows; r++, y += stride) {
        float q[KERNEL_HEAD_MAX];
        const float scale = pass_query_scale(ex, op, r);
        memcpy(q, y, op->n_latent * sizeof *q);
        memcpy(q + op->n_latent, turning_of(ex, op, r, head),
               (op->head_dim - op->n_latent) * sizeof *q);
        for (uint32_t i = 0; i < op->head_dim; i++) q[i] *= scale;
        ex->k->attend_query[kv_sequence_type(ex->rows[r].sequence)](
            pass_query(ex, op, r, head), q, op->head_dim);
    }
}

void pass_latent_attended(const cpu_executor *ex, const step_op *op, const float *a, uint32_t row,
                          uint32_t head)
{
    const pass_rows to = pass_rows_of(&ex->of_heads, op->n_latent);
    const uint32_t at = head * ex->rows_max + row;
    memcpy(to.f + at * to.f_stride, a, op->n_latent * sizeof *a);
    quantize(ex, &to, op + 1, at, a);
}

/* Unit: (tile, head, block of rows of the head's matrix). */
void pass_latent_value(cpu_executor *ex, const step_op *op, uint32_t unit, pass_scratch *scratch)
{
    const model_matrix *w = op->w[0];
    const pass_rows in = pass_rows_of(&ex->of_heads, w->cols);
    const uint32_t block = unit % pass_blocks_of(w), head = unit / pass_blocks_of(w) % op->n_heads;
    const uint32_t row = unit / pass_blocks_of(w) / op->n_heads * PASS_TILE;
    const uint32_t n_rows = smaller(ex->n_rows - row, PASS_TILE);
    const uint32_t panel = block * PASS_BLOCK_PANELS, first = panel * KERNEL_PANEL_ROWS;
    const uint32_t n_panels = smaller(w->n_panels - panel, PASS_BLOCK_PANELS);
    const uint32_t stride = n_panels * KERNEL_PANEL_ROWS, n = smaller(w->rows - first, stride);
    const float *y = scratch->y;
    pass_matmul(ex, scratch->y, stride, w, head, panel, n_panels, &in, head * ex->rows_max + row,
                n_rows);
    for (uint32_t r = row; r < row + n_rows; r++, y += stride)
        memcpy(ex->attended.f + ((size_t)r * op->n_heads + head) * w->rows + first, y,
               n * sizeof *y);
}
