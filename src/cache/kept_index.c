/* kept_index.c - which block is where on disk: two hash tables over entries, as the tree has over
 * blocks, and what segments are worth; and where the files are. */
#include "cache/kept.h"

#include "base/memory.h"

enum { NEAR_WALK_MAX = 64, USES_MAX = 8 };

void kept_path(const kv_kept *kept, uint64_t number, char *out)
{
    snprintf(out, KEPT_PATH_MAX, "%s/%016llx.kv", kept->folder, (unsigned long long)number);
}

void kept_notice(kv_kept *kept, const char *what, const char *and_then)
{
    cerium_error line; /* one clean line, as errors are */
    if (!kept->with.notice) return;
    error_set(&line, CERIUM_OK, "%.300s: %s; %s", kept->folder, what, and_then);
    kept->with.notice(kept->with.user, line.message);
}

int kept_index_open(kv_kept *kept)
{
    size_t n = (size_t)kept->n_segments_max * kept->n_records;
    if (n > KV_BLOCKS_MAX || !size_mul(n, sizeof *kept->entries, &kept->entries_bytes))
        return CERIUM_ERR_MEMORY;
    kept->n_buckets = 64;
    while (kept->n_buckets < 2 * n) kept->n_buckets *= 2;
    kept->segments = memory_zalloc(kept->n_segments_max, sizeof *kept->segments);
    kept->entries = memory_map(kept->entries_bytes);
    kept->names = memory_alloc(kept->n_buckets * sizeof *kept->names);
    kept->near = memory_alloc(kept->n_buckets * sizeof *kept->near);
    if (!kept->segments || !kept->entries || !kept->names || !kept->near) return CERIUM_ERR_MEMORY;
    for (uint32_t i = 0; i < kept->n_buckets; i++) kept->names[i] = kept->near[i] = KV_NONE;
    return CERIUM_OK;
}

void kept_index_close(kv_kept *kept)
{
    memory_free(kept->segments);
    memory_unmap(kept->entries, kept->entries_bytes);
    memory_free(kept->names);
    memory_free(kept->near);
}

uint32_t kept_find(const kv_kept *kept, hash_name name)
{
    uint32_t at = kept->names[name.low & (kept->n_buckets - 1)];
    while (at != KV_NONE && !hash_name_equal(kept->entries[at].name, name))
        at = kept->entries[at].next_name;
    return at;
}

uint32_t kept_near(const kv_kept *kept, hash_name before, const int32_t *tokens, uint32_t n,
                   uint32_t *n_common)
{
    uint32_t best = KV_NONE;
    *n_common = 0;
    if (n == 0) return KV_NONE;
    uint64_t hash = kv_name_near(before, tokens[0]);
    uint32_t at = kept->near[hash & (kept->n_buckets - 1)];
    for (uint32_t i = 0; at != KV_NONE && i < NEAR_WALK_MAX; i++) {
        const segment_record *r = &kept->entries[at].record;
        if (kept->entries[at].near_hash == hash && hash_name_equal(r->before, before)) {
            uint32_t same = 0, limit = n < r->n_tokens ? n : r->n_tokens;
            while (same < limit && r->tokens[same] == tokens[same]) same++;
            if (same > *n_common) best = at, *n_common = same;
        }
        at = kept->entries[at].next_near;
    }
    return best;
}

/* As in evict.c: a block's tokens, dearer the later they stand. */
static void set_worth(kv_kept *kept, uint32_t entry)
{
    kept_entry *e = &kept->entries[entry];
    const double even = kept->pool->even_blocks;
    double cost = e->record.n_tokens * (1 + (even > 0 ? e->record.position / even : 0));
    double worth = kept->worth_floor + cost * (e->n_uses < USES_MAX ? e->n_uses : USES_MAX);
    kept->segments[entry / kept->n_records].worth += worth - e->worth;
    kept->worth += worth - e->worth;
    e->worth = worth;
}

void kept_touch(kv_kept *kept, uint32_t entry)
{
    kept->entries[entry].n_uses++;
    set_worth(kept, entry);
}

void kept_add(kv_kept *kept, uint32_t entry, const segment_record *record, uint32_t n_uses)
{
    kept_entry *e = &kept->entries[entry];
    hash_name name = kv_name_after(record->before, record->tokens, record->n_tokens);
    uint32_t old = kept_find(kept, name);
    if (old != KV_NONE) kept_remove(kept, old);
    CHECK(e->record.n_tokens == 0);
    *e = (kept_entry){.record = *record, .name = name, .n_uses = n_uses};
    e->near_hash = kv_name_near(record->before, record->tokens[0]);
    uint32_t *bucket = &kept->names[name.low & (kept->n_buckets - 1)];
    e->next_name = *bucket;
    *bucket = entry;
    bucket = &kept->near[e->near_hash & (kept->n_buckets - 1)];
    e->next_near = *bucket;
    *bucket = entry;
    kept->n_entries++;
    set_worth(kept, entry);
}

void kept_remove(kv_kept *kept, uint32_t entry)
{
    kept_entry *e = &kept->entries[entry];
    CHECK(e->record.n_tokens > 0);
    uint32_t *at = &kept->names[e->name.low & (kept->n_buckets - 1)];
    while (*at != entry) at = &kept->entries[*at].next_name;
    *at = e->next_name;
    at = &kept->near[e->near_hash & (kept->n_buckets - 1)];
    while (*at != entry) at = &kept->entries[*at].next_near;
    *at = e->next_near;
    kept->segments[entry / kept->n_records].worth -= e->worth;
    kept->worth -= e->worth;
    kept->n_entries--;
    e->record.n_tokens = 0;
    e->worth = 0;
}

uint32_t kept_cheapest(const kv_kept *kept, uint32_t but)
{
    uint32_t best = KV_NONE;
    for (uint32_t i = 0; i < kept->n_segments_max; i++) {
        const kept_segment *s = &kept->segments[i];
        if (s->number == 0 || i == but) continue;
        const kept_segment *b = best == KV_NONE ? s : &kept->segments[best];
        if (best == KV_NONE || s->worth < b->worth ||
            (s->worth <= b->worth && s->number < b->number))
            best = i;
    }
    return best;
}
