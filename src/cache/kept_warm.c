/* kept_warm.c - what is read unasked when a pool begins: the timelines that were written last.
 *
 * Who comes back after a restart mostly goes on with one of them, and finds it in memory.  From the
 * newest record backwards each that memory has not is the end of a timeline to be read; those
 * before it then are there.  Only so much is read as takes nobody's place, and only until the first
 * prompt comes: from then on reading would take time from whoever computes.
 *
 * Where layers have windows nothing is: a timeline in memory can be taken up only where its windows
 * are, and what to read of them depends on where it is taken up. */
#include "cache/kept.h"

void kept_warm_begin(kv_kept *kept)
{
    const kv_pool *pool = kept->pool;
    const uint64_t n = kept->with.warm_bytes / kept->block_bytes;
    kept->warm_left = n < pool->n_blocks ? (uint32_t)n : pool->n_blocks;
    for (uint32_t g = 0; g < pool->n_groups; g++)
        if (pool->groups[g].window) kept->warm_left = 0;
    kept->warm_below = UINT64_MAX;
    kept->warm_records = 0;
}

bool kept_warm_goes_on(const kv_kept *kept)
{
    return kept->warm_left > 0 && kept->n_lookups == 0 &&
           kept->pool->n_free > kept->pool->n_blocks / 2;
}

/* Go on with the newest of the files that are older. False: there is none. */
static bool next_file(kv_kept *kept)
{
    uint64_t newest = 0;
    for (uint32_t i = 0; i < kept->n_segments_max; i++) {
        const kept_segment *s = &kept->segments[i];
        if (s->number <= newest || s->number >= kept->warm_below) continue;
        newest = s->number;
        kept->warm_place = i;
        kept->warm_records = s->n_used;
    }
    kept->warm_below = newest;
    return newest > 0;
}

static bool is_in_memory(const kv_pool *pool, const kept_entry *e)
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

bool kept_warm_next(kv_kept *kept, kept_fetch *fetch)
{
    while (kept_warm_goes_on(kept)) {
        if (kept->warm_records == 0) {
            if (next_file(kept)) continue;
            kept->warm_left = 0;
            return false;
        }
        uint32_t at = kept->warm_place * kept->n_records + --kept->warm_records;
        const kept_entry *e = &kept->entries[at];
        if (e->record.n_tokens == 0 || is_in_memory(kept->pool, e)) continue;
        *fetch = (kept_fetch){e->name, e->record.tenant};
        return true;
    }
    return false;
}
