/* quantize_avx512vnni.c - activations in 8 bits, a group of 128 in eight registers.
 *
 * tests/kernelcheck/emulated.c compiles this file for machines without these instructions. */
#include "kernels/x86/exp_avx512.h"

#include "kernels/matmul.h"
#include "kernels/tiles.h"

enum { GROUP_VECTORS = KERNEL_GROUP / 16 };

/* The largest magnitudes of the four blocks of a group; where they share a scale, of all. */
static inline __m128 block_tops(const __m512 v[GROUP_VECTORS], bool share)
{
    const __m512i magnitude_bits = _mm512_set1_epi32(0x7fffffff);
    __m128 top[4];
    UNROLLED for (uint32_t b = 0; b < 4; b++) {
        const __m512i first = _mm512_and_si512(_mm512_castps_si512(v[2 * b]), magnitude_bits);
        const __m512i last = _mm512_and_si512(_mm512_castps_si512(v[2 * b + 1]), magnitude_bits);
        const __m512 m = _mm512_max_ps(_mm512_castsi512_ps(first), _mm512_castsi512_ps(last));
        const __m256 m8 = _mm256_max_ps(low_half(m), high_half(m));
        top[b] = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
    }
    /* Each of these has two lanes of one block and two of another, in turn. */
    const __m128 low = _mm_max_ps(_mm_unpacklo_ps(top[0], top[1]), _mm_unpackhi_ps(top[0], top[1]));
    const __m128 high = _mm_max_ps(_mm_unpacklo_ps(top[2], top[3]),
                                   _mm_unpackhi_ps(top[2], top[3]));
    __m128 all = _mm_max_ps(_mm_movelh_ps(low, high), _mm_movehl_ps(high, low));
    if (!share) return all;
    all = _mm_max_ps(all, _mm_shuffle_ps(all, all, 0xb1));
    return _mm_max_ps(all, _mm_shuffle_ps(all, all, 0x4e));
}

/* 64 values as bytes.  Packing works in 128-bit lanes: put the dwords back in order. */
static inline __m512i round_to_bytes(const __m512 v[4], const float inverse[2])
{
    __m512i q[4];
    UNROLLED for (uint32_t j = 0; j < 4; j++)
        q[j] = _mm512_cvtps_epi32(_mm512_mul_ps(v[j], _mm512_set1_ps(inverse[j / 2])));
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
static inline void quantize_group(kernel_act *out, const float *x, uint32_t n, bool share)
{
    __m512 v[GROUP_VECTORS];
    float inverse[4];
    UNROLLED for (uint32_t j = 0; j < GROUP_VECTORS; j++)
        v[j] = 16 * j < n ? _mm512_loadu_ps(x + 16 * j) : _mm512_setzero_ps();
    const __m128 top = block_tops(v, share), limit = _mm_set1_ps(127.0f);
    const __m128 tiny = _mm_cmplt_ps(top, _mm_set1_ps(KERNEL_ACT_TINY)); /* all zeros then */
    _mm_storeu_ps(inverse, _mm_andnot_ps(tiny, _mm_div_ps(limit, top)));
    _mm_storeu_ps(out->scale, _mm_andnot_ps(tiny, _mm_div_ps(top, limit)));
    const __m512i low = round_to_bytes(v, inverse), high = round_to_bytes(v + 4, inverse + 2);
    _mm512_storeu_si512(out->q, low);
    _mm512_storeu_si512(out->q + 64, high);
    sum_group(out, low, high);
    memset(out->unused, 0, sizeof out->unused);
}

static inline void quantize(kernel_act *restrict out, const float *restrict x, uint32_t n,
                            bool share)
{
    for (uint32_t g = 0; g < kernel_n_groups(n); g++, x += KERNEL_GROUP, out++) {
        const uint32_t left = n - g * KERNEL_GROUP;
        if (left >= KERNEL_GROUP)
            quantize_group(out, x, KERNEL_GROUP, share);
        else
            quantize_group(out, x, left, share);
    }
}

static void quantize_32(kernel_act *restrict out, const float *restrict x, uint32_t n)
{
    quantize(out, x, n, false);
}

static void quantize_128(kernel_act *restrict out, const float *restrict x, uint32_t n)
{
    quantize(out, x, n, true);
}

void quantize_init_avx512vnni(kernel_table *table)
{
    table->quantize[KERNEL_ACTS_32] = quantize_32;
    table->quantize[KERNEL_ACTS_128] = quantize_128;
}
