/* attend_avx2.h - what attend.h asks for, with vectors of eight.
 *
 * Two fma units of four cycles need 8 sums in flight; of 16 registers, sums take at most 12.
 * Bound: one conversion (8 values) a cycle for one row, 16 products a cycle for many. */
#ifndef KERNELS_X86_ATTEND_AVX2_H
#define KERNELS_X86_ATTEND_AVX2_H

#include "kernels/x86/exp_avx2.h"

#include "kernels/vector.h"
#include "kernels/x86/vf_avx2.h"

enum { TILE_ROWS_MAX = 6 };

#define TILE_MAP(X)                                                                                \
    X(1, 1) X(1, 2) X(1, 3) X(1, 4) X(1, 5) X(1, 6) X(1, 7) X(1, 8)                                \
    X(2, 1) X(2, 2) X(2, 3) X(2, 4) X(3, 1) X(3, 2) X(3, 3)                                \
    X(4, 1) X(4, 2) X(5, 1) X(5, 2) X(6, 1) X(6, 2)
static const uint8_t tile_vectors_max[TILE_ROWS_MAX + 1] = {0, 8, 4, 3, 2, 2, 2};

/* The 8 slots from j on that lie in [first, end). */
static inline __m256 slots_in_range(uint32_t j, uint32_t first, uint32_t end)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i slot = _mm256_add_epi32(lane, _mm256_set1_epi32((int)j));
    __m256i before = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)first), slot);
    __m256i below_end = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)end), slot);
    return _mm256_castsi256_ps(_mm256_andnot_si256(before, below_end));
}

static inline __m256 weights(const float *s, float max, __m256 in)
{
    return _mm256_and_ps(exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(s), _mm256_set1_ps(max))), in);
}

/* Turn scores s[64] into weights, update the state; returns what out is multiplied by. Runs of 16
 * slots outside [first, end) are not touched. */
static float weigh_row(kernel_softmax_state *state, float *s, uint32_t first, uint32_t end)
{
    const __m256 lowest = _mm256_set1_ps(-INFINITY);
    const uint32_t from = first / 16 * 16;
    __m256 max8 = lowest, low = _mm256_setzero_ps(), high = low;
    for (uint32_t j = first / 8 * 8; j < end; j += 8) {
        __m256 in = slots_in_range(j, first, end);
        max8 = _mm256_max_ps(max8, _mm256_blendv_ps(lowest, _mm256_loadu_ps(s + j), in));
    }
    const float max = kernel_max(state->max, max8_avx2(max8)) + 0.0f;
    const float c = kernel_decay(state->max, max);
    for (uint32_t j = from; j < end; j += 16) {
        __m256 p = weights(s + j, max, slots_in_range(j, first, end));
        __m256 q = weights(s + j + 8, max, slots_in_range(j + 8, first, end));
        _mm256_storeu_ps(s + j, p);
        _mm256_storeu_ps(s + j + 8, q);
        low = _mm256_add_ps(low, p);
        high = _mm256_add_ps(high, q);
    }
    state->max = max;
    state->sum = state->sum * c + sum16_avx2(low, high);
    return c;
}

#endif
