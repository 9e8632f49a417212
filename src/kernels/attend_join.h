/* attend_join.h - two parts of a row's attention made one, for any width of vector.  A file has
 * what attend.h asks for before it includes this one. */
#ifndef KERNELS_ATTEND_JOIN_H
#define KERNELS_ATTEND_JOIN_H

#include "kernels/vector.h"

static void attend_join(kernel_softmax_state *restrict state, float *restrict out,
                        const kernel_softmax_state *restrict from, const float *restrict from_out,
                        uint32_t head_dim)
{
    if (from->max == -INFINITY) return;
    const float max = kernel_max(state->max, from->max) + 0.0f;
    const float c = kernel_decay(state->max, max), from_c = kernel_decay(from->max, max);
    uint32_t d = 0;
    state->max = max;
    state->sum = fmaf(from->sum, from_c, state->sum * c);
    for (; d + VF_LANES <= head_dim; d += VF_LANES) {
        vf old = vf_mul(vf_load(out + d), vf_set1(c));
        vf_store(out + d, vf_fma(vf_load(from_out + d), vf_set1(from_c), old));
    }
    for (; d < head_dim; d++) out[d] = fmaf(from_out[d], from_c, out[d] * c);
}

#endif
