/* disk_read_state.c - finds the furthest place of a prompt that has a state and pages in memory or
 * on disk, and reads that state.
 *
 * Pages behind the last state are not read: they are computed again on the way from it. */
#include "cache/disk.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"

/* Computing this many tokens is as fast as reading them and a state. */
enum { FETCH_TOKENS_MIN = 8 };

/* ---- what there is ---- */

/* How far a prompt was followed: to the end of a full block, or nothing yet. */
typedef struct {
    uint32_t at;      /* tokens so far */
    hash_name name;   /* of them */
    uint32_t parent;  /* the block, while it and all before it are in memory */
    bool in_memory;
} place;

static uint32_t further(const kv_pool *pool, uint64_t tenant, const place *p,
                        const int32_t *tokens, uint32_t n, bool *is_on_disk)
{
    const kv_disk *disk = pool->listener_user;
    uint32_t found = 0;
    uint32_t state = p->in_memory ? kv_state_find(pool, tenant, p->parent, tokens, n) : KV_NONE;
    if (state != KV_NONE) found = pool->states.all[state].n_tokens;
    state = disk_state_find(disk, p->name, tokens, n);
    *is_on_disk = state != KV_NONE && disk->states[state].head.n_tokens > found &&
                  disk->states[state].head.n_tokens / KERNEL_PAGE == p->at / KERNEL_PAGE;
    return *is_on_disk ? disk->states[state].head.n_tokens : found;
}

/* The furthest state in the block after a place, which tokens [n] begin, of those for whose tokens
 * there are pages.  *is_missing: something of it is not in memory.  False: none. */
static bool state_after(const kv_pool *pool, uint64_t tenant, const place *p,
                        const int32_t *tokens, uint32_t n, disk_fetch *out, bool *is_missing)
{
    const kv_disk *disk = pool->listener_user;
    uint32_t n_memory = 0, n_disk = 0, entry = KV_NONE;
    uint32_t most = n < KERNEL_PAGE ? n : KERNEL_PAGE - 1;
    bool is_on_disk;
    if (further(pool, tenant, p, tokens, most, &is_on_disk) == 0) return false;
    if (p->in_memory) kv_tree_near(pool, tenant, p->parent, tokens, most, &n_memory);
    if (n_memory < most) entry = disk_near(disk, p->name, tokens, most, &n_disk);
    most = n_memory > n_disk ? n_memory : n_disk;
    const uint32_t found = further(pool, tenant, p, tokens, most, &is_on_disk);
    if (found == 0) return false;
    const uint32_t n_tail = found % KERNEL_PAGE;
    const bool has_tail = n_tail <= n_memory;
    *out = (disk_fetch){.name = has_tail ? p->name : disk->entries[entry].name,
                        .tenant = tenant, .n_tokens = found, .has_tail = has_tail};
    memcpy(out->tail, tokens, n_tail * sizeof *tokens);
    *is_missing = is_on_disk || !has_tail || !p->in_memory;
    return true;
}

/* Follow tokens [KERNEL_PAGE]; false: neither memory nor the disk has them. */
static bool follow(const kv_pool *pool, uint64_t tenant, const int32_t *tokens, place *p)
{
    const kv_disk *disk = pool->listener_user;
    const hash_name next = kv_name_after(p->name, tokens, KERNEL_PAGE);
    if (p->in_memory) p->parent = kv_tree_full(pool, tenant, p->parent, tokens);
    p->in_memory = p->in_memory && p->parent != KV_NONE;
    const uint32_t entry = p->in_memory ? KV_NONE : disk_find(disk, next);
    p->name = next;
    p->at += KERNEL_PAGE;
    return p->in_memory || (entry != KV_NONE && !memcmp(disk->entries[entry].record.tokens, tokens,
                                                        sizeof(int32_t) * KERNEL_PAGE));
}

bool disk_find_state(const kv_pool *pool, uint64_t tenant, const int32_t *tokens, uint32_t n,
                     uint32_t n_held, disk_fetch *out)
{
    place p = {0, kv_name_root(pool, tenant), KV_NONE, true};
    bool is_missing = false;
    out->n_tokens = 0;
    do state_after(pool, tenant, &p, tokens + p.at, n - p.at, out, &is_missing);
    while (n - p.at >= KERNEL_PAGE && follow(pool, tenant, tokens + p.at, &p));
    return is_missing && out->n_tokens >= n_held + FETCH_TOKENS_MIN;
}

/* ---- loading ---- */

/* With the lock: the furthest state on disk for what the reader's sequence holds; its place in the
 * timeline is after *parent.  KV_NONE: memory has one that is as far, or there is none. */
static uint32_t find_last(const kv_disk *disk, const disk_fetch *fetch, uint32_t *parent)
{
    const kv_pool *pool = disk->pool;
    const kv_sequence *seq = disk->sequence;
    const uint32_t n_held = seq->n_tokens / KERNEL_PAGE, n_last = fetch->n_tokens / KERNEL_PAGE;
    const bool has_tail = n_held >= n_last && (fetch->has_tail || seq->n_tokens >= fetch->n_tokens);
    for (uint32_t i = (n_held < n_last ? n_held : n_last) + 1; i-- > 0;) {
        const int32_t *tokens = i == n_last ? fetch->tail : NULL;
        uint32_t n = i == n_last && has_tail ? fetch->n_tokens % KERNEL_PAGE : 0;
        if (i < n_held && i < n_last) {
            tokens = pool->blocks[seq->blocks[i]].tokens;
            n = KERNEL_PAGE - 1;
        }
        place p = {i * KERNEL_PAGE, kv_name_root(pool, fetch->tenant), KV_NONE, true};
        if (i > 0) p.parent = seq->blocks[i - 1], p.name = pool->blocks[p.parent].name;
        bool is_on_disk;
        if (further(pool, fetch->tenant, &p, tokens, n, &is_on_disk) == 0) continue;
        *parent = p.parent;
        return is_on_disk ? disk_state_find(disk, p.name, tokens, n) : KV_NONE;
    }
    return KV_NONE;
}

static bool read_file(const kv_disk *disk, const state_head *head, const char *path, uint8_t *to)
{
    uint64_t hash = 0;
    bool is_good = true;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return false;
    for (size_t at = 0; is_good && at < head->bytes; at += STATE_FILE_PIECE_BYTES) {
        const size_t left = head->bytes - at;
        const size_t n = left < STATE_FILE_PIECE_BYTES ? left : STATE_FILE_PIECE_BYTES;
        is_good = file_read_at(fd, to + at, n, STATE_FILE_HEAD_BYTES + at) == n &&
                  !atomic_load(&disk->closing);
        hash = state_file_hash(to + at, n, hash);
    }
    close(fd);
    return is_good && hash == head->hash;
}

/* With the lock: it is as it was written, and found from now on. */
static void add(kv_disk *disk, const state_head *head, uint32_t state, uint32_t parent)
{
    kv_state_add(disk->pool, state, head->tenant, parent, head->n_tokens, head->tail, false);
    disk->n_states_loaded++;
}

/* With the lock: it is not.  False: it was removed meanwhile, which is no damage. */
static bool forget(kv_disk *disk, const state_head *head)
{
    const uint32_t n_tail = state_head_tail(head);
    const uint32_t at = disk_state_find(disk, head->before, head->tail, n_tail);
    if (at == KV_NONE || disk->states[at].head.number != head->number) return false;
    disk_state_remove(disk, at);
    disk->n_states_damaged++;
    return true;
}

/* Try one state.  True: no other is needed. */
static bool load(kv_disk *disk, const disk_fetch *fetch)
{
    char path[DISK_PATH_MAX];
    kv_pool *pool = disk->pool;
    uint32_t parent = KV_NONE, state = KV_NONE;
    state_head head;
    pthread_mutex_lock(&pool->lock);
    const uint32_t at = find_last(disk, fetch, &parent);
    if (at != KV_NONE) {
        head = disk->states[at].head;
        state = kv_state_take(pool);
    }
    pthread_mutex_unlock(&pool->lock);
    if (state == KV_NONE) return true;
    disk_state_path(disk, head.number, path);
    /* Nobody else reads or writes a state that was only taken. */
    const bool is_good = read_file(disk, &head, path, (uint8_t *)kv_state_at(pool, state));
    const bool is_over = is_good || atomic_load(&disk->closing);
    bool is_damaged = false;
    pthread_mutex_lock(&pool->lock);
    if (is_good)
        add(disk, &head, state, parent);
    else if (!is_over)
        is_damaged = forget(disk, &head);
    kv_state_let_go(pool, state);
    pthread_mutex_unlock(&pool->lock);
    if (!is_damaged) return is_over;
    unlink(path);
    disk_tell_damage(disk);
    return false;
}

void disk_load_state(kv_disk *disk, const disk_fetch *fetch)
{
    while (!load(disk, fetch)) continue;
}
