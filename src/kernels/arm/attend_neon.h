/* attend_neon.h - what attend.h asks for, with vectors of four. */
#ifndef KERNELS_ARM_ATTEND_NEON_H
#define KERNELS_ARM_ATTEND_NEON_H

#include "kernels/arm/exp_neon.h"

#include "kernels/vector.h"

enum { VF_LANES = 4 };
typedef float32x4_t vf;
#define vf_load         vld1q_f32
#define vf_store        vst1q_f32
#define vf_set1         vdupq_n_f32
#define vf_mul          vmulq_f32
#define vf_fma(a, b, c) vfmaq_f32(c, a, b)

/* The 4 slots from j on that lie in [first, end). */
static inline uint32x4_t slots_in_range(uint32_t j, uint32_t first, uint32_t end)
{
    static const uint32_t lanes[4] = {0, 1, 2, 3};
    const uint32x4_t slot = vaddq_u32(vld1q_u32(lanes), vdupq_n_u32(j));
    return vandq_u32(vcgeq_u32(slot, vdupq_n_u32(first)), vcltq_u32(slot, vdupq_n_u32(end)));
}

static inline vf weights(const float *s, float max, uint32x4_t in)
{
    const vf p = exp_neon(vsubq_f32(vld1q_f32(s), vdupq_n_f32(max)));
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(p), in));
}

/* Turn scores s[64] into weights, update the state; returns what out is multiplied by. Runs of 16
 * slots outside [first, end) are not touched. */
static float weigh_row(kernel_softmax_state *state, float *s, uint32_t first, uint32_t end)
{
    const vf lowest = vdupq_n_f32(-INFINITY), zero = vdupq_n_f32(0);
    vf max4 = lowest, partial[4] = {zero, zero, zero, zero};
    for (uint32_t j = first / 4 * 4; j < end; j += 4)
        max4 = vmaxq_f32(max4, vbslq_f32(slots_in_range(j, first, end), vld1q_f32(s + j), lowest));
    const float max = kernel_max(state->max, vmaxvq_f32(max4)) + 0.0f;
    const float c = kernel_decay(state->max, max);
    for (uint32_t j = first / 16 * 16; j < end; j += 16)
        for (uint32_t i = 0; i < 4; i++) {
            const vf p = weights(s + j + 4 * i, max, slots_in_range(j + 4 * i, first, end));
            vst1q_f32(s + j + 4 * i, p);
            partial[i] = vaddq_f32(partial[i], p);
        }
    state->max = max;
    state->sum = state->sum * c + sum16_neon(partial);
    return c;
}

#endif
