/* check.c - a walk over all of the cache that finds every disagreement; for tests. */
#include "cache/pool.h"

#include "base/memory.h"

/* Blocks in the tree are in the tables, once, and nothing else is. */
static bool tables_agree(const kv_pool *pool)
{
    uint32_t n_near = 0, n_full = 0, n_tree = 0, n_whole = 0;
    for (uint32_t i = 0; i < pool->n_buckets; i++) {
        for (uint32_t at = pool->near[i]; at != KV_NONE; at = pool->blocks[at].next_near) {
            const kv_block *b = &pool->blocks[at];
            if (!b->in_tree || (b->near_hash & (pool->n_buckets - 1)) != i) return false;
            if (++n_near > pool->n_blocks) return false;
        }
        for (uint32_t at = pool->full[i]; at != KV_NONE; at = pool->blocks[at].next_full) {
            const kv_block *b = &pool->blocks[at];
            if (!b->in_tree || b->n_tokens != KERNEL_PAGE) return false;
            if (++n_full > pool->n_blocks) return false;
        }
    }
    for (uint32_t i = 0; i < pool->n_blocks; i++) {
        const kv_block *b = &pool->blocks[i];
        n_tree += b->in_tree;
        n_whole += b->in_tree && b->n_tokens == KERNEL_PAGE;
        if (b->in_tree && b->parent != KV_NONE) {
            const kv_block *parent = &pool->blocks[b->parent];
            if (!parent->in_tree || parent->n_tokens != KERNEL_PAGE ||
                parent->tenant != b->tenant || parent->holders < b->holders ||
                parent->position + 1 != b->position)
                return false;
        }
    }
    return n_near == n_tree && n_full == n_whole;
}

/* n_children: [n_blocks] scratch */
static bool idle_agrees(const kv_pool *pool, uint32_t *n_children)
{
    uint32_t n_idle = 0, n_ends = 0;
    for (uint32_t i = 0; i < pool->n_blocks; i++) n_children[i] = 0;
    for (uint32_t i = 0; i < pool->n_blocks; i++)
        if (pool->blocks[i].in_tree && pool->blocks[i].parent != KV_NONE)
            n_children[pool->blocks[i].parent]++;
    for (uint32_t i = 0; i < pool->n_blocks; i++) {
        const kv_block *b = &pool->blocks[i];
        if (!b->in_tree) continue;
        if (b->n_children != n_children[i]) return false;
        if (b->holders) continue;
        n_idle++;
        n_ends += b->n_children == 0;
        if ((b->n_children == 0) != (b->heap_at != KV_NONE)) return false;
    }
    for (uint32_t at = 0; at < pool->n_heap; at++) {
        const kv_block *b = &pool->blocks[pool->heap[at]];
        if (!b->in_tree || b->holders || b->heap_at != at) return false;
        if (at && b->priority < pool->blocks[pool->heap[(at - 1) / 2]].priority) return false;
    }
    return n_idle == pool->n_idle && n_ends == pool->n_heap;
}

static bool list_agrees(const kv_group *group, uint32_t list, uint32_t *n_listed)
{
    uint32_t before = KV_NONE;
    for (uint32_t at = group->oldest[list]; at != KV_NONE; at = group->newer[at]) {
        if (group->older[at] != before || group->list_of[at] != list) return false;
        if (++*n_listed > group->n_pages) return false;
        before = at;
    }
    return before == group->newest[list];
}

static bool group_agrees(const kv_pool *pool, const kv_group *group)
{
    uint32_t n_listed = 0, n_unused = 0, n_pages = 0;
    if (!list_agrees(group, 0, &n_listed) || !list_agrees(group, 1, &n_listed)) return false;
    for (uint32_t i = 0; i < pool->n_blocks; i++) {
        if (group->users[i] > pool->blocks[i].holders) return false;
        if (group->page_of[i] == KV_NONE) continue;
        if (group->block_of[group->page_of[i]] != i) return false;
        n_pages++;
        n_unused += pool->blocks[i].in_tree && group->users[i] == 0;
    }
    return n_listed == n_unused && n_pages + group->n_free == group->n_pages;
}

bool kv_pool_check_invariants(kv_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    uint32_t *scratch = memory_alloc(pool->n_blocks * sizeof *scratch);
    bool ok = scratch && tables_agree(pool) && idle_agrees(pool, scratch) && kv_states_agree(pool);
    uint32_t n_held = 0;
    for (uint32_t i = 0; i < pool->n_free; i++) ok &= !pool->blocks[pool->free_blocks[i]].in_tree;
    for (uint32_t i = 0; i < pool->n_blocks; i++)
        n_held += pool->blocks[i].in_tree && pool->blocks[i].holders > 0;
    ok &= n_held + pool->n_idle + pool->n_free <= pool->n_blocks;
    for (uint32_t g = 0; g < pool->n_groups; g++)
        if (pool->groups[g].window) ok &= group_agrees(pool, &pool->groups[g]);
    pthread_mutex_unlock(&pool->lock);
    memory_free(scratch);
    return ok;
}
