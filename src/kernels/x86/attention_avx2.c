/* attention_avx2.c - attention over keys and values in F16, with vectors of eight. */
#include "kernels/x86/attend_avx2.h"

typedef uint16_t kv_value;
#define kv_float _cvtsh_ss
static inline vf vf_values(const uint16_t *x)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)x));
}

#include "kernels/attend.h"
#include "kernels/attend_join.h"

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
