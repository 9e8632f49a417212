/* recurrent_neon.c - recurrent_ref.c in four lanes. */
#include "kernels/arm/exp_neon.h"

#include "kernels/vector.h"

static void sigmoid_gated(float *restrict gate, const float *restrict up, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const float32x4_t g = one_plus_exp_neon(vnegq_f32(vld1q_f32(gate + i)));
        vst1q_f32(gate + i, vdivq_f32(vld1q_f32(up + i), g));
    }
    for (; i < n; i++) gate[i] = up[i] / (1.0f + kernel_exp(-gate[i]));
}

static void conv(float *restrict out, const float *const *rows, const float *restrict weight,
                 const float *restrict bias, size_t stride, uint32_t n_taps, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t sum = bias ? vld1q_f32(bias + i) : vdupq_n_f32(0);
        for (uint32_t j = 0; j < n_taps; j++)
            sum = vfmaq_f32(sum, vld1q_f32(weight + j * stride + i), vld1q_f32(rows[j] + i));
        vst1q_f32(out + i, vdivq_f32(sum, one_plus_exp_neon(vnegq_f32(sum))));
    }
    for (; i < n; i++) {
        float sum = bias ? bias[i] : 0;
        for (uint32_t j = 0; j < n_taps; j++) sum = fmaf(weight[j * stride + i], rows[j][i], sum);
        out[i] = kernel_silu(sum);
    }
}

/* Sixteen lanes go through the state together, four registers of each: n_lanes is 16 k. */

/* Their new state, and what q reads of it. */
static inline void write_lanes(float32x4_t read[4], float *to, const float *from,
                               const float32x4_t d[4], const kernel_delta_row *in)
{
    EACH_QUARTER read[j] = vdupq_n_f32(0);
    for (uint32_t i = 0; i < in->n_keys; i++, from += in->n_lanes, to += in->n_lanes)
        EACH_QUARTER
        {
            float32x4_t x = vmulq_n_f32(vld1q_f32(from + 4 * j), in->decay);
            x = vfmaq_n_f32(x, d[j], in->k[i]);
            vst1q_f32(to + 4 * j, x);
            read[j] = vfmaq_n_f32(read[j], x, in->q[i]);
        }
}

/* Lanes [first, first + 16). */
static inline void delta_lanes(float *restrict out, float *restrict change, float *to,
                               const float *from, const kernel_delta_row *in, uint32_t first)
{
    float32x4_t sum[4], read[4], d[4];
    const float *s = from + first;
    EACH_QUARTER sum[j] = vdupq_n_f32(0);
    for (uint32_t i = 0; i < in->n_keys; i++, s += in->n_lanes)
        EACH_QUARTER sum[j] = vfmaq_n_f32(sum[j], vld1q_f32(s + 4 * j), in->k[i]);
    EACH_QUARTER
    {
        const float32x4_t v = vld1q_f32(in->v + first + 4 * j);
        d[j] = vmulq_n_f32(vfmsq_f32(v, sum[j], vdupq_n_f32(in->decay)), in->beta);
        vst1q_f32(change + first + 4 * j, d[j]);
    }
    write_lanes(read, to + first, from + first, d, in);
    EACH_QUARTER vst1q_f32(out + first + 4 * j, read[j]);
}

static void delta(float *restrict out, float *restrict change, float *to, const float *from,
                  const kernel_delta_row *in)
{
    for (uint32_t c = 0; c < in->n_lanes; c += 16) delta_lanes(out, change, to, from, in, c);
}

static inline void scan_lanes(float *restrict out, float *restrict change, float *to,
                              const float *from, const kernel_delta_row *in, uint32_t first)
{
    float32x4_t read[4], d[4], v[4];
    EACH_QUARTER
    {
        v[j] = vld1q_f32(in->v + first + 4 * j);
        d[j] = vmulq_n_f32(v[j], in->beta);
        vst1q_f32(change + first + 4 * j, d[j]);
    }
    write_lanes(read, to + first, from + first, d, in);
    EACH_QUARTER vst1q_f32(out + first + 4 * j, vfmaq_n_f32(read[j], v[j], in->skip));
}

static void scan(float *restrict out, float *restrict change, float *to, const float *from,
                 const kernel_delta_row *in)
{
    for (uint32_t c = 0; c < in->n_lanes; c += 16) scan_lanes(out, change, to, from, in, c);
}

static void delta_again(float *to, const float *from, const float *restrict change,
                        const kernel_delta_row *in)
{
    for (uint32_t i = 0; i < in->n_keys; i++, to += in->n_lanes, from += in->n_lanes)
        for (uint32_t c = 0; c < in->n_lanes; c += 4) {
            const float32x4_t x = vmulq_n_f32(vld1q_f32(from + c), in->decay);
            vst1q_f32(to + c, vfmaq_n_f32(x, vld1q_f32(change + c), in->k[i]));
        }
}

void kernel_recurrent_init_neon(kernel_table *table)
{
    table->sigmoid_gated = sigmoid_gated;
    table->conv = conv;
    table->delta = delta;
    table->scan = scan;
    table->delta_again = delta_again;
}
