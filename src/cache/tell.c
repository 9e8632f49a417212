/* tell.c - who listens to the cache: what keeps blocks and states elsewhere, and who watches full
 * blocks. */
#include "cache/pool.h"

void kv_pool_tell(kv_pool *pool, uint32_t block, bool was_used)
{
    if (pool->listener) pool->listener->findable(pool->listener_user, block, was_used);
}

void kv_pool_tell_state(kv_pool *pool, uint32_t state, bool was_used)
{
    if (pool->listener) pool->listener->state_findable(pool->listener_user, state, was_used);
}

void kv_pool_watch(kv_pool *pool, const cerium_kv_watcher *watcher, void *user)
{
    CHECK(pool->n_sequences == 0 && pool->n_idle == 0);
    pool->watcher = watcher;
    pool->watcher_user = user;
}

void kv_pool_tell_stored(const kv_pool *pool, const kv_block *b)
{
    if (!pool->watcher || b->n_tokens < KERNEL_PAGE) return;
    const bool has_before = b->parent != KV_NONE;
    const cerium_kv_page page = {.name = b->name.low,
                                 .before = has_before ? pool->blocks[b->parent].name.low : 0,
                                 .has_before = has_before,
                                 .tenant = b->tenant,
                                 .tokens = b->tokens,
                                 .n_tokens = b->n_tokens};
    pool->watcher->stored(pool->watcher_user, &page);
}

void kv_pool_tell_removed(const kv_pool *pool, const kv_block *b)
{
    if (pool->watcher && b->n_tokens == KERNEL_PAGE)
        pool->watcher->removed(pool->watcher_user, b->name.low);
}
