/* vector_neon.c - vector_ref.c in four lanes; what is left after them goes one by one.
 *
 * The sixteen partial sums of the contract are four registers. */
#include "kernels/arm/exp_neon.h"

#include "kernels/vector.h"

/* The sum of the partial sums and of the last n < 16 values less a constant, or with square of
 * the squares of those. */
static float sum16_tail(const float32x4_t sums[4], const float *x, uint32_t n, float less,
                        bool square)
{
    if (n == 0) return sum16_neon(sums);
    float p[16];
    EACH_QUARTER vst1q_f32(p + 4 * j, sums[j]);
    for (uint32_t i = 0; i < n; i++) {
        float d = x[i] - less;
        p[i] = square ? fmaf(d, d, p[i]) : p[i] + d;
    }
    return kernel_sum16(p);
}

static void rms_norm(float *y, const float *x, const float *weight, uint32_t n, float eps)
{
    float32x4_t sums[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        EACH_QUARTER
        {
            float32x4_t a = vld1q_f32(x + i + 4 * j);
            sums[j] = vfmaq_f32(sums[j], a, a);
        }
    float sum = sum16_tail(sums, x + i, n - i, 0.0f, true);
    float scale = 1.0f / sqrtf(sum / (float)n + eps);
    for (i = 0; i + 4 <= n; i += 4) {
        float32x4_t scaled = vmulq_f32(vld1q_f32(x + i), vdupq_n_f32(scale));
        vst1q_f32(y + i, vmulq_f32(scaled, vld1q_f32(weight + i)));
    }
    for (; i < n; i++) y[i] = x[i] * scale * weight[i];
}

static void layer_norm(float *y, const float *x, const float *weight, const float *bias, uint32_t n,
                       float eps)
{
    const float32x4_t zero = vdupq_n_f32(0);
    float32x4_t sums[4] = {zero, zero, zero, zero}, squares[4] = {zero, zero, zero, zero};
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        EACH_QUARTER sums[j] = vaddq_f32(sums[j], vld1q_f32(x + i + 4 * j));
    float mean = sum16_tail(sums, x + i, n - i, 0.0f, false) / (float)n;
    const float32x4_t mean4 = vdupq_n_f32(mean);
    for (i = 0; i + 16 <= n; i += 16)
        EACH_QUARTER
        {
            float32x4_t d = vsubq_f32(vld1q_f32(x + i + 4 * j), mean4);
            squares[j] = vfmaq_f32(squares[j], d, d);
        }
    float variance = sum16_tail(squares, x + i, n - i, mean, true) / (float)n;
    float scale = 1.0f / sqrtf(variance + eps);
    for (i = 0; i + 4 <= n; i += 4) {
        float32x4_t d = vsubq_f32(vld1q_f32(x + i), mean4);
        d = vmulq_f32(vmulq_f32(d, vdupq_n_f32(scale)), vld1q_f32(weight + i));
        if (bias) d = vaddq_f32(d, vld1q_f32(bias + i));
        vst1q_f32(y + i, d);
    }
    for (; i < n; i++) {
        float d = (x[i] - mean) * scale * weight[i];
        y[i] = bias ? d + bias[i] : d;
    }
}

static void add(float *restrict x, const float *restrict y, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32(x + i, vaddq_f32(vld1q_f32(x + i), vld1q_f32(y + i)));
    for (; i < n; i++) x[i] += y[i];
}

static void add_scaled(float *restrict x, const float *restrict y, float scale, uint32_t n)
{
    const float32x4_t scale4 = vdupq_n_f32(scale);
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(x + i, vfmaq_f32(vld1q_f32(x + i), scale4, vld1q_f32(y + i)));
    for (; i < n; i++) x[i] = fmaf(scale, y[i], x[i]);
}

/* (a, b) = (a c - b s, b c + a s): each one product rounded, then one fma. */
static inline void rotate_neon(float32x4_t *a, float32x4_t *b, float32x4_t c, float32x4_t s)
{
    float32x4_t old_a = *a, old_b = *b;
    *a = vfmaq_f32(vnegq_f32(vmulq_f32(old_b, s)), old_a, c);
    *b = vfmaq_f32(vmulq_f32(old_a, s), old_b, c);
}

static void rope_adjacent(float *restrict x, const float *restrict cosine,
                          const float *restrict sine, uint32_t n)
{
    uint32_t j = 0;
    for (; j + 4 <= n; j += 4) {
        float32x4x2_t pair = vld2q_f32(x + 2 * j);
        rotate_neon(&pair.val[0], &pair.val[1], vld1q_f32(cosine + j), vld1q_f32(sine + j));
        vst2q_f32(x + 2 * j, pair);
    }
    for (; j < n; j++) kernel_rotate(x + 2 * j, x + 2 * j + 1, cosine[j], sine[j]);
}

static void rope_split(float *restrict x, const float *restrict cosine, const float *restrict sine,
                       uint32_t n)
{
    uint32_t j = 0;
    for (; j + 4 <= n; j += 4) {
        float32x4_t a = vld1q_f32(x + j), b = vld1q_f32(x + j + n);
        rotate_neon(&a, &b, vld1q_f32(cosine + j), vld1q_f32(sine + j));
        vst1q_f32(x + j, a);
        vst1q_f32(x + j + n, b);
    }
    for (; j < n; j++) kernel_rotate(x + j, x + j + n, cosine[j], sine[j]);
}

static void silu_gated(float *restrict gate, const float *restrict up, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t g = vld1q_f32(gate + i);
        g = vdivq_f32(g, one_plus_exp_neon(vnegq_f32(g)));
        vst1q_f32(gate + i, vmulq_f32(g, vld1q_f32(up + i)));
    }
    for (; i < n; i++) gate[i] = kernel_silu(gate[i]) * up[i];
}

static inline float32x4_t gelu_neon(float32x4_t x)
{
    float32x4_t u = vfmaq_f32(vdupq_n_f32(KERNEL_GELU_C1), vdupq_n_f32(KERNEL_GELU_C3),
                              vmulq_f32(x, x));
    return vdivq_f32(x, one_plus_exp_neon(vmulq_f32(x, u)));
}

static void gelu_tanh(float *restrict gate, const float *restrict up, uint32_t n)
{
    (void)up;
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32(gate + i, gelu_neon(vld1q_f32(gate + i)));
    for (; i < n; i++) gate[i] = kernel_gelu(gate[i]);
}

static void gelu_gated(float *restrict gate, const float *restrict up, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(gate + i, vmulq_f32(gelu_neon(vld1q_f32(gate + i)), vld1q_f32(up + i)));
    for (; i < n; i++) gate[i] = kernel_gelu(gate[i]) * up[i];
}

static void swiglu_clamped(float *restrict gate, const float *restrict up, uint32_t n)
{
    const float32x4_t max = vdupq_n_f32(KERNEL_SWIGLU_MAX), min = vnegq_f32(max);
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t g = vminq_f32(vld1q_f32(gate + i), max);
        float32x4_t u = vmaxq_f32(vminq_f32(vld1q_f32(up + i), max), min);
        g = vdivq_f32(g, one_plus_exp_neon(vmulq_f32(vdupq_n_f32(KERNEL_SWIGLU_EXP), g)));
        vst1q_f32(gate + i, vmulq_f32(g, vaddq_f32(u, vdupq_n_f32(1.0f))));
    }
    for (; i < n; i++) gate[i] = kernel_swiglu(gate[i], up[i]);
}

static float max_neon(const float *x, uint32_t n)
{
    float max = x[0];
    uint32_t i = 0;
    if (n >= 4) {
        float32x4_t max4 = vld1q_f32(x);
        for (i = 4; i + 4 <= n; i += 4) max4 = vmaxq_f32(max4, vld1q_f32(x + i));
        max = vmaxvq_f32(max4);
    }
    for (; i < n; i++) max = kernel_max(max, x[i]);
    return max;
}

/* The maximum may be -0 for +0 or the other way round: exp(x - max) is the same. */
static void softmax(float *x, uint32_t n)
{
    const float max = max_neon(x, n);
    const float32x4_t zero = vdupq_n_f32(0);
    float32x4_t sums[4] = {zero, zero, zero, zero};
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        EACH_QUARTER
        {
            float32x4_t e = exp_neon(vsubq_f32(vld1q_f32(x + i + 4 * j), vdupq_n_f32(max)));
            vst1q_f32(x + i + 4 * j, e);
            sums[j] = vaddq_f32(sums[j], e);
        }
    uint32_t tail = i;
    for (; i < n; i++) x[i] = kernel_exp(x[i] - max);
    float sum = sum16_tail(sums, x + tail, n - tail, 0.0f, false);
    for (i = 0; i + 4 <= n; i += 4)
        vst1q_f32(x + i, vdivq_f32(vld1q_f32(x + i), vdupq_n_f32(sum)));
    for (; i < n; i++) x[i] = x[i] / sum;
}

void kernel_vector_init_neon(kernel_table *table)
{
    table->rms_norm = rms_norm;
    table->layer_norm = layer_norm;
    table->add = add;
    table->add_scaled = add_scaled;
    table->rope_adjacent = rope_adjacent;
    table->rope_split = rope_split;
    table->silu_gated = silu_gated;
    table->gelu_tanh = gelu_tanh;
    table->gelu_gated = gelu_gated;
    table->swiglu_clamped = swiglu_clamped;
    table->softmax = softmax;
}
