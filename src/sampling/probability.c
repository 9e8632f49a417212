/* probability.c - a deterministic exp and log, and sums over a vocabulary.
 *
 * Only +, -, * and / of doubles, each rounded once (the Makefile forbids contraction to fma), so
 * every IEEE machine agrees.  Loops run over blocks of fixed length, which compilers turn into
 * vector code at -O2.
 * Bound: about 25 vector operations for a token; 150,000 tokens take a fraction of a millisecond.
 */
#include "sampling/probability.h"

#include <math.h>

#define BLOCK 8u

typedef union {
    double value;
    uint64_t bits;
} double_bits;

/* e^x in units of 2^-43, to nearest, for x <= 0.  NaN and x < -31 give 0: e^-31 is 0.3 units.
 * x = n ln 2 + r with |r| <= ln 2 / 2, where the series to r^11 errs by 0.06 units at most. */
static inline uint64_t weight_of(double x)
{
    const double round_to_integer = 0x1.8p52; /* adding it leaves n in the low mantissa bits */
    x = x > -31.0 ? x : -31.0;
    double_bits n = {.value = x * 0x1.71547652b82fep0 + round_to_integer};
    double whole = n.value - round_to_integer;
    double r = (x - whole * 0x1.62e42fefa0000p-1) - whole * 0x1.cf79abc9e3b39p-40;
    /* Pairs of pairs (Estrin), because a chain of twelve products waits for each. */
    double r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
    double low = (1.0 + r) + (0.5 + r * (1.0 / 6)) * r2;
    double mid = (1.0 / 24 + r * (1.0 / 120)) + (1.0 / 720 + r * (1.0 / 5040)) * r2;
    double high = (1.0 / 40320 + r * (1.0 / 362880)) + (1.0 / 3628800 + r * (1.0 / 39916800)) * r2;
    double_bits e = {.value = (low + mid * r4) + high * r8};
    e.bits += (n.bits + PROBABILITY_UNIT_BITS) << 52; /* times 2^(n + 43), still normal */
    e.value += 0x1p52;                                /* rounds; the mantissa is the integer */
    return e.bits & (((uint64_t)1 << 52) - 1);
}

/* At most 0 even for +infinity, of which max is the finite stand-in; NaN stays NaN. */
static inline double below_max(float logit, float max)
{
    return (double)(max < logit ? max : logit) - (double)max;
}

float probability_max(const float *logits, uint32_t n)
{
    float best[BLOCK], max = -INFINITY;
    uint32_t i = 0;
    for (uint32_t lane = 0; lane < BLOCK; lane++) best[lane] = -INFINITY;
    for (; i + BLOCK <= n; i += BLOCK)
        for (uint32_t lane = 0; lane < BLOCK; lane++)
            best[lane] = logits[i + lane] > best[lane] ? logits[i + lane] : best[lane];
    for (uint32_t lane = 0; lane < BLOCK; lane++) max = best[lane] > max ? best[lane] : max;
    for (; i < n; i++) max = logits[i] > max ? logits[i] : max;
    return max;
}

void probability_weights(uint64_t *restrict weights, const float *restrict logits, uint32_t n,
                         float max, double scale)
{
    uint32_t i = 0;
    CHECK(isfinite(max) && isfinite(scale));
    for (; i + BLOCK <= n; i += BLOCK)
        for (uint32_t lane = 0; lane < BLOCK; lane++)
            weights[i + lane] = weight_of(below_max(logits[i + lane], max) * scale);
    for (; i < n; i++) weights[i] = weight_of(below_max(logits[i], max) * scale);
}

uint64_t probability_sum(const float *logits, uint32_t n, float max)
{
    uint64_t sums[BLOCK] = {0}, sum = 0;
    uint32_t i = 0;
    CHECK(isfinite(max) && n <= 1u << PROBABILITY_VOCAB_BITS);
    for (; i + BLOCK <= n; i += BLOCK)
        for (uint32_t lane = 0; lane < BLOCK; lane++)
            sums[lane] += weight_of(below_max(logits[i + lane], max));
    for (uint32_t lane = 0; lane < BLOCK; lane++) sum += sums[lane];
    for (; i < n; i++) sum += weight_of(below_max(logits[i], max));
    return sum;
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
