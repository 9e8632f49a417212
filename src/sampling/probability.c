/* probability.c - a deterministic exp and log, and sums over a vocabulary.
 *
 * Only +, -, * and /, each rounded once (the Makefile forbids contraction to fma), so every IEEE
 * machine agrees.  Loops run over blocks of fixed length, which compilers turn into vector code, of
 * the widest kind that the processor has.  Bound: about 40 instructions for a block. */
#include "sampling/probability.h"

#include <math.h>

#define BLOCK 8u
#define ALWAYS_INLINE inline __attribute__((always_inline))

typedef union {
    double value;
    uint64_t bits;
} double_bits;

/* Vectors of the compilers, which become what the processor has. */
typedef float floats __attribute__((vector_size(4 * BLOCK)));
typedef int32_t ints __attribute__((vector_size(4 * BLOCK))); /* what comparisons give */
typedef uint32_t words __attribute__((vector_size(4 * BLOCK)));
typedef double doubles __attribute__((vector_size(8 * BLOCK)));
typedef int64_t longs __attribute__((vector_size(8 * BLOCK)));

/* weights[BLOCK] = e^x in units of 2^-43 for x = (logits - max) * scale, right to 3e-7 of itself or
 * half a unit.  Above 0 it is e^0: max is the finite stand-in of an infinity.  Below -31 and for
 * NaN it is 0: e^-31 is 0.3 units.
 * x = n ln 2 + r with |r| <= ln 2 / 2, where the series to r^7 errs by 5e-9.  Pairs of pairs
 * (Estrin), because a chain of products waits for each. */
static ALWAYS_INLINE void block_weights(uint64_t *restrict weights, const float *restrict logits,
                                 float max, float scale)
{
    const float to_integer = 0x1.8p23f; /* adding it leaves n in the low bits of the mantissa */
    floats x;
    memcpy(&x, logits, sizeof x);
    x = (x - max) * scale;
    ints some = x > PROBABILITY_LEAST; /* all bits set where it holds */
    x = (floats)((words)x & (words)some & (words)(x < 0.0f));
    floats n = x * 0x1.715476p0f + to_integer, whole = n - to_integer;
    floats r = (x - whole * 0x1.62e4p-1f) - whole * 0x1.7f7d1cp-20f; /* first product: exact */
    floats r2 = r * r, r4 = r2 * r2;
    floats low = (1.0f + r) + (0.5f + r * (1.0f / 6)) * r2;
    floats high = (1.0f / 24 + r * (1.0f / 120)) + (1.0f / 720 + r * (1.0f / 5040)) * r2;
    floats e = (floats)((words)(low + high * r4) + ((words)n << 23)); /* times 2^n, n >= -45 */
    /* The mantissa of a number in [512, 1024) counts units of 2^-43. */
    longs units = (longs)(__builtin_convertvector(e, doubles) + 512.0);
    units &= (((int64_t)1 << 52) - 1) & __builtin_convertvector(some, longs);
    memcpy(weights, &units, sizeof units);
}
_Static_assert(PROBABILITY_UNIT_BITS == 43, "block_weights() adds 2^(52 - 43)");

/* The same for the last n < BLOCK. */
static ALWAYS_INLINE void rest_weights(uint64_t *weights, const float *logits, uint32_t n,
                                       float max, float scale)
{
    uint64_t block[BLOCK];
    float padded[BLOCK] = {0};
    CHECK(n < BLOCK);
    memcpy(padded, logits, n * sizeof *logits);
    block_weights(block, padded, max, scale);
    memcpy(weights, block, n * sizeof *weights);
}

static ALWAYS_INLINE void weights_of(uint64_t *restrict weights, const float *restrict logits,
                                     uint32_t n, float max, float scale)
{
    uint32_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) block_weights(weights + i, logits + i, max, scale);
    rest_weights(weights + i, logits + i, n - i, max, scale);
}

static ALWAYS_INLINE uint64_t sum_of(const float *logits, uint32_t n, float max, float scale)
{
    uint64_t sums[BLOCK] = {0}, weights[BLOCK] = {0}, sum = 0;
    uint32_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        block_weights(weights, logits + i, max, scale);
        for (uint32_t j = 0; j < BLOCK; j++) sums[j] += weights[j];
    }
    rest_weights(weights, logits + i, n - i, max, scale);
    for (uint32_t j = 0; j < n - i; j++) sums[j] += weights[j];
    for (uint32_t j = 0; j < BLOCK; j++) sum += sums[j];
    return sum;
}

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
#define FOR(SET) __attribute__((target(SET)))

static bool has_avx2(void) { return __builtin_cpu_supports("avx2"); }

FOR("avx2")
static void weights_avx2(uint64_t *restrict weights, const float *restrict logits, uint32_t n,
                         float max, float scale)
{
    weights_of(weights, logits, n, max, scale);
}

FOR("avx2") static uint64_t sum_avx2(const float *logits, uint32_t n, float max, float scale)
{
    return sum_of(logits, n, max, scale);
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
}

FOR("avx512f,avx512vl")
static void weights_avx512(uint64_t *restrict weights, const float *restrict logits, uint32_t n,
                           float max, float scale)
{
    weights_of(weights, logits, n, max, scale);
}

FOR("avx512f,avx512vl")
static uint64_t sum_avx512(const float *logits, uint32_t n, float max, float scale)
{
    return sum_of(logits, n, max, scale);
}
#endif

const probability_variant probability_variants[] = {
#if defined(__x86_64__)
    {"avx512", has_avx512, weights_avx512, sum_avx512},
    {"avx2", has_avx2, weights_avx2, sum_avx2},
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
