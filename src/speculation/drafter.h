/* drafter.h - what probably comes next in a session, from the source that was right before.
 *
 * Each source of drafts follows a text: it has a place in it, and continues from there as long as
 * it is right.  Where it is wrong it looks for the place again: first nearby, where one token that
 * agrees is a sign (an edit inserts, drops, replaces), then anywhere by n-grams.  Every source's
 * prediction of every token counts in its odds, whether it was tried or not. */
#ifndef SPECULATION_DRAFTER_H
#define SPECULATION_DRAFTER_H

#include "speculation/corpus.h"
#include "speculation/past_answers.h"
#include "speculation/odds.h"

/* The place of a source in its text. */
typedef struct {
    uint32_t at;    /* index of its next token; none if that is the end of the text */
    uint32_t match; /* tokens before it that agreed; 0 = a guess */
    uint32_t home;  /* its place when it was last sure */
    bool is_on;     /* it has a prediction */
} draft_trail;

typedef struct {
    ngrams timeline;           /* of the session's tokens */
    ngrams predicted;          /* of the prediction */
    const int32_t *prediction; /* [n_prediction]; borrowed */
    uint32_t n_prediction;
    const corpus *workspace;   /* borrowed, or NULL */
    const past_answers *past;    /* borrowed, or NULL; the caller sets it before every call, because
                                    it may have changed or been replaced */
    uint32_t n_answered;       /* tokens of the prompt, which were never drafts */
    draft_trail trails[DRAFT_TEXTS];
    draft_odds odds;
} drafter;

size_t drafter_bytes(uint32_t tokens_max);
/* In memory of drafter_bytes(), for a timeline of at most tokens_max. */
void drafter_open(drafter *d, void *memory, uint32_t tokens_max);

/* Hints about the next answer; both stay valid until the next one begins. */
typedef struct {
    const int32_t *prediction; /* [n_prediction]: probably this text; 0 = no prediction */
    uint32_t n_prediction;
    void *memory;              /* ngrams_bytes(n_prediction), for its index */
    const corpus *workspace;   /* or NULL */
} draft_hints;

/* The timeline tokens [n] is a prompt now, and an answer follows. */
void drafter_begin(drafter *d, const int32_t *tokens, uint32_t n, const draft_hints *hints);
/* Keep only the first n tokens of the timeline: call this before others are written. */
void drafter_cut(drafter *d, const int32_t *tokens, uint32_t n);
/* The timeline grew to tokens [n]. */
void drafter_follow(drafter *d, const int32_t *tokens, uint32_t n);

/* Write up to n_max tokens that may follow tokens [n], the followed timeline, into out: as many as
 * are worth it in a pass of n_rows (all where pace is NULL).  *source: where they come from. */
uint32_t drafter_draft(const drafter *d, const draft_pace *pace, const int32_t *tokens, uint32_t n,
                       uint32_t n_rows, uint32_t n_max, int32_t *out, draft_source *source);

#endif
