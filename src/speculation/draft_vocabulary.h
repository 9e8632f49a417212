/* draft_vocabulary.h - which tokens a drafter may say: the first of a vocabulary, which are its
 * frequent ones, tokens with a name, and those seen lately in the same timeline.
 *
 * Most of what a small drafter reads for a token is the output matrix.  A token outside the set is
 * never guessed, which costs a draft and changes no text; where that happens often (a language of
 * late tokens), all are allowed.  The unit is a panel of neighbouring tokens, as matrices have
 * them. */
#ifndef SPECULATION_DRAFT_VOCABULARY_H
#define SPECULATION_DRAFT_VOCABULARY_H

#include "tokenizer/tokenizer.h"

enum {
    VOCABULARY_PANEL = 16,       /* tokens */
    VOCABULARY_FIRST = 1536,     /* panels of the first tokens: 24,576 of them */
    VOCABULARY_SEEN_MAX = 1024,  /* panels of seen tokens, before the oldest are forgotten */
};

/* Of an engine.  Zero-initialised, it has none, and everything is allowed. */
typedef struct {
    uint32_t n_tokens, n_panels; /* that may be said; 0: all, which is not worth a set */
    uint64_t *always;            /* [n_panels / 64, rounded up] bits of panels */
    uint32_t *panels;            /* [n_panels] of the last draft_vocabulary_take() */
} draft_vocabulary;

/* Of a timeline.  Zero-initialise. */
typedef struct {
    uint64_t *seen;  /* as always */
    uint32_t n_seen; /* panels that were new */
    uint32_t n_read; /* tokens of the timeline that are seen */
    float missed;    /* share of the last tokens that were outside */
} draft_seen;

/* Of the first n_tokens of t, the first n_first panels and all named tokens.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int draft_vocabulary_open(draft_vocabulary *v, const tokenizer *t,
                                         uint32_t n_tokens, uint32_t n_first);
void draft_vocabulary_close(draft_vocabulary *v);
/* CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int draft_seen_open(draft_seen *s, const draft_vocabulary *v);
void draft_seen_close(draft_seen *s);

/* Tokens [n] are the timeline; of those after the ones that were read, the last are seen.  Fewer
 * than were read: it was cut. */
void draft_seen_read(draft_seen *s, const draft_vocabulary *v, const int32_t *tokens, uint32_t n);
/* Was this a token that could be said?  Learns how often that is so. */
void draft_seen_learn(draft_seen *s, const draft_vocabulary *v, int32_t token);
/* The panels of tokens that may be said, ascending, and how many tokens they have; *n_panels = 0,
 * NULL: all.  Valid until the next call. */
const uint32_t *draft_vocabulary_take(draft_vocabulary *v, const draft_seen *s,
                                      uint32_t *n_panels, uint32_t *n_tokens);

#endif
