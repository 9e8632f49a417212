/* past_answers.h - earlier answers as a text to follow: the newest answers of one tenant, with an
 * index of places.
 *
 * Each answer comes after the end of its prompt, so that its beginning is found, too, and is
 * followed by a sentinel token.  When the text is full, its older half is dropped.  Places move
 * then: a follower of the text must search its place again, as after any wrong token.  Nothing
 * allocates. */
#ifndef SPECULATION_PAST_ANSWERS_H
#define SPECULATION_PAST_ANSWERS_H

#include "speculation/ngrams.h"

enum {
    PAST_END = -1,      /* sentinel after each answer */
    PAST_CONTEXT = 32,  /* tokens of the prompt before it, at most */
    PAST_ANSWER_MIN = 8, /* shorter ones save no pass worth a search */
    PAST_TOKENS_MIN = 4 * PAST_CONTEXT, /* the smallest useful size */
};

typedef struct {
    int32_t *tokens; /* [index.n_max]; the first index.n are valid */
    ngrams index;    /* over the tokens, large */
} past_answers;

/* Memory for n_max >= PAST_TOKENS_MIN tokens; it is not touched before past_answers_clear(). */
size_t past_answers_bytes(uint32_t n_max);
void past_answers_lay_out(past_answers *x, void *memory, uint32_t n_max);
void past_answers_clear(past_answers *x);

/* The tokens of timeline [n] from begin on are an answer.  A known answer is not added again; of
 * one longer than half of the room, only the end is added. */
void past_answers_add(past_answers *x, const int32_t *timeline, uint32_t begin, uint32_t n);

#endif
