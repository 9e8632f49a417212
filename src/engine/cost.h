/* cost.h - how long a pass of this many rows lasts, learned while running.
 *
 * A moving mean for each power of two of rows, never more a row than smaller passes cost: that
 * bounds what was not met yet, and a mean that the machine disturbed, which would otherwise never
 * be corrected, because passes of that size would not be made again. */
#ifndef ENGINE_COST_H
#define ENGINE_COST_H

#include "base/base.h"

enum { COST_SIZES = 13 };

/* Zero-initialise. */
typedef struct {
    double ns[COST_SIZES], rows[COST_SIZES]; /* means of passes of (2^(i-1), 2^i] rows; 0 = none */
    bool is_fixed; /* nothing is learned: simulations */
} cost_model;

void cost_learn(cost_model *cost, uint32_t n_rows, uint64_t ns);
/* Nanoseconds; 0 when nothing is known. */
double cost_estimate(const cost_model *cost, uint32_t n_rows);
/* Whether passes of about this many rows were met. */
bool cost_is_known(const cost_model *cost, uint32_t n_rows);
/* The most rows, at least 1, that fit into ns; a tile of them when nothing is known. */
uint32_t cost_rows_within(const cost_model *cost, double ns, uint32_t rows_max);

#endif
