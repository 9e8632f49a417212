/* past_answers.h - what was answered before, as a text to follow: the newest answers of one
 * tenant, with an index of places.
 *
 * Each answer comes after the end of what it answered, so that its beginning is found, too, and
 * before a token that there is not.  When there is no room, the older half goes.  Places move then:
 * who followed the text is somewhere else in it, and finds the way back as after any wrong token.
 * Nothing allocates. */
#ifndef SPECULATION_PAST_ANSWERS_H
#define SPECULATION_PAST_ANSWERS_H

#include "speculation/ngrams.h"

enum {
    PAST_END = -1,      /* after each answer */
    PAST_CONTEXT = 32,  /* tokens before it, at most */
    PAST_ANSWER_MIN = 8, /* shorter ones save no pass that is worth a search */
    PAST_TOKENS_MIN = 4 * PAST_CONTEXT, /* room that makes sense */
};

typedef struct {
    int32_t *tokens; /* [index.n_max], of which index.n are there */
    ngrams index;    /* of them, large */
} past_answers;

/* Memory for n_max >= PAST_TOKENS_MIN tokens, which is not touched before past_answers_clear(). */
size_t past_answers_bytes(uint32_t n_max);
void past_answers_lay_out(past_answers *x, void *memory, uint32_t n_max);
void past_answers_clear(past_answers *x);

/* Of timeline [n] the tokens from begin on were an answer.  One that is there already is not added
 * again; of one that is longer than half of the room, the end is. */
void past_answers_add(past_answers *x, const int32_t *timeline, uint32_t begin, uint32_t n);

#endif
