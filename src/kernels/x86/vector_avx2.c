/* vector_avx2.c - vector_ref.c in eight lanes; what is left after them goes one by one. */
#include "kernels/x86/exp_avx2.h"

#include "kernels/vector.h"

/* The sum of the partial sums low (0..7), high (8..15) and of the last n < 16 values less a
 * constant, or with square of the squares of those. */
static float sum16_tail(__m256 low, __m256 high, const float *x, uint32_t n, float less,
                        bool square)
{
    if (n == 0) return sum16_avx2(low, high);
    float p[16];
    _mm256_storeu_ps(p, low);
    _mm256_storeu_ps(p + 8, high);
    for (uint32_t i = 0; i < n; i++) {
        float d = x[i] - less;
        p[i] = square ? fmaf(d, d, p[i]) : p[i] + d;
    }
    return kernel_sum16(p);
}

static void rms_norm(float *y, const float *x, const float *weight, uint32_t n, float eps)
{
    __m256 low = _mm256_setzero_ps(), high = low;
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + 8);
        low = _mm256_fmadd_ps(a, a, low);
        high = _mm256_fmadd_ps(b, b, high);
    }
    float sum = sum16_tail(low, high, x + i, n - i, 0.0f, true);
    float scale = 1.0f / sqrtf(sum / (float)n + eps);
    for (i = 0; i + 8 <= n; i += 8) {
        __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(scale));
        _mm256_storeu_ps(y + i, _mm256_mul_ps(scaled, _mm256_loadu_ps(weight + i)));
    }
    for (; i < n; i++) y[i] = x[i] * scale * weight[i];
}

static void layer_norm(float *y, const float *x, const float *weight, const float *bias, uint32_t n,
                       float eps)
{
    __m256 low = _mm256_setzero_ps(), high = low, low2 = low, high2 = low;
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        low = _mm256_add_ps(low, _mm256_loadu_ps(x + i));
        high = _mm256_add_ps(high, _mm256_loadu_ps(x + i + 8));
    }
    float mean = sum16_tail(low, high, x + i, n - i, 0.0f, false) / (float)n;
    const __m256 mean8 = _mm256_set1_ps(mean);
    for (i = 0; i + 16 <= n; i += 16) {
        __m256 a = _mm256_sub_ps(_mm256_loadu_ps(x + i), mean8);
        __m256 b = _mm256_sub_ps(_mm256_loadu_ps(x + i + 8), mean8);
        low2 = _mm256_fmadd_ps(a, a, low2);
        high2 = _mm256_fmadd_ps(b, b, high2);
    }
    float variance = sum16_tail(low2, high2, x + i, n - i, mean, true) / (float)n;
    float scale = 1.0f / sqrtf(variance + eps);
    for (i = 0; i + 8 <= n; i += 8) {
        __m256 d = _mm256_sub_ps(_mm256_loadu_ps(x + i), mean8);
        d = _mm256_mul_ps(_mm256_mul_ps(d, _mm256_set1_ps(scale)), _mm256_loadu_ps(weight + i));
        if (bias) d = _mm256_add_ps(d, _mm256_loadu_ps(bias + i));
        _mm256_storeu_ps(y + i, d);
    }
    for (; i < n; i++) {
        float d = (x[i] - mean) * scale * weight[i];
        y[i] = bias ? d + bias[i] : d;
    }
}

static void add(float *restrict x, const float *restrict y, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
    for (; i < n; i++) x[i] += y[i];
}

static void add_scaled(float *restrict x, const float *restrict y, float scale, uint32_t n)
{
    const __m256 scale8 = _mm256_set1_ps(scale);
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 sum = _mm256_fmadd_ps(scale8, _mm256_loadu_ps(y + i), _mm256_loadu_ps(x + i));
        _mm256_storeu_ps(x + i, sum);
    }
    for (; i < n; i++) x[i] = fmaf(scale, y[i], x[i]);
}

static void rope_adjacent(float *restrict x, const float *restrict cosine,
                          const float *restrict sine, uint32_t n)
{
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    uint32_t j = 0;
    for (; j + 4 <= n; j += 4) {
        __m256 c = _mm256_castps128_ps256(_mm_loadu_ps(cosine + j));
        __m256 s = _mm256_castps128_ps256(_mm_loadu_ps(sine + j));
        __m256 ab = _mm256_loadu_ps(x + 2 * j);
        __m256 ba = _mm256_permute_ps(ab, 0xb1);
        __m256 product = _mm256_mul_ps(ba, _mm256_permutevar8x32_ps(s, twice));
        /* fmaddsub subtracts in even lanes, adds in odd ones: a c - b s, b c + a s. */
        ab = _mm256_fmaddsub_ps(ab, _mm256_permutevar8x32_ps(c, twice), product);
        _mm256_storeu_ps(x + 2 * j, ab);
    }
    for (; j < n; j++) kernel_rotate(x + 2 * j, x + 2 * j + 1, cosine[j], sine[j]);
}

static void rope_split(float *restrict x, const float *restrict cosine, const float *restrict sine,
                       uint32_t n)
{
    uint32_t j = 0;
    for (; j + 8 <= n; j += 8) {
        __m256 a = _mm256_loadu_ps(x + j), b = _mm256_loadu_ps(x + j + n);
        __m256 c = _mm256_loadu_ps(cosine + j), s = _mm256_loadu_ps(sine + j);
        _mm256_storeu_ps(x + j, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        _mm256_storeu_ps(x + j + n, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
    }
    for (; j < n; j++) kernel_rotate(x + j, x + j + n, cosine[j], sine[j]);
}

static void silu_gated(float *restrict gate, const float *restrict up, uint32_t n)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 g = _mm256_loadu_ps(gate + i);
        g = _mm256_div_ps(g, one_plus_exp_avx2(_mm256_xor_ps(g, sign)));
        _mm256_storeu_ps(gate + i, _mm256_mul_ps(g, _mm256_loadu_ps(up + i)));
    }
    for (; i < n; i++) gate[i] = kernel_silu(gate[i]) * up[i];
}

static inline __m256 gelu_avx2(__m256 x)
{
    __m256 u = _mm256_set1_ps(KERNEL_GELU_C3);
    u = _mm256_fmadd_ps(u, _mm256_mul_ps(x, x), _mm256_set1_ps(KERNEL_GELU_C1));
    return _mm256_div_ps(x, one_plus_exp_avx2(_mm256_mul_ps(x, u)));
}

static void gelu_tanh(float *restrict gate, const float *restrict up, uint32_t n)
{
    (void)up;
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(gate + i, gelu_avx2(_mm256_loadu_ps(gate + i)));
    for (; i < n; i++) gate[i] = kernel_gelu(gate[i]);
}

static void gelu_gated(float *restrict gate, const float *restrict up, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 g = gelu_avx2(_mm256_loadu_ps(gate + i));
        _mm256_storeu_ps(gate + i, _mm256_mul_ps(g, _mm256_loadu_ps(up + i)));
    }
    for (; i < n; i++) gate[i] = kernel_gelu(gate[i]) * up[i];
}

static void swiglu_clamped(float *restrict gate, const float *restrict up, uint32_t n)
{
    const __m256 max = _mm256_set1_ps(KERNEL_SWIGLU_MAX), min = _mm256_set1_ps(-KERNEL_SWIGLU_MAX);
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 g = _mm256_min_ps(_mm256_loadu_ps(gate + i), max);
        __m256 u = _mm256_max_ps(_mm256_min_ps(_mm256_loadu_ps(up + i), max), min);
        __m256 x = _mm256_mul_ps(_mm256_set1_ps(KERNEL_SWIGLU_EXP), g);
        g = _mm256_div_ps(g, one_plus_exp_avx2(x));
        u = _mm256_add_ps(u, _mm256_set1_ps(1.0f));
        _mm256_storeu_ps(gate + i, _mm256_mul_ps(g, u));
    }
    for (; i < n; i++) gate[i] = kernel_swiglu(gate[i], up[i]);
}

static float max_avx2(const float *x, uint32_t n)
{
    float max = x[0];
    uint32_t i = 0;
    if (n >= 8) {
        __m256 max8 = _mm256_loadu_ps(x);
        for (i = 8; i + 8 <= n; i += 8) max8 = _mm256_max_ps(max8, _mm256_loadu_ps(x + i));
        max = max8_avx2(max8);
    }
    for (; i < n; i++) max = kernel_max(max, x[i]);
    return max;
}

/* The maximum may be -0 for +0 or the other way round: exp(x - max) is the same. */
static void softmax(float *x, uint32_t n)
{
    const float max = max_avx2(x, n);
    __m256 low = _mm256_setzero_ps(), high = low;
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256 a = exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(max)));
        __m256 b = exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(x + i + 8), _mm256_set1_ps(max)));
        _mm256_storeu_ps(x + i, a);
        _mm256_storeu_ps(x + i + 8, b);
        low = _mm256_add_ps(low, a);
        high = _mm256_add_ps(high, b);
    }
    uint32_t tail = i;
    for (; i < n; i++) x[i] = kernel_exp(x[i] - max);
    float sum = sum16_tail(low, high, x + tail, n - tail, 0.0f, false);
    for (i = 0; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_div_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(sum)));
    for (; i < n; i++) x[i] = x[i] / sum;
}

void kernel_vector_init_avx2(kernel_table *table)
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
