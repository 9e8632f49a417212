/* attend_i8_avx512.h - attention on 8 bits with vectors of sixteen lanes: what AVX-512 VNNI and AMX
 * share, which is all but the sums of products. */
#ifndef KERNELS_X86_ATTEND_I8_AVX512_H
#define KERNELS_X86_ATTEND_I8_AVX512_H

#include "kernels/x86/exp_avx512.h"

#include "kernels/kv_i8.h"
#include "kernels/vector.h"
#include "kernels/x86/vf_avx512.h"

static inline __m512i load_ints(const void *from) { return _mm512_loadu_si512(from); }
static inline vf vf_ints(const int32_t *x) { return _mm512_cvtepi32_ps(load_ints(x)); }

#ifdef KERNELS_EMULATED
#define UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* The 16 slots from j on that lie in a span. */
static inline __mmask16 slots_in(kernel_span seen, uint32_t j)
{
    const uint32_t before = seen.first > j ? lanes_below(seen.first - j) : 0;
    const uint32_t below_end = seen.end > j ? lanes_below(seen.end - j) : 0;
    return (__mmask16)(below_end & ~before);
}

/* Scores before the query's scale, in place of their integers; returns the largest in the span. */
static float score_row(int32_t *dots, int32_t query_offset, const float *key_scale,
                       kernel_span seen)
{
    const __m512i offset = _mm512_set1_epi32(query_offset);
    __m512 best = _mm512_set1_ps(-INFINITY);
    UNROLL for (uint32_t j = 0; j < KERNEL_PAGE; j += 16) {
        __m512 s = _mm512_cvtepi32_ps(_mm512_add_epi32(load_ints(dots + j), offset));
        s = _mm512_mul_ps(s, _mm512_loadu_ps(key_scale + j));
        _mm512_storeu_si512(dots + j, _mm512_castps_si512(s));
        best = _mm512_mask_max_ps(best, slots_in(seen, j), best, s);
    }
    return max16_avx512(best);
}

/* Weights of values in place of scores, 0 outside the span; returns the largest sum of two
 * neighbours, and the sum of exps. */
static float weigh_row(int32_t *scores, float query_scale, float max, const float *value_scale,
                       float *sum, kernel_span seen)
{
    const __m512 scale = _mm512_set1_ps(query_scale), minus = _mm512_set1_ps(-max);
    __m512 top = _mm512_setzero_ps(), partial = top;
    UNROLL for (uint32_t j = 0; j < KERNEL_PAGE; j += 16) {
        const __mmask16 in = slots_in(seen, j);
        __m512 p = _mm512_castsi512_ps(load_ints(scores + j));
        p = _mm512_maskz_mov_ps(in, exp_avx512(_mm512_fmadd_ps(p, scale, minus)));
        partial = _mm512_add_ps(partial, p);
        p = _mm512_maskz_mov_ps(in, _mm512_mul_ps(p, _mm512_loadu_ps(value_scale + j)));
        top = _mm512_max_ps(top, _mm512_add_ps(p, _mm512_permute_ps(p, 0xb1)));
        _mm512_storeu_si512(scores + j, _mm512_castps_si512(p));
    }
    *sum = sum16_avx512(partial);
    return max16_avx512(top);
}

/* words[KERNEL_PAGE / 4] = weights times inverse, in bytes. */
static void round_row(int32_t *restrict words, const int32_t *restrict weights, float inverse)
{
    UNROLL for (uint32_t j = 0; j < KERNEL_PAGE; j += 16) {
        const __m512 w = _mm512_castsi512_ps(load_ints(weights + j));
        const __m512i u = _mm512_cvtps_epi32(_mm512_mul_ps(w, _mm512_set1_ps(inverse)));
        _mm_storeu_si128((__m128i *)(void *)(words + j / 4), _mm512_cvtepi32_epi8(u));
    }
}

#endif
