/* answer_cache.h - what an engine answered before, each tenant's apart, as a source of drafts.
 *
 * In memory alone and bounded: each of a fixed number of tenants has a place, and keeps its
 * newest tokens in it.  A new tenant takes the place that was read longest ago.  Takes all memory
 * at open. */
#ifndef ENGINE_ANSWER_CACHE_H
#define ENGINE_ANSWER_CACHE_H

#include "speculation/past_answers.h"

/* ---- limits: what a broken or hostile input can make us take ---- */

#define ANSWER_CACHE_TENANTS_MAX 32u        /* whose answers are there, */
#define ANSWER_CACHE_TOKENS_MAX  (1u << 15) /* the newest of each: 640 KB once there */

typedef struct answer_cache answer_cache;

/* NULL when there is no memory.  n_tokens >= PAST_TOKENS_MIN: of each tenant. */
answer_cache *answer_cache_open(uint32_t n_tenants, uint32_t n_tokens);
void answer_cache_close(answer_cache **r);

/* Of timeline [n] of a tenant the tokens from begin on were an answer.  Any thread. */
void answer_cache_add(answer_cache *r, uint64_t tenant, const int32_t *timeline,
                      uint32_t begin, uint32_t n);

/* What the tenant was answered, or NULL: until answer_cache_give() nobody else reads or adds.
 * Any thread; to be held for microseconds. */
const past_answers *answer_cache_take(answer_cache *r, uint64_t tenant);
void answer_cache_give(answer_cache *r);

/* Tokens of all tenants now.  Any thread. */
uint32_t answer_cache_n_tokens(const answer_cache *r);

#endif
