/* bandwidth_avx2.c - the reading loop, in four streams, with 32-byte loads. */
#ifndef __AVX2__
#error "compile with -mavx2 (the Makefile does it by the file's name)"
#endif
#include <immintrin.h>

#include "programs/bandwidth.h"

static inline __m256i load(const uint64_t *p)
{
    return _mm256_load_si256((const __m256i *)(const void *)p);
}

uint64_t bandwidth_sum_avx2(const uint64_t *words, size_t n)
{
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    const size_t next = n / 4;
    for (const uint64_t *end = words + next; words < end; words += 8) {
        const uint64_t *w = words;
        a = _mm256_add_epi64(a, _mm256_or_si256(load(w), load(w + 4)));
        w += next;
        b = _mm256_add_epi64(b, _mm256_or_si256(load(w), load(w + 4)));
        w += next;
        c = _mm256_add_epi64(c, _mm256_or_si256(load(w), load(w + 4)));
        w += next;
        d = _mm256_add_epi64(d, _mm256_or_si256(load(w), load(w + 4)));
    }
    a = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
    uint64_t out[4];
    _mm256_storeu_si256((__m256i *)(void *)out, a);
    return out[0] + out[1] + out[2] + out[3];
}
