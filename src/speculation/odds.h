/* odds.h - how likely drafts are right, and how many of them are worth their rows.
 *
 * Odds: for each source and length of match, the share of next tokens that it predicted right
 * lately.  Pace: how long passes last, by the number of rows with logits.  Both are learned from
 * all passes, with or without drafts. */
#ifndef SPECULATION_ODDS_H
#define SPECULATION_ODDS_H

#include "base/base.h"

typedef enum {
    DRAFT_PREDICTION = 0, /* what the answer probably is: a file under edit */
    DRAFT_TIMELINE = 1,   /* the session's own tokens */
    DRAFT_WORKSPACE = 2,  /* the files around it */
    DRAFT_PAST_ANSWERS = 3,    /* earlier answers of other sessions */
    DRAFT_TEXTS = 4,      /* number of sources that are followed texts */
    DRAFT_MODEL = 4,      /* a smaller model: see draft_budget.h */
    DRAFT_SOURCES = 5,
} draft_source;

enum { ODDS_CLASSES = 14 };

typedef struct {
    float right[DRAFT_TEXTS][ODDS_CLASSES], seen[DRAFT_TEXTS][ODDS_CLASSES];
} draft_odds;

void odds_init(draft_odds *odds);
/* A source predicted a token after a match of this many (0: a guess), rightly or wrongly. */
void odds_learn(draft_odds *odds, draft_source source, uint32_t match, bool was_right);
/* Above 0, below 1. */
float odds_of(const draft_odds *odds, draft_source source, uint32_t match);

enum { PACE_SIZES = 15, PACE_ROWS_MAX = 64 };

/* The processor time of passes of about this many rows.  Zero-initialise. */
typedef struct {
    float rows[PACE_SIZES], ns[PACE_SIZES];
    uint32_t n_seen[PACE_SIZES];
    uint32_t last[PACE_SIZES]; /* the number of the pass that last measured it */
    uint32_t n_passes;
} draft_pace;

/* A pass of n_rows is next: is it to be measured?  Some are at first, then one now and then. */
bool pace_wants(draft_pace *pace, uint32_t n_rows);
/* The pass took ns of the thread's processor time: other threads seldom delay short passes but
 * always delay long ones on a busy machine. */
void pace_learn(draft_pace *pace, uint32_t n_rows, uint64_t ns);
/* Nanoseconds of a pass of each number of rows [1, n_max], n_max <= PACE_ROWS_MAX, into ns[n_rows];
 * false when nothing is known.  More rows never take less.  A size seen seldom is assumed short,
 * and one not seen for long a little shorter than it was, so that it is tried. */
bool pace_estimate(const draft_pace *pace, uint32_t n_max, float *ns);

/* cost[n]: the cost of a pass of n_rows and n drafts, n in [0, n_max], relative to one of n_rows; 1
 * where pace is NULL.  n_rows + n_max <= PACE_ROWS_MAX. */
void draft_costs(const draft_pace *pace, uint32_t n_rows, uint32_t n_max, float *cost);

/* How many drafts [0, n_max] of a source, after a match of this length, are worth their rows. n_max
 * < PACE_ROWS_MAX; cost: [n_max + 1] of passes with so many drafts, relative to none.  A row costs
 * its time in any case.  If all before it are right, it saves one token of the next pass; that pass
 * will be sure of its place and yield many tokens per time.  So an uncertain place gets a short
 * try, though a long one would yield more tokens in this pass.
 * *gain: tokens per time relative to no drafts. */
uint32_t draft_length(const draft_odds *odds, draft_source source, uint32_t match,
                      const float *cost, uint32_t n_max, float *gain);

#endif
