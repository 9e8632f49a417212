/* recurrent_ref.c - layers that keep a state instead of keys and values: the definition.
 *
 * Lanes are channels of the values; sums run over the channels of a key, in order.  The other
 * variants are compared with this one bit for bit. */
#include "kernels/vector.h"

/* ln(1 + t), 0 <= t <= 1, as 2 atanh(s) with s = t / (2 + t) <= 1/3: what is left out is below
 * 2^-44 of it. */
static double log1p_of(double t)
{
    const double s = t / (2.0 + t), z = s * s;
    double p = 1.0 / 27;
    for (int k = 25; k >= 1; k -= 2) p = fma(p, z, 1.0 / k);
    return 2.0 * s * p;
}

float kernel_softplus_ref(float x)
{
    const double rest = log1p_of((double)kernel_exp(x > 0 ? -x : x));
    return (float)((x > 0 ? (double)x : 0.0) + rest);
}

float kernel_decay_ref(float x)
{
    const float e = kernel_exp(x);
    return e < 0x1p-64f ? 0.0f : e;
}

float kernel_sigmoid_ref(float x)
{
    return 1.0f / (1.0f + kernel_exp(-x));
}

static void sigmoid_gated(float *restrict gate, const float *restrict up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) gate[i] = up[i] / (1.0f + kernel_exp(-gate[i]));
}

static void conv(float *restrict out, const float *const *rows, const float *restrict weight,
                 const float *restrict bias, size_t stride, uint32_t n_taps, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float sum = bias ? bias[i] : 0;
        for (uint32_t j = 0; j < n_taps; j++) sum = fmaf(weight[j * stride + i], rows[j][i], sum);
        out[i] = kernel_silu(sum);
    }
}

static void delta(float *restrict out, float *restrict change, float *to, const float *from,
                  const kernel_delta_row *in)
{
    const uint32_t n = in->n_lanes;
    for (uint32_t c = 0; c < n; c++) {
        float sum = 0, read = 0;
        for (uint32_t i = 0; i < in->n_keys; i++) sum = fmaf(from[i * n + c], in->k[i], sum);
        change[c] = fmaf(-in->decay, sum, in->v[c]) * in->beta;
        for (uint32_t i = 0; i < in->n_keys; i++) {
            to[i * n + c] = fmaf(in->k[i], change[c], in->decay * from[i * n + c]);
            read = fmaf(to[i * n + c], in->q[i], read);
        }
        out[c] = read;
    }
}

static void scan(float *restrict out, float *restrict change, float *to, const float *from,
                 const kernel_delta_row *in)
{
    const uint32_t n = in->n_lanes;
    for (uint32_t c = 0; c < n; c++) {
        float read = 0;
        change[c] = in->beta * in->v[c];
        for (uint32_t i = 0; i < in->n_keys; i++) {
            to[i * n + c] = fmaf(in->k[i], change[c], in->decay * from[i * n + c]);
            read = fmaf(to[i * n + c], in->q[i], read);
        }
        out[c] = fmaf(in->skip, in->v[c], read);
    }
}

static void delta_again(float *to, const float *from, const float *restrict change,
                        const kernel_delta_row *in)
{
    const uint32_t n = in->n_lanes;
    for (uint32_t i = 0; i < in->n_keys; i++)
        for (uint32_t c = 0; c < n; c++)
            to[i * n + c] = fmaf(in->k[i], change[c], in->decay * from[i * n + c]);
}

void kernel_recurrent_init_ref(kernel_table *table)
{
    table->sigmoid_gated = sigmoid_gated;
    table->conv = conv;
    table->delta = delta;
    table->scan = scan;
    table->delta_again = delta_again;
}
