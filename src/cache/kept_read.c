/* kept_read.c - what the disk has of a prompt, and the thread that loads it.
 *
 * The thread's sequence follows the timeline as far as memory has it, and goes on with blocks whose
 * pages it reads.  Pages of windows are read only where a token after the last block sees them. */
#include "cache/kept.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"

/* Fewer tokens of an unfinished block, and nothing else, are computed as fast as it is found. */
enum { FETCH_TOKENS_MIN = 8 };

/* ---- what there is ---- */

/* The last block of tokens [n] that is on disk and not in memory. False: none. */
static bool find_last(const kv_pool *pool, uint64_t tenant, const int32_t *tokens, uint32_t n,
                      hash_name *last)
{
    const kv_kept *kept = pool->listener_user;
    hash_name name = kv_name_root(pool, tenant);
    uint32_t at = 0, parent = KV_NONE, n_near = 0, n_common;
    bool in_memory = true, is_found = false;
    for (; n - at >= KERNEL_PAGE; at += KERNEL_PAGE) {
        uint32_t block = in_memory ? kv_tree_full(pool, tenant, parent, tokens + at) : KV_NONE;
        in_memory = block != KV_NONE;
        hash_name next = kv_name_after(name, tokens + at, KERNEL_PAGE);
        uint32_t entry = in_memory ? KV_NONE : kept_find(kept, next);
        if (!in_memory && (entry == KV_NONE || memcmp(kept->entries[entry].record.tokens,
                                                      tokens + at, sizeof(int32_t) * KERNEL_PAGE)))
            break;
        is_found = !in_memory;
        if (in_memory) parent = block;
        name = *last = next;
    }
    if (!is_found) kv_tree_near(pool, tenant, parent, tokens + at, n - at, &n_near);
    uint32_t entry = kept_near(kept, name, tokens + at, n - at, &n_common);
    if (entry == KV_NONE || n_common < n_near + (is_found ? 1 : FETCH_TOKENS_MIN)) return is_found;
    *last = kept->entries[entry].name;
    return true;
}

uint64_t kv_pool_fetch(kv_pool *pool, uint64_t tenant, const int32_t *tokens, uint32_t n)
{
    uint64_t ticket = 0;
    kv_kept *kept = pool->listener_user;
    if (!kept) return 0;
    pthread_mutex_lock(&pool->lock);
    hash_name last;
    kept->n_lookups++;
    bool has_place = kept->n_fetches - kept->n_fetched < KEPT_FETCHES_MAX;
    if (has_place && kept->n_entries > 0 && find_last(pool, tenant, tokens, n, &last)) {
        kept->fetches[kept->n_fetches++ % KEPT_FETCHES_MAX] = (kept_fetch){last, tenant};
        ticket = kept->n_fetches;
        kept->n_hits++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (ticket) thread_bell_ring(&kept->reader_bell);
    return ticket;
}

bool kv_pool_is_fetched(kv_pool *pool, uint64_t ticket)
{
    const kv_kept *kept = pool->listener_user;
    if (ticket == 0 || !kept) return true;
    pthread_mutex_lock(&pool->lock);
    bool is_over = kept->n_fetched >= ticket;
    pthread_mutex_unlock(&pool->lock);
    return is_over;
}

/* ---- loading ---- */

/* With the lock: names of the blocks to be read, the last one first, and hold what is before them.
 * Returns how many there are. */
static uint32_t find_path(kv_kept *kept, const kept_fetch *fetch)
{
    const kv_pool *pool = kept->pool;
    const hash_name root = kv_name_root(pool, fetch->tenant);
    const uint32_t n_max = kv_blocks_for(pool->context_tokens);
    hash_name name = fetch->name;
    uint32_t n = 0, last = KV_NONE, n_tokens = 0;
    while (!hash_name_equal(name, root) && (last = kv_tree_named(pool, name)) == KV_NONE) {
        uint32_t entry = kept_find(kept, name);
        if (entry == KV_NONE || n == n_max) return 0;
        const segment_record *r = &kept->entries[entry].record;
        if (n > 0 && r->n_tokens < KERNEL_PAGE) return 0;
        n_tokens += r->n_tokens;
        kept->path[n++] = name;
        name = r->before;
    }
    uint32_t n_before = last == KV_NONE ? 0 : pool->blocks[last].position + 1;
    if (n == 0 || n_before * KERNEL_PAGE + n_tokens > pool->context_tokens) return 0;
    kv_sequence_follow(kept->sequence, fetch->tenant, last, n_before * KERNEL_PAGE + n_tokens);
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

static void close_file(kv_kept *kept)
{
    if (kept->read_fd >= 0) close(kept->read_fd);
    kept->read_fd = -1;
}

static bool open_file(kv_kept *kept, uint64_t number)
{
    char path[KEPT_PATH_MAX];
    if (kept->read_fd >= 0 && kept->read_number == number) return true;
    close_file(kept);
    kept_path(kept, number, path);
    kept->read_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    kept->read_number = number;
    return kept->read_fd >= 0;
}

/* Read a record's pages of these groups to where the sequence's last block has them. */
static bool read_pages(kv_kept *kept, uint64_t number, const segment_record *r, uint32_t groups)
{
    kv_pool *pool = kept->pool;
    kv_sequence *seq = kept->sequence;
    uint32_t block = seq->blocks[seq->n_blocks - 1];
    uint64_t at = r->at;
    if (!open_file(kept, number)) return false;
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        kv_group *group = &pool->groups[g];
        if (!(r->groups >> g & 1)) continue;
        if (groups >> g & 1) {
            /* Nobody else looks at a private block or changes its pages. */
            size_t page = group->window ? group->page_of[block] : block;
            uint8_t *to = group->pages + page * group->page_bytes;
            if (file_read_at(kept->read_fd, to, group->page_bytes, at) != group->page_bytes ||
                hash_bytes(to, group->page_bytes, 0) != r->hashes[g])
                return false;
        }
        at += group->page_bytes;
    }
    return true;
}

/* One more block of the sequence, from disk. False when it is not there, there is no place, or
 * something else goes first. */
static bool load(kv_kept *kept, hash_name name, bool is_asked)
{
    kv_sequence *seq = kept->sequence;
    segment_record record;
    uint64_t number = 0;
    uint32_t groups = 0;
    pthread_mutex_lock(&kept->pool->lock);
    uint32_t entry = kept_find(kept, name);
    bool is_good = entry != KV_NONE && (is_asked || kept_warm_goes_on(kept));
    if (is_good) {
        record = kept->entries[entry].record;
        number = kept->segments[entry / kept->n_records].number;
        groups = wanted_groups(seq) & record.groups;
        is_good = kv_sequence_extend(seq, groups);
        if (!is_asked) kept->warm_left--;
    }
    pthread_mutex_unlock(&kept->pool->lock);
    if (!is_good) return false;
    is_good = read_pages(kept, number, &record, groups);
    pthread_mutex_lock(&kept->pool->lock);
    entry = kept_find(kept, name);
    /* A file that was recycled meanwhile is no damage. */
    bool is_damaged = !is_good && entry != KV_NONE &&
                      kept->segments[entry / kept->n_records].number == number;
    if (is_good) {
        kv_sequence_add(seq, record.tokens, record.n_tokens);
        kept->n_loaded++;
    } else {
        kv_sequence_drop(seq, seq->n_blocks - 1);
        if (is_damaged) kept_remove(kept, entry);
        kept->n_damaged += is_damaged;
    }
    bool tells = is_damaged && !kept->told_damage;
    kept->told_damage |= is_damaged;
    pthread_mutex_unlock(&kept->pool->lock);
    if (tells) kept_notice(kept, "pages are damaged or cut short", "computed anew");
    return is_good;
}

/* Where the pages of an entry are; number is 0 when it is gone. */
typedef struct {
    uint64_t number, at, bytes;
} page_place;

static page_place find_pages(kv_kept *kept, hash_name name)
{
    page_place p = {0};
    pthread_mutex_lock(&kept->pool->lock);
    uint32_t entry = kept_find(kept, name);
    if (entry != KV_NONE) {
        const segment_record *r = &kept->entries[entry].record;
        p.at = r->at;
        p.bytes = segment_record_pages_bytes(&kept->layout, r->groups);
        p.number = kept->segments[entry / kept->n_records].number;
    }
    pthread_mutex_unlock(&kept->pool->lock);
    return p;
}

static void announce(kv_kept *kept, const page_place *p)
{
    if (p->number && open_file(kept, p->number))
        posix_fadvise(kept->read_fd, (off_t)p->at, (off_t)p->bytes, POSIX_FADV_WILLNEED);
}

/* Tell the system which pages [n] will be read, so that a disk works ahead of us.  Those of one
 * timeline mostly follow each other, and a call costs what hashing 16 KB does. */
static void read_ahead(kv_kept *kept, uint32_t n)
{
    page_place together = {0};
    while (n-- > 0) {
        page_place p = find_pages(kept, kept->path[n]);
        if (p.number == together.number && p.at == together.at + together.bytes) {
            together.bytes += p.bytes;
            continue;
        }
        announce(kept, &together);
        together = p;
    }
    announce(kept, &together);
}

static void run(kv_kept *kept, const kept_fetch *fetch, bool is_asked)
{
    pthread_mutex_lock(&kept->pool->lock);
    uint32_t n = find_path(kept, fetch);
    pthread_mutex_unlock(&kept->pool->lock);
    read_ahead(kept, n);
    while (n > 0 && !atomic_load(&kept->closing) && load(kept, kept->path[n - 1], is_asked)) n--;
    close_file(kept); /* it may be recycled */
    pthread_mutex_lock(&kept->pool->lock);
    kv_sequence_drop(kept->sequence, 0);
    kept->n_fetched += is_asked;
    pthread_mutex_unlock(&kept->pool->lock);
    if (is_asked && kept->with.loaded) kept->with.loaded(kept->with.user);
}

void *kept_read(void *arg)
{
    kv_kept *kept = arg;
    while (!atomic_load(&kept->closing)) {
        uint32_t seen = atomic_load(&kept->reader_bell.n_rings);
        kept_fetch fetch;
        pthread_mutex_lock(&kept->pool->lock);
        bool has_fetch = kept->n_fetched < kept->n_fetches;
        if (has_fetch) fetch = kept->fetches[kept->n_fetched % KEPT_FETCHES_MAX];
        bool warms = !has_fetch && kept_warm_next(kept, &fetch);
        pthread_mutex_unlock(&kept->pool->lock);
        if (has_fetch || warms)
            run(kept, &fetch, has_fetch);
        else
            thread_bell_wait(&kept->reader_bell, seen);
    }
    return NULL;
}
