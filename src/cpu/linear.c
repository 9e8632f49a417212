/* linear.c - the steps that are a matrix with something before and after it. */
#include "cpu/pass.h"

/* Input row of an op: normed x for the steps that begin with a norm, attention for OUT. */
void pass_prepare_row(const cpu_executor *ex, const step_op *op, const pass_rows *out,
                      uint32_t out_row, uint32_t row)
{
    const step_shape *s = &ex->program->shape;
    uint32_t n = s->n_embd;
    const float *in = ex->x + (size_t)row * s->n_embd;
    float *f = out->f + out_row * out->f_stride;
    if (op->kind == STEP_OUT) {
        n = s->n_heads * s->head_dim;
        in = f = ex->attended.f + row * ex->attended.f_stride;
    } else if (s->norm_kind == STEP_NORM_RMS) {
        ex->k->rms_norm(f, in, op->norm, n, s->norm_eps);
        in = f;
    } else {
        ex->k->layer_norm(f, in, op->norm, op->norm_bias, n, s->norm_eps);
        in = f;
    }
    /* The experts after a router read the same rows, so it prepares them for both. */
    const uint32_t acts = step_acts(op) | (op->kind == STEP_ROUTE ? step_acts(op + 1) : 0);
    for (int a = 0; a < KERNEL_ACTS_END; a++)
        if (acts >> a & 1) ex->k->quantize[a](out->q[a] + out_row * out->q_stride, in, n);
}

void pass_embed(cpu_executor *ex, const step_op *op, uint32_t first, uint32_t end)
{
    const step_shape *s = &ex->program->shape;
    const model_matrix *w = op->w[0];
    uint32_t half = s->n_rot / 2;
    for (uint32_t r = first; r < end; r++) {
        uint32_t token = (uint32_t)ex->rows[r].token;
        kernel_panel_row(w->type, ex->x + (size_t)r * s->n_embd,
                         model_matrix_panels(w, 0, token / KERNEL_PANEL_ROWS),
                         token % KERNEL_PANEL_ROWS, s->n_embd);
        for (uint32_t j = 0; j < half; j++) {
            float *c = &ex->cosine[(size_t)r * half + j], *sn = &ex->sine[(size_t)r * half + j];
            kernel_sincos_ref(ex->rows[r].position * s->rope_frequency[j], sn, c);
            *c *= s->rope_scale;
            *sn *= s->rope_scale;
        }
    }
}

/* Norm, then turn, one head of q or k. */
static void finish_head(const cpu_executor *ex, const float *head_norm, float *head, uint32_t row)
{
    const step_shape *s = &ex->program->shape;
    size_t angle = (size_t)row * (s->n_rot / 2);
    if (head_norm) ex->k->rms_norm(head, head, head_norm, s->head_dim, s->norm_eps);
    if (s->rope == STEP_ROPE_SPLIT)
        ex->k->rope_split(head, ex->cosine + angle, ex->sine + angle, s->n_rot / 2);
    else
        ex->k->rope_adjacent(head, ex->cosine + angle, ex->sine + angle, s->n_rot / 2);
}

uint32_t pass_qkv_units(const cpu_executor *ex)
{
    const step_shape *s = &ex->program->shape;
    uint32_t per_tile =
        divide_up(s->n_heads, ex->qkv_heads) + divide_up(s->n_kv_heads, ex->qkv_heads);
    return per_tile * divide_up(ex->n_rows, PASS_TILE);
}

static void queries(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t head,
                    uint32_t n_heads, uint32_t row, uint32_t n_rows, pass_scratch *scratch)
{
    const step_shape *s = &ex->program->shape;
    uint32_t d = s->head_dim, first = head * d, n = n_heads * d;
    uint32_t n_panels = divide_up(n, KERNEL_PANEL_ROWS);
    size_t stride = (size_t)n_panels * KERNEL_PANEL_ROWS;
    float *q = scratch->y;
    pass_matmul(ex, q, stride, op->w[0], 0, first / KERNEL_PANEL_ROWS, n_panels, in, row, n_rows);
    for (uint32_t r = 0; r < n_rows; r++, q += stride) {
        kernel_kv_type type = kv_sequence_type(ex->rows[row + r].sequence);
        if (op->bias[0]) ex->k->add(q, op->bias[0] + first, n);
        for (uint32_t h = 0; h < n_heads; h++)
            finish_head(ex, op->head_norm[0], q + h * d, row + r);
        for (uint32_t i = 0; i < n; i++) q[i] *= s->attention_scale;
        for (uint32_t h = 0; h < n_heads; h++)
            ex->k->attend_query[type](pass_query(ex, row + r, head + h), q + h * d, d);
    }
}

static void keys_values(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t head,
                        uint32_t n_heads, uint32_t row, uint32_t n_rows, pass_scratch *scratch)
{
    const step_shape *s = &ex->program->shape;
    uint32_t d = s->head_dim, first = head * d, n = n_heads * d;
    uint32_t panel = first / KERNEL_PANEL_ROWS, n_panels = divide_up(n, KERNEL_PANEL_ROWS);
    size_t stride = (size_t)n_panels * KERNEL_PANEL_ROWS;
    float *k = scratch->y, *v = scratch->y + PASS_TILE * stride;
    pass_matmul(ex, k, stride, op->w[1], 0, panel, n_panels, in, row, n_rows);
    pass_matmul(ex, v, stride, op->w[2], 0, panel, n_panels, in, row, n_rows);
    for (uint32_t r = 0; r < n_rows; r++, k += stride, v += stride) {
        if (op->bias[1]) ex->k->add(k, op->bias[1] + first, n);
        if (op->bias[2]) ex->k->add(v, op->bias[2] + first, n);
        const cpu_row *to = &ex->rows[row + r];
        for (uint32_t h = 0; h < n_heads; h++) {
            finish_head(ex, op->head_norm[1], k + h * d, row + r);
            kv_page page = kv_sequence_page(to->sequence, op->layer, head + h,
                                            to->position / KERNEL_PAGE);
            ex->k->kv_write[kv_sequence_type(to->sequence)](
                page.keys, page.values, to->position % KERNEL_PAGE, k + h * d, v + h * d, d);
        }
    }
}

/* Units of a tile: keys with values, then queries, qkv_heads heads each.  Those that take longest
 * come first, so that the last ones even out what is left. */
void pass_qkv(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
              pass_scratch *scratch)
{
    const step_shape *s = &ex->program->shape;
    uint32_t n_q = divide_up(s->n_heads, ex->qkv_heads);
    uint32_t n_kv = divide_up(s->n_kv_heads, ex->qkv_heads);
    uint32_t row = unit / (n_q + n_kv) * PASS_TILE, n_rows = smaller(ex->n_rows - row, PASS_TILE);
    unit %= n_q + n_kv;
    if (unit < n_kv) {
        uint32_t head = unit * ex->qkv_heads;
        keys_values(ex, op, in, head, smaller(s->n_kv_heads - head, ex->qkv_heads), row, n_rows,
                    scratch);
    } else {
        uint32_t head = (unit - n_kv) * ex->qkv_heads;
        queries(ex, op, in, head, smaller(s->n_heads - head, ex->qkv_heads), row, n_rows,
                scratch);
    }
}

/* OUT and FFN_DOWN: x += W in + bias, a block of rows. */
void pass_out(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
              pass_scratch *scratch)
{
    const model_matrix *w = op->w[0];
    pass_block b = pass_block_at(w, PASS_BLOCK_PANELS, ex->n_rows, unit);
    size_t stride = (size_t)b.n_panels * KERNEL_PANEL_ROWS;
    float *y = scratch->y;
    pass_matmul(ex, y, stride, w, 0, b.panel, b.n_panels, in, b.row, b.n_rows);
    for (uint32_t r = 0; r < b.n_rows; r++, y += stride) {
        if (op->bias[0]) ex->k->add(y, op->bias[0] + b.first, b.n);
        ex->k->add(ex->x + (size_t)(b.row + r) * w->rows + b.first, y, b.n);
    }
}

void pass_activate(cpu_executor *ex, float *gate, float *up, uint32_t n_rows, uint32_t rows,
                   uint32_t block, uint32_t hidden_row)
{
    const step_shape *s = &ex->program->shape;
    for (uint32_t r = 0; r < n_rows; r++, gate += KERNEL_GROUP, up += KERNEL_GROUP, hidden_row++) {
        switch (s->activation) {
        case STEP_SILU_GATED: ex->k->silu_gated(gate, up, rows); break;
        case STEP_GELU: ex->k->gelu_tanh(gate, NULL, rows); break;
        case STEP_SWIGLU_CLAMPED: ex->k->swiglu_clamped(gate, up, rows); break;
        }
        for (int a = 0; a < KERNEL_ACTS_END; a++)
            if (ex->hidden.q[a])
                ex->k->quantize[a](ex->hidden.q[a] + hidden_row * ex->hidden.q_stride + block,
                                   gate, rows);
        if (ex->hidden.f)
            memcpy(ex->hidden.f + hidden_row * ex->hidden.f_stride + (size_t)block * KERNEL_GROUP,
                   gate, rows * sizeof *gate);
    }
}

/* A block is one group of activations, so it is quantized where it was made. */
void pass_ffn_up(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
                 pass_scratch *scratch)
{
    const model_matrix *w = op->w[0] ? op->w[0] : op->w[1];
    pass_block b = pass_block_at(w, PASS_UP_PANELS, ex->n_rows, unit);
    float *y[2] = {scratch->y, scratch->y + PASS_TILE * KERNEL_GROUP};
    for (int i = 0; i < 2; i++) {
        if (!op->w[i]) continue;
        pass_matmul(ex, y[i], KERNEL_GROUP, op->w[i], 0, b.panel, b.n_panels, in, b.row, b.n_rows);
        for (uint32_t r = 0; op->bias[i] && r < b.n_rows; r++)
            ex->k->add(y[i] + r * KERNEL_GROUP, op->bias[i] + b.first, b.n);
    }
    pass_activate(ex, y[0], y[1], b.n_rows, b.n, b.panel / PASS_UP_PANELS, b.row);
}

/* in: row i is head_rows[i]. */
void pass_head(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
               pass_scratch *scratch)
{
    const model_matrix *w = op->w[0];
    pass_block b = pass_block_at(w, PASS_HEAD_PANELS, ex->n_head_rows, unit);
    size_t stride = (size_t)b.n_panels * KERNEL_PANEL_ROWS;
    float *y = scratch->y;
    pass_matmul(ex, y, stride, w, 0, b.panel, b.n_panels, in, b.row, b.n_rows);
    for (uint32_t r = 0; r < b.n_rows; r++, y += stride) {
        if (op->bias[0]) ex->k->add(y, op->bias[0] + b.first, b.n);
        const cpu_row *row = &ex->rows[ex->head_rows[b.row + r]];
        memcpy(row->logits + b.first, y, b.n * sizeof *y);
        if (row->tops) row->tops[b.panel / PASS_HEAD_PANELS] = greatest_of(y, b.n);
    }
}
