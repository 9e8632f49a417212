/* cost.h - how long a pass of this many rows lasts, learned while running.
 *
 * It keeps a moving mean for each power of two of rows.  A row never costs more than in smaller
 * passes: this bounds sizes not yet met, and a mean that a disturbance raised, which otherwise
 * would never be corrected, as passes of that size would not be made again. */
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
/* Were passes of about this many rows measured? */
bool cost_is_known(const cost_model *cost, uint32_t n_rows);
/* The most rows, at least 1, that fit into ns; a tile of them when nothing is known. */
uint32_t cost_rows_within(const cost_model *cost, double ns, uint32_t rows_max);

#endif
