/* attend_avx512.h - what attend.h asks for, with vectors of sixteen.  A file defines kv_value and
 * kv_lanes(mask, x), of them at any address those of a mask as floats, before. */
#ifndef KERNELS_X86_ATTEND_AVX512_H
#define KERNELS_X86_ATTEND_AVX512_H

#include "kernels/x86/exp_avx512.h"

#include "kernels/vector.h"
#include "kernels/x86/vf_avx512.h"

#define ACCUMULATE_TAIL
/* acc[lanes] += coef[n] . m[n][lanes] for fewer lanes than a vector and one row. */
static void accumulate_tail(float *restrict acc, const float *restrict coef,
                            const kv_value *restrict m, size_t m_stride, uint32_t n, uint32_t lanes)
{
    const __mmask16 k = lanes_below(lanes);
    __m512 sum = _mm512_maskz_loadu_ps(k, acc);
    for (uint32_t i = 0; i < n; i++, m += m_stride) {
        __m512 lane = kv_lanes(k, m);
        sum = _mm512_fmadd_ps(_mm512_set1_ps(coef[i]), lane, sum);
    }
    _mm512_mask_storeu_ps(acc, k, sum);
}

/* The 16 slots from j on that lie in [first, end). */
static inline __mmask16 slots_in_range(uint32_t j, uint32_t first, uint32_t end)
{
    uint32_t before = first > j ? lanes_below(first - j) : 0;
    return (__mmask16)(lanes_below(end - j) & ~before);
}

/* Turn scores s[64] into weights, update the state; returns what out is multiplied by. Vectors
 * of s without a slot in [first, end) are not touched. */
static float weigh_row(kernel_softmax_state *state, float *s, uint32_t first, uint32_t end)
{
    const uint32_t from = first / 16 * 16;
    __m512 max16 = _mm512_set1_ps(-INFINITY), partial = _mm512_setzero_ps();
    for (uint32_t j = from; j < end; j += 16) {
        __mmask16 in = slots_in_range(j, first, end);
        max16 = _mm512_mask_max_ps(max16, in, max16, _mm512_loadu_ps(s + j));
    }
    const float max = kernel_max(state->max, max16_avx512(max16)) + 0.0f;
    const float c = kernel_decay(state->max, max);
    for (uint32_t j = from; j < end; j += 16) {
        __m512 p = exp_avx512(_mm512_sub_ps(_mm512_loadu_ps(s + j), _mm512_set1_ps(max)));
        p = _mm512_maskz_mov_ps(slots_in_range(j, first, end), p);
        _mm512_storeu_ps(s + j, p);
        partial = _mm512_add_ps(partial, p);
    }
    state->max = max;
    state->sum = state->sum * c + sum16_avx512(partial);
    return c;
}

#endif
