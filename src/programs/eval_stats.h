/* eval_stats.h - figures of an evaluation: how alike, how sure, from which confidence on.
 *
 * Pure functions but for scratch memory.  Intervals are bootstrapped over documents, because lines
 * of one file are alike; the draw is seeded, so the same results give the same intervals. */
#ifndef PROGRAMS_EVAL_STATS_H
#define PROGRAMS_EVAL_STATS_H

#include "base/base.h"

/* 1 - edits / length of the longer: 1 for equal texts, both empty included.  Of texts of more than
 * EVAL_COMPARED_MAX bytes the beginnings count.  By bytes. */
enum { EVAL_COMPARED_MAX = 512 };
double eval_similarity(view a, view b);
/* Without the white space around it. */
view eval_stripped(view text);

typedef struct {
    double value, low, high; /* 95 % of the resampled values lie in [low, high] */
} eval_figure;

/* sum of num / sum of den over documents [n]; all zero where den is. */
eval_figure eval_ratio(const double *num, const double *den, size_t n, uint64_t seed);

typedef struct {
    double threshold; /* show what is at least so likely */
    double precision; /* of what is shown then */
    double coverage;  /* share of all that is shown */
} eval_cut;

typedef struct {
    float confidence; /* probability of the whole answer */
    bool right;
} eval_answer;

enum { EVAL_CUT_LEAST = 10 }; /* answers that a cut shows at least */

/* The cut that shows most with at least that precision; coverage 0 and threshold 1 where there is
 * none.  Sorts answers [n], surest first. */
eval_cut eval_find_cut(eval_answer *answers, size_t n, double precision);
/* The cut that shows that share of answers, which are sorted. */
eval_cut eval_cut_at(const eval_answer *answers, size_t n, double coverage);

#endif
