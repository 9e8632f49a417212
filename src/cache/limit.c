/* limit.c - limits the memory of pages below the size of the pool, so that other uses have the
 * rest.
 *
 * Blocks and their addresses stay; fewer may be in use at once, and those beyond return their
 * memory to the system.  Held blocks stay held, and count until they are released. */
#include "base/memory.h"
#include "cache/pool.h"

/* Evict the oldest unused page of a group; false: there is none. */
static bool evict_page(kv_group *group)
{
    const uint32_t page = group->oldest[group->oldest[0] == KV_NONE];
    if (page == KV_NONE) return false;
    kv_page_unlist(group, page);
    group->page_of[group->block_of[page]] = KV_NONE;
    group->free_pages[group->n_free++] = page;
    kv_pages_drop(group, page, 1);
    return true;
}

void kv_limit_keep(kv_pool *pool)
{
    while (kv_blocks_used(pool) > pool->blocks_limit && kv_idle_first(pool) != KV_NONE) {
        const uint32_t block = kv_idle_first(pool);
        kv_idle_evicts(pool, block);
        kv_tree_discard(pool, block);
    }
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        kv_group *group = &pool->groups[g];
        if (!group->window) continue;
        while (kv_pages_used(group) > group->pages_limit && evict_page(group)) continue;
    }
    kv_states_keep_limit(pool);
}

/* Return free pages in the largest runs: neighbours share pages of the system.  Only pages that
 * were used or prefaulted have memory. */
static void drop_free(const kv_group *group, const uint32_t *free_pages, uint32_t n_free)
{
    const size_t bytes_max = group->used_bytes + KV_PREFAULT_BYTES + KV_POPULATE_BYTES;
    const size_t n_max = bytes_max / group->page_bytes + 1;
    const uint32_t n = n_max < group->n_pages ? (uint32_t)n_max : group->n_pages;
    uint8_t *is_free = memory_zalloc(n, 1);
    if (!is_free) return; /* they keep their memory until they are used and freed again */
    for (uint32_t i = 0; i < n_free; i++)
        if (free_pages[i] < n) is_free[free_pages[i]] = 1;
    for (uint32_t at = 0, end; at < n; at = end + 1) {
        for (end = at; end < n && is_free[end]; end++) continue;
        if (end > at) kv_pages_drop(group, at, end - at);
    }
    memory_free(is_free);
}

static uint32_t part(uint32_t n, double share, uint32_t least)
{
    const uint32_t some = (uint32_t)(n * share);
    return some > least ? some : least;
}

void kv_pool_limit(kv_pool *pool, uint64_t most)
{
    uint64_t all = 0;
    pthread_mutex_lock(&pool->lock);
    for (uint32_t g = 0; g < pool->n_groups; g++) all += pool->groups[g].pages_bytes;
    all += (uint64_t)pool->states.n * pool->states.bytes;
    const double share = most && most < all ? (double)most / (double)all : 1;
    const uint32_t before = pool->blocks_limit;
    pool->blocks_limit = part(pool->n_blocks, share, kv_blocks_for(pool->context_tokens));
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        kv_group *group = &pool->groups[g];
        group->pages_limit = part(group->n_pages, share, group->pages_min);
    }
    kv_states_limit(pool, share);
    if (pool->blocks_limit < before) {
        kv_limit_keep(pool);
        for (uint32_t g = 0; g < pool->n_groups; g++) {
            kv_group *group = &pool->groups[g];
            if (group->window) drop_free(group, group->free_pages, group->n_free);
            else drop_free(group, pool->free_blocks, pool->n_free);
        }
    }
    pthread_mutex_unlock(&pool->lock);
}
