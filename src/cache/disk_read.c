/* disk_read.c - finds how much of a prompt is on disk, and loads it on a thread.
 *
 * The thread's sequence adopts the part of the timeline that is in memory, then reads the pages of
 * the following blocks.  Pages of windows are read only if a token after the last block sees them.
 * */
#include "cache/disk.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"

/* If only this many tokens of an unfinished block are on disk, computing them is as fast as
 * loading. */
enum { FETCH_TOKENS_MIN = 8 };

/* ---- what there is ---- */

/* The last block of tokens [n] that is on disk and not in memory. False: none. */
static bool find_last(const kv_pool *pool, uint64_t tenant, const int32_t *tokens, uint32_t n,
                      hash_name *last)
{
    const kv_disk *disk = pool->listener_user;
    hash_name name = kv_name_root(pool, tenant);
    uint32_t at = 0, parent = KV_NONE, n_near = 0, n_common;
    bool in_memory = true, is_found = false;
    for (; n - at >= KERNEL_PAGE; at += KERNEL_PAGE) {
        uint32_t block = in_memory ? kv_tree_full(pool, tenant, parent, tokens + at) : KV_NONE;
        in_memory = block != KV_NONE;
        hash_name next = kv_name_after(name, tokens + at, KERNEL_PAGE);
        uint32_t entry = in_memory ? KV_NONE : disk_find(disk, next);
        if (!in_memory && (entry == KV_NONE || memcmp(disk->entries[entry].record.tokens,
                                                      tokens + at, sizeof(int32_t) * KERNEL_PAGE)))
            break;
        is_found = !in_memory;
        if (in_memory) parent = block;
        name = *last = next;
    }
    if (!is_found) kv_tree_near(pool, tenant, parent, tokens + at, n - at, &n_near);
    uint32_t entry = disk_near(disk, name, tokens + at, n - at, &n_common);
    if (entry == KV_NONE || n_common < n_near + (is_found ? 1 : FETCH_TOKENS_MIN)) return is_found;
    *last = disk->entries[entry].name;
    return true;
}

/* What to read of tokens [n], of which n_held are held. False: nothing. */
static bool find_missing(const kv_pool *pool, uint64_t tenant, const int32_t *tokens, uint32_t n,
                         uint32_t n_held, disk_fetch *out)
{
    const kv_disk *disk = pool->listener_user;
    *out = (disk_fetch){.tenant = tenant};
    if (disk->n_entries == 0) return false;
    if (disk->n_states_max) return disk_find_state(pool, tenant, tokens, n, n_held, out);
    return find_last(pool, tenant, tokens, n, &out->name);
}

uint64_t kv_pool_fetch(kv_pool *pool, uint64_t tenant, const int32_t *tokens, uint32_t n,
                       uint32_t n_held)
{
    uint64_t ticket = 0;
    kv_disk *disk = pool->listener_user;
    if (!disk) return 0;
    pthread_mutex_lock(&pool->lock);
    disk_fetch found;
    disk->n_lookups++;
    bool has_place = disk->n_fetches - disk->n_fetched < DISK_FETCHES_MAX;
    if (has_place && find_missing(pool, tenant, tokens, n, n_held, &found)) {
        disk->fetches[disk->n_fetches++ % DISK_FETCHES_MAX] = found;
        ticket = disk->n_fetches;
        disk->n_hits++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (ticket) thread_bell_ring(&disk->reader_bell);
    return ticket;
}

bool kv_pool_is_fetched(kv_pool *pool, uint64_t ticket)
{
    const kv_disk *disk = pool->listener_user;
    if (ticket == 0 || !disk) return true;
    pthread_mutex_lock(&pool->lock);
    bool is_over = disk->n_fetched >= ticket;
    pthread_mutex_unlock(&pool->lock);
    return is_over;
}

/* ---- loading ---- */

/* With the lock: list the names of the blocks to read, last one first, and hold the blocks before
 * them.  Returns their number. */
static uint32_t find_path(kv_disk *disk, const disk_fetch *fetch)
{
    const kv_pool *pool = disk->pool;
    const hash_name root = kv_name_root(pool, fetch->tenant);
    const uint32_t n_max = kv_blocks_for(pool->context_tokens);
    hash_name name = fetch->name;
    uint32_t n = 0, last = KV_NONE, n_tokens = 0;
    while (!hash_name_equal(name, root) && (last = kv_tree_named(pool, name)) == KV_NONE) {
        uint32_t entry = disk_find(disk, name);
        if (entry == KV_NONE || n == n_max) return 0;
        const segment_record *r = &disk->entries[entry].record;
        if (n > 0 && r->n_tokens < KERNEL_PAGE) return 0;
        n_tokens += r->n_tokens;
        disk->path[n++] = name;
        name = r->before;
    }
    uint32_t n_before = last == KV_NONE ? 0 : pool->blocks[last].position + 1;
    if (n == 0 && !fetch->n_tokens) return 0; /* it is in memory, and no state is wanted */
    if (n_before * KERNEL_PAGE + n_tokens > pool->context_tokens) return 0;
    kv_sequence_follow(disk->sequence, fetch->tenant, last, n_before * KERNEL_PAGE + n_tokens);
    return n;
}

/* Groups whose page of the sequence's next block is wanted. */
static uint32_t wanted_groups(const kv_sequence *seq)
{
    uint32_t groups = 0;
    for (uint32_t g = 0; g < seq->pool->n_groups; g++)
        if (!seq->pool->groups[g].window || seq->n_blocks >= seq->first[g]) groups |= 1u << g;
    return groups;
}

static void close_file(kv_disk *disk)
{
    if (disk->read_fd >= 0) close(disk->read_fd);
    disk->read_fd = -1;
}

static bool open_file(kv_disk *disk, uint64_t number)
{
    char path[DISK_PATH_MAX];
    if (disk->read_fd >= 0 && disk->read_number == number) return true;
    close_file(disk);
    disk_path(disk, number, path);
    disk->read_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    disk->read_number = number;
    return disk->read_fd >= 0;
}

/* Read a record's pages of these groups into the pages of the sequence's last block. */
static bool read_pages(kv_disk *disk, uint64_t number, const segment_record *r, uint32_t groups)
{
    kv_pool *pool = disk->pool;
    kv_sequence *seq = disk->sequence;
    uint32_t block = seq->blocks[seq->n_blocks - 1];
    uint64_t at = r->at;
    if (!open_file(disk, number)) return false;
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        kv_group *group = &pool->groups[g];
        if (!(r->groups >> g & 1)) continue;
        if (groups >> g & 1) {
            /* Only this thread reads or writes the pages of a private block. */
            uint8_t *to = kv_group_page(group, block);
            if (file_read_at(disk->read_fd, to, group->page_bytes, at) != group->page_bytes ||
                hash_bytes(to, group->page_bytes, 0) != r->hashes[g])
                return false;
        }
        at += group->page_bytes;
    }
    return true;
}

/* Append a block from disk to the sequence.  False: it is not there, there is no free block, or
 * other work goes first. */
static bool load(kv_disk *disk, hash_name name, bool is_asked)
{
    kv_sequence *seq = disk->sequence;
    segment_record record;
    uint64_t number = 0;
    uint32_t groups = 0;
    pthread_mutex_lock(&disk->pool->lock);
    uint32_t entry = disk_find(disk, name);
    bool is_good = entry != KV_NONE && (is_asked || disk_warm_continues(disk));
    if (is_good) {
        record = disk->entries[entry].record;
        number = disk->segments[entry / disk->n_records].number;
        groups = wanted_groups(seq) & record.groups;
        is_good = kv_sequence_extend(seq, groups);
        if (!is_asked) disk->warm_left--;
    }
    pthread_mutex_unlock(&disk->pool->lock);
    if (!is_good) return false;
    is_good = read_pages(disk, number, &record, groups);
    pthread_mutex_lock(&disk->pool->lock);
    entry = disk_find(disk, name);
    /* The file was recycled meanwhile: that is not damage. */
    bool is_damaged = !is_good && entry != KV_NONE &&
                      disk->segments[entry / disk->n_records].number == number;
    if (is_good) {
        kv_sequence_add(seq, record.tokens, record.n_tokens);
        disk->n_loaded++;
    } else {
        kv_sequence_drop(seq, seq->n_blocks - 1);
        if (is_damaged) disk_remove(disk, entry);
        disk->n_damaged += is_damaged;
    }
    pthread_mutex_unlock(&disk->pool->lock);
    if (is_damaged) disk_tell_damage(disk);
    return is_good;
}

/* Where the pages of an entry are; number is 0 when it is gone. */
typedef struct {
    uint64_t number, at, bytes;
} file_range;

static file_range find_pages(kv_disk *disk, hash_name name)
{
    file_range p = {0};
    pthread_mutex_lock(&disk->pool->lock);
    uint32_t entry = disk_find(disk, name);
    if (entry != KV_NONE) {
        const segment_record *r = &disk->entries[entry].record;
        p.at = r->at;
        p.bytes = segment_record_pages_bytes(&disk->layout, r->groups);
        p.number = disk->segments[entry / disk->n_records].number;
    }
    pthread_mutex_unlock(&disk->pool->lock);
    return p;
}

static void announce(kv_disk *disk, const file_range *p)
{
    if (p->number && open_file(disk, p->number))
        posix_fadvise(disk->read_fd, (off_t)p->at, (off_t)p->bytes, POSIX_FADV_WILLNEED);
}

/* Advise the system which pages [n] will be read, so that the disk reads ahead.  Pages of one
 * timeline mostly follow each other, and a call costs as much as hashing 16 KB. */
static void read_ahead(kv_disk *disk, uint32_t n)
{
    file_range together = {0};
    while (n-- > 0) {
        file_range p = find_pages(disk, disk->path[n]);
        if (p.number == together.number && p.at == together.at + together.bytes) {
            together.bytes += p.bytes;
            continue;
        }
        announce(disk, &together);
        together = p;
    }
    announce(disk, &together);
}

static void run(kv_disk *disk, const disk_fetch *fetch, bool is_asked)
{
    pthread_mutex_lock(&disk->pool->lock);
    uint32_t n = find_path(disk, fetch);
    pthread_mutex_unlock(&disk->pool->lock);
    read_ahead(disk, n);
    while (n > 0 && !atomic_load(&disk->closing) && load(disk, disk->path[n - 1], is_asked)) n--;
    close_file(disk); /* it may be recycled */
    if (fetch->n_tokens) disk_load_state(disk, fetch);
    pthread_mutex_lock(&disk->pool->lock);
    kv_sequence_drop(disk->sequence, 0);
    disk->n_fetched += is_asked;
    pthread_mutex_unlock(&disk->pool->lock);
    if (is_asked && disk->with.loaded) disk->with.loaded(disk->with.user);
}

void *disk_read(void *arg)
{
    kv_disk *disk = arg;
    while (!atomic_load(&disk->closing)) {
        uint32_t seen = atomic_load(&disk->reader_bell.n_rings);
        disk_fetch fetch;
        pthread_mutex_lock(&disk->pool->lock);
        bool has_fetch = disk->n_fetched < disk->n_fetches;
        if (has_fetch) fetch = disk->fetches[disk->n_fetched % DISK_FETCHES_MAX];
        bool warms = !has_fetch && disk_warm_next(disk, &fetch);
        pthread_mutex_unlock(&disk->pool->lock);
        if (has_fetch || warms)
            run(disk, &fetch, has_fetch);
        else
            thread_bell_wait(&disk->reader_bell, seen);
    }
    return NULL;
}
