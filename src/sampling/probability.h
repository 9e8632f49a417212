/* probability.h - logits to probabilities, with the same bits on every machine.
 *
 * A probability is a *weight*: an integer, e^x in units of 2^-43 of the most likely token's.  Sums
 * of integers do not depend on their order, so neither do top-p nor a draw; and exp and log are our
 * own, because those of the C library differ between versions and processors.  A weight below half
 * a unit, 6e-14 of the best token, is 0. */
#ifndef SAMPLING_PROBABILITY_H
#define SAMPLING_PROBABILITY_H

#include "base/base.h"

enum {
    PROBABILITY_UNIT_BITS = 43,
    PROBABILITY_VOCAB_BITS = 20, /* at most this many weights are added up */
};
_Static_assert(PROBABILITY_UNIT_BITS + PROBABILITY_VOCAB_BITS <= 63, "a sum of weights fits");

/* The weight of the best token: e^0. */
#define PROBABILITY_ONE ((uint64_t)1 << PROBABILITY_UNIT_BITS)

/* weights[i] = the weight of e^((logits[i] - max) * scale); all [n].  max and scale are finite: for
 * a greatest logit of +infinity, max is FLT_MAX. */
void probability_weights(uint64_t *restrict weights, const float *restrict logits, uint32_t n,
                         float max, float scale);

/* The weight is 0 if (logit - max) * scale is not above it. */
#define PROBABILITY_LEAST (-31.0f)

/* The sum of probability_weights(). */
uint64_t probability_sum(const float *logits, uint32_t n, float max, float scale);

/* Both functions for each set of instructions, the fastest first; the last runs everywhere.  All
 * give the same bits. */
typedef void probability_weights_fn(uint64_t *restrict weights, const float *restrict logits,
                                    uint32_t n, float max, float scale);
typedef uint64_t probability_sum_fn(const float *logits, uint32_t n, float max, float scale);
typedef struct {
    const char *name;
    bool (*is_here)(void); /* can this machine execute it */
    probability_weights_fn *weights;
    probability_sum_fn *sum;
} probability_variant;
probability_weights_fn probability_weights_avx2, probability_weights_avx512vnni;
probability_sum_fn probability_sum_avx2, probability_sum_avx512vnni;
extern const probability_variant probability_variants[];
extern const uint32_t probability_n_variants;

/* Natural logarithm of sum / PROBABILITY_ONE; sum >= 1. */
double probability_log(uint64_t sum);

#endif
