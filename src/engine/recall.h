/* recall.h - what an engine answered before, each tenant's apart, as a source of drafts.
 *
 * In memory alone and bounded: so many tenants have a place, the one that was looked at longest ago
 * gives his to a new one, and each keeps his newest tokens.  Takes all memory at open. */
#ifndef ENGINE_RECALL_H
#define ENGINE_RECALL_H

#include "speculation/earlier.h"

typedef struct recall recall;

/* NULL when there is no memory.  n_tokens >= EARLIER_TOKENS_MIN: of each tenant. */
recall *recall_open(uint32_t n_tenants, uint32_t n_tokens);
void recall_close(recall **r);

/* Of timeline [n] of a tenant the tokens from begin on were an answer.  Any thread. */
void recall_add(recall *r, uint64_t tenant, const int32_t *timeline, uint32_t begin, uint32_t n);

/* What the tenant was answered, or NULL: until recall_give() nobody else reads or adds anything.
 * Any thread; to be held for microseconds. */
const earlier *recall_take(recall *r, uint64_t tenant);
void recall_give(recall *r);

/* Tokens of all tenants now.  Any thread. */
uint32_t recall_n_tokens(const recall *r);

#endif
