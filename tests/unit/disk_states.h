/* disk_states.h - pools with states and a temporary folder, for tests of what is kept of both. */
#ifndef UNIT_DISK_STATES_H
#define UNIT_DISK_STATES_H

#include "disk_folder.h"
#include "state_marks.h"

static inline kv_pool *open_kept_states(uint32_t sequences, uint64_t size)
{
    kv_pool *pool = open_with_states(sequences, size);
    TEST_CHECK(keep_pool(pool) == 0);
    return pool;
}

/* Like a session: adopt, fetch, adopt again.  Returns the tokens that are held, which are right. */
static inline uint32_t find_all(kv_sequence *seq, kv_pool *pool, uint64_t tenant,
                                const int32_t *tokens, uint32_t n)
{
    const uint32_t n_held = kv_sequence_adopt(seq, tokens, n);
    const uint64_t ticket = kv_pool_fetch(pool, tenant, tokens, n, n_held);
    while (!kv_pool_is_fetched(pool, ticket)) usleep(200);
    const uint32_t found = kv_sequence_adopt(seq, tokens, n);
    TEST_CHECK_THAT(found >= n_held && is_right(seq, tenant, tokens), "%u, %u", found, n_held);
    return found;
}

/* The same in a new pool, as after a restart. */
static inline uint32_t find_anew(uint64_t tenant, const int32_t *tokens, uint32_t n)
{
    kv_pool *pool = open_kept_states(2, 0);
    kv_sequence *seq = open_sequence(pool, tenant);
    const uint32_t found = find_all(seq, pool, tenant, tokens, n);
    close_all(pool, &seq, 1);
    return found;
}

/* Compute tokens [n] in a new pool, and keep states at `keeps` and the end. */
static inline void leave(uint64_t tenant, const int32_t *tokens, uint32_t n, const uint32_t *keeps,
                         uint32_t n_keeps)
{
    kv_pool *pool = open_kept_states(2, 0);
    kv_sequence *seq = open_sequence(pool, tenant);
    uint32_t found = find_all(seq, pool, tenant, tokens, n);
    TEST_CHECK(compute_all(seq, tenant, tokens, found, n, keeps, n_keeps) == 0);
    close_all(pool, &seq, 1);
}

#endif
