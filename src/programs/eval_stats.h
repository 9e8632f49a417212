/* eval_stats.h - figures of an evaluation: similarity, intervals, thresholds of confidence.
 *
 * Pure functions but for scratch memory.  Intervals are bootstrapped over documents, because lines
 * of one file are alike; the draw is seeded, so the same results give the same intervals. */
#ifndef PROGRAMS_EVAL_STATS_H
#define PROGRAMS_EVAL_STATS_H

#include "base/base.h"

/* 1 - edits / length of the longer text, in bytes: 1 for equal texts, also for two empty ones.
 * Only the first EVAL_COMPARED_MAX bytes are compared. */
enum { EVAL_COMPARED_MAX = 512 };
double eval_similarity(view a, view b);
/* Strip white space at both ends. */
view eval_stripped(view text);

typedef struct {
    double value, low, high; /* 95 % of the resampled values lie in [low, high] */
} eval_figure;

/* sum of num / sum of den over documents [n]; all zero if the sum of den is. */
eval_figure eval_ratio(const double *num, const double *den, size_t n, uint64_t seed);

typedef struct {
    double threshold; /* show answers that are at least so likely */
    double precision; /* of the shown answers */
    double coverage;  /* share of all answers that is shown */
} eval_cut;

typedef struct {
    float confidence; /* probability of the whole answer */
    bool right;
} eval_answer;

enum { EVAL_CUT_LEAST = 10 }; /* the fewest answers that a cut shows */

/* The cut with the greatest coverage at this precision or better; coverage 0 and threshold 1 if
 * there is none.  Sorts answers [n], surest first. */
eval_cut eval_find_cut(eval_answer *answers, size_t n, double precision);
/* The cut that shows that share of the answers, which are sorted. */
eval_cut eval_cut_at(const eval_answer *answers, size_t n, double coverage);

#endif
