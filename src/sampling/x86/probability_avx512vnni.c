/* probability_avx512vnni.c - weights by AVX-512. */
#include "sampling/weights.h"

void probability_weights_avx512vnni(uint64_t *restrict weights, const float *restrict logits,
                                    uint32_t n, float max, float scale)
{
    weights_of(weights, logits, n, max, scale);
}

uint64_t probability_sum_avx512vnni(const float *logits, uint32_t n, float max, float scale)
{
    return sum_of(logits, n, max, scale);
}
