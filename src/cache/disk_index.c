/* disk_index.c - where each block is on disk: two hash tables over entries, as the tree has over
 * blocks; the priority of segments; the paths of files. */
#include "cache/disk.h"

#include "base/memory.h"

enum { NEAR_WALK_MAX = 64, USES_MAX = 8 };

void disk_path(const kv_disk *disk, uint64_t number, char *out)
{
    snprintf(out, DISK_PATH_MAX, "%s/%016llx.kv", disk->folder, (unsigned long long)number);
}

void disk_notice(kv_disk *disk, const char *what, const char *and_then)
{
    cerium_error line; /* one clean line, as errors are */
    if (!disk->with.notice) return;
    error_set(&line, CERIUM_OK, "%.300s: %s; %s", disk->folder, what, and_then);
    disk->with.notice(disk->with.user, line.message);
}

void disk_tell_damage(kv_disk *disk)
{
    if (!disk->reported_damage)
        disk_notice(disk, "pages or states are damaged or cut short", "computed anew");
    disk->reported_damage = true; /* of the reader's thread */
}

int disk_index_open(kv_disk *disk)
{
    size_t n = (size_t)disk->n_segments_max * disk->n_records;
    if (n > KV_BLOCKS_MAX || !size_mul(n, sizeof *disk->entries, &disk->entries_bytes))
        return CERIUM_ERR_MEMORY;
    disk->n_buckets = 64;
    while (disk->n_buckets < 2 * n) disk->n_buckets *= 2;
    disk->segments = memory_zalloc(disk->n_segments_max, sizeof *disk->segments);
    disk->entries = memory_map(disk->entries_bytes);
    disk->names = memory_alloc(disk->n_buckets * sizeof *disk->names);
    disk->near = memory_alloc(disk->n_buckets * sizeof *disk->near);
    if (!disk->segments || !disk->entries || !disk->names || !disk->near) return CERIUM_ERR_MEMORY;
    for (uint32_t i = 0; i < disk->n_buckets; i++) disk->names[i] = disk->near[i] = KV_NONE;
    return CERIUM_OK;
}

void disk_index_close(kv_disk *disk)
{
    memory_free(disk->segments);
    memory_unmap(disk->entries, disk->entries_bytes);
    memory_free(disk->names);
    memory_free(disk->near);
}

uint32_t disk_find(const kv_disk *disk, hash_name name)
{
    uint32_t at = disk->names[name.low & (disk->n_buckets - 1)];
    while (at != KV_NONE && !hash_name_equal(disk->entries[at].name, name))
        at = disk->entries[at].next_name;
    return at;
}

uint32_t disk_near(const kv_disk *disk, hash_name before, const int32_t *tokens, uint32_t n,
                   uint32_t *n_common)
{
    uint32_t best = KV_NONE;
    *n_common = 0;
    if (n == 0) return KV_NONE;
    uint64_t hash = kv_name_near(before, tokens[0]);
    uint32_t at = disk->near[hash & (disk->n_buckets - 1)];
    for (uint32_t i = 0; at != KV_NONE && i < NEAR_WALK_MAX; i++) {
        const segment_record *r = &disk->entries[at].record;
        if (disk->entries[at].near_hash == hash && hash_name_equal(r->before, before)) {
            uint32_t same = 0, limit = n < r->n_tokens ? n : r->n_tokens;
            while (same < limit && r->tokens[same] == tokens[same]) same++;
            if (same > *n_common) best = at, *n_common = same;
        }
        at = disk->entries[at].next_near;
    }
    return best;
}

/* As in evict.c: later tokens of a timeline cost more to compute. */
static void set_priority(kv_disk *disk, uint32_t entry)
{
    disk_entry *e = &disk->entries[entry];
    const double even = disk->pool->even_blocks;
    double cost = e->record.n_tokens * (1 + (even > 0 ? e->record.position / even : 0));
    double priority = disk->priority_floor + cost * (e->n_uses < USES_MAX ? e->n_uses : USES_MAX);
    disk->segments[entry / disk->n_records].priority += priority - e->priority;
    disk->priority += priority - e->priority;
    e->priority = priority;
}

void disk_touch(kv_disk *disk, uint32_t entry)
{
    disk->entries[entry].n_uses++;
    set_priority(disk, entry);
}

void disk_add(kv_disk *disk, uint32_t entry, const segment_record *record, uint32_t n_uses)
{
    disk_entry *e = &disk->entries[entry];
    hash_name name = kv_name_after(record->before, record->tokens, record->n_tokens);
    uint32_t old = disk_find(disk, name);
    if (old != KV_NONE) disk_remove(disk, old);
    CHECK(e->record.n_tokens == 0);
    *e = (disk_entry){.record = *record, .name = name, .n_uses = n_uses};
    e->near_hash = kv_name_near(record->before, record->tokens[0]);
    uint32_t *bucket = &disk->names[name.low & (disk->n_buckets - 1)];
    e->next_name = *bucket;
    *bucket = entry;
    bucket = &disk->near[e->near_hash & (disk->n_buckets - 1)];
    e->next_near = *bucket;
    *bucket = entry;
    disk->n_entries++;
    set_priority(disk, entry);
}

void disk_remove(kv_disk *disk, uint32_t entry)
{
    disk_entry *e = &disk->entries[entry];
    CHECK(e->record.n_tokens > 0);
    uint32_t *at = &disk->names[e->name.low & (disk->n_buckets - 1)];
    while (*at != entry) at = &disk->entries[*at].next_name;
    *at = e->next_name;
    at = &disk->near[e->near_hash & (disk->n_buckets - 1)];
    while (*at != entry) at = &disk->entries[*at].next_near;
    *at = e->next_near;
    disk->segments[entry / disk->n_records].priority -= e->priority;
    disk->priority -= e->priority;
    disk->n_entries--;
    e->record.n_tokens = 0;
    e->priority = 0;
}

uint32_t disk_cheapest(const kv_disk *disk, uint32_t but)
{
    uint32_t best = KV_NONE;
    for (uint32_t i = 0; i < disk->n_segments_max; i++) {
        const disk_segment *s = &disk->segments[i];
        if (s->number == 0 || i == but) continue;
        const disk_segment *b = best == KV_NONE ? s : &disk->segments[best];
        if (best == KV_NONE || s->priority < b->priority ||
            (s->priority <= b->priority && s->number < b->number))
            best = i;
    }
    return best;
}
