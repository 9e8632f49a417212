/* live.h - what servers on one host share while they run, in memory that outlives them.
 *
 * A file beside the database ("FILE-live"), mapped by every server that has the store open:
 *
 *   buckets   rate limits of a tenant, each one atomic word (bucket.h)
 *   streams   how many answers each server gives each tenant just now
 *   journal   for each server a ring of metered requests on their way into the database
 *
 * A write to the mapping is in the kernel's hands at once: it survives the death of the process
 * however it dies, and costs no system call.  It does not survive the loss of power.
 *
 * Each server owns one slot, by a lock on a byte of the file that the kernel takes back when the
 * process ends.  What a dead server left, the next one to notice takes over: its requests are
 * metered, its streams are gone.  A file that is cut while it is mapped ends nobody (shared.h).
 * The order of records and the database, and why nothing is counted twice:
 * docs/decisions/0012-keys-limits-usage.md.
 *
 * Threads: the event loop's calls all but live_peek, live_forget, live_adopt, live_release and
 * live_mend, which are the accounts thread's (server/accounts_sync.h). */
#ifndef STORE_LIVE_H
#define STORE_LIVE_H

#include "base/limits.h"
#include "store/bucket.h"

typedef struct live live;

/* path: of the file, made when it is not there; NULL: memory of this process alone, in which
 * nothing is kept.  *out owned.
 * CERIUM_ERR_IO (no room on the disk among others), CERIUM_ERR_CAPACITY (too many servers),
 * CERIUM_ERR_FORMAT (of another version, and in use; not a file of ours: it stays as it is). */
CERIUM_CHECKED int live_open(live **out, const char *path, cerium_error *err);
void live_close(live **l);
/* When the file was cut, or lost pages on a full disk, make it whole again and tell it what we
 * know.  Nothing of ours is lost; limits that were in a lost page begin with full buckets.
 *   *was_cut: it was
 * CERIUM_ERR_IO: not yet; we go on without it, and this may be called again. */
CERIUM_CHECKED int live_mend(live *l, bool *was_cut, cerium_error *err);

/* ---- limits ---- */

typedef enum {
    LIVE_REQUESTS = 0,
    LIVE_TOKENS = 1,
    LIVE_DEEP_REQUESTS = 2,
    LIVE_DEEP_TOKENS = 3,
    LIVE_BUCKETS = 4,
} live_bucket;

/* The place of a tenant, the same in all servers; hint: where it was before, or 0.  Never fails:
 * with LIVE_TENANTS_MAX busy tenants, the idlest loses its place and begins with full buckets. */
uint32_t live_place(live *l, uint64_t tenant, uint32_t hint, uint64_t now_ns);
bucket *live_word(live *l, uint32_t place, live_bucket which);

/* One more answer for the tenant at this place; false when there are `most` of them (0 = any
 * number) in all servers together. */
bool live_stream_begin(live *l, uint32_t place, uint32_t most);
void live_stream_end(live *l, uint32_t place);
uint32_t live_streams(const live *l, uint32_t place);

/* ---- journal ---- */

/* A request that was answered. */
typedef struct {
    uint64_t check;        /* hash of the rest; ours to fill */
    uint64_t sequence;     /* number in its journal; ours to fill */
    uint64_t tenant;
    uint64_t nanodollars;  /* price of all of it */
    uint32_t day;          /* days since 1970-01-01, UTC */
    uint32_t requests;
    uint32_t input_tokens, cached_tokens, output_tokens;
    uint32_t unused;
    char model[LIVE_MODEL_BYTES];
} live_record;
_Static_assert(sizeof(live_record) == 128, "it is part of a file");

/* Keep room for one record until it is added or given back; false when the journal is full, that
 * is when the database could not be written for long. */
bool live_reserve(live *l);
void live_unreserve(live *l);
/* Into the room that was kept.  In the kernel's hands when it returns. */
void live_add(live *l, const live_record *record);

enum { LIVE_OWN = -1 }; /* our own journal, in place of a slot's number */

/* Names the journal in the database: the same as long as its file lives. */
int64_t live_journal(const live *l, int slot);
/* Where the database has it: records before that number are in it already. */
void live_resume(live *l, int slot, uint64_t sequence);
/* The records that wait, oldest first, at most n; *end is the number behind the last of them.
 * A record that a loss of power left half is passed over and counted in *n_torn. */
uint32_t live_peek(live *l, int slot, live_record *out, uint32_t n, uint64_t *end,
                   uint32_t *n_torn);
/* They are in the database: forget those before `end`. */
void live_forget(live *l, int slot, uint64_t end);

/* Look for a server that ended without closing: its slot, which is ours until live_release(), or
 * -1.  Its streams are gone already; its journal wants to be drained.  from: 0 first, then the slot
 * found last plus 1. */
int live_adopt(live *l, int from);
void live_release(live *l, int slot);

#endif
