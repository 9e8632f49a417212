/* vector_avx512vnni.c - vector_ref.c in sixteen lanes, the last of them masked.
 *
 * A lane that is masked reads as +0, which changes none of the sums: a partial sum that begins at
 * +0 never is -0.  Rotations stay with AVX2: a head has 32 to 64 pairs. */
#include "kernels/x86/exp_avx512.h"

#include "kernels/vector.h"

static inline __m512 square_sum(__m512 x, __m512 sum)
{
    return _mm512_fmadd_ps(x, x, sum);
}

static void rms_norm(float *y, const float *x, const float *weight, uint32_t n, float eps)
{
    __m512 sums = _mm512_setzero_ps();
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes_below(n - i);
        sums = square_sum(_mm512_maskz_loadu_ps(k, x + i), sums);
    }
    const __m512 scale = _mm512_set1_ps(1.0f / sqrtf(sum16_avx512(sums) / (float)n + eps));
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes_below(n - i);
        __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(k, x + i), scale);
        scaled = _mm512_mul_ps(scaled, _mm512_maskz_loadu_ps(k, weight + i));
        _mm512_mask_storeu_ps(y + i, k, scaled);
    }
}

static void layer_norm(float *y, const float *x, const float *weight, const float *bias, uint32_t n,
                       float eps)
{
    __m512 sums = _mm512_setzero_ps(), squares = sums;
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes_below(n - i);
        sums = _mm512_add_ps(sums, _mm512_maskz_loadu_ps(k, x + i));
    }
    const __m512 mean = _mm512_set1_ps(sum16_avx512(sums) / (float)n);
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes_below(n - i);
        __m512 d = _mm512_maskz_sub_ps(k, _mm512_maskz_loadu_ps(k, x + i), mean);
        squares = square_sum(d, squares);
    }
    const __m512 scale = _mm512_set1_ps(1.0f / sqrtf(sum16_avx512(squares) / (float)n + eps));
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes_below(n - i);
        __m512 d = _mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(k, x + i), mean), scale);
        d = _mm512_mul_ps(d, _mm512_maskz_loadu_ps(k, weight + i));
        if (bias) d = _mm512_add_ps(d, _mm512_maskz_loadu_ps(k, bias + i));
        _mm512_mask_storeu_ps(y + i, k, d);
    }
}

static void add(float *restrict x, const float *restrict y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes_below(n - i);
        __m512 sum = _mm512_maskz_loadu_ps(k, x + i);
        sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(k, y + i));
        _mm512_mask_storeu_ps(x + i, k, sum);
    }
}

static void add_scaled(float *restrict x, const float *restrict y, float scale, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes_below(n - i);
        __m512 a = _mm512_maskz_loadu_ps(k, x + i), b = _mm512_maskz_loadu_ps(k, y + i);
        _mm512_mask_storeu_ps(x + i, k, _mm512_fmadd_ps(_mm512_set1_ps(scale), b, a));
    }
}

static void silu_gated(float *restrict gate, const float *restrict up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes_below(n - i);
        __m512 g = _mm512_maskz_loadu_ps(k, gate + i);
        g = _mm512_div_ps(g, one_plus_exp_avx512(_mm512_xor_ps(g, _mm512_set1_ps(-0.0f))));
        g = _mm512_mul_ps(g, _mm512_maskz_loadu_ps(k, up + i));
        _mm512_mask_storeu_ps(gate + i, k, g);
    }
}

static inline __m512 gelu(__m512 x)
{
    __m512 u = _mm512_set1_ps(KERNEL_GELU_C3);
    u = _mm512_fmadd_ps(u, _mm512_mul_ps(x, x), _mm512_set1_ps(KERNEL_GELU_C1));
    return _mm512_div_ps(x, one_plus_exp_avx512(_mm512_mul_ps(x, u)));
}

static void gelu_tanh(float *restrict gate, const float *restrict up, uint32_t n)
{
    (void)up;
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes_below(n - i);
        _mm512_mask_storeu_ps(gate + i, k, gelu(_mm512_maskz_loadu_ps(k, gate + i)));
    }
}

static void gelu_gated(float *restrict gate, const float *restrict up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes_below(n - i);
        __m512 g = gelu(_mm512_maskz_loadu_ps(k, gate + i));
        g = _mm512_mul_ps(g, _mm512_maskz_loadu_ps(k, up + i));
        _mm512_mask_storeu_ps(gate + i, k, g);
    }
}

static void swiglu_clamped(float *restrict gate, const float *restrict up, uint32_t n)
{
    const __m512 max = _mm512_set1_ps(KERNEL_SWIGLU_MAX), min = _mm512_set1_ps(-KERNEL_SWIGLU_MAX);
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes_below(n - i);
        __m512 g = _mm512_min_ps(_mm512_maskz_loadu_ps(k, gate + i), max);
        __m512 u = _mm512_min_ps(_mm512_maskz_loadu_ps(k, up + i), max);
        __m512 x = _mm512_mul_ps(_mm512_set1_ps(KERNEL_SWIGLU_EXP), g);
        g = _mm512_div_ps(g, one_plus_exp_avx512(x));
        u = _mm512_add_ps(_mm512_max_ps(u, min), _mm512_set1_ps(1.0f));
        _mm512_mask_storeu_ps(gate + i, k, _mm512_mul_ps(g, u));
    }
}

/* The maximum may be -0 for +0 or the other way round: exp(x - max) is the same. */
static void softmax(float *x, uint32_t n)
{
    __m512 max16 = _mm512_set1_ps(-INFINITY), sums = _mm512_setzero_ps();
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes_below(n - i);
        max16 = _mm512_mask_max_ps(max16, k, max16, _mm512_maskz_loadu_ps(k, x + i));
    }
    const __m512 max = _mm512_set1_ps(max16_avx512(max16));
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes_below(n - i);
        __m512 e = exp_avx512(_mm512_sub_ps(_mm512_maskz_loadu_ps(k, x + i), max));
        _mm512_mask_storeu_ps(x + i, k, e);
        sums = _mm512_add_ps(sums, _mm512_maskz_mov_ps(k, e));
    }
    const __m512 sum = _mm512_set1_ps(sum16_avx512(sums));
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes_below(n - i);
        _mm512_mask_storeu_ps(x + i, k, _mm512_div_ps(_mm512_maskz_loadu_ps(k, x + i), sum));
    }
}

void kernel_vector_init_avx512vnni(kernel_table *table)
{
    table->rms_norm = rms_norm;
    table->layer_norm = layer_norm;
    table->add = add;
    table->add_scaled = add_scaled;
    table->silu_gated = silu_gated;
    table->gelu_tanh = gelu_tanh;
    table->gelu_gated = gelu_gated;
    table->swiglu_clamped = swiglu_clamped;
    table->softmax = softmax;
}
