/* weights.h - weights of many logits, to be compiled for each set of instructions: see
 * probability.h. */
#ifndef SAMPLING_WEIGHTS_H
#define SAMPLING_WEIGHTS_H

#include "sampling/probability.h"

#define BLOCK 8u

/* Vectors of the compilers, which become the processor's. */
typedef float floats __attribute__((vector_size(4 * BLOCK)));
typedef int32_t ints __attribute__((vector_size(4 * BLOCK))); /* results of comparisons */
typedef uint32_t words __attribute__((vector_size(4 * BLOCK)));
typedef double doubles __attribute__((vector_size(8 * BLOCK)));
typedef int64_t longs __attribute__((vector_size(8 * BLOCK)));

/* weights[BLOCK] = e^x in units of 2^-43 for x = (logits - max) * scale, with an error of at most
 * 3e-7 of itself or half a unit.  Above 0 it is e^0: max is the finite stand-in of an infinity.
 * Below -31 and for NaN it is 0: e^-31 is 0.3 units.
 * x = n ln 2 + r with |r| <= ln 2 / 2, where the series to r^7 errs by 5e-9.  Pairs of pairs
 * (Estrin), because a chain of products waits for each. */
static inline void block_weights(uint64_t *restrict weights, const float *restrict logits,
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
static inline void rest_weights(uint64_t *weights, const float *logits, uint32_t n, float max,
                                float scale)
{
    uint64_t block[BLOCK];
    float padded[BLOCK] = {0};
    CHECK(n < BLOCK);
    memcpy(padded, logits, n * sizeof *logits);
    block_weights(block, padded, max, scale);
    memcpy(weights, block, n * sizeof *weights);
}

static inline void weights_of(uint64_t *restrict weights, const float *restrict logits, uint32_t n,
                              float max, float scale)
{
    uint32_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) block_weights(weights + i, logits + i, max, scale);
    rest_weights(weights + i, logits + i, n - i, max, scale);
}

static inline uint64_t sum_of(const float *logits, uint32_t n, float max, float scale)
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

#endif
