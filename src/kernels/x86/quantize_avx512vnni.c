/* quantize_avx512vnni.c - activations in 8 bits, a group of 128 in eight registers.
 *
 * tests/kernelcheck/emulated.c compiles this file for machines without these instructions. */
#include "kernels/x86/exp_avx512.h"

#include "kernels/matmul.h"
#include "kernels/tiles.h"

enum { GROUP_VECTORS = KERNEL_GROUP / 16 };

/* 64 values as bytes.  Packing works in 128-bit lanes: put the dwords back in order. */
static inline __m512i round_to_bytes(const __m512 v[4], __m512 inverse)
{
    __m512i q[4];
    UNROLLED for (uint32_t j = 0; j < 4; j++)
        q[j] = _mm512_cvtps_epi32(_mm512_mul_ps(v[j], inverse));
    const __m512i packed = _mm512_packs_epi16(_mm512_packs_epi32(q[0], q[1]),
                                              _mm512_packs_epi32(q[2], q[3]));
    return _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), packed);
}

/* Sums of 16 and of 32 neighbours.  Ones times bytes are sums of four; each packing and product
 * with ones adds two neighbours of those of both halves. */
static inline void sum_group(kernel_act *out, __m512i low, __m512i high)
{
    const __m512i bytes = _mm512_set1_epi8(1), words = _mm512_set1_epi16(1);
    const __m512i zero = _mm512_setzero_si512();
    low = _mm512_dpbusd_epi32(zero, bytes, low);
    high = _mm512_dpbusd_epi32(zero, bytes, high);
    __m512i v = _mm512_dpwssd_epi32(zero, _mm512_packs_epi32(low, high), words);
    v = _mm512_dpwssd_epi32(zero, _mm512_packs_epi32(v, v), words);
    /* Of each four lanes the first is of the low half, the second of the high one. */
    v = _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 4, 8, 12, 1, 5, 9, 13), v);
    const __m128i sums = _mm_packs_epi32(_mm512_castsi512_si128(v),
                                         _mm256_extracti128_si256(_mm512_castsi512_si256(v), 1));
    const __m128i pairs = _mm_madd_epi16(sums, _mm_set1_epi16(1));
    _mm_storeu_si128((__m128i *)(void *)out->sum16, sums);
    _mm_storel_epi64((__m128i *)(void *)out->sum32, _mm_packs_epi32(pairs, pairs));
}

/* n <= KERNEL_GROUP, a multiple of 32 */
static inline void quantize_group(kernel_act *out, const float *x, uint32_t n)
{
    const __m512i magnitude_bits = _mm512_set1_epi32(0x7fffffff);
    __m512 v[GROUP_VECTORS], top = _mm512_setzero_ps();
    UNROLLED for (uint32_t j = 0; j < GROUP_VECTORS; j++) {
        v[j] = 16 * j < n ? _mm512_loadu_ps(x + 16 * j) : _mm512_setzero_ps();
        top = _mm512_max_ps(_mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(v[j]),
                                                                 magnitude_bits)),
                            top);
    }
    const float magnitude = max16_avx512(top);
    if (magnitude < KERNEL_ACT_TINY) {
        memset(out, 0, sizeof *out);
        return;
    }
    const __m512 inverse = _mm512_set1_ps(127.0f / magnitude);
    const __m512i low = round_to_bytes(v, inverse), high = round_to_bytes(v + 4, inverse);
    _mm512_storeu_si512(out->q, low);
    _mm512_storeu_si512(out->q + 64, high);
    sum_group(out, low, high);
    out->scale = magnitude / 127.0f;
    out->unused = 0;
}

static void quantize(kernel_act *restrict out, const float *restrict x, uint32_t n)
{
    for (uint32_t g = 0; g < kernel_n_groups(n); g++, x += KERNEL_GROUP, out++) {
        const uint32_t left = n - g * KERNEL_GROUP;
        if (left >= KERNEL_GROUP)
            quantize_group(out, x, KERNEL_GROUP);
        else
            quantize_group(out, x, left);
    }
}

void quantize_init_avx512vnni(kernel_table *table)
{
    table->quantize = quantize;
}
