/* prefault.c - gives pages their memory before they are used.
 *
 * The system clears memory when it is first touched.  With huge pages this takes up to 4 ms each,
 * in which a pass makes no progress and sees no cancel.  So the first pages are touched at open,
 * and a thread touches the next ones in advance. */
#include "base/memory.h"
#include "cache/pool.h"

/* As far as the limit allows. */
static size_t most_bytes(const kv_pool *pool, const kv_group *group)
{
    return (group->window ? group->pages_limit : pool->blocks_limit) * group->page_bytes;
}

static bool is_behind(const kv_pool *pool, const kv_group *group)
{
    return group->ready_bytes < most_bytes(pool, group) &&
           group->used_bytes + KV_PREFAULT_BYTES > group->ready_bytes;
}

void kv_prefault_note(kv_pool *pool, kv_group *group, uint32_t page)
{
    const size_t end = ((size_t)page + 1) * group->page_bytes;
    if (end <= group->used_bytes) return;
    group->used_bytes = end;
    if (pool->has_prefault && is_behind(pool, group)) thread_bell_ring(&pool->prefault_bell);
}

/* Touch the next page of a group that has too few ready.  False: none has. */
static bool touch(kv_pool *pool)
{
    kv_group *late = NULL;
    pthread_mutex_lock(&pool->lock);
    for (uint32_t g = 0; g < pool->n_groups && !late; g++)
        if (is_behind(pool, &pool->groups[g])) late = &pool->groups[g];
    /* Only this thread changes what is ready. */
    size_t at = late ? late->ready_bytes : 0, n = late ? most_bytes(pool, late) - at : 0;
    pthread_mutex_unlock(&pool->lock);
    if (!late) return false;
    if (n > MEMORY_HUGE_PAGE) n = MEMORY_HUGE_PAGE;
    memory_populate(late->pages + at, n);
    pthread_mutex_lock(&pool->lock);
    late->ready_bytes = at + n;
    pthread_mutex_unlock(&pool->lock);
    return true;
}

static void *run(void *arg)
{
    kv_pool *pool = arg;
    while (!atomic_load(&pool->closing)) {
        uint32_t seen = atomic_load(&pool->prefault_bell.n_rings);
        if (!touch(pool)) thread_bell_wait(&pool->prefault_bell, seen);
    }
    return NULL;
}

void kv_prefault_open(kv_pool *pool)
{
    bool is_small = true;
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        kv_group *group = &pool->groups[g];
        size_t first = group->pages_bytes;
        if (first > KV_POPULATE_BYTES) first = KV_POPULATE_BYTES;
        memory_populate(group->pages, first);
        group->ready_bytes = first;
        is_small &= first == group->pages_bytes;
    }
    if (is_small) return;
    /* Without the thread, pages get their memory at first use. */
    pool->has_prefault = thread_start(&pool->prefault, "prefault", run, pool) == 0;
}

void kv_prefault_close(kv_pool *pool)
{
    if (!pool->has_prefault) return;
    atomic_store(&pool->closing, true);
    thread_bell_ring(&pool->prefault_bell);
    pthread_join(pool->prefault, NULL);
    pool->has_prefault = false;
}
