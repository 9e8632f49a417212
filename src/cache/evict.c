/* evict.c - idle blocks, and which of them goes first: GreedyDual-Size-Frequency (Cherkasova, HPL
 * 1998; Young's GreedyDual with sizes and counts) over the ends of timelines.
 *
 * When a block is released, its priority (H in the paper) is the priority of the last evicted block
 * plus the cost of computing it again times its number of uses.  So a prefix that many requests
 * share outlives many prompts that came once; and as every eviction raises the floor, it is evicted
 * too once it is no longer used.  All blocks have the same size. */
#include "cache/pool.h"

/* A cap on counted uses, so that no block stays for ever. */
enum { USES_MAX = 8 };

/* In tokens that are computed at the beginning of a timeline. */
static double cost_of(const kv_pool *pool, const kv_block *b)
{
    double attention = pool->even_blocks > 0 ? b->position / pool->even_blocks : 0;
    return b->n_tokens * (1 + attention);
}

static bool goes_before(const kv_pool *pool, uint32_t x, uint32_t y)
{
    const kv_block *a = &pool->blocks[x], *b = &pool->blocks[y];
    return a->priority != b->priority ? a->priority < b->priority : a->idle_since < b->idle_since;
}

/* ---- the heap: every block goes before the two at twice its place ---- */

static void put(kv_pool *pool, uint32_t at, uint32_t block)
{
    pool->heap[at] = block;
    pool->blocks[block].heap_at = at;
}

static void rise(kv_pool *pool, uint32_t at, uint32_t block)
{
    for (; at > 0 && goes_before(pool, block, pool->heap[(at - 1) / 2]); at = (at - 1) / 2)
        put(pool, at, pool->heap[(at - 1) / 2]);
    put(pool, at, block);
}

static void sink(kv_pool *pool, uint32_t at, uint32_t block)
{
    for (uint32_t next; (next = 2 * at + 1) < pool->n_heap; at = next) {
        if (next + 1 < pool->n_heap && goes_before(pool, pool->heap[next + 1], pool->heap[next]))
            next++;
        if (goes_before(pool, block, pool->heap[next])) break;
        put(pool, at, pool->heap[next]);
    }
    put(pool, at, block);
}

static void leave_heap(kv_pool *pool, uint32_t block)
{
    uint32_t at = pool->blocks[block].heap_at, last = pool->heap[--pool->n_heap];
    pool->blocks[block].heap_at = KV_NONE;
    if (last == block) return;
    if (at > 0 && goes_before(pool, last, pool->heap[(at - 1) / 2]))
        rise(pool, at, last);
    else
        sink(pool, at, last);
}

/* ---- idle blocks ---- */

void kv_idle_add(kv_pool *pool, uint32_t block)
{
    kv_block *b = &pool->blocks[block];
    uint32_t n_uses = b->n_uses < USES_MAX ? b->n_uses : USES_MAX;
    CHECK(b->in_tree && b->holders == 0);
    b->priority = pool->priority_floor + cost_of(pool, b) * n_uses;
    b->idle_since = pool->n_let_go++;
    b->heap_at = KV_NONE;
    pool->n_idle++;
    if (b->n_children == 0) rise(pool, pool->n_heap++, block);
}

void kv_idle_remove(kv_pool *pool, uint32_t block)
{
    if (pool->blocks[block].heap_at != KV_NONE) leave_heap(pool, block);
    pool->n_idle--;
}

void kv_idle_followed(kv_pool *pool, uint32_t block)
{
    kv_block *b = &pool->blocks[block];
    b->n_children++;
    if (b->holders == 0 && b->heap_at != KV_NONE) leave_heap(pool, block);
}

void kv_idle_unfollowed(kv_pool *pool, uint32_t block)
{
    kv_block *b = &pool->blocks[block];
    CHECK(b->n_children > 0);
    if (--b->n_children == 0 && b->holders == 0) rise(pool, pool->n_heap++, block);
}

uint32_t kv_idle_first(const kv_pool *pool) { return pool->n_heap ? pool->heap[0] : KV_NONE; }

void kv_idle_evicts(kv_pool *pool, uint32_t block)
{
    double priority = pool->blocks[block].priority;
    if (priority > pool->priority_floor) pool->priority_floor = priority;
}
