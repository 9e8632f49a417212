/* live.c - the mapped file: who owns which part of it, and how it comes to be. */
#include "store/live.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/memory.h"

enum {
    VERSION = 1,
    PROBES = 64,    /* places in which a tenant may be */
    INIT_LOCK = 0,  /* bytes of the file that are locked, none of which is read or written so */
    SLOT_LOCK = 1,
};

typedef struct {
    char magic[8];
    uint32_t version, file_bytes;
    uint64_t id;   /* of this file, random */
    char boot[40]; /* since which boot the times in it count */
} head;

/* A place: one cache line. */
typedef struct {
    _Atomic uint64_t tenant; /* + 1; 0 = free */
    bucket buckets[LIVE_BUCKETS];
    uint64_t unused[3];
} place;
_Static_assert(sizeof(place) == 64, "it is part of a file");

/* Of one server.  The two ends have a cache line each: one thread writes each. */
typedef struct {
    _Atomic uint64_t end;   /* number of the next record */
    uint64_t unused[7];
    _Atomic uint64_t begin; /* of the oldest one that is not in the database */
    uint64_t unused_too[7];
    live_record records[LIVE_JOURNAL_MAX];
} journal;

typedef struct {
    head head;
    char pad[4096 - sizeof(head)];
    place places[LIVE_TENANTS_MAX];
    _Atomic uint32_t streams[LIVE_SERVERS_MAX][LIVE_TENANTS_MAX];
    journal journals[LIVE_SERVERS_MAX];
} layout;
_Static_assert(sizeof(layout) < UINT32_MAX, "its size is told in the head");

struct live {
    layout *map;
    int fd;            /* -1: memory of our own */
    int slot;
    uint32_t reserved; /* records that will come; event loop */
    char *path;
};

static const char magic[8] = "ceriumL";

/* ---- opening ---- */

/* Locks of the open file, not of the process: two servers in one process exclude each other, and
 * closing another descriptor of the file drops nothing. */
static bool lock_byte(int fd, off_t at, bool waits)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    int done;
    do done = fcntl(fd, waits ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
    while (done && errno == EINTR);
    return done == 0;
}

static void unlock_byte(int fd, off_t at)
{
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    (void)fcntl(fd, F_OFD_SETLK, &lock);
}

static void read_boot(char out[40])
{
    memset(out, 0, 40);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t n = read(fd, out, 36);
    if (n < 36) memset(out, 0, 40);
    close(fd);
}

/* Whether another server has a slot; then the file may not be made anew. */
static bool in_use(int fd)
{
    for (int i = 0; i < (int)LIVE_SERVERS_MAX; i++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = SLOT_LOCK + i,
                             .l_len = 1};
        if (!fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK) return true;
    }
    return false;
}

static bool is_ours(const head *h)
{
    return !memcmp(h->magic, magic, sizeof magic) && h->version == VERSION &&
           h->file_bytes == sizeof(layout);
}

/* Another boot has another clock: buckets begin full, and who streamed is gone. */
static void begin_boot(layout *map, const char boot[40])
{
    for (size_t i = 0; i < LIVE_TENANTS_MAX; i++)
        for (int k = 0; k < LIVE_BUCKETS; k++) atomic_store(&map->places[i].buckets[k], 0);
    for (size_t i = 0; i < LIVE_SERVERS_MAX; i++)
        for (size_t k = 0; k < LIVE_TENANTS_MAX; k++) atomic_store(&map->streams[i][k], 0);
    memcpy(map->head.boot, boot, sizeof map->head.boot);
}

static int io_error(const live *l, const char *doing, int code, cerium_error *err)
{
    return error_set(err, CERIUM_ERR_IO, "%s: cannot %s: %s", l->path, doing,
                     code == ENOSPC ? "the disk is full; make room, and try again"
                                    : strerror(code));
}

/* Of the right size, with blocks on the disk: a page without one would kill us when it is
 * written. */
static int size_file(live *l, cerium_error *err)
{
    struct stat st;
    head h = {{0}, 0, 0, 0, {0}};
    if (fstat(l->fd, &st)) return io_error(l, "open it", errno, err);
    bool old = st.st_size > 0 && pread(l->fd, &h, sizeof h, 0) == (ssize_t)sizeof h;
    if (old && is_ours(&h)) return CERIUM_OK;
    if (st.st_size > 0 && in_use(l->fd))
        return error_set(err, CERIUM_ERR_FORMAT, "%s: a server of another version has it open; "
                         "end that one first", l->path);
    int code = ftruncate(l->fd, 0) ? errno : posix_fallocate(l->fd, 0, sizeof(layout));
    if (code) {
        (void)!ftruncate(l->fd, 0);
        return io_error(l, "make it", code, err);
    }
    return CERIUM_OK;
}

static int map_file(live *l, cerium_error *err)
{
    void *map = mmap(NULL, sizeof(layout), PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0);
    if (map == MAP_FAILED) return io_error(l, "map it", errno, err);
    l->map = map;
    head *h = &l->map->head;
    char boot[40];
    read_boot(boot);
    if (!is_ours(h)) { /* all of it is zero */
        if (getrandom(&h->id, sizeof h->id, 0) != sizeof h->id)
            return io_error(l, "make it", errno, err);
        h->version = VERSION;
        h->file_bytes = sizeof(layout);
        memcpy(h->boot, boot, sizeof boot);
        memcpy(h->magic, magic, sizeof magic); /* last: a head that is cut short is none */
    }
    if (memcmp(h->boot, boot, sizeof boot) != 0) begin_boot(l->map, boot);
    return CERIUM_OK;
}

static void clear_streams(live *l, int slot)
{
    for (size_t i = 0; i < LIVE_TENANTS_MAX; i++) atomic_store(&l->map->streams[slot][i], 0);
}

static int take_slot(live *l, cerium_error *err)
{
    for (l->slot = 0; l->slot < (int)LIVE_SERVERS_MAX; l->slot++)
        if (lock_byte(l->fd, SLOT_LOCK + l->slot, false)) {
            clear_streams(l, l->slot);
            return CERIUM_OK;
        }
    return error_set(err, CERIUM_ERR_CAPACITY, "%s: %u servers share this store; no more can",
                     l->path, LIVE_SERVERS_MAX);
}

static int open_file(live *l, cerium_error *err)
{
    l->fd = open(l->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (l->fd < 0) return io_error(l, "open it", errno, err);
    if (!lock_byte(l->fd, INIT_LOCK, true)) return io_error(l, "lock it", errno, err);
    int status = size_file(l, err);
    if (!status) status = map_file(l, err);
    unlock_byte(l->fd, INIT_LOCK);
    return status ? status : take_slot(l, err);
}

int live_open(live **out, const char *path, cerium_error *err)
{
    CHECK(out);
    live *l = memory_zalloc(1, sizeof *l);
    if (!l) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the limits");
    l->fd = -1;
    int status = CERIUM_OK;
    if (path) {
        l->path = memory_copy(path, strlen(path));
        status = l->path ? open_file(l, err)
                         : error_set(err, CERIUM_ERR_MEMORY, "no memory for the limits");
    } else {
        l->map = memory_map(sizeof(layout));
        if (!l->map) status = error_set(err, CERIUM_ERR_MEMORY, "no memory for the limits");
    }
    if (status)
        live_close(&l);
    else
        *out = l;
    return status;
}

void live_close(live **out)
{
    if (!out || !*out) return;
    live *l = *out;
    if (l->fd < 0) {
        if (l->map) memory_unmap(l->map, sizeof(layout));
    } else {
        if (l->map && l->slot < (int)LIVE_SERVERS_MAX) clear_streams(l, l->slot);
        if (l->map) munmap(l->map, sizeof(layout));
        close(l->fd); /* the lock on the slot goes with it */
    }
    memory_free(l->path);
    memory_free(l);
    *out = NULL;
}

/* ---- limits ---- */

/* Nobody misses it: every bucket is full, and it streams nowhere. */
static bool is_idle(const live *l, uint32_t at, uint64_t now_ns)
{
    for (int k = 0; k < LIVE_BUCKETS; k++)
        if (bucket_missing(atomic_load(&l->map->places[at].buckets[k]), now_ns)) return false;
    return live_streams(l, at) == 0;
}

static uint64_t debt(const live *l, uint32_t at, uint64_t now_ns)
{
    uint64_t most = 0;
    for (int k = 0; k < LIVE_BUCKETS; k++) {
        uint64_t one = bucket_missing(atomic_load(&l->map->places[at].buckets[k]), now_ns);
        if (one > most) most = one;
    }
    return live_streams(l, at) ? UINT64_MAX : most;
}

static bool claim(live *l, uint32_t at, uint64_t mine, uint64_t was)
{
    place *p = &l->map->places[at];
    if (!atomic_compare_exchange_strong(&p->tenant, &was, mine)) return was == mine;
    for (int k = 0; k < LIVE_BUCKETS; k++) atomic_store(&p->buckets[k], 0);
    return true;
}

uint32_t live_place(live *l, uint64_t tenant, uint32_t hint, uint64_t now_ns)
{
    uint64_t mine = tenant + 1;
    uint32_t first = (uint32_t)hash_u64(tenant, 0) & (LIVE_TENANTS_MAX - 1);
    if (atomic_load(&l->map->places[hint & (LIVE_TENANTS_MAX - 1)].tenant) == mine) return hint;
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t at = (first + i) & (LIVE_TENANTS_MAX - 1);
        if (atomic_load(&l->map->places[at].tenant) == mine) return at;
    }
    uint32_t best = first;
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t at = (first + i) & (LIVE_TENANTS_MAX - 1);
        uint64_t was = atomic_load(&l->map->places[at].tenant);
        if ((!was || is_idle(l, at, now_ns)) && claim(l, at, mine, was)) return at;
        if (debt(l, at, now_ns) < debt(l, best, now_ns)) best = at;
    }
    atomic_store(&l->map->places[best].tenant, mine);
    for (int k = 0; k < LIVE_BUCKETS; k++) atomic_store(&l->map->places[best].buckets[k], 0);
    return best;
}

bucket *live_word(live *l, uint32_t at, live_bucket which)
{
    CHECK(at < LIVE_TENANTS_MAX && which < LIVE_BUCKETS);
    return &l->map->places[at].buckets[which];
}

uint32_t live_streams(const live *l, uint32_t at)
{
    uint32_t n = 0;
    for (size_t i = 0; i < LIVE_SERVERS_MAX; i++) n += atomic_load(&l->map->streams[i][at]);
    return n;
}

bool live_stream_begin(live *l, uint32_t at, uint32_t most)
{
    CHECK(at < LIVE_TENANTS_MAX);
    atomic_fetch_add(&l->map->streams[l->slot][at], 1); /* first, so that two never both fit */
    if (!most || live_streams(l, at) <= most) return true;
    live_stream_end(l, at);
    return false;
}

void live_stream_end(live *l, uint32_t at)
{
    CHECK(atomic_fetch_sub(&l->map->streams[l->slot][at], 1) > 0);
}

/* ---- journal ---- */

static journal *journal_of(const live *l, int slot)
{
    return &l->map->journals[slot == LIVE_OWN ? l->slot : slot];
}

bool live_reserve(live *l)
{
    const journal *j = journal_of(l, LIVE_OWN);
    uint64_t used = atomic_load_explicit(&j->end, memory_order_relaxed) -
                    atomic_load_explicit(&j->begin, memory_order_acquire);
    if (l->fd >= 0 && used + l->reserved >= LIVE_JOURNAL_MAX) return false;
    l->reserved++;
    return true;
}

void live_unreserve(live *l)
{
    CHECK(l->reserved > 0);
    l->reserved--;
}

static uint64_t check_of(const live *l, const live_record *r)
{
    return hash_bytes((const char *)r + sizeof r->check, sizeof *r - sizeof r->check,
                      l->map->head.id);
}

void live_add(live *l, const live_record *record)
{
    journal *j = journal_of(l, LIVE_OWN);
    live_unreserve(l);
    if (l->fd < 0) return; /* there is no database to bring it to */
    uint64_t end = atomic_load_explicit(&j->end, memory_order_relaxed);
    live_record *to = &j->records[end & (LIVE_JOURNAL_MAX - 1)];
    *to = *record;
    to->sequence = end;
    to->check = check_of(l, to);
    atomic_store_explicit(&j->end, end + 1, memory_order_release);
}

int64_t live_journal(const live *l, int slot)
{
    return (int64_t)hash_u64(l->map->head.id, (uint64_t)(journal_of(l, slot) - l->map->journals));
}

void live_resume(live *l, int slot, uint64_t sequence)
{
    journal *j = journal_of(l, slot);
    uint64_t begin = atomic_load(&j->begin), end = atomic_load(&j->end);
    /* A loss of power may leave the file older than the database, or its two ends not of one
     * time: then none of its records is certain to be ours. */
    if (begin < sequence) begin = sequence;
    if (end < begin || end - begin > LIVE_JOURNAL_MAX) end = begin;
    atomic_store(&j->begin, begin);
    atomic_store(&j->end, end);
}

uint32_t live_peek(live *l, int slot, live_record *out, uint32_t n, uint64_t *end, uint32_t *n_torn)
{
    journal *j = journal_of(l, slot);
    uint64_t at = atomic_load(&j->begin), last = atomic_load_explicit(&j->end,
                                                                      memory_order_acquire);
    uint32_t taken = 0;
    for (; at < last && taken < n; at++) {
        const live_record *from = &j->records[at & (LIVE_JOURNAL_MAX - 1)];
        out[taken] = *from;
        bool whole = from->sequence == at && from->check == check_of(l, from) &&
                     memchr(from->model, 0, sizeof from->model);
        if (whole)
            taken++;
        else
            ++*n_torn;
    }
    *end = at;
    return taken;
}

void live_forget(live *l, int slot, uint64_t end)
{
    journal *j = journal_of(l, slot);
    CHECK(end <= atomic_load(&j->end));
    atomic_store_explicit(&j->begin, end, memory_order_release);
}

static bool left_something(const live *l, int slot)
{
    const journal *j = journal_of(l, slot);
    if (atomic_load(&j->begin) != atomic_load(&j->end)) return true;
    for (size_t i = 0; i < LIVE_TENANTS_MAX; i++)
        if (atomic_load(&l->map->streams[slot][i])) return true;
    return false;
}

int live_adopt(live *l, int from)
{
    for (int slot = from; l->fd >= 0 && slot < (int)LIVE_SERVERS_MAX; slot++) {
        if (slot == l->slot || !left_something(l, slot)) continue;
        if (!lock_byte(l->fd, SLOT_LOCK + slot, false)) continue; /* its server lives */
        clear_streams(l, slot);
        return slot;
    }
    return -1;
}

void live_release(live *l, int slot)
{
    CHECK(slot != l->slot);
    unlock_byte(l->fd, SLOT_LOCK + slot);
}
