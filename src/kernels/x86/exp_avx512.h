/* exp_avx512.h - kernels/exp.h in sixteen lanes: the same operations, the same bits.
 *
 * The files that include this one are also compiled for machines without AVX-512, by
 * tests/kernelcheck, which then defines KERNELS_EMULATED and the intrinsics. */
#ifndef KERNELS_X86_EXP_AVX512_H
#define KERNELS_X86_EXP_AVX512_H

#ifndef KERNELS_EMULATED
#ifndef __AVX512VNNI__
#error "for files *_avx512vnni.c, which the Makefile compiles for that instruction set"
#endif
#include <immintrin.h>
#endif

#include "kernels/exp.h"

static inline __m512 exp_avx512(__m512 x)
{
    const __m512 round = _mm512_set1_ps(KERNEL_ROUND), one = _mm512_set1_ps(1.0f);
    x = _mm512_min_ps(_mm512_set1_ps(KERNEL_EXP_MAX), x);
    x = _mm512_max_ps(_mm512_set1_ps(KERNEL_EXP_MIN), x);
    __m512 shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(KERNEL_LOG2_E), round);
    __m512 n = _mm512_sub_ps(shifted, round);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(KERNEL_LN2_HIGH), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(KERNEL_LN2_LOW), r);
    __m512 p = _mm512_set1_ps(KERNEL_EXP_C6);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(KERNEL_EXP_C5));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(KERNEL_EXP_C4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(KERNEL_EXP_C3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(KERNEL_EXP_C2));
    p = _mm512_fmadd_ps(p, r, one);
    p = _mm512_fmadd_ps(p, r, one);
    __m512i power = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), power));
}

/* 1 + exp(x): what the activations divide by. */
static inline __m512 one_plus_exp_avx512(__m512 x)
{
    return _mm512_add_ps(_mm512_set1_ps(1.0f), exp_avx512(x));
}

/* The lanes below n. */
static inline __mmask16 lanes_below(uint32_t n)
{
    return (__mmask16)(n < 16 ? (1u << n) - 1 : 0xffff);
}

static inline __m256 low_half(__m512 x)
{
    return _mm512_castps512_ps256(x);
}
static inline __m256 high_half(__m512 x)
{
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
}

/* kernel_sum16 of p. */
static inline float sum16_avx512(__m512 p)
{
    __m256 p8 = _mm256_add_ps(low_half(p), high_half(p));
    __m128 p4 = _mm_add_ps(_mm256_castps256_ps128(p8), _mm256_extractf128_ps(p8, 1));
    __m128 p2 = _mm_add_ps(p4, _mm_movehl_ps(p4, p4));
    return _mm_cvtss_f32(_mm_add_ss(p2, _mm_movehdup_ps(p2)));
}

/* The largest lane; of equal zeros, any. */
static inline float max16_avx512(__m512 x)
{
    __m256 m8 = _mm256_max_ps(low_half(x), high_half(x));
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

#endif
