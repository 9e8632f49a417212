/* live.c - the mapped file: its creation, its slots and their owners.
 *
 * The file may be truncated, or lose its blocks, while it is mapped (shared.h). This server's own
 * journal and streams are therefore also kept in private memory, which is authoritative; the file
 * shows them to the other servers. Limits in a lost page start again with full buckets. */
#include "store/live.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "store/owned.h"
#include "store/shared.h"

enum {
    VERSION = 1,
    PROBES = 64,    /* possible places of a tenant */
    INIT_LOCK = 0,  /* bytes of the file used only for locks, never read or written */
    SLOT_LOCK = 1,
    OPENINGS_MAX = 8, /* other servers may recreate the file meanwhile */
};

typedef struct {
    char magic[8];
    uint32_t version, file_bytes;
    uint64_t id;   /* of this file, random */
    char boot[40]; /* the boot to which its times belong */
    uint64_t life; /* changes when the file was repaired: every server then writes its data again */
} head;

/* A place: one cache line. */
typedef struct {
    _Atomic uint64_t tenant; /* + 1; 0 = free */
    bucket buckets[LIVE_BUCKETS];
    uint64_t unused[3];
} tenant_slot;
_Static_assert(sizeof(tenant_slot) == 64, "it is part of a file");

/* Of one server.  The two ends have a cache line each: one thread writes each. */
typedef struct {
    _Atomic uint64_t end;   /* number of the next record */
    uint64_t unused[7];
    _Atomic uint64_t begin; /* of the oldest one that is not yet in the database */
    uint64_t unused_too[7];
    live_record records[LIVE_JOURNAL_MAX];
} journal;

typedef struct {
    head head;
    char pad[4096 - sizeof(head)];
    tenant_slot places[LIVE_TENANTS_MAX];
    _Atomic uint32_t streams[LIVE_SERVERS_MAX][LIVE_TENANTS_MAX];
    journal journals[LIVE_SERVERS_MAX];
} layout;
_Static_assert(sizeof(layout) < UINT32_MAX, "the header has its size");

struct live {
    layout *map;
    shared file;       /* the owner of the memory */
    int fd;            /* -1: private memory */
    int slot;
    uint32_t reserved; /* records reserved; event loop */
    uint64_t id, life; /* as in the header */
    journal *own;      /* our journal: copied to the file, and never read back */
    _Atomic uint32_t *own_streams; /* [LIVE_TENANTS_MAX], likewise */
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

/* Whether another server has a slot; then the file must not be recreated. */
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

/* After a reboot the clock starts again: buckets start full, and no stream is left. */
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
                     code == ENOSPC ? "the disk is full; free some space and try again"
                                    : strerror(code));
}

/* Whether a file with these first bytes is a live file, of any version, whole or truncated. */
static bool begins_as_ours(const struct stat *st, const char *first, size_t len)
{
    /* It has no data to lose.  It is recreated, because only a file that we made is certain to be
     * private. */
    if (len < sizeof magic) return (st->st_mode & 0777) == 0600 && !memcmp(first, magic, len);
    return !memcmp(first, magic, sizeof magic);
}

/* Check that it is a live file and that this version can use it; *old: another version, and not in
 * use. */
static int judge(const live *l, bool *old, cerium_error *err)
{
    struct stat st;
    head h = {.version = VERSION, .file_bytes = sizeof(layout)};
    if (fstat(l->fd, &st)) return io_error(l, "open it", errno, err);
    const char *fault = owned_fault(&st);
    size_t len = fault ? 0 : file_read_at(l->fd, &h, sizeof h, 0);
    if (!fault && !begins_as_ours(&st, (const char *)&h, len)) fault = "a file of another program";
    if (fault)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: %s, and the store needs that name; move it "
                         "away, or name another store", l->path, fault);
    *old = len >= offsetof(head, id) && (h.version != VERSION || h.file_bytes != sizeof(layout));
    if (*old && in_use(l->fd))
        return error_set(err, CERIUM_ERR_FORMAT, "%s: a server of another version has it open; "
                         "end that one first", l->path);
    return CERIUM_OK;
}

/* Write a header for a file that has none, or lost it; a known id is kept. */
static int write_head(live *l, cerium_error *err)
{
    head *h = &l->map->head;
    head new = {.version = VERSION, .file_bytes = sizeof(layout), .id = l->id};
    if (!new.id && getrandom(&new.id, sizeof new.id, 0) != sizeof new.id)
        return io_error(l, "make it", errno, err);
    if (getrandom(&new.life, sizeof new.life, 0) != sizeof new.life)
        return io_error(l, "make it", errno, err);
    read_boot(new.boot);
    memcpy(new.magic, magic, sizeof magic);
    *h = new;
    return CERIUM_OK;
}

/* Map it, with blocks on the disk for all its pages. */
static int map_file(live *l, cerium_error *err)
{
    char boot[40];
    int code = posix_fallocate(l->fd, 0, sizeof(layout));
    if (code) return io_error(l, "make it", code, err);
    code = shared_open(&l->file, l->fd, sizeof(layout));
    if (code) return io_error(l, "map it", code, err);
    l->map = l->file.at;
    read_boot(boot);
    if (!is_ours(&l->map->head)) RETURN_IF(write_head(l, err));
    if (memcmp(l->map->head.boot, boot, sizeof boot) != 0) begin_boot(l->map, boot);
    l->id = l->map->head.id;
    l->life = l->map->head.life;
    return CERIUM_OK;
}

static void clear_streams(live *l, int slot)
{
    for (size_t i = 0; i < LIVE_TENANTS_MAX; i++) atomic_store(&l->map->streams[slot][i], 0);
}

/* The last server's records in this slot, if it is a valid journal. */
static int take_journal(live *l, cerium_error *err)
{
    const journal *from = &l->map->journals[l->slot];
    l->own = memory_zalloc(1, sizeof *l->own);
    l->own_streams = memory_zalloc(LIVE_TENANTS_MAX, sizeof *l->own_streams);
    if (!l->own || !l->own_streams)
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for the limits");
    memcpy(l->own->records, from->records, sizeof l->own->records);
    uint64_t begin = atomic_load(&from->begin), end = atomic_load(&from->end);
    atomic_store(&l->own->begin, begin);
    atomic_store(&l->own->end, end >= begin && end - begin <= LIVE_JOURNAL_MAX ? end : begin);
    return CERIUM_OK;
}

static int take_slot(live *l, cerium_error *err)
{
    for (l->slot = 0; l->slot < (int)LIVE_SERVERS_MAX; l->slot++)
        if (lock_byte(l->fd, SLOT_LOCK + l->slot, false)) {
            clear_streams(l, l->slot);
            return take_journal(l, err);
        }
    return error_set(err, CERIUM_ERR_CAPACITY, "%s: %u servers share this store; no more can",
                     l->path, LIVE_SERVERS_MAX);
}

/* It is renamed into place when complete, so a file without a header is known to be foreign. */
static int make_file(live *l, cerium_error *err)
{
    char new_path[PATH_MAX + 16];
    snprintf(new_path, sizeof new_path, "%s.XXXXXX", l->path);
    int fd = mkostemp(new_path, O_CLOEXEC);
    if (fd < 0) return io_error(l, "make it", errno, err);
    head h = {.version = VERSION, .file_bytes = sizeof(layout)};
    memcpy(h.magic, magic, sizeof magic);
    read_boot(h.boot);
    int code = posix_fallocate(fd, 0, sizeof(layout));
    if (!code && getrandom(&h.id, sizeof h.id, 0) != sizeof h.id) code = errno;
    if (!code) code = file_write_at(fd, &h, sizeof h, 0);
    if (!code && fsync(fd)) code = errno;
    if (!code && link(new_path, l->path) && errno != EEXIST) code = errno;
    unlink(new_path);
    close(fd);
    return code ? io_error(l, "make it", code, err) : CERIUM_OK;
}

/* Whether the path still names the file that we have open and locked. */
static bool is_current(const live *l)
{
    struct stat here, there;
    return !fstat(l->fd, &here) && !lstat(l->path, &there) && here.st_ino == there.st_ino &&
           here.st_dev == there.st_dev;
}

/* *again: the path now names another file, or none. */
static int open_once(live *l, bool *again, cerium_error *err)
{
    bool old = false;
    struct stat st;
    *again = false;
    if (lstat(l->path, &st) && errno == ENOENT) RETURN_IF(make_file(l, err));
    /* Devices and the like are not even opened. */
    if (!lstat(l->path, &st) && !S_ISREG(st.st_mode))
        return error_set(err, CERIUM_ERR_FORMAT, "%s: %s, and the store needs that name; move it "
                         "away, or name another store", l->path,
                         S_ISLNK(st.st_mode) ? "a link" : "not a regular file");
    l->fd = open(l->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (l->fd < 0) return io_error(l, "open it", errno, err);
    if (!lock_byte(l->fd, INIT_LOCK, true)) return io_error(l, "lock it", errno, err);
    *again = !is_current(l);
    int status = *again ? CERIUM_OK : judge(l, &old, err);
    if (!status && !*again && old) {
        *again = true;
        if (unlink(l->path)) status = io_error(l, "recreate it", errno, err);
    }
    if (!status && !*again) status = map_file(l, err);
    unlock_byte(l->fd, INIT_LOCK);
    return status;
}

static int open_file(live *l, cerium_error *err)
{
    bool again = true;
    for (int i = 0; again && i < OPENINGS_MAX; i++) {
        if (l->fd >= 0) close(l->fd);
        l->fd = -1;
        RETURN_IF(open_once(l, &again, err));
    }
    if (again)
        return error_set(err, CERIUM_ERR_IO, "%s: another process keeps recreating it",
                         l->path);
    return take_slot(l, err);
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
        if (l->map)
            status = take_journal(l, err);
        else
            status = error_set(err, CERIUM_ERR_MEMORY, "no memory for the limits");
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
    if (!l->file.at) {
        if (l->map) memory_unmap(l->map, sizeof(layout));
    } else {
        if (l->own) clear_streams(l, l->slot); /* the slot is ours */
        shared_close(&l->file);
    }
    if (l->fd >= 0) close(l->fd); /* the lock on the slot goes with it */
    memory_free(l->own);
    memory_free((void *)l->own_streams);
    memory_free(l->path);
    memory_free(l);
    *out = NULL;
}

/* ---- limits ---- */

/* It can be reused: every bucket is full, and it has no stream. */
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
    tenant_slot *p = &l->map->places[at];
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
    for (int i = 0; i < (int)LIVE_SERVERS_MAX; i++)
        n += atomic_load(i == l->slot ? &l->own_streams[at] : &l->map->streams[i][at]);
    return n;
}

bool live_stream_begin(live *l, uint32_t at, uint32_t most)
{
    CHECK(at < LIVE_TENANTS_MAX);
    /* Publish first, so that two servers never both fit. */
    atomic_store(&l->map->streams[l->slot][at], atomic_fetch_add(&l->own_streams[at], 1) + 1);
    if (!most || live_streams(l, at) <= most) return true;
    live_stream_end(l, at);
    return false;
}

void live_stream_end(live *l, uint32_t at)
{
    uint32_t was = atomic_fetch_sub(&l->own_streams[at], 1);
    CHECK(was > 0);
    atomic_store(&l->map->streams[l->slot][at], was - 1);
}

/* ---- journal ---- */

static journal *journal_of(const live *l, int slot)
{
    return slot == LIVE_OWN ? l->own : &l->map->journals[slot];
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

/* Our journal in the file. */
static journal *own_journal(const live *l) { return &l->map->journals[l->slot]; }

static uint64_t check_of(const live *l, const live_record *r)
{
    return hash_bytes((const char *)r + sizeof r->check, sizeof *r - sizeof r->check,
                      l->id);
}

void live_add(live *l, const live_record *record)
{
    journal *j = journal_of(l, LIVE_OWN);
    live_unreserve(l);
    if (l->fd < 0) return; /* there is no database to write it to */
    uint64_t end = atomic_load_explicit(&j->end, memory_order_relaxed);
    live_record *to = &j->records[end & (LIVE_JOURNAL_MAX - 1)];
    *to = *record;
    to->sequence = end;
    to->check = check_of(l, to);
    journal *written = own_journal(l);
    written->records[end & (LIVE_JOURNAL_MAX - 1)] = *to;
    atomic_store_explicit(&j->end, end + 1, memory_order_release);
    atomic_store_explicit(&written->end, end + 1, memory_order_release);
}

int64_t live_journal(const live *l, int slot)
{
    return (int64_t)hash_u64(l->id, (uint64_t)(slot == LIVE_OWN ? l->slot : slot));
}

void live_resume(live *l, int slot, uint64_t sequence)
{
    journal *j = journal_of(l, slot);
    uint64_t begin = atomic_load(&j->begin), end = atomic_load(&j->end);
    /* A loss of power may leave the file older than the database, or its two ends of different
     * times: then none of its records is certain to be ours. */
    if (begin < sequence) begin = sequence;
    if (end < begin || end - begin > LIVE_JOURNAL_MAX) end = begin;
    atomic_store(&j->begin, begin);
    atomic_store(&j->end, end);
    if (slot != LIVE_OWN) return;
    atomic_store(&own_journal(l)->begin, begin);
    atomic_store(&own_journal(l)->end, end);
}

uint32_t live_peek(live *l, int slot, live_record *out, uint32_t n, uint64_t *end, uint32_t *n_torn)
{
    journal *j = journal_of(l, slot);
    uint64_t at = atomic_load(&j->begin), last = atomic_load_explicit(&j->end,
                                                                      memory_order_acquire);
    uint32_t taken = 0;
    if (last - at > LIVE_JOURNAL_MAX) last = at; /* truncated during the read */
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
    atomic_store_explicit(&j->begin, end, memory_order_release);
    if (slot == LIVE_OWN)
        atomic_store_explicit(&own_journal(l)->begin, end, memory_order_release);
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
        if (!lock_byte(l->fd, SLOT_LOCK + slot, false)) continue; /* its server is alive */
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

/* ---- a truncated file ---- */

/* Write all of this server's data into the file again. The event loop may add records meanwhile:
 * like it, we publish a record before its number, and repeat until no record came in between. */
static void tell_again(live *l)
{
    journal *written = own_journal(l);
    uint64_t end;
    do {
        end = atomic_load(&l->own->end);
        uint64_t begin = atomic_load(&l->own->begin);
        for (uint64_t at = begin; at < end; at++)
            written->records[at & (LIVE_JOURNAL_MAX - 1)] =
                l->own->records[at & (LIVE_JOURNAL_MAX - 1)];
        atomic_store(&written->begin, begin);
        atomic_store(&written->end, end);
    } while (end != atomic_load(&l->own->end));
    for (size_t i = 0; i < LIVE_TENANTS_MAX; i++) {
        uint32_t n;
        do {
            n = atomic_load(&l->own_streams[i]);
            atomic_store(&l->map->streams[l->slot][i], n);
        } while (n != atomic_load(&l->own_streams[i]));
    }
    l->life = l->map->head.life;
}

int live_mend(live *l, bool *was_cut, cerium_error *err)
{
    *was_cut = false;
    if (l->fd < 0) return CERIUM_OK;
    if (!shared_is_whole(&l->file)) {
        if (!lock_byte(l->fd, INIT_LOCK, true)) return io_error(l, "lock it", errno, err);
        int code = shared_mend(&l->file);
        int status = code ? io_error(l, "make it whole again", code, err) : write_head(l, err);
        unlock_byte(l->fd, INIT_LOCK);
        RETURN_IF(status);
        *was_cut = true;
    }
    /* Ours to repair, or another server has repaired it. */
    if (l->map->head.life != l->life) tell_again(l);
    return CERIUM_OK;
}
