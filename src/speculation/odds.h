/* odds.h - how likely drafts are right, and how many of them are worth their rows.
 *
 * Odds: for each source, by how much of what came before agreed, the share of next tokens that it
 * told right, lately.  Pace: how long passes last by rows that have logits.  Both are learned from
 * what happens anyway, tried drafts or not. */
#ifndef SPECULATION_ODDS_H
#define SPECULATION_ODDS_H

#include "base/base.h"

typedef enum {
    DRAFT_PREDICTION = 0, /* what the answer probably is: a file that is edited */
    DRAFT_TIMELINE = 1,   /* the session's own tokens */
    DRAFT_WORKSPACE = 2,  /* the files around it */
    DRAFT_PAST_ANSWERS = 3,    /* what was answered in other sessions */
    DRAFT_TEXTS = 4,      /* this many sources are texts that are followed */
    DRAFT_MODEL = 4,      /* a smaller model: see draft_budget.h */
    DRAFT_SOURCES = 5,
} draft_source;

enum { ODDS_CLASSES = 14 };

typedef struct {
    float right[DRAFT_TEXTS][ODDS_CLASSES], seen[DRAFT_TEXTS][ODDS_CLASSES];
} draft_odds;

void odds_init(draft_odds *odds);
/* A source knew a token after this many (0: it guessed) that agreed; it was right or not. */
void odds_learn(draft_odds *odds, draft_source source, uint32_t match, bool was_right);
/* Above 0, below 1. */
float odds_of(const draft_odds *odds, draft_source source, uint32_t match);

enum { PACE_SIZES = 15, PACE_ROWS_MAX = 64 };

/* How much of the processor's time passes of about this many rows take.  Zero-initialise. */
typedef struct {
    float rows[PACE_SIZES], ns[PACE_SIZES];
    uint32_t n_seen[PACE_SIZES];
    uint32_t last[PACE_SIZES]; /* the number of the pass in which it was measured last */
    uint32_t n_passes;
} draft_pace;

/* There will be a pass of n_rows; whether to measure it: some at first, then now and then. */
bool pace_wants(draft_pace *pace, uint32_t n_rows);
/* It took ns: of the thread's processor time, because short passes are seldom held up by others and
 * long ones always, where the machine is busy. */
void pace_learn(draft_pace *pace, uint32_t n_rows, uint64_t ns);
/* Nanoseconds of a pass of each number of rows [1, n_max], n_max <= PACE_ROWS_MAX, into ns[n_rows];
 * false when nothing is known.  More rows never last less.  What was seen seldom is taken to be
 * short, and what was not seen for long a little shorter than it was, so that it is tried. */
bool pace_estimate(const draft_pace *pace, uint32_t n_max, float *ns);

/* cost[n]: of a pass of n_rows and n drafts, n in [0, n_max], relative to one of n_rows; 1 where
 * pace is NULL.  n_rows + n_max <= PACE_ROWS_MAX. */
void draft_costs(const draft_pace *pace, uint32_t n_rows, uint32_t n_max, float *cost);

/* How many drafts [0, n_max] of a source, after match that agreed, are worth their rows.
 * n_max < PACE_ROWS_MAX; cost: [n_max + 1] of passes with so many drafts, relative to that of none.
 * A row costs its time in any case.  What it saves, where all before it are right, is one token of
 * the next pass, and that pass will be sure of its place and bring many in a time: so a place that
 * is uncertain gets a short try, though a long one would bring more tokens in this pass.
 * *gain: how many times as many tokens as without drafts. */
uint32_t draft_length(const draft_odds *odds, draft_source source, uint32_t match,
                      const float *cost, uint32_t n_max, float *gain);

#endif
