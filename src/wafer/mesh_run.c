/* mesh_run.c - the walk over the step program: each operation on the mesh. */
#include "wafer/mesh_bound.h"
#include "wafer/mesh_core.h"
#include "wafer/modelled.h"

/* Rows cut along y that must be cut along x on one line: slices go along x to the columns that need
 * a part of them, which then rotates along y.  Or the reverse. */
static void count_turn(mesh *m, uint32_t n_rows)
{
    mesh_count_collective(m, WAFER_AXIS_X, &m->split_e, 0, n_rows);
    for (uint32_t x = 0; x < m->layout.width; x++)
        mesh_count_ring(m, WAFER_AXIS_Y, x, (uint64_t)m->prompt_e.share[x] * n_rows);
}

/* The column with the token's row of the embedding sends it: a sum with a single term. */
static void run_embed(mesh *m, const step_op *op, const int32_t *tokens)
{
    const step_shape *s = &m->program->shape;
    const uint32_t half = s->ropes[0].n_rot / 2;
    for (uint32_t r = 0; r < m->n_rows; r++) {
        const uint32_t token = (uint32_t)tokens[r];
        kernel_panel_row(op->w[0]->type, m->x + (size_t)r * s->n_embd,
                         model_matrix_panels(op->w[0], 0, token / KERNEL_PANEL_ROWS),
                         token % KERNEL_PANEL_ROWS, s->n_embd);
        for (uint32_t j = 0; j < half; j++) {
            float *c = &m->cosine[(size_t)r * half + j], *sn = &m->sine[(size_t)r * half + j];
            kernel_sincos_ref((m->position + r) * s->ropes[0].frequency[j], sn, c);
            *c *= s->ropes[0].scale;
            *sn *= s->ropes[0].scale;
        }
    }
    if (m->is_prompt) count_turn(m, m->n_rows);
    else mesh_count_collective(m, WAFER_AXIS_X, &m->split_e, 0, m->n_rows);
}

/* Norm, then turn, the heads of q or k of a row. */
static void finish_heads(mesh *m, const float *norm, float *x, uint32_t n_heads, uint32_t row)
{
    const step_shape *s = &m->program->shape;
    const size_t angle = (size_t)row * (s->ropes[0].n_rot / 2);
    kernel_rope_fn *rope = s->rope == STEP_ROPE_SPLIT ? m->k.rope_split : m->k.rope_adjacent;
    for (uint32_t h = 0; h < n_heads; h++, x += s->head_dim) {
        if (norm) m->k.rms_norm(x, x, norm, s->head_dim, s->norm_eps);
        rope(x, m->cosine + angle, m->sine + angle, s->ropes[0].n_rot / 2);
    }
}

/* Columns of a strip exchange their channels if a head is used as a whole. */
static void count_heads(mesh *m, const step_op *op)
{
    const bool whole = m->layout.kv_type == KERNEL_KV_I8;
    const uint32_t at_once = m->is_prompt ? 1 : m->n_rows;
    for (uint32_t r = 0; r < m->n_rows; r += at_once) {
        mesh_at_row(m, r);
        if (whole || op->head_norm[0]) mesh_count_gather(m, &m->split_q, at_once);
        if (whole || op->head_norm[1]) mesh_count_gather(m, &m->split_kv, at_once);
        if (whole) mesh_count_gather(m, &m->split_kv, at_once);
    }
    mesh_count_rows(m, m->split_q.most, 4);
    mesh_count_rows(m, m->split_kv.most, 4);
}

static void run_qkv(mesh *m, const step_op *op, const mesh_tiles *const *w)
{
    const step_shape *s = &m->program->shape;
    const uint32_t n_q = s->n_heads * s->head_dim, n_kv = s->n_kv_heads * s->head_dim;
    float *out[3] = {m->q, m->key, m->value};
    for (uint32_t r = 0; r < m->n_rows; r++) mesh_norm(m, op, r, r, step_acts(op));
    for (int i = 0; i < 3; i++)
        mesh_matmul(m, out[i], i ? n_kv : n_q, w[i], 0, &m->normed, 0, m->n_rows);
    for (uint32_t r = 0; r < m->n_rows; r++) {
        float *q = m->q + (size_t)r * n_q, *k = m->key + (size_t)r * n_kv;
        for (int i = 0; i < 3; i++) {
            const uint32_t n = w[i]->w->rows;
            mesh_scale_output(m, out[i] + (size_t)r * n, w[i]->n, r);
            if (op->bias[i]) m->k.add(out[i] + (size_t)r * n, op->bias[i], n);
        }
        mesh_norm_end(m, r);
        if (m->bound) mesh_bound_qkv(m, op, w, r);
        finish_heads(m, op->head_norm[0], q, s->n_heads, r);
        finish_heads(m, op->head_norm[1], k, s->n_kv_heads, r);
        for (uint32_t i = 0; i < n_q; i++) q[i] *= op->attention_scale;
        if (m->bound) mesh_bound_keep(m, op, r);
        for (uint32_t h = 0; h < s->n_heads; h++)
            m->k.attend_query[m->layout.kv_type](
                m->queries + ((size_t)r * s->n_heads + h) * m->query_bytes, q + h * s->head_dim,
                s->head_dim);
        mesh_kv_write(m, op, r);
    }
    count_heads(m, op);
}

/* OUT and FFN_DOWN: x += W in + bias. */
static void run_out(mesh *m, const step_op *op, const mesh_tiles *const *w, const mesh_rows *in)
{
    const uint32_t n = m->program->shape.n_embd;
    for (uint32_t r = 0; r < m->n_rows; r++) {
        mesh_at_row(m, r);
        mesh_quantize(m, in, r, step_acts(op), WAFER_AXIS_X);
    }
    mesh_at_all(m);
    mesh_matmul(m, m->y, n, w[0], 0, in, 0, m->n_rows);
    for (uint32_t r = 0; r < m->n_rows; r++) {
        float *y = m->y + (size_t)r * n;
        if (op->bias[0]) m->k.add(y, op->bias[0], n);
        if (m->bound) mesh_bound_out(m, w[0], in, r, y);
        m->k.add(m->x + (size_t)r * n, y, n);
    }
    mesh_count_rows(m, mesh_stream(m)->most, 1);
}

static void run_up(mesh *m, const step_op *op, const mesh_tiles *const *w)
{
    const uint32_t n = m->program->shape.n_ff;
    float *y[2] = {m->y, m->up};
    for (uint32_t r = 0; r < m->n_rows; r++) mesh_norm(m, op, r, r, step_acts(op));
    for (int i = 0; i < 2; i++)
        if (w[i]) mesh_matmul(m, y[i], n, w[i], 0, &m->normed, 0, m->n_rows);
    for (uint32_t r = 0; r < m->n_rows; r++) {
        float *gate = m->y + (size_t)r * n, *up = m->up + (size_t)r * n;
        mesh_scale_output(m, gate, &m->split_h, r);
        if (w[1]) mesh_scale_output(m, up, &m->split_h, r);
        mesh_norm_end(m, r);
        if (op->bias[0]) m->k.add(gate, op->bias[0], n);
        if (op->bias[1]) m->k.add(up, op->bias[1], n);
        if (m->bound) mesh_bound_up(m, op, w, 0, r, r, gate, up);
        mesh_activate(m, gate, up, n);
        memcpy(m->hidden.f + (size_t)r * n, gate, n * sizeof *gate);
    }
    mesh_count_rows(m, m->split_h.most, 8);
}

/* The rounding errors of row r of the head's input, and their product added: step_parts(). */
static void add_rest(mesh *m, const step_op *op, const mesh_tiles *w, uint32_t r, float *logits)
{
    const uint32_t n = m->normed.width;
    const kernel_act *q = mesh_acts(&m->normed, w->w->type, r);
    memcpy(m->rest.f, m->normed.f + (size_t)r * n, n * sizeof *m->rest.f);
    kernel_act_rest(m->rest.f, q, n);
    mesh_quantize(m, &m->rest, 0, step_acts(op), mesh_stream_axis(m));
    mesh_matmul(m, m->rest_logits, m->program->shape.n_vocab, w, 0, &m->rest, 0, 1);
    m->k.add(logits, m->rest_logits, m->program->shape.n_vocab);
}

static void run_head(mesh *m, const step_op *op, const mesh_tiles *const *w)
{
    const uint32_t n = m->program->shape.n_vocab, first = m->n_rows - m->n_logits;
    for (uint32_t r = first; r < m->n_rows; r++) {
        float *logits = m->logits + (size_t)r * n;
        mesh_norm(m, op, r, r, step_acts(op));
        mesh_matmul(m, logits, n, w[0], 0, &m->normed, r, 1);
        if (step_parts(op) == 2) add_rest(m, op, w[0], r, logits);
        mesh_scale_output(m, logits, w[0]->n, r);
        mesh_norm_end(m, r);
        if (op->bias[0]) m->k.add(logits, op->bias[0], n);
        if (m->bound) mesh_bound_head(m, op, w[0], r, logits);
    }
}

/* The head takes rows in the cut of decoding. */
static void mesh_run_walk(mesh *m, const int32_t *tokens, uint32_t n, uint32_t position,
                          uint32_t n_logits)
{
    const step_shape *s = &m->program->shape;
    CHECK(n >= 1 && n <= m->layout.rows_max && n_logits <= n);
    CHECK(position + n <= m->layout.choice.context);
    for (uint32_t i = 0; i < n; i++) CHECK(tokens[i] >= 0 && (uint32_t)tokens[i] < s->n_vocab);
    m->n_rows = n;
    m->position = position;
    m->n_logits = n_logits;
    for (uint32_t i = 0; i < m->program->n_ops; i++) {
        const step_op *op = &m->program->ops[i];
        const mesh_tiles *const *w = m->op_tiles[i];
        m->kind = op->kind;
        switch (op->kind) {
        case STEP_EMBED:
            run_embed(m, op, tokens);
            if (m->bound) mesh_bound_begin(m);
            break;
        case STEP_QKV: run_qkv(m, op, w); break;
        case STEP_ATTEND:
            mesh_attend(m, op);
            if (m->bound) mesh_bound_attend(m, op);
            break;
        case STEP_OUT: run_out(m, op, w, &m->attended); break;
        case STEP_FFN_UP: run_up(m, op, w); break;
        case STEP_FFN_DOWN: run_out(m, op, w, &m->hidden); break;
        case STEP_ROUTE: mesh_route(m, op, w); break;
        case STEP_EXPERTS_UP: mesh_experts_up(m, op, w); break;
        case STEP_EXPERTS_DOWN: mesh_experts_down(m, op, w); break;
        WAFER_CASES_NOT_MODELLED: break;
        case STEP_HEAD:
            if (m->is_prompt && n_logits) count_turn(m, n_logits);
            m->is_prompt = false;
            run_head(m, op, w);
            break;
        }
    }
}

void mesh_run(mesh *m, const int32_t *tokens, uint32_t n, uint32_t position, uint32_t n_logits)
{
    m->is_prompt = false;
    mesh_run_walk(m, tokens, n, position, n_logits);
}

void mesh_prompt(mesh *m, const int32_t *tokens, uint32_t n, uint32_t position, uint32_t n_logits)
{
    CHECK(m->layout.mesh_gemm);
    m->is_prompt = true;
    m->line_rows = tiles_of(n, m->layout.height);
    mesh_run_walk(m, tokens, n, position, n_logits);
}

const float *mesh_logits(const mesh *m, uint32_t row)
{
    CHECK(row < m->n_rows && row >= m->n_rows - m->n_logits);
    return m->logits + (size_t)row * m->program->shape.n_vocab;
}
