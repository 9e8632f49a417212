/* exp_avx2.h - kernels/exp.h in eight lanes: the same operations, the same bits. */
#ifndef KERNELS_X86_EXP_AVX2_H
#define KERNELS_X86_EXP_AVX2_H

#ifndef __AVX2__
#error "for files *_avx2.c, which the Makefile compiles for that instruction set"
#endif
#include <immintrin.h>

#include "kernels/exp.h"

/* Of x that is known to be at most KERNEL_EXP_MAX. */
static inline __m256 exp_low_avx2(__m256 x)
{
    const __m256 round = _mm256_set1_ps(KERNEL_ROUND), one = _mm256_set1_ps(1.0f);
    x = _mm256_max_ps(_mm256_set1_ps(KERNEL_EXP_MIN), x);
    __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(KERNEL_LOG2_E), round);
    __m256 n = _mm256_sub_ps(shifted, round);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(KERNEL_LN2_HIGH), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(KERNEL_LN2_LOW), r);
    __m256 p = _mm256_set1_ps(KERNEL_EXP_C6);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(KERNEL_EXP_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(KERNEL_EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(KERNEL_EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(KERNEL_EXP_C2));
    p = _mm256_fmadd_ps(p, r, one);
    p = _mm256_fmadd_ps(p, r, one);
    __m256i power = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), power));
}

static inline __m256 exp_avx2(__m256 x)
{
    return exp_low_avx2(_mm256_min_ps(_mm256_set1_ps(KERNEL_EXP_MAX), x));
}

/* 1 + exp(x): what the activations divide by. */
static inline __m256 one_plus_exp_avx2(__m256 x)
{
    return _mm256_add_ps(_mm256_set1_ps(1.0f), exp_avx2(x));
}

/* kernel_sum16 of low = p[0..7], high = p[8..15]. */
static inline float sum16_avx2(__m256 low, __m256 high)
{
    __m256 p8 = _mm256_add_ps(low, high);
    __m128 p4 = _mm_add_ps(_mm256_castps256_ps128(p8), _mm256_extractf128_ps(p8, 1));
    __m128 p2 = _mm_add_ps(p4, _mm_movehl_ps(p4, p4));
    return _mm_cvtss_f32(_mm_add_ss(p2, _mm_movehdup_ps(p2)));
}

/* The largest lane; of equal zeros, any. */
static inline float max8_avx2(__m256 x)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

#endif
