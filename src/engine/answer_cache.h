/* answer_cache.h - earlier answers of an engine, separate for each tenant, as a source of drafts.
 *
 * It is in memory only, and bounded: each of a fixed number of tenants has a place for its newest
 * tokens.  A new tenant replaces the least recently used.  Takes all memory at open. */
#ifndef ENGINE_ANSWER_CACHE_H
#define ENGINE_ANSWER_CACHE_H

#include "speculation/past_answers.h"

/* ---- limits: what a broken or hostile input can make us take ---- */

#define ANSWER_CACHE_TENANTS_MAX 32u        /* whose answers are there, */
#define ANSWER_CACHE_TOKENS_MAX  (1u << 15) /* the newest of each: 640 KB when full */

typedef struct answer_cache answer_cache;

/* NULL: out of memory.  n_tokens >= PAST_TOKENS_MIN: of each tenant. */
answer_cache *answer_cache_open(uint32_t n_tenants, uint32_t n_tokens);
void answer_cache_close(answer_cache **r);

/* Add an answer: the tokens from begin on of timeline [n].  Any thread. */
void answer_cache_add(answer_cache *r, uint64_t tenant, const int32_t *timeline,
                      uint32_t begin, uint32_t n);

/* The tenant's earlier answers, or NULL.  It is locked until answer_cache_give(): hold it for
 * microseconds.  Any thread. */
const past_answers *answer_cache_take(answer_cache *r, uint64_t tenant);
void answer_cache_give(answer_cache *r);

/* Tokens of all tenants.  Any thread. */
uint32_t answer_cache_n_tokens(const answer_cache *r);

#endif
