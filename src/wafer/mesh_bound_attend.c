/* mesh_bound_attend.c - variances through attention.
 *
 * out = sum of p_j v_j, p the softmax of s_j = q k_j.  To first order
 *   d out = sum of p_j d v_j + sum of p_j (v_j - out) d s_j,    d s_j = q d k_j + d q k_j.
 * d q is one vector for all tokens: its part goes through the matrix sum of p_j (v_j - out) k_j.
 * The other parts are independent from token to token. */
#include "base/memory.h"
#include "kernels/kv_i8.h"
#include "wafer/mesh_bound.h"
#include "wafer/mesh_variance.h"

#define ROUNDING (0x1p-48f / 3.0f)

static size_t kept_at(const mesh *m, uint32_t layer, uint32_t head, uint32_t token)
{
    return ((size_t)layer * m->program->shape.n_kv_heads + head) * m->layout.choice.context + token;
}

/* The rounding step of a turned head: its largest channel, of queries the largest two neighbours,
 * over 127; and the variance after rounding, back in channels. */
static float turned_step(const mesh *m, const float *x, bool is_query)
{
    const uint32_t d = m->program->shape.head_dim;
    float turned[KV_I8_CHANNELS_MAX + 1] = {0}, top = 0;
    memcpy(turned, x, d * sizeof *x);
    kv_i8_turn(turned, d);
    for (uint32_t i = 0; i < d; i += 1 + is_query)
        top = kernel_max(top, fabsf(turned[i]) + (is_query ? fabsf(turned[i + 1]) : 0.0f));
    return top / 127.0f;
}

/* After a head x was rounded in the form of the KV cache; of floats only queries stay unrounded. */
static float mesh_bound_attend_rounded(const mesh *m, float variance, const float *x, bool is_query,
                                       float *step)
{
    const uint32_t d = m->program->shape.head_dim;
    *step = 0.0f;
    if (m->layout.kv_type == KERNEL_KV_F32) return variance;
    if (m->layout.kv_type == KERNEL_KV_I8) {
        *step = turned_step(m, x, is_query);
        return mesh_bound_rounded(variance, *step / sqrtf((float)kv_i8_run(d)));
    }
    if (is_query) return variance;
    float squares = 0; /* halves have 11 bits: a step is at most 2^-10 of the value */
    for (uint32_t i = 0; i < d; i++) squares += x[i] * x[i];
    return mesh_bound_rounded(variance, 0x1p-10f * sqrtf(squares / (float)d));
}

void mesh_bound_keep(mesh *m, const step_op *op, uint32_t row)
{
    const step_shape *s = &m->program->shape;
    mesh_bound *b = m->bound;
    const uint32_t d = s->head_dim;
    float step;
    for (uint32_t h = 0; h < s->n_heads; h++) {
        float *v = &b->q[row * s->n_heads + h];
        *v = mesh_bound_attend_rounded(m, *v, m->q + ((size_t)row * s->n_heads + h) * d, true,
                                       &step);
    }
    for (uint32_t h = 0; h < s->n_kv_heads; h++) {
        const size_t to = kept_at(m, op->layer, h, m->position + row);
        const uint32_t from = row * s->n_kv_heads + h;
        mesh_kept *kept = &b->kept[to];
        float *vectors = b->vectors + to * 2 * d;
        memcpy(vectors, m->key + (size_t)from * d, d * sizeof *vectors);
        memcpy(vectors + d, m->value + (size_t)from * d, d * sizeof *vectors);
        kept->key = mesh_bound_attend_rounded(m, b->key[from], vectors, false, &step);
        kept->value =
            mesh_bound_attend_rounded(m, b->value[from], vectors + d, false, &kept->value_step);
    }
}

static float mesh_bound_attend_dot(const float *a, const float *b, uint32_t n)
{
    float sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

typedef struct {
    const float *q;
    const mesh_kept *kept;  /* [.. end) */
    const float *vectors;
    uint32_t first, end;
    float of_q, of_weight;  /* variances; of the weights of values in 8 bits, see below */
    float step;             /* of those weights */
} looking;

/* weights = softmax; returns the largest. */
static void find_weights(const mesh *m, looking *l, float *weights, const float *sink)
{
    const uint32_t d = m->program->shape.head_dim;
    float max = sink ? *sink : -INFINITY, sum = 0, top = 0;
    for (uint32_t j = l->first; j < l->end; j++) {
        weights[j] = mesh_bound_attend_dot(l->q, l->vectors + (size_t)j * 2 * d, d);
        max = kernel_max(max, weights[j]);
    }
    for (uint32_t j = l->first; j < l->end; j++) sum += weights[j] = kernel_exp(weights[j] - max);
    if (sink) sum += kernel_exp(*sink - max);
    for (uint32_t j = l->first; j < l->end; j++) {
        weights[j] /= sum;
        top = kernel_max(top, weights[j] * l->kept[j].value_step);
    }
    /* Weights times the scales of values, two neighbours at most 254 steps. */
    l->step = 2 * top / 254.0f;
}

/* A token's own part: its value, its key, the rounding of its weight. */
static void mesh_bound_attend_add_token(const mesh *m, const looking *l, uint32_t j, float p,
                                        const float *out, float *variance)
{
    const uint32_t d = m->program->shape.head_dim;
    const float *k = l->vectors + (size_t)j * 2 * d, *v = k + d;
    const mesh_kept *kept = &l->kept[j];
    const float q2 = mesh_bound_attend_dot(l->q, l->q, d), k2 = mesh_bound_attend_dot(k, k, d);
    /* Scores and weights are rounded as well: a chain over d, exp, and sums over tokens. */
    const float own = ROUNDING * (2.0f * (float)d * q2 * k2 + 64.0f);
    const float of_score = q2 * kept->key + own;
    float of_weight = 0;
    if (kept->value_step > 0) {
        const float w = p * kept->value_step, step = kernel_min(l->step, 2 * w);
        of_weight = 0.25f * step * step * mesh_bound_attend_dot(v, v, d) /
                    ((float)d * kept->value_step * kept->value_step);
    }
    for (uint32_t i = 0; i < d; i++) {
        const float c = p * (v[i] - out[i]);
        variance[i] += p * p * kept->value + c * c * of_score + of_weight;
    }
}

static void attend_head(mesh *m, looking *l, const float *sink, const float *out, float *variance)
{
    mesh_bound *b = m->bound;
    const uint32_t d = m->program->shape.head_dim;
    find_weights(m, l, b->weights, sink);
    memset(b->mix, 0, (size_t)d * d * sizeof *b->mix);
    memset(variance, 0, d * sizeof *variance);
    for (uint32_t j = l->first; j < l->end; j++) {
        const float p = b->weights[j], *k = l->vectors + (size_t)j * 2 * d, *v = k + d;
        mesh_bound_attend_add_token(m, l, j, p, out, variance);
        for (uint32_t i = 0; i < d; i++) {
            const float c = p * (v[i] - out[i]);
            for (uint32_t e = 0; e < d; e++) b->mix[(size_t)i * d + e] += c * k[e];
        }
    }
    for (uint32_t i = 0; i < d; i++)
        variance[i] +=
            l->of_q * mesh_bound_attend_dot(b->mix + (size_t)i * d, b->mix + (size_t)i * d, d) +
            ROUNDING * (float)(l->end - l->first) * out[i] * out[i];
}

void mesh_bound_attend(mesh *m, const step_op *op)
{
    const step_shape *s = &m->program->shape;
    mesh_bound *b = m->bound;
    const uint32_t d = s->head_dim, n_q = s->n_heads * d;
    for (uint32_t r = 0; r < m->n_rows; r++)
        for (uint32_t h = 0; h < s->n_heads; h++) {
            const size_t at = kept_at(m, op->layer, h / m->strips.queries, 0);
            looking l = {.q = m->q + (size_t)r * n_q + (size_t)h * d,
                         .kept = b->kept + at, .vectors = b->vectors + at * 2 * d,
                         .end = m->position + r + 1, .of_q = b->q[r * s->n_heads + h]};
            l.first = op->window && l.end > op->window ? l.end - op->window : 0;
            attend_head(m, &l, op->sinks ? &op->sinks[h] : NULL,
                        m->attended.f + (size_t)r * n_q + (size_t)h * d,
                        b->attended + (size_t)r * n_q + (size_t)h * d);
        }
}
