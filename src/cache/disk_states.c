/* disk_states.c - which states are on disk: a hash table by the block before them, their priority,
 * and the paths of their files. */
#include "cache/disk.h"

#include "base/memory.h"

enum { USES_MAX = 8, LOOK_BACK_MAX = 256 }; /* as in state.c */

void disk_state_path(const kv_disk *disk, uint64_t number, char *out)
{
    snprintf(out, DISK_PATH_MAX, "%s/%016llx.state", disk->folder, (unsigned long long)number);
}

uint64_t disk_state_bytes(const kv_disk *disk)
{
    return STATE_FILE_HEAD_BYTES + disk->pool->states.bytes;
}

int disk_states_open(kv_disk *disk)
{
    if (disk->n_states_max == 0) return CERIUM_OK;
    disk->n_state_buckets = 64;
    while (disk->n_state_buckets < 2 * disk->n_states_max) disk->n_state_buckets *= 2;
    disk->states = memory_zalloc(disk->n_states_max, sizeof *disk->states);
    disk->states_of = memory_alloc(disk->n_state_buckets * sizeof *disk->states_of);
    disk->piece = memory_alloc(STATE_FILE_PIECE_BYTES);
    if (!disk->states || !disk->states_of || !disk->piece) return CERIUM_ERR_MEMORY;
    for (uint32_t i = 0; i < disk->n_state_buckets; i++) disk->states_of[i] = KV_NONE;
    return CERIUM_OK;
}

void disk_states_close(kv_disk *disk)
{
    memory_free(disk->states);
    memory_free(disk->states_of);
    memory_free(disk->piece);
}

static uint32_t *bucket_of(const kv_disk *disk, hash_name before)
{
    return &disk->states_of[before.low & (disk->n_state_buckets - 1)];
}

uint32_t disk_state_find(const kv_disk *disk, hash_name before, const int32_t *tokens, uint32_t n)
{
    uint32_t best = KV_NONE;
    for (uint32_t at = *bucket_of(disk, before); at != KV_NONE; at = disk->states[at].next) {
        const state_head *h = &disk->states[at].head;
        const uint32_t n_tail = state_head_tail(h);
        if (!hash_name_equal(h->before, before) || n_tail > n ||
            (n_tail && memcmp(h->tail, tokens, n_tail * sizeof *tokens) != 0))
            continue;
        if (best == KV_NONE || disk->states[best].head.n_tokens < h->n_tokens) best = at;
    }
    return best;
}

/* Tokens from the state before it on the same timeline. */
static uint32_t cost_of(const kv_disk *disk, const state_head *head)
{
    hash_name before = head->before;
    uint32_t n_tail = state_head_tail(head);
    const int32_t *tail = head->tail;
    for (uint32_t i = 0; i < LOOK_BACK_MAX; i++) {
        const uint32_t most = i == 0 && n_tail ? n_tail - 1 : n_tail;
        const bool is_itself = i == 0 && n_tail == 0;
        uint32_t state = is_itself ? KV_NONE : disk_state_find(disk, before, tail, most);
        if (state != KV_NONE) return head->n_tokens - disk->states[state].head.n_tokens;
        uint32_t entry = disk_find(disk, before);
        if (entry == KV_NONE) return head->n_tokens;
        tail = disk->entries[entry].record.tokens;
        n_tail = KERNEL_PAGE - 1;
        before = disk->entries[entry].record.before;
    }
    return LOOK_BACK_MAX * KERNEL_PAGE;
}

static void set_priority(kv_disk *disk, uint32_t state)
{
    disk_state *x = &disk->states[state];
    const uint32_t n_uses = x->n_uses < USES_MAX ? x->n_uses : USES_MAX;
    x->priority = disk->states_floor + (double)cost_of(disk, &x->head) * n_uses;
}

void disk_state_touch(kv_disk *disk, uint32_t state)
{
    disk->states[state].n_uses++;
    set_priority(disk, state);
}

void disk_state_add(kv_disk *disk, const state_head *head)
{
    uint32_t at = 0;
    CHECK(disk->n_states < disk->n_states_max && head->number > 0);
    while (disk->states[at].head.number) at++;
    uint32_t *bucket = bucket_of(disk, head->before);
    disk->states[at] = (disk_state){.head = *head, .n_uses = 1, .next = *bucket};
    *bucket = at;
    disk->n_states++;
    set_priority(disk, at);
}

void disk_state_remove(kv_disk *disk, uint32_t state)
{
    disk_state *x = &disk->states[state];
    CHECK(x->head.number > 0);
    uint32_t *at = bucket_of(disk, x->head.before);
    while (*at != state) at = &disk->states[*at].next;
    *at = x->next;
    x->head.number = 0;
    disk->n_states--;
}

/* Its block has gone from the disk, so nobody finds it after a restart. */
static bool is_orphan(const kv_disk *disk, const disk_state *x)
{
    return x->head.n_tokens >= KERNEL_PAGE && disk_find(disk, x->head.before) == KV_NONE;
}

uint32_t disk_state_cheapest(const kv_disk *disk)
{
    uint32_t best = KV_NONE;
    bool best_is_orphan = false;
    for (uint32_t i = 0; i < disk->n_states_max; i++) {
        const disk_state *x = &disk->states[i];
        if (x->head.number == 0) continue;
        const bool is = is_orphan(disk, x);
        const disk_state *b = best == KV_NONE ? x : &disk->states[best];
        const bool goes_first = is != best_is_orphan ? is
                                : x->priority != b->priority ? x->priority < b->priority
                                                             : x->head.number < b->head.number;
        if (best == KV_NONE || goes_first) best = i, best_is_orphan = is;
    }
    return best;
}
