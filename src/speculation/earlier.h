/* earlier.h - what was answered before, as a text to follow: the newest answers of one tenant, with
 * an index of places.
 *
 * Each answer stands behind the end of what it answered, so that its beginning is found, too, and
 * before a token that there is not.  When there is no room, the older half goes.  Places move then:
 * who followed the text is somewhere else in it, and finds the way back as after any wrong token.
 * Nothing allocates. */
#ifndef SPECULATION_EARLIER_H
#define SPECULATION_EARLIER_H

#include "speculation/ngrams.h"

enum {
    EARLIER_END = -1,      /* behind each answer */
    EARLIER_CONTEXT = 32,  /* tokens before it, at most */
    EARLIER_ANSWER_MIN = 8, /* shorter ones save no pass that is worth a search */
    EARLIER_TOKENS_MIN = 4 * EARLIER_CONTEXT, /* room that makes sense */
};

typedef struct {
    int32_t *tokens; /* [index.n_max], of which index.n are there */
    ngrams index;    /* of them, large */
} earlier;

/* Memory for n_max >= EARLIER_TOKENS_MIN tokens, which is not touched before earlier_clear(). */
size_t earlier_bytes(uint32_t n_max);
void earlier_lay_out(earlier *x, void *memory, uint32_t n_max);
void earlier_clear(earlier *x);

/* Of timeline [n] the tokens from begin on were an answer.  One that is there already is not added
 * again; of one that is longer than half of the room, the end is. */
void earlier_add(earlier *x, const int32_t *timeline, uint32_t begin, uint32_t n);

#endif
