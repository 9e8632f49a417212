/* probability_avx2.c - weights by AVX2. */
#include "sampling/weights.h"

void probability_weights_avx2(uint64_t *restrict weights, const float *restrict logits,
                              uint32_t n, float max, float scale)
{
    weights_of(weights, logits, n, max, scale);
}

uint64_t probability_sum_avx2(const float *logits, uint32_t n, float max, float scale)
{
    return sum_of(logits, n, max, scale);
}
