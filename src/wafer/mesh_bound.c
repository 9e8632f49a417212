/* mesh_bound.c - variances beside the values: sums, norms, products, activations, experts. */
#include "wafer/mesh_bound.h"

#include "base/memory.h"
#include "kernels/panels.h"
#include "wafer/mesh_variance.h"

#define ROUNDING (0x1p-48f / 3.0f) /* u^2 / 3: the variance of a rounding of 1, at most */

static uint32_t mesh_bound_greater(uint32_t a, uint32_t b) { return a > b ? a : b; }

int mesh_bound_open(mesh *m)
{
    const step_shape *s = &m->program->shape;
    const size_t rows = m->layout.rows_max, d = s->head_dim;
    const uint32_t n_ff = s->n_experts ? s->n_ff_expert : s->n_ff;
    const uint32_t used = mesh_bound_greater(s->n_experts_used, 1), n_q = s->n_heads * s->head_dim;
    uint32_t width = mesh_bound_greater(mesh_bound_greater(s->n_embd, n_q),
                                        mesh_bound_greater(n_ff, s->n_experts));
    mesh_bound *b = m->bound = mesh_own(m, 1, sizeof *b);
    if (!b) return CERIUM_ERR_MEMORY;
    width = (uint32_t)size_round_up(width, KERNEL_PANEL_ROWS);
    b->x = mesh_own(m, rows * s->n_embd, sizeof(float));
    b->normed = mesh_own(m, rows * s->n_embd, sizeof(float));
    b->attended = mesh_own(m, rows * n_q, sizeof(float));
    b->hidden = mesh_own(m, rows * used * n_ff, sizeof(float));
    b->q = mesh_own(m, rows * s->n_heads, sizeof(float));
    b->key = mesh_own(m, rows * s->n_kv_heads, sizeof(float));
    b->value = mesh_own(m, rows * s->n_kv_heads, sizeof(float));
    b->z = mesh_own(m, width, sizeof(float));
    b->y[0] = mesh_own(m, width, sizeof(float));
    b->y[1] = mesh_own(m, width, sizeof(float));
    b->router = mesh_own(m, rows * mesh_bound_greater(s->n_experts, 1), sizeof(float));
    b->mix = mesh_own(m, d * d, sizeof(float));
    b->weights = mesh_own(m, m->layout.choice.context, sizeof(float));
    b->head = mesh_own(m, size_round_up(s->n_vocab, KERNEL_PANEL_ROWS), sizeof(float));
    b->logits = mesh_own(m, rows * s->n_vocab, sizeof(float));
    b->n_kept = (size_t)s->n_layers * s->n_kv_heads * m->layout.choice.context;
    b->kept = memory_map(b->n_kept * sizeof *b->kept);
    b->vectors = memory_map(b->n_kept * 2 * d * sizeof(float));
    return m->short_of_memory || !b->kept || !b->vectors ? CERIUM_ERR_MEMORY : CERIUM_OK;
}

void mesh_bound_close(mesh *m)
{
    mesh_bound *b = m->bound;
    if (!b) return;
    if (b->kept) memory_unmap(b->kept, b->n_kept * sizeof *b->kept);
    if (b->vectors)
        memory_unmap(b->vectors,
                     b->n_kept * 2 * m->program->shape.head_dim * sizeof(float));
}

const float *mesh_logit_bounds(const mesh *m, uint32_t row)
{
    CHECK(m->bound && row < m->n_rows && row >= m->n_rows - m->n_logits);
    return m->bound->logits + (size_t)row * m->program->shape.n_vocab;
}

void mesh_bound_begin(mesh *m)
{
    memset(m->bound->x, 0, (size_t)m->n_rows * m->program->shape.n_embd * sizeof(float));
}

float mesh_bound_rounded(float variance, float step)
{
    return variance == 0 ? 0.0f : variance + 0.25f * step * step; /* a NaN stays a NaN */
}

/* Additions that a term passes through in the CPU's order and in the mesh's. */
static float product_depth(const mesh *m, const mesh_tiles *t)
{
    const uint32_t meets = m->is_prompt ? 0 : m->on->sum[t->k_axis]->depth, cols = t->w->cols;
    const uint32_t share = m->is_prompt ? cols : t->k->most;
    if (!t->unit) return (float)(cols + share + meets);
    const uint32_t in_sum = 2, n_sums = tiles_of(cols, t->closes); /* its product, and a scale's */
    if (m->is_prompt) return (float)(2 * in_sum + n_sums + mesh_gemm_adds(m, t));
    return (float)(2 * in_sum + n_sums + tiles_of(share, t->closes) + 1 + meets);
}

/* y = variance of W x, x a row of `in` with variances v. */
static void mesh_bound_product(mesh *m, float *y, const mesh_tiles *t, uint32_t matrix,
                               const mesh_rows *in, uint32_t row, const float *v,
                               const float *result)
{
    mesh_bound *b = m->bound;
    const model_matrix *w = t->w;
    const float own = ROUNDING * product_depth(m, t);
    const float *x = in->f + (size_t)row * in->width;
    const kernel_act *acts = mesh_acts(in, w->type, row);
    for (uint32_t k = 0; k < w->cols; k++) {
        const float step = t->unit ? kernel_act_scale(acts, k) : 0.0f;
        b->z[k] = mesh_bound_rounded(v[k], step) + own * x[k] * x[k];
    }
    m->k.matmul[BLOCK_F32](y, (size_t)w->n_panels * KERNEL_PANEL_ROWS,
                           t->squares + (size_t)matrix * w->n_panels * KERNEL_PANEL_ROWS * w->cols,
                           b->z, w->n_panels, w->cols, 1);
    for (uint32_t i = 0; i < w->rows; i++) y[i] += own * result[i] * result[i];
}

/* y = (x - mean) / sqrt(mean square + eps) * weight: each value's own part, and the sums'. */
static void mesh_bound_norm(mesh *m, const step_op *op, uint32_t row)
{
    const step_shape *s = &m->program->shape;
    const uint32_t n = s->n_embd;
    const float *x = m->x + (size_t)row * n, *v = m->bound->x + (size_t)row * n;
    float *out = m->bound->normed + (size_t)row * n;
    const uint32_t meets = m->sum[mesh_stream_axis(m)].depth, share = mesh_stream(m)->most;
    const float depth = (float)(n / 16 + 5 + share / 16 + 5 + meets);
    float mean = 0, squares = 0, of_sum = 0, of_mean = 0;
    if (s->norm_kind == STEP_NORM_LAYER) {
        for (uint32_t i = 0; i < n; i++) {
            mean += x[i];
            of_mean += v[i] + ROUNDING * depth * x[i] * x[i];
        }
        mean /= (float)n;
        of_mean /= (float)n * (float)n;
    }
    for (uint32_t i = 0; i < n; i++) {
        const float c = x[i] - mean;
        squares += c * c;
        of_sum += c * c * (v[i] + of_mean);
    }
    of_sum += 0.25f * ROUNDING * depth * squares * squares;
    const float scale2 = 1.0f / (squares / (float)n + s->norm_eps);
    const float of_scale = scale2 * scale2 * of_sum / ((float)n * (float)n);
    for (uint32_t i = 0; i < n; i++) {
        const float c = x[i] - mean, w = op->norm[i];
        out[i] = w * w * scale2 * (v[i] + of_mean + c * c * (of_scale + 4 * ROUNDING));
    }
}

/* The mean variance of each head of x, after a norm of heads that has weight w. */
static void of_heads(mesh *m, float *out, const float *v, const float *x, const float *w,
                     uint32_t n_heads)
{
    const step_shape *s = &m->program->shape;
    const uint32_t d = s->head_dim;
    for (uint32_t h = 0; h < n_heads; h++, v += d, x += d) {
        float sum = 0, squares = 0;
        for (uint32_t i = 0; i < d; i++) {
            sum += v[i] * (w ? w[i] * w[i] : 1.0f);
            squares += x[i] * x[i];
        }
        out[h] = sum / (float)d * (w ? 1.0f / (squares / (float)d + s->norm_eps) : 1.0f);
    }
}

void mesh_bound_qkv(mesh *m, const step_op *op, const mesh_tiles *const *w, uint32_t row)
{
    const step_shape *s = &m->program->shape;
    mesh_bound *b = m->bound;
    const float *x[3] = {m->q, m->key, m->value};
    float *out[3] = {b->q, b->key, b->value};
    mesh_bound_norm(m, op, row);
    for (int i = 0; i < 3; i++) {
        const uint32_t heads = i ? s->n_kv_heads : s->n_heads, n = heads * s->head_dim;
        mesh_bound_product(m, b->y[0], w[i], 0, &m->normed, row,
                           b->normed + (size_t)row * s->n_embd, x[i] + (size_t)row * n);
        of_heads(m, out[i] + (size_t)row * heads, b->y[0], x[i] + (size_t)row * n,
                 i < 2 ? op->head_norm[i] : NULL, heads);
    }
    for (uint32_t h = 0; h < s->n_heads; h++)
        b->q[row * s->n_heads + h] *= op->attention_scale * op->attention_scale;
}

static void add_to_x(mesh *m, uint32_t row, const float *v, float factor, const float *y,
                     float of_factor)
{
    const uint32_t n = m->program->shape.n_embd;
    const float *old = m->x + (size_t)row * n;
    float *x = m->bound->x + (size_t)row * n;
    for (uint32_t i = 0; i < n; i++) {
        const float sum = old[i] + factor * y[i];
        x[i] += factor * factor * v[i] + of_factor * y[i] * y[i] + 2 * ROUNDING * sum * sum;
    }
}

void mesh_bound_out(mesh *m, const mesh_tiles *w, const mesh_rows *in, uint32_t row, const float *y)
{
    mesh_bound *b = m->bound;
    const float *v = in == &m->attended ? b->attended : b->hidden;
    mesh_bound_product(m, b->y[0], w, 0, in, row, v + (size_t)row * in->width, y);
    add_to_x(m, row, b->y[0], 1.0f, y, 0.0f);
}

/* Derivatives of the activation to gate and up. */
static void mesh_bound_slopes(const step_shape *s, float gate, float up, float *by_gate,
                              float *by_up)
{
    float e, u, g, open;
    switch (s->activation) {
    case STEP_SILU_GATED:
        e = 1.0f / (1.0f + kernel_exp(-gate));
        *by_gate = e * (1.0f + gate * (1.0f - e)) * up;
        *by_up = gate * e;
        break;
    case STEP_GELU:
        u = gate * fmaf(KERNEL_GELU_C3, gate * gate, KERNEL_GELU_C1);
        e = 1.0f / (1.0f + kernel_exp(u));
        *by_gate = e - gate * e * (1.0f - e) * (KERNEL_GELU_C1 + 3 * KERNEL_GELU_C3 * gate * gate);
        *by_up = 0.0f;
        break;
    case STEP_SWIGLU_CLAMPED:
        g = kernel_min(gate, KERNEL_SWIGLU_MAX);
        u = kernel_max(kernel_min(up, KERNEL_SWIGLU_MAX), -KERNEL_SWIGLU_MAX);
        open = 1.0f / (1.0f + kernel_exp(KERNEL_SWIGLU_EXP * g));
        e = open * (1.0f - KERNEL_SWIGLU_EXP * g * (1.0f - open));
        *by_gate = gate <= KERNEL_SWIGLU_MAX ? e * (u + 1.0f) : 0.0f;
        *by_up = fabsf(up) <= KERNEL_SWIGLU_MAX ? g * open : 0.0f;
        break;
    case STEP_GELU_GATED: /* wafer_check_modelled() */
    case STEP_SILU_CLAMPED:
    case STEP_RELU_SQUARED: CHECK(false); break;
    }
}

void mesh_bound_up(mesh *m, const step_op *op, const mesh_tiles *const *w, uint32_t expert,
                   uint32_t row, uint32_t hidden, const float *gate, const float *up)
{
    const step_shape *s = &m->program->shape;
    mesh_bound *b = m->bound;
    const float *y[2] = {gate, up}, *v = b->normed + (size_t)row * s->n_embd;
    float *out = b->hidden + (size_t)hidden * m->hidden.width;
    if (op) mesh_bound_norm(m, op, row);
    for (int i = 0; i < 2; i++)
        if (w[i]) mesh_bound_product(m, b->y[i], w[i], expert, &m->normed, row, v, y[i]);
    for (uint32_t i = 0; i < m->hidden.width; i++) {
        float by_gate = 0, by_up = 0;
        mesh_bound_slopes(s, gate[i], w[1] ? up[i] : 0.0f, &by_gate, &by_up);
        out[i] = by_gate * by_gate * b->y[0][i];
        if (w[1]) out[i] += by_up * by_up * b->y[1][i];
    }
}

/* A chosen expert and a rejected one, whose difference is within the bound. */
static bool is_undecided(const mesh *m, const float *logits, const float *v)
{
    const step_shape *s = &m->program->shape;
    const uint32_t n = s->n_experts;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t better = 0;
        for (uint32_t j = 0; j < n; j++)
            better += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
        if (better >= s->n_experts_used) continue;
        for (uint32_t j = 0; j < n; j++) {
            uint32_t above = 0;
            for (uint32_t k = 0; k < n; k++)
                above += logits[k] > logits[j] || (logits[k] == logits[j] && k < j);
            if (above >= s->n_experts_used &&
                logits[i] - logits[j] <= MESH_BOUND_SIGMAS * sqrtf(v[i] + v[j]))
                return true;
        }
    }
    return false;
}

void mesh_bound_route(mesh *m, const step_op *op, const mesh_tiles *w, uint32_t row,
                      const float *logits)
{
    const step_shape *s = &m->program->shape;
    mesh_bound *b = m->bound;
    float *v = b->router + (size_t)row * s->n_experts;
    mesh_bound_norm(m, op, row);
    mesh_bound_product(m, b->y[0], w, 0, &m->normed, row, b->normed + (size_t)row * s->n_embd,
                       logits);
    memcpy(v, b->y[0], s->n_experts * sizeof *v);
    if (!is_undecided(m, logits, v)) return;
    float *x = b->x + (size_t)row * s->n_embd;
    for (uint32_t i = 0; i < s->n_embd; i++) x[i] = INFINITY;
}

void mesh_bound_down(mesh *m, const mesh_tiles *w, uint32_t expert, uint32_t row, uint32_t hidden,
                     float weight, const float *y)
{
    const step_shape *s = &m->program->shape;
    mesh_bound *b = m->bound;
    const uint32_t k = s->n_experts_used;
    const float *v = b->router + (size_t)row * s->n_experts;
    /* Weights are a softmax over the chosen, times a factor. */
    float of_weight = 0;
    for (uint32_t i = row * k; i < (row + 1) * k; i++) {
        const float share = m->weight[i] / s->routing_scale;
        const float by = m->chosen[i] == expert ? 1.0f - share : share;
        of_weight += by * by * v[m->chosen[i]];
    }
    mesh_bound_product(m, b->y[0], w, expert, &m->hidden, hidden,
                       b->hidden + (size_t)hidden * m->hidden.width, y);
    /* Groups send weighted, rounded answers, which meet in at most k adds: a partial sum of k terms
     * is at most k times the sum of their squares. */
    const float meets = m->expert_groups.n ? (float)(k * (k + 1) + 1) : 0.0f;
    add_to_x(m, row, b->y[0], weight, y, weight * weight * (of_weight + (8 + meets) * ROUNDING));
}

void mesh_bound_head(mesh *m, const step_op *op, const mesh_tiles *w, uint32_t row,
                     const float *logits)
{
    const step_shape *s = &m->program->shape;
    mesh_bound *b = m->bound;
    float *out = b->logits + (size_t)row * s->n_vocab;
    mesh_bound_norm(m, op, row);
    mesh_bound_product(m, b->head, w, 0, &m->normed, row, b->normed + (size_t)row * s->n_embd,
                       logits);
    for (uint32_t i = 0; i < s->n_vocab; i++) {
        const float bound = MESH_BOUND_SIGMAS * sqrtf(b->head[i]);
        out[i] = bound == bound ? bound : INFINITY; /* infinity times a weight of 0 */
    }
}
