/* disk_warm.c - prefetch when a pool opens: the timelines that were written last.
 *
 * A client that returns after a restart mostly continues one of them, and finds it in memory.  From
 * the newest record backwards, each record that is not in memory is the end of a timeline to read;
 * that timeline's earlier records are then in memory.  Prefetching uses free blocks only, and ends
 * with the first prompt: after that, reading would take time from passes.
 *
 * Models with windowed layers are not prefetched: a timeline can be adopted only where its window
 * pages are in memory, and which of them to read depends on that place.  Nor are models with
 * recurrent layers: their pages are of no use without a state, of which few fit. */
#include "cache/disk.h"

void disk_warm_begin(kv_disk *disk)
{
    const kv_pool *pool = disk->pool;
    const uint64_t n = disk->with.warm_bytes / disk->block_bytes;
    disk->warm_left = n < pool->n_blocks ? (uint32_t)n : pool->n_blocks;
    for (uint32_t g = 0; g < pool->n_groups; g++)
        if (pool->groups[g].window) disk->warm_left = 0;
    if (disk->n_states_max) disk->warm_left = 0;
    disk->warm_below = UINT64_MAX;
    disk->warm_records = 0;
}

bool disk_warm_continues(const kv_disk *disk)
{
    return disk->warm_left > 0 && disk->n_lookups == 0 &&
           disk->pool->n_free > disk->pool->n_blocks / 2;
}

/* Continue with the newest of the older files.  False: there is none. */
static bool next_file(kv_disk *disk)
{
    uint64_t newest = 0;
    for (uint32_t i = 0; i < disk->n_segments_max; i++) {
        const disk_segment *s = &disk->segments[i];
        if (s->number <= newest || s->number >= disk->warm_below) continue;
        newest = s->number;
        disk->warm_place = i;
        disk->warm_records = s->n_used;
    }
    disk->warm_below = newest;
    return newest > 0;
}

static bool is_in_memory(const kv_pool *pool, const disk_entry *e)
{
    const segment_record *r = &e->record;
    uint32_t parent = KV_NONE, n_common;
    if (r->n_tokens == KERNEL_PAGE) return kv_tree_named(pool, e->name) != KV_NONE;
    if (r->position > 0) {
        parent = kv_tree_named(pool, r->before);
        if (parent == KV_NONE) return false;
    }
    kv_tree_near(pool, r->tenant, parent, r->tokens, r->n_tokens, &n_common);
    return n_common == r->n_tokens;
}

bool disk_warm_next(kv_disk *disk, disk_fetch *fetch)
{
    while (disk_warm_continues(disk)) {
        if (disk->warm_records == 0) {
            if (next_file(disk)) continue;
            disk->warm_left = 0;
            return false;
        }
        uint32_t at = disk->warm_place * disk->n_records + --disk->warm_records;
        const disk_entry *e = &disk->entries[at];
        if (e->record.n_tokens == 0 || is_in_memory(disk->pool, e)) continue;
        *fetch = (disk_fetch){.name = e->name, .tenant = e->record.tenant};
        return true;
    }
    return false;
}
