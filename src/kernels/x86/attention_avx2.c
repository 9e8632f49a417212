/* attention_avx2.c - attention with vectors of eight.
 *
 * Two fma units of four cycles need 8 sums in flight; of 16 registers, sums take at most 12.
 * Bound: one conversion (8 values) a cycle for one row, 16 products a cycle for many. */
#include "kernels/x86/exp_avx2.h"

#include "kernels/vector.h"

enum { VF_LANES = 8, TILE_ROWS_MAX = 6 };
typedef __m256 vf;
#define vf_load  _mm256_loadu_ps
#define vf_store _mm256_storeu_ps
#define vf_set1  _mm256_set1_ps
#define vf_mul   _mm256_mul_ps
#define vf_fma   _mm256_fmadd_ps
static inline vf vf_halves(const uint16_t *x)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)x));
}

#define TILE_MAP(X)                                                                                \
    X(1, 1) X(1, 2) X(1, 3) X(1, 4) X(1, 5) X(1, 6) X(1, 7) X(1, 8)                                \
    X(2, 1) X(2, 2) X(2, 3) X(2, 4) X(3, 1) X(3, 2) X(3, 3)                                \
    X(4, 1) X(4, 2) X(5, 1) X(5, 2) X(6, 1) X(6, 2)
static const uint8_t tile_vectors_max[TILE_ROWS_MAX + 1] = {0, 8, 4, 3, 2, 2, 2};

/* acc[lanes] += coef[n] . m[n][lanes] for fewer lanes than a vector and one row. */
static void accumulate_tail(float *restrict acc, const float *restrict coef,
                            const uint16_t *restrict m, size_t m_stride, uint32_t n, uint32_t lanes)
{
    for (uint32_t t = 0; t < lanes; t++) {
        float sum = acc[t];
        for (uint32_t i = 0; i < n; i++) sum = fmaf(coef[i], _cvtsh_ss(m[i * m_stride + t]), sum);
        acc[t] = sum;
    }
}

/* The 8 slots from j on that lie in [first, end). */
static inline __m256 slots_in_range(uint32_t j, uint32_t first, uint32_t end)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i slot = _mm256_add_epi32(lane, _mm256_set1_epi32((int)j));
    __m256i before = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)first), slot);
    __m256i below_end = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)end), slot);
    return _mm256_castsi256_ps(_mm256_andnot_si256(before, below_end));
}

static inline __m256 weights(const float *s, float max, __m256 in)
{
    return _mm256_and_ps(exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(s), _mm256_set1_ps(max))), in);
}

/* Turn scores s[64] into weights, update the state; returns what out is multiplied by. Runs of 16
 * slots outside [first, end) are not touched. */
static float weigh_row(kernel_softmax_state *state, float *s, uint32_t first, uint32_t end)
{
    const __m256 lowest = _mm256_set1_ps(-INFINITY);
    const uint32_t from = first / 16 * 16;
    __m256 max8 = lowest, low = _mm256_setzero_ps(), high = low;
    for (uint32_t j = first / 8 * 8; j < end; j += 8) {
        __m256 in = slots_in_range(j, first, end);
        max8 = _mm256_max_ps(max8, _mm256_blendv_ps(lowest, _mm256_loadu_ps(s + j), in));
    }
    const float max = kernel_max(state->max, max8_avx2(max8)) + 0.0f;
    const float c = kernel_decay(state->max, max);
    for (uint32_t j = from; j < end; j += 16) {
        __m256 p = weights(s + j, max, slots_in_range(j, first, end));
        __m256 q = weights(s + j + 8, max, slots_in_range(j + 8, first, end));
        _mm256_storeu_ps(s + j, p);
        _mm256_storeu_ps(s + j + 8, q);
        low = _mm256_add_ps(low, p);
        high = _mm256_add_ps(high, q);
    }
    state->max = max;
    state->sum = state->sum * c + sum16_avx2(low, high);
    return c;
}

#include "kernels/attend.h"

static inline void store_halves(uint16_t *out, __m256 x)
{
    __m128i halves = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128((__m128i *)(void *)out, halves);
}

static void kv_write(void *restrict keys, void *restrict values, uint32_t slot,
                     const float *restrict k, const float *restrict v, uint32_t head_dim)
{
    uint16_t *key = (uint16_t *)keys + slot;
    uint16_t *value = values ? (uint16_t *)values + (size_t)slot * head_dim : NULL;
    uint32_t d = 0;
    for (; d + 8 <= head_dim; d += 8) {
        uint16_t column[8];
        if (value) store_halves(value + d, _mm256_loadu_ps(v + d));
        store_halves(column, _mm256_loadu_ps(k + d));
        for (uint32_t i = 0; i < 8; i++) key[(d + i) * KERNEL_PAGE] = column[i];
    }
    for (; d < head_dim; d++) {
        key[d * KERNEL_PAGE] = _cvtss_sh(k[d], _MM_FROUND_TO_NEAREST_INT);
        if (value) value[d] = _cvtss_sh(v[d], _MM_FROUND_TO_NEAREST_INT);
    }
}

/* to[8][to_stride] = from[8][KERNEL_PAGE], turned over. */
static inline void turn_over(uint16_t *to, size_t to_stride, const uint16_t *from)
{
    __m128i x[8], y[8];
    UNROLL for (int i = 0; i < 8; i++)
        x[i] = _mm_loadu_si128((const __m128i *)(const void *)(from + i * KERNEL_PAGE));
    UNROLL for (int i = 0; i < 4; i++) { /* neighbouring rows, then pairs, then fours of them */
        y[2 * i] = _mm_unpacklo_epi16(x[2 * i], x[2 * i + 1]);
        y[2 * i + 1] = _mm_unpackhi_epi16(x[2 * i], x[2 * i + 1]);
    }
    UNROLL for (int i = 0; i < 2; i++)
        UNROLL for (int k = 0; k < 2; k++) {
            x[4 * i + 2 * k] = _mm_unpacklo_epi32(y[4 * i + k], y[4 * i + k + 2]);
            x[4 * i + 2 * k + 1] = _mm_unpackhi_epi32(y[4 * i + k], y[4 * i + k + 2]);
        }
    UNROLL for (int k = 0; k < 4; k++) {
        y[2 * k] = _mm_unpacklo_epi64(x[k], x[k + 4]);
        y[2 * k + 1] = _mm_unpackhi_epi64(x[k], x[k + 4]);
    }
    UNROLL for (int i = 0; i < 8; i++)
        _mm_storeu_si128((__m128i *)(void *)(to + i * to_stride), y[i]);
}

static void kv_values(void *restrict values, const void *restrict keys, uint32_t head_dim)
{
    const uint32_t whole = head_dim / 8 * 8;
    uint16_t *value = values;
    const uint16_t *key = keys;
    for (uint32_t j = 0; j < KERNEL_PAGE; j += 8)
        for (uint32_t d = 0; d < whole; d += 8)
            turn_over(value + (size_t)j * head_dim + d, head_dim, key + d * KERNEL_PAGE + j);
    for (uint32_t d = whole; d < head_dim; d++)
        for (uint32_t j = 0; j < KERNEL_PAGE; j++)
            value[j * head_dim + d] = key[d * KERNEL_PAGE + j];
}

void kernel_attention_init_avx2(kernel_table *table)
{
    table->kv_write[KERNEL_KV_F16] = kv_write;
    table->kv_values[KERNEL_KV_F16] = kv_values;
    table->attend[KERNEL_KV_F16] = attend;
    table->attend_join = attend_join;
}
