/* attend_avx512.h - what attend.h asks for, with vectors of sixteen.
 *
 * Two fma units of four cycles need 8 sums in flight; of 32 registers, sums take at most 25. */
#ifndef KERNELS_X86_ATTEND_AVX512_H
#define KERNELS_X86_ATTEND_AVX512_H

#include "kernels/x86/exp_avx512.h"

#include "kernels/vector.h"

enum { VF_LANES = 16, TILE_ROWS_MAX = 6 };
typedef __m512 vf;
#define vf_load  _mm512_loadu_ps
#define vf_store _mm512_storeu_ps
#define vf_set1  _mm512_set1_ps
#define vf_mul   _mm512_mul_ps
#define vf_fma   _mm512_fmadd_ps

#define TILE_MAP(X)                                                                                \
    X(1, 1) X(1, 2) X(1, 3) X(1, 4) X(1, 5) X(1, 6) X(1, 7) X(1, 8)                                \
    X(2, 1) X(2, 2) X(2, 3) X(2, 4) X(2, 5) X(2, 6) X(2, 7) X(2, 8)                                \
    X(3, 1) X(3, 2) X(3, 3) X(3, 4) X(3, 5) X(3, 6) X(4, 1) X(4, 2) X(4, 3) X(4, 4) X(4, 5)        \
    X(5, 1) X(5, 2) X(5, 3) X(5, 4) X(5, 5) X(6, 1) X(6, 2) X(6, 3) X(6, 4)
static const uint8_t tile_vectors_max[TILE_ROWS_MAX + 1] = {0, 8, 8, 6, 5, 5, 4};

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
