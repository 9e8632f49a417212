/* bandwidth_avx2.c - the reading loop with 32-byte loads. */
#ifndef __AVX2__
#error "compile with -mavx2 (the Makefile does it by the file's name)"
#endif
#include <immintrin.h>

#include "programs/bandwidth.h"

uint64_t bandwidth_sum_avx2(const uint64_t *words, size_t n)
{
    __m256i sum[4] = {0};
    for (size_t i = 0; i < n; i += 16)
        for (int k = 0; k < 4; k++)
            sum[k] = _mm256_add_epi64(
                sum[k], _mm256_loadu_si256((const __m256i *)(const void *)(words + i + 4 * k)));
    sum[0] = _mm256_add_epi64(_mm256_add_epi64(sum[0], sum[1]), _mm256_add_epi64(sum[2], sum[3]));
    uint64_t out[4];
    _mm256_storeu_si256((__m256i *)(void *)out, sum[0]);
    return out[0] + out[1] + out[2] + out[3];
}
