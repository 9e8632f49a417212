/* ngrams.h - finds where the same tokens occurred before in a text: chains of places, hashed by the
 * tokens before them.
 *
 * A place i of a text is the gap before its token i.  For each of two lengths, places with the same
 * tokens before them are chained, the newest first; a search walks the chain of the longer one,
 * then that of the shorter, and compares.  Places are removed in exactly the reverse order of
 * adding.  Nothing allocates. */
#ifndef SPECULATION_NGRAMS_H
#define SPECULATION_NGRAMS_H

#include "base/base.h"

enum {
    NGRAMS_SHORT = 2,      /* the shortest match */
    NGRAMS_LONG = 6,
    NGRAMS_LARGE_SHORT = 4, /* the same in large texts */
    NGRAMS_LARGE_LONG = 8,
    NGRAMS_ORDERS = 2,
    NGRAMS_MATCH_MAX = 64, /* longer matches are not counted further */
};

typedef struct {
    uint32_t *heads[NGRAMS_ORDERS]; /* [2^bits] the newest place of a chain, plus 1; 0 = none */
    uint32_t *older[NGRAMS_ORDERS]; /* [n_max] the next place in a place's chain, plus 1 */
    uint32_t lengths[NGRAMS_ORDERS]; /* chained tokens, the shorter first */
    uint32_t bits, n, n_max;        /* places below n are in the index */
    uint32_t candidates_max;        /* places of a chain that are tried */
} ngrams;

/* Memory for a text of at most n_max tokens, and an index in it. */
size_t ngrams_bytes(uint32_t n_max);
void ngrams_open(ngrams *x, void *memory, uint32_t n_max);

/* The same for texts of other sessions, up to millions of tokens, in memory that is zero or cleared
 * next: more heads, and longer keys, because chance matches grow with the text and each place tried
 * is a wait for memory. */
size_t ngrams_bytes_large(uint32_t n_max);
void ngrams_open_large(ngrams *x, void *memory, uint32_t n_max);
/* An existing index of n tokens, to be read only.  Its content is untrusted until ngrams_is_sound()
 * returns true. */
void ngrams_attach_large(ngrams *x, const void *memory, uint32_t n);
bool ngrams_is_sound(const ngrams *x);

/* Empty the index. */
void ngrams_clear(ngrams *x);
/* The text has n tokens now (at most n_max); its earlier tokens are unchanged. */
void ngrams_grow(ngrams *x, const int32_t *text, uint32_t n);
/* Keep only the first n tokens; text still holds the others. */
void ngrams_cut(ngrams *x, const int32_t *text, uint32_t n);

/* How many of the tokens before place `at` of the text end the context [n], at most
 * NGRAMS_MATCH_MAX. */
uint32_t ngrams_match(const int32_t *text, uint32_t at, const int32_t *context, uint32_t n);

/* The place whose preceding tokens match the longest end of the context; of equals the first not
 * before `from`, else the newest; only places below x->n.  Returns the length of the match, at
 * least lengths[0], or 0 when there is none.  Cost: bounded, two times candidates_max
 * comparisons. */
uint32_t ngrams_find(const ngrams *x, const int32_t *text, const int32_t *context, uint32_t n,
                     uint32_t from, uint32_t *at);

#endif
