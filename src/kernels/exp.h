/* exp.h - exp of one float, and the activations made from it: the arithmetic of every variant.
 *
 * exp(x) = 2^n e^r, n = round(x log2 e), |r| <= ln(2)/2, and e^r ~= 1 + r + c2 r^2 + ... + c6 r^6.
 * The polynomial is the minimax fit of relative error (3.1e-9 before its coefficients and steps
 * are rounded to float); all in all the result is within KERNEL_EXP_ULP of e^x.
 *
 * The vector variants (x86/exp_avx2.h, x86/exp_avx512.h) do these operations in this order with
 * these roundings, so that they give these bits; they use this file for what is left over after
 * the last full vector. */
#ifndef KERNELS_EXP_H
#define KERNELS_EXP_H

#include <math.h>

#include "base/base.h"

#define KERNEL_EXP_MIN    (-87.3f) /* e^x is still a normal number: 1.2e-38 */
#define KERNEL_EXP_MAX    88.7f    /* and not infinite: 3.3e38 */
#define KERNEL_EXP_ULP    1.0      /* tests/unit/test_vector.c */
#define KERNEL_LOG2_E     0x1.715476p+0f
#define KERNEL_ROUND      0x1.8p+23f    /* x + this - this rounds to an integer */
#define KERNEL_LN2_HIGH   0x1.62e43p-1f /* 19 bits: n times this is exact */
#define KERNEL_LN2_LOW    (-0x1.05c61p-29f)
#define KERNEL_EXP_C2     0x1.fffffcp-2f
#define KERNEL_EXP_C3     0x1.555492p-3f
#define KERNEL_EXP_C4     0x1.5558f2p-5f
#define KERNEL_EXP_C5     0x1.1239f2p-7f
#define KERNEL_EXP_C6     0x1.6a241ap-10f
#define KERNEL_GELU_C1    (-1.5957691216057308f)   /* -2 sqrt(2 / pi) */
#define KERNEL_GELU_C3    (-0.071354816272600250f) /* the same times 0.044715 */
#define KERNEL_SWIGLU_MAX 7.0f
#define KERNEL_SWIGLU_EXP (-1.702f)

/* Minimum and maximum as the x86 instructions define them: the second where neither is less. */
static inline float kernel_min(float a, float b)
{
    return a < b ? a : b;
}
static inline float kernel_max(float a, float b)
{
    return a > b ? a : b;
}

static inline float kernel_exp(float x)
{
    x = kernel_max(KERNEL_EXP_MIN, kernel_min(KERNEL_EXP_MAX, x));
    /* |x log2 e| <= 128, so the sum stays in [2^23, 2^24), where floats are the integers: the
     * low bits of shifted are n, and the one rounding of the fma is to the nearest integer. */
    float shifted = fmaf(x, KERNEL_LOG2_E, KERNEL_ROUND);
    float n = shifted - KERNEL_ROUND;
    float r = fmaf(n, -KERNEL_LN2_HIGH, x);
    r = fmaf(n, -KERNEL_LN2_LOW, r);
    float p = fmaf(KERNEL_EXP_C6, r, KERNEL_EXP_C5);
    p = fmaf(p, r, KERNEL_EXP_C4);
    p = fmaf(p, r, KERNEL_EXP_C3);
    p = fmaf(p, r, KERNEL_EXP_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    /* p is in [0.70, 1.42] and n in [-126, 128], and p < 1 at 128 (e^88.7 < 2^128) and >= 1 at
     * -126 (e^-87.3 > 2^-126): adding n to the exponent neither over- nor underflows. */
    uint32_t bits, power;
    memcpy(&power, &shifted, sizeof power);
    memcpy(&bits, &p, sizeof bits);
    bits += power << 23;
    memcpy(&p, &bits, sizeof p);
    return p;
}

static inline float kernel_silu(float x)
{
    return x / (1.0f + kernel_exp(-x));
}

/* 0.5 x (1 + tanh(u)) is x / (1 + exp(-2 u)): no cancellation near 0, and no tanh. */
static inline float kernel_gelu(float x)
{
    float minus_2u = x * fmaf(KERNEL_GELU_C3, x * x, KERNEL_GELU_C1);
    return x / (1.0f + kernel_exp(minus_2u));
}

static inline float kernel_swiglu(float gate, float up)
{
    float g = kernel_min(gate, KERNEL_SWIGLU_MAX);
    float u = kernel_max(kernel_min(up, KERNEL_SWIGLU_MAX), -KERNEL_SWIGLU_MAX);
    return g / (1.0f + kernel_exp(KERNEL_SWIGLU_EXP * g)) * (u + 1.0f);
}

/* The sum of 16 partial sums, as a tree: p[i] += p[i + 8], then + 4, + 2, + 1. Overwrites p. */
static inline float kernel_sum16(float *p)
{
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) p[i] += p[i + half];
    return p[0];
}

#endif
