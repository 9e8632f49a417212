/* mesh_vector.c - norms, softmax and activations of vectors that are spread over an axis.
 *
 * EQUAL: the 16 partial sums of docs/numerics.md travel from core to core, and meet in the last.
 * MESH: every core makes one sum of its slice, with partial sums of its own, and those meet by the
 * schedule; fused, in the messages of the next product: it multiplies unscaled values, and its
 * results are scaled.  Values derived from a sum are computed where they are needed. */
#include "wafer/mesh_core.h"

/* The sum over x of (x - mean)^2, or of x itself. */
static float sum_over(mesh *m, wafer_axis axis, const mesh_split *split, const float *x,
                      bool squares, float mean)
{
    const bool apart = m->layout.order == MESH_ORDER;
    float p[16] = {0};
    if (apart) memset(m->partial, 0, split->n_cores * sizeof *m->partial);
    for (uint32_t i = 0; i < split->n_pieces; i++) {
        const mesh_piece *piece = mesh_turn(m, axis, split, i);
        if (apart) memset(p, 0, sizeof p);
        for (uint32_t j = piece->begin; j < piece->end; j++) {
            const uint32_t lane = (apart ? j - piece->begin : j) % 16;
            const float v = squares ? x[j] - mean : x[j];
            p[lane] = squares ? fmaf(v, v, p[lane]) : p[lane] + v;
        }
        if (apart) m->partial[piece->core] += kernel_sum16(p);
    }
    if (!m->riding) mesh_count_collective(m, axis, NULL, apart ? 1 : 16, 1);
    mesh_count_work(m, split->most, 1);
    return apart ? *mesh_meet(m->on->sum[axis], m->partial, 1) : kernel_sum16(p);
}

/* Products of a prompt have no sums to fuse with. */
static bool is_fused(const mesh *m)
{
    return m->layout.choice.is_fused && !m->is_prompt;
}

/* Cores that share a scale agree on the largest magnitude: a maximum, which is the same in any
 * order.  So each core's slice in 8 bits is that of the whole vector. */
void mesh_quantize(mesh *m, const mesh_rows *rows, uint32_t row, uint32_t acts, wafer_axis axis)
{
    const size_t at = (size_t)row * kernel_n_groups(rows->width);
    for (int a = 0; a < KERNEL_ACTS_END; a++) {
        if (!(acts >> a & 1)) continue;
        m->k.quantize[a](rows->q[a] + at, rows->f + (size_t)row * rows->width, rows->width);
        mesh_count_collective(m, axis, NULL, kernel_n_scales((kernel_acts)a, rows->width), 1);
        mesh_count_work(m, tiles_of(rows->width, mesh_side(m, axis)), 2);
    }
}

void mesh_norm(mesh *m, const step_op *op, uint32_t r, uint32_t row, uint32_t acts)
{
    const step_shape *s = &m->program->shape;
    const uint32_t n = s->n_embd;
    const float *x = m->x + (size_t)row * n;
    float *y = m->normed.f + (size_t)r * n;
    const bool layer = s->norm_kind == STEP_NORM_LAYER, fused = is_fused(m);
    const mesh_split *split = mesh_stream(m);
    const wafer_axis axis = mesh_stream_axis(m);
    float mean = 0.0f;
    m->riding = fused;
    mesh_at_row(m, row);
    if (layer) mean = sum_over(m, axis, split, x, false, 0);
    mean /= (float)n;
    const float squares = sum_over(m, axis, split, x, true, mean);
    const float scale = 1.0f / sqrtf(squares / (float)n + s->norm_eps);
    m->norm_scale[r] = scale;
    for (uint32_t i = 0; i < n; i++) {
        y[i] = (layer ? x[i] - mean : x[i]) * (fused ? 1.0f : scale) * op->norm[i];
        if (layer && op->norm_bias) y[i] += op->norm_bias[i];
    }
    mesh_count_work(m, split->most, (fused ? 1 : 2) + layer);
    mesh_quantize(m, &m->normed, r, acts, axis);
    mesh_at_all(m);
}

void mesh_scale_output(mesh *m, float *y, const mesh_split *split, uint32_t r)
{
    if (!is_fused(m)) return;
    for (uint32_t i = 0; i < split->n; i++) y[i] *= m->norm_scale[r];
    mesh_count_work(m, split->most, 1);
}

void mesh_norm_end(mesh *m, uint32_t r)
{
    const uint32_t n = m->normed.width, n_groups = kernel_n_groups(n);
    if (!is_fused(m)) return;
    for (uint32_t i = 0; i < n; i++) m->normed.f[(size_t)r * n + i] *= m->norm_scale[r];
    for (int a = 0; a < KERNEL_ACTS_END; a++)
        for (uint32_t i = 0; i < n; i += KERNEL_BLOCK)
            m->normed.q[a][(size_t)r * n_groups + i / KERNEL_GROUP]
                .scale[i % KERNEL_GROUP / KERNEL_BLOCK] *= m->norm_scale[r];
    mesh_count_work(m, m->split_e.most, 1);
}

static float mesh_vector_silu(const mesh *m, float x)
{
    return x / (1.0f + mesh_exp(m, -x));
}

static float mesh_vector_gelu(const mesh *m, float x)
{
    return x / (1.0f + mesh_exp(m, x * fmaf(KERNEL_GELU_C3, x * x, KERNEL_GELU_C1)));
}

static float mesh_vector_swiglu(const mesh *m, float gate, float up)
{
    const float g = kernel_min(gate, KERNEL_SWIGLU_MAX);
    const float u = kernel_max(kernel_min(up, KERNEL_SWIGLU_MAX), -KERNEL_SWIGLU_MAX);
    return g / (1.0f + mesh_exp(m, KERNEL_SWIGLU_EXP * g)) * (u + 1.0f);
}

void mesh_activate(const mesh *m, float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        switch (m->program->shape.activation) {
        case STEP_SILU_GATED: gate[i] = mesh_vector_silu(m, gate[i]) * up[i]; break;
        case STEP_GELU: gate[i] = mesh_vector_gelu(m, gate[i]); break;
        case STEP_SWIGLU_CLAMPED: gate[i] = mesh_vector_swiglu(m, gate[i], up[i]); break;
        case STEP_GELU_GATED: /* wafer_check_modelled() */
        case STEP_SILU_CLAMPED:
        case STEP_RELU_SQUARED: CHECK(false); break;
        }
    }
}

/* The maximum is exact in any order. */
void mesh_softmax(mesh *m, float *x, const mesh_split *split)
{
    const uint32_t n = split->n;
    float max = x[0];
    for (uint32_t i = 1; i < n; i++) max = kernel_max(max, x[i]);
    for (uint32_t i = 0; i < n; i++) x[i] = mesh_exp(m, x[i] - max);
    mesh_count_collective(m, WAFER_AXIS_X, NULL, 1, 1);
    mesh_count_work(m, split->most, 2);
    const float sum = sum_over(m, WAFER_AXIS_X, split, x, false, 0);
    for (uint32_t i = 0; i < n; i++) x[i] /= sum;
}

void mesh_softmax_local(const mesh *m, float *x, uint32_t n)
{
    float max = x[0], p[16] = {0};
    for (uint32_t i = 1; i < n; i++) max = kernel_max(max, x[i]);
    for (uint32_t i = 0; i < n; i++) {
        x[i] = mesh_exp(m, x[i] - max);
        p[i % 16] += x[i];
    }
    const float sum = kernel_sum16(p);
    for (uint32_t i = 0; i < n; i++) x[i] /= sum;
}
