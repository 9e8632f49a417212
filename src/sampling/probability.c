/* probability.c - a deterministic exp and log, and sums over a vocabulary.
 *
 * Only +, -, * and /, each rounded once (the Makefile forbids contraction to fma), so every IEEE
 * machine agrees.  Loops run over blocks of fixed length, which compilers turn into vector code of
 * the processor's widest kind.  Bound: about 40 instructions for a block. */
#include "sampling/weights.h"

#include <math.h>

typedef union {
    double value;
    uint64_t bits;
} double_bits;

static bool always(void) { return true; }

static void weights_plain(uint64_t *restrict weights, const float *restrict logits, uint32_t n,
                          float max, float scale)
{
    weights_of(weights, logits, n, max, scale);
}

static uint64_t sum_plain(const float *logits, uint32_t n, float max, float scale)
{
    return sum_of(logits, n, max, scale);
}

#if defined(__x86_64__)
static bool has_avx2(void) { return __builtin_cpu_supports("avx2"); }

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
}
#endif

const probability_variant probability_variants[] = {
#if defined(__x86_64__)
    {"avx512vnni", has_avx512, probability_weights_avx512vnni, probability_sum_avx512vnni},
    {"avx2", has_avx2, probability_weights_avx2, probability_sum_avx2},
#endif
    {"plain", always, weights_plain, sum_plain},
};
const uint32_t probability_n_variants = ARRAY_LEN(probability_variants);

static const probability_variant *fastest(void)
{
    const probability_variant *v = probability_variants;
    while (!v->is_here()) v++;
    return v;
}

void probability_weights(uint64_t *restrict weights, const float *restrict logits, uint32_t n,
                         float max, float scale)
{
    CHECK(isfinite(max) && isfinite(scale));
    fastest()->weights(weights, logits, n, max, scale);
}

uint64_t probability_sum(const float *logits, uint32_t n, float max, float scale)
{
    CHECK(isfinite(max) && isfinite(scale) && n <= 1u << PROBABILITY_VOCAB_BITS);
    return fastest()->sum(logits, n, max, scale);
}

/* sum = m 2^k with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(s), s = (m - 1) / (m + 1), whose
 * series errs by less than 1e-16 after s^17 because |s| < 0.172. */
double probability_log(uint64_t sum)
{
    CHECK(sum > 0);
    double_bits m = {.value = (double)sum};
    int k = (int)(m.bits >> 52) - 1023;
    m.bits = (m.bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1023 << 52;
    if (m.value > 0x1.6a09e667f3bcdp0) {
        m.value *= 0.5;
        k++;
    }
    double s = (m.value - 1.0) / (m.value + 1.0), square = s * s, series = 1.0 / 17.0;
    for (int odd = 15; odd >= 1; odd -= 2) series = series * square + 1.0 / odd;
    return 2.0 * s * series + (double)(k - PROBABILITY_UNIT_BITS) * 0x1.62e42fefa39efp-1;
}
