/* exp_neon.h - kernels/exp.h in four lanes: the same operations, the same bits. */
#ifndef KERNELS_ARM_EXP_NEON_H
#define KERNELS_ARM_EXP_NEON_H

#ifndef __ARM_NEON
#error "for files *_neon.c, which are compiled for 64-bit Arm"
#endif
#include <arm_neon.h>

#include "kernels/exp.h"

/* Sixteen lanes are four registers; j is which. */
#ifdef __clang__
#define EACH_QUARTER _Pragma("unroll") for (uint32_t j = 0; j < 4; j++)
#else
#define EACH_QUARTER _Pragma("GCC unroll 4") for (uint32_t j = 0; j < 4; j++)
#endif

/* Limits are not zero, so that vmin and vmax are the minimum and maximum of kernels/exp.h. */
static inline float32x4_t exp_neon(float32x4_t x)
{
    const float32x4_t round = vdupq_n_f32(KERNEL_ROUND), one = vdupq_n_f32(1.0f);
    x = vminq_f32(vdupq_n_f32(KERNEL_EXP_MAX), x);
    x = vmaxq_f32(vdupq_n_f32(KERNEL_EXP_MIN), x);
    float32x4_t shifted = vfmaq_f32(round, x, vdupq_n_f32(KERNEL_LOG2_E));
    float32x4_t n = vsubq_f32(shifted, round);
    float32x4_t r = vfmsq_f32(x, n, vdupq_n_f32(KERNEL_LN2_HIGH));
    r = vfmsq_f32(r, n, vdupq_n_f32(KERNEL_LN2_LOW));
    float32x4_t p = vdupq_n_f32(KERNEL_EXP_C6);
    p = vfmaq_f32(vdupq_n_f32(KERNEL_EXP_C5), p, r);
    p = vfmaq_f32(vdupq_n_f32(KERNEL_EXP_C4), p, r);
    p = vfmaq_f32(vdupq_n_f32(KERNEL_EXP_C3), p, r);
    p = vfmaq_f32(vdupq_n_f32(KERNEL_EXP_C2), p, r);
    p = vfmaq_f32(one, p, r);
    p = vfmaq_f32(one, p, r);
    uint32x4_t power = vshlq_n_u32(vreinterpretq_u32_f32(shifted), 23);
    return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(p), power));
}

/* 1 + exp(x): what the activations divide by. */
static inline float32x4_t one_plus_exp_neon(float32x4_t x)
{
    return vaddq_f32(vdupq_n_f32(1.0f), exp_neon(x));
}

/* kernel_sum16 of p[4 j .. 4 j + 3] in p[j]. */
static inline float sum16_neon(const float32x4_t p[4])
{
    float32x4_t p4 = vaddq_f32(vaddq_f32(p[0], p[2]), vaddq_f32(p[1], p[3]));
    float32x2_t p2 = vadd_f32(vget_low_f32(p4), vget_high_f32(p4));
    return vget_lane_f32(p2, 0) + vget_lane_f32(p2, 1);
}

#endif
