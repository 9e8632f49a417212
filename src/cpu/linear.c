/* linear.c - the steps that are a matrix with something before and after it. */
#include "cpu/pass.h"

#include <math.h>

/* The shared expert and the experts after a router read the same rows: it prepares them for all;
 * LATENT does so for queries with the same input. */
static uint32_t acts_of(const step_op *op)
{
    uint32_t acts = step_acts(op);
    if (op->kind == STEP_LATENT && op[1].norm) return acts | step_acts(op + 1);
    if (op->kind != STEP_ROUTE) return acts;
    do {
        op++;
        if (op->kind == STEP_EXPERTS_UP && (op->norm || op->is_narrow)) break; /* it has its own */
        if (op->kind != STEP_FFN_DOWN) acts |= step_acts(op);
    } while (op->kind != STEP_EXPERTS_UP);
    return acts;
}

uint32_t pass_part(const cpu_executor *ex, const step_op *op, uint32_t row, uint32_t part)
{
    if (step_parts(op) == 1) return row;
    const uint32_t in_tile = row % PASS_HEAD_ROWS, first = row - in_tile;
    return 2 * first + part * smaller(ex->n_head_rows - first, PASS_HEAD_ROWS) + in_tile;
}

/* in [n] as row out_row of an op's input; of the head as its two parts. */
static void quantize_row(const cpu_executor *ex, const step_op *op, const pass_rows *out, int acts,
                         uint32_t out_row, const float *in, uint32_t n)
{
    kernel_act *q = out->q[acts] + pass_part(ex, op, out_row, 0) * out->q_stride;
    ex->k->quantize[acts](q, in, n);
    if (step_parts(op) == 1) return;
    float *rest = out->f + out_row * out->f_stride; /* its value is `in`; no other step needs it */
    kernel_act_rest(rest, q, n);
    ex->k->quantize[acts](out->q[acts] + pass_part(ex, op, out_row, 1) * out->q_stride, rest, n);
}

static void token_row(const cpu_executor *ex, const model_matrix *w, float *out, uint32_t row)
{
    const uint32_t token = (uint32_t)ex->rows[row].token;
    kernel_panel_row(w->type, out, model_matrix_panels(w, 0, token / KERNEL_PANEL_ROWS),
                     token % KERNEL_PANEL_ROWS, w->cols);
    if (w->hadamard) step_turn_back(w->hadamard, out, w->cols);
}

/* The token's embedding, and x after it, both normed. */
static void put_beside(const cpu_executor *ex, const step_op *op, float *out, uint32_t row)
{
    const step_shape *s = &ex->program->shape;
    const uint32_t n = s->n_embd;
    const float *x = ex->x + (size_t)row * n;
    token_row(ex, op->beside, out, row);
    ex->k->rms_norm(out, out, op->norm, n, s->norm_eps);
    if (op->beside_norm)
        ex->k->rms_norm(out + n, x, op->beside_norm, n, s->norm_eps);
    else
        memcpy(out + n, x, n * sizeof *x);
}

/* Input row of an op: normed x for the steps that begin with a norm, attention for OUT. */
void pass_prepare_row(const cpu_executor *ex, const step_op *op, const pass_rows *out,
                      uint32_t out_row, uint32_t row)
{
    const step_shape *s = &ex->program->shape;
    uint32_t n = s->n_embd;
    const float *in = ex->x + (size_t)row * s->n_embd;
    float *f = out->f + out_row * out->f_stride;
    if (op->beside) {
        put_beside(ex, op, f, row);
        in = f;
        n *= 2;
    } else if (op->kind == STEP_OUT) {
        n = op->w[0]->cols;
        in = f = ex->attended.f + (size_t)row * n;
    } else if (!op->norm) {
        memcpy(f, in, n * sizeof *f);
        in = f;
    } else if (s->norm_kind == STEP_NORM_RMS) {
        ex->k->rms_norm(f, in, op->norm, n, s->norm_eps);
        in = f;
    } else {
        ex->k->layer_norm(f, in, op->norm, op->norm_bias, n, s->norm_eps);
        in = f;
    }
    if (step_hadamard_of(op)) step_turn(step_hadamard_of(op), f, 0, n); /* not OUT's: pass_turned */
    const uint32_t acts = acts_of(op);
    for (int a = 0; a < KERNEL_ACTS_END; a++)
        if (acts >> a & 1) quantize_row(ex, op, out, a, out_row, in, n);
}

/* Columns of a row that are turned and rounded together: whole groups of activations. */
static uint32_t turned_columns(const step_op *op)
{
    const uint32_t run = step_hadamard_of(op)->run;
    return run > KERNEL_GROUP ? run : KERNEL_GROUP;
}

uint32_t pass_turned_parts(const step_op *op)
{
    return divide_up(op->w[0]->cols, turned_columns(op));
}

void pass_turned(cpu_executor *ex, const step_op *op, uint32_t unit)
{
    const uint32_t cols = op->w[0]->cols, step = turned_columns(op);
    const uint32_t row = unit / pass_turned_parts(op), first = unit % pass_turned_parts(op) * step;
    const uint32_t n = smaller(cols - first, step), acts = step_acts(op);
    const pass_rows in = pass_rows_of(op->kind == STEP_OUT ? &ex->attended : &ex->hidden, cols);
    float *x = in.f + (size_t)row * in.f_stride + first;
    step_turn(step_hadamard_of(op), x, first, n);
    for (int a = 0; a < KERNEL_ACTS_END; a++)
        if (acts >> a & 1)
            ex->k->quantize[a](in.q[a] + row * in.q_stride + first / KERNEL_GROUP, x, n);
}

/* Cosines and sines of a row's position, by one table. */
static void turn_angles(cpu_executor *ex, uint32_t table, uint32_t row)
{
    const step_rope_table *t = &ex->program->shape.ropes[table];
    const uint32_t half = t->n_rot / 2;
    float *c = ex->cosine[table] + (size_t)row * half, *sn = ex->sine[table] + (size_t)row * half;
    for (uint32_t j = 0; j < half; j++) {
        kernel_sincos_ref(ex->rows[row].position * t->frequency[j], &sn[j], &c[j]);
        c[j] *= t->scale;
        sn[j] *= t->scale;
    }
}

void cpu_executor_state(const cpu_executor *ex, uint32_t row, float *out)
{
    const step_shape *s = &ex->program->shape;
    const step_op *head = &ex->program->ops[ex->program->n_ops - 1];
    const float *in = ex->x + (size_t)row * s->n_embd;
    CHECK(head->kind == STEP_HEAD && row < ex->n_rows);
    if (s->n_taps && !s->norms_state) {
        memcpy(out, in, s->n_embd * sizeof *out);
        return;
    }
    if (s->norm_kind == STEP_NORM_RMS)
        ex->k->rms_norm(out, in, head->norm, s->n_embd, s->norm_eps);
    else
        ex->k->layer_norm(out, in, head->norm, head->norm_bias, s->n_embd, s->norm_eps);
}

/* What an MTP head begins with: x is made of the token and of the state before it. */
static void join_state(cpu_executor *ex, const step_op *op, float *x, uint32_t row)
{
    const step_shape *s = &ex->program->shape;
    const uint32_t n = s->n_embd;
    float *a = ex->attended.f + (size_t)row * 2 * n;
    const float *last_state = ex->rows[row].last_state;
    ex->k->rms_norm(a, x, op->norm, n, s->norm_eps);
    if (last_state)
        ex->k->rms_norm(a + n, last_state, op->head_norm[0], n, s->norm_eps);
    else
        memset(a + n, 0, n * sizeof *a);
    memset(x, 0, n * sizeof *x);
}

/* a = norm(in), all taps together or each by itself. */
static void norm_taps(const cpu_executor *ex, const step_op *op, float *a, const float *in)
{
    const step_shape *s = &ex->program->shape;
    const uint32_t n = s->n_taps * s->n_tapped, step = op->norms_taps ? s->n_tapped : n;
    for (uint32_t i = 0; i < n; i += step)
        ex->k->rms_norm(a + i, in + i, op->norm + i, step, s->norm_eps);
}

/* What an EAGLE-3 head begins with: x is its own state, or OUT makes it of the model's. */
static void join_taps(cpu_executor *ex, const step_op *op, float *x, uint32_t row)
{
    const step_shape *s = &ex->program->shape;
    const cpu_row *given = &ex->rows[row];
    const size_t n = (size_t)s->n_taps * s->n_tapped;
    float *a = ex->attended.f + row * n;
    memset(a, 0, n * sizeof *a);
    memset(x, 0, s->n_embd * sizeof *x);
    if (!given->last_state) return;
    if (given->is_own && op->head_norm[0])
        ex->k->rms_norm(x, given->last_state, op->head_norm[0], s->n_embd, s->norm_eps);
    else if (given->is_own)
        memcpy(x, given->last_state, s->n_embd * sizeof *x);
    else if (op->norm)
        norm_taps(ex, op, a, given->last_state);
    else
        memcpy(a, given->last_state, n * sizeof *a);
}

/* What a DFlash drafter begins with, of the context: x is 0, and OUT makes it of the model's
 * states. */
static void join_context(cpu_executor *ex, float *x, uint32_t row)
{
    const step_shape *s = &ex->program->shape;
    const size_t n = (size_t)s->n_taps * s->n_tapped;
    float *a = ex->attended.f + row * n;
    memset(x, 0, s->n_embd * sizeof *x);
    if (ex->rows[row].last_state)
        memcpy(a, ex->rows[row].last_state, n * sizeof *a);
    else
        memset(a, 0, n * sizeof *a);
}

void pass_embed(cpu_executor *ex, const step_op *op, uint32_t first, uint32_t end)
{
    const step_shape *s = &ex->program->shape;
    for (uint32_t r = first; r < end; r++) {
        float *x = ex->x + (size_t)r * s->n_embd;
        const bool in_block = s->n_block && ex->rows[r].is_own;
        if (!s->n_taps || in_block) token_row(ex, op->w[0], x, r);
        for (uint32_t i = 0; s->embedding_scale != 1 && i < s->n_embd; i++)
            x[i] *= s->embedding_scale;
        if (s->n_block && !in_block)
            join_context(ex, x, r);
        else if (s->n_taps && !s->n_block)
            join_taps(ex, op, x, r);
        else if (op->norm)
            join_state(ex, op, x, r);
        for (uint32_t t = 0; t < s->n_ropes; t++) turn_angles(ex, t, r);
    }
}

void pass_turn(const cpu_executor *ex, const step_op *op, float *x, uint32_t row)
{
    const step_shape *s = &ex->program->shape;
    if (op->rope == STEP_NO_ROPE) return;
    const uint32_t half = s->ropes[op->rope].n_rot / 2;
    const float *cosine = ex->cosine[op->rope] + (size_t)row * half;
    const float *sine = ex->sine[op->rope] + (size_t)row * half;
    if (s->rope == STEP_ROPE_SPLIT)
        ex->k->rope_split(x, cosine, sine, half);
    else
        ex->k->rope_adjacent(x, cosine, sine, half);
}

/* Normalize, then rotate, one head of q or k. */
static void finish_head(const cpu_executor *ex, const step_op *op, const float *head_norm,
                        float *head, uint32_t row)
{
    const float eps = ex->program->shape.norm_eps;
    if (head_norm) ex->k->rms_norm(head, head, head_norm, op->head_dim, eps);
    pass_turn(ex, op, head, row);
}

/* Units of a tile: of keys with values, of queries, and of gates. */
typedef struct {
    uint32_t n_kv, n_q, n_gate;
} qkv_units;

static qkv_units units_of(const step_op *op)
{
    const uint32_t heads = pass_qkv_heads(op);
    return (qkv_units){.n_kv = op->w[1] ? divide_up(op->n_kv_heads, heads) : 0,
                       .n_q = op->w[0] ? divide_up(op->n_heads, heads) : 0,
                       .n_gate = op->w[3] ? divide_up(op->w[3]->n_panels, PASS_BLOCK_PANELS) : 0};
}

uint32_t pass_qkv_units(const cpu_executor *ex, const step_op *op)
{
    const qkv_units n = units_of(op);
    return (n.n_kv + n.n_q + n.n_gate) * divide_up(ex->n_rows, PASS_TILE);
}

float pass_query_scale(const cpu_executor *ex, const step_op *op, uint32_t row)
{
    const step_shape *s = &ex->program->shape;
    if (s->query_growth == 0) return op->attention_scale;
    const uint32_t times = ex->rows[row].position / s->query_growth_tokens;
    return (float)((1 + (double)s->query_growth * log(1.0 + times)) * (double)op->attention_scale);
}

/* Heads [head, head + n_heads) of a row, from the product on. */
static void finish_queries(const cpu_executor *ex, const step_op *op, const float *head_norm,
                           float *q, uint32_t head, uint32_t n_heads, uint32_t row)
{
    const uint32_t d = op->head_dim, n = n_heads * d;
    const float scale = pass_query_scale(ex, op, row);
    kernel_kv_type type = kv_sequence_type(ex->rows[row].sequence);
    for (uint32_t h = 0; h < n_heads; h++) finish_head(ex, op, head_norm, q + h * d, row);
    for (uint32_t i = 0; i < n; i++) q[i] *= scale;
    for (uint32_t h = 0; h < n_heads; h++)
        ex->k->attend_query[type](pass_query(ex, op, row, head + h), q + h * d, d);
}

static void finish_keys(const cpu_executor *ex, const step_op *op, const float *head_norm,
                        float *k, float *v, uint32_t head, uint32_t n_heads, uint32_t row)
{
    const uint32_t d = op->head_dim;
    const float eps = ex->program->shape.norm_eps;
    const cpu_row *to = &ex->rows[row];
    if (!op->w[2]) memcpy(v, k, (size_t)n_heads * d * sizeof *v);
    for (uint32_t h = 0; h < n_heads; h++) {
        if (op->head_norm[2]) ex->k->rms_norm(v + h * d, v + h * d, op->head_norm[2], d, eps);
        finish_head(ex, op, head_norm, k + h * d, row);
        kv_page page =
            kv_sequence_page(to->sequence, op->layer, head + h, to->position / KERNEL_PAGE);
        ex->k->kv_write[kv_sequence_type(to->sequence)](
            page.keys, page.values, to->position % KERNEL_PAGE, k + h * d, v + h * d, d);
    }
}

/* q, k and v of a row before norms of whole rows: [n_heads], [n_kv_heads], [n_kv_heads]. */
static float *whole_row(const cpu_executor *ex, const step_op *op, uint32_t row, uint32_t which)
{
    const step_shape *s = &ex->program->shape;
    const size_t before = which == 0 ? 0 : op->n_heads + (which - 1) * op->n_kv_heads;
    return ex->whole + row * pass_whole_width(s) + before * op->head_dim;
}

void pass_qkv_finish(cpu_executor *ex, const step_op *op, uint32_t row)
{
    const step_shape *s = &ex->program->shape;
    float *q = whole_row(ex, op, row, 0), *k = whole_row(ex, op, row, 1);
    if (op->head_norm[0])
        ex->k->rms_norm(q, q, op->head_norm[0], op->n_heads * op->head_dim, s->norm_eps);
    if (op->head_norm[1])
        ex->k->rms_norm(k, k, op->head_norm[1], op->n_kv_heads * op->head_dim, s->norm_eps);
    finish_queries(ex, op, NULL, q, 0, op->n_heads, row);
    finish_keys(ex, op, NULL, k, whole_row(ex, op, row, 2), 0, op->n_kv_heads, row);
}

/* q of a row has a gate after each head: they go where attention's result will be. */
static void take_gates(const cpu_executor *ex, const step_op *op, float *q, uint32_t head,
                       uint32_t n_heads, uint32_t row)
{
    const uint32_t d = op->head_dim;
    float *gate = ex->gates + ((size_t)row * op->n_heads + head) * d;
    for (uint32_t h = 0; h < n_heads; h++) {
        memcpy(gate + h * d, q + (2 * h + 1) * d, d * sizeof *q);
        memmove(q + h * d, q + 2 * h * d, d * sizeof *q);
    }
}

static void queries(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t head,
                    uint32_t n_heads, uint32_t row, uint32_t n_rows, pass_scratch *scratch)
{
    const uint32_t d = pass_query_rows(op);
    uint32_t first = head * d, n = n_heads * d;
    uint32_t n_panels = divide_up(n, KERNEL_PANEL_ROWS);
    size_t stride = (size_t)n_panels * KERNEL_PANEL_ROWS;
    float *q = scratch->y;
    pass_matmul(ex, q, stride, op->w[0], 0, first / KERNEL_PANEL_ROWS, n_panels, in, row, n_rows);
    for (uint32_t r = row; r < row + n_rows; r++, q += stride) {
        if (op->bias[0]) ex->k->add(q, op->bias[0] + first, n);
        if (op->is_gated) take_gates(ex, op, q, head, n_heads, r);
        if (op->is_row_norm)
            memcpy(whole_row(ex, op, r, 0) + first, q, n * sizeof *q);
        else
            finish_queries(ex, op, op->head_norm[0], q, head, n_heads, r);
    }
}

static void keys_values(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t head,
                        uint32_t n_heads, uint32_t row, uint32_t n_rows, pass_scratch *scratch)
{
    uint32_t d = op->head_dim, first = head * d, n = n_heads * d;
    uint32_t panel = first / KERNEL_PANEL_ROWS, n_panels = divide_up(n, KERNEL_PANEL_ROWS);
    size_t stride = (size_t)n_panels * KERNEL_PANEL_ROWS;
    float *k = scratch->y, *v = scratch->y + PASS_TILE * stride;
    pass_matmul(ex, k, stride, op->w[1], 0, panel, n_panels, in, row, n_rows);
    if (op->w[2]) pass_matmul(ex, v, stride, op->w[2], 0, panel, n_panels, in, row, n_rows);
    for (uint32_t r = row; r < row + n_rows; r++, k += stride, v += stride) {
        if (op->bias[1]) ex->k->add(k, op->bias[1] + first, n);
        if (op->bias[2]) ex->k->add(v, op->bias[2] + first, n);
        if (!op->is_row_norm) {
            finish_keys(ex, op, op->head_norm[1], k, v, head, n_heads, r);
            continue;
        }
        memcpy(whole_row(ex, op, r, 1) + first, k, n * sizeof *k);
        memcpy(whole_row(ex, op, r, 2) + first, v, n * sizeof *v);
    }
}

/* A block of w[3]'s rows: gates for the result of attention. */
static void gates(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t block,
                  uint32_t row, uint32_t n_rows, pass_scratch *scratch)
{
    const model_matrix *w = op->w[3];
    const uint32_t panel = block * PASS_BLOCK_PANELS, first = panel * KERNEL_PANEL_ROWS;
    const uint32_t n_panels = smaller(w->n_panels - panel, PASS_BLOCK_PANELS);
    const uint32_t stride = n_panels * KERNEL_PANEL_ROWS, n = smaller(w->rows - first, stride);
    const float *y = scratch->y;
    pass_matmul(ex, scratch->y, stride, w, 0, panel, n_panels, in, row, n_rows);
    for (uint32_t r = row; r < row + n_rows; r++, y += stride)
        memcpy(ex->gates + (size_t)r * w->rows + first, y, n * sizeof *y);
}

/* Units of a tile: keys with values, then queries, then gates.  The longest come first, so that the
 * last ones balance the workers. */
void pass_qkv(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
              pass_scratch *scratch)
{
    const qkv_units n = units_of(op);
    const uint32_t all = n.n_kv + n.n_q + n.n_gate, heads = pass_qkv_heads(op);
    const uint32_t row = unit / all * PASS_TILE, n_rows = smaller(ex->n_rows - row, PASS_TILE);
    unit %= all;
    if (unit < n.n_kv) {
        const uint32_t head = unit * heads;
        keys_values(ex, op, in, head, smaller(op->n_kv_heads - head, heads), row, n_rows, scratch);
    } else if (unit < n.n_kv + n.n_q) {
        const uint32_t head = (unit - n.n_kv) * heads;
        queries(ex, op, in, head, smaller(op->n_heads - head, heads), row, n_rows, scratch);
    } else {
        gates(ex, op, in, unit - n.n_kv - n.n_q, row, n_rows, scratch);
    }
}

/* x[n] += residual_scale y[n] */
static void add_residual(const cpu_executor *ex, float *x, const float *y, uint32_t n)
{
    const float scale = ex->program->shape.residual_scale;
    if (scale == 1)
        ex->k->add(x, y, n);
    else
        ex->k->add_scaled(x, y, scale, n);
}

/* OUT and FFN_DOWN: x += W in + bias, a block of rows; if a norm follows, the sum waits in branch.
 * */
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
        const size_t to = (size_t)(b.row + r) * w->rows + b.first;
        if (op->post_norm)
            memcpy(ex->branch + to, y, b.n * sizeof *y);
        else if (op->is_gated)
            ex->k->add_scaled(ex->x + to, y, ex->routes.shared_gate[b.row + r], b.n);
        else
            add_residual(ex, ex->x + to, y, b.n);
    }
}

void pass_add_branch(cpu_executor *ex, const step_op *op, uint32_t row)
{
    const step_shape *s = &ex->program->shape;
    const size_t at = (size_t)row * s->n_embd;
    float *y = ex->branch + at, *x = ex->x + at;
    ex->k->rms_norm(y, y, op->post_norm, s->n_embd, s->norm_eps);
    if (op->waits) {
        memcpy(ex->waiting + at, y, s->n_embd * sizeof *y);
        return;
    }
    if (op->norm_of_sum) {
        ex->k->add(y, ex->waiting + at, s->n_embd);
        ex->k->rms_norm(y, y, op->norm_of_sum, s->n_embd, s->norm_eps);
    }
    add_residual(ex, x, y, s->n_embd);
    for (uint32_t i = 0; op->output_scale != 0 && i < s->n_embd; i++) x[i] *= op->output_scale;
}

/* To at most limit, and up to at least -limit. */
static void clamp(float *gate, float *up, uint32_t n, float limit)
{
    for (uint32_t i = 0; i < n; i++) {
        gate[i] = gate[i] < limit ? gate[i] : limit;
        up[i] = up[i] < limit ? up[i] : limit;
        up[i] = up[i] > -limit ? up[i] : -limit;
    }
}

static void relu_squared(float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) x[i] = x[i] < 0 ? 0 : x[i] * x[i];
}

void pass_activate(cpu_executor *ex, const step_op *op, float *gate, float *up, uint32_t n_rows,
                   uint32_t rows, uint32_t block, uint32_t hidden_row)
{
    const step_shape *s = &ex->program->shape;
    const step_op *down = op + 1; /* what the result is for */
    const pass_rows hidden = pass_rows_of(&ex->hidden, down->w[0]->cols);
    const uint32_t acts = step_hadamard_of(down) ? 0 : step_acts(down); /* else pass_turned() */
    for (uint32_t r = 0; r < n_rows; r++, gate += KERNEL_GROUP, up += KERNEL_GROUP, hidden_row++) {
        switch (s->activation) {
        case STEP_SILU_GATED: ex->k->silu_gated(gate, up, rows); break;
        case STEP_GELU: ex->k->gelu_tanh(gate, NULL, rows); break;
        case STEP_SWIGLU_CLAMPED: ex->k->swiglu_clamped(gate, up, rows); break;
        case STEP_GELU_GATED: ex->k->gelu_gated(gate, up, rows); break;
        case STEP_SILU_CLAMPED:
            clamp(gate, up, rows, op->activation_limit);
            ex->k->silu_gated(gate, up, rows);
            break;
        case STEP_RELU_SQUARED: relu_squared(gate, rows); break;
        }
        for (int a = 0; a < KERNEL_ACTS_END; a++)
            if (acts >> a & 1)
                ex->k->quantize[a](hidden.q[a] + hidden_row * hidden.q_stride + block, gate, rows);
        if (!acts)
            memcpy(hidden.f + hidden_row * hidden.f_stride + (size_t)block * KERNEL_GROUP, gate,
                   rows * sizeof *gate);
    }
}

/* A block is one group of activations, so its worker quantizes it. */
void pass_ffn_up(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
                 pass_scratch *scratch)
{
    const model_matrix *w = op->w[0] ? op->w[0] : op->w[1];
    pass_block b = pass_block_at(w, PASS_UP_PANELS, ex->n_rows, unit);
    float *y[2] = {scratch->y, scratch->y + PASS_TILE * KERNEL_GROUP};
    for (int i = 0; i < 2; i++) {
        if (i == 1 && op->kind == STEP_LAYER_GATE)
            for (uint32_t r = 0; r < b.n_rows; r++)
                memcpy(y[i] + r * KERNEL_GROUP, pass_layer_input(ex, op, b.row + r) + b.first,
                       b.n * sizeof *y[i]);
        if (!op->w[i]) continue;
        pass_matmul(ex, y[i], KERNEL_GROUP, op->w[i], 0, b.panel, b.n_panels, in, b.row, b.n_rows);
        for (uint32_t r = 0; op->bias[i] && r < b.n_rows; r++)
            ex->k->add(y[i] + r * KERNEL_GROUP, op->bias[i] + b.first, b.n);
    }
    pass_activate(ex, op, y[0], y[1], b.n_rows, b.n, b.panel / PASS_UP_PANELS, b.row);
}
