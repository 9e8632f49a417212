/* live.h - shared state of running servers on one host, in memory that outlives them.
 *
 * A file beside the database ("FILE-live"), mapped by every server that has the store open:
 *
 *   buckets   rate limits of a tenant, each one atomic word (bucket.h)
 *   streams   the number of answers that each server is streaming to each tenant
 *   journal   for each server a ring of metered requests on their way into the database
 *
 * The kernel has a write to the mapping at once: it survives any death of the process, and costs no
 * system call.  It does not survive the loss of power.
 *
 * Each server owns one slot, by a lock on a byte of the file that the kernel releases when the
 * process ends.  The next server to notice takes over the data of a dead one: its requests are
 * metered, its streams are dropped. Truncating the file while it is mapped kills no server
 * (shared.h). The order of writes, and why nothing is counted twice:
 * docs/decisions/0012-keys-limits-usage.md.
 *
 * Threads: the event loop calls everything except live_peek, live_forget, live_adopt, live_release
 * and live_mend, which the accounts thread calls (server/accounts_sync.h). */
#ifndef STORE_LIVE_H
#define STORE_LIVE_H

#include "base/limits.h"
#include "store/bucket.h"

typedef struct live live;

/* path: of the file, created if missing; NULL: private memory, lost at exit.  *out owned.
 * CERIUM_ERR_IO (for example a full disk), CERIUM_ERR_CAPACITY (too many servers),
 * CERIUM_ERR_FORMAT (of another version, and in use; or a foreign file, which is left alone). */
CERIUM_CHECKED int live_open(live **out, const char *path, cerium_error *err);
void live_close(live **l);
/* If the file was truncated, or lost pages on a full disk, repair it and write this server's data
 * again. Nothing of this server's is lost; limits in a lost page start with full buckets.
 *   *was_cut: it was
 * CERIUM_ERR_IO: not possible now; the server continues without the file, and may call again. */
CERIUM_CHECKED int live_mend(live *l, bool *was_cut, cerium_error *err);

/* ---- limits ---- */

typedef enum {
    LIVE_REQUESTS = 0,
    LIVE_TOKENS = 1,
    LIVE_DEEP_REQUESTS = 2,
    LIVE_DEEP_TOKENS = 3,
    LIVE_BUCKETS = 4,
} live_bucket;

/* The place of a tenant, the same in all servers; hint: its last place, or 0.  Never fails: with
 * LIVE_TENANTS_MAX busy tenants, the idlest loses its place and begins with full buckets. */
uint32_t live_place(live *l, uint64_t tenant, uint32_t hint, uint64_t now_ns);
bucket *live_word(live *l, uint32_t place, live_bucket which);

/* One more answer for the tenant at this place; false: there are `most` of them (0 = any number) in
 * all servers together. */
bool live_stream_begin(live *l, uint32_t place, uint32_t most);
void live_stream_end(live *l, uint32_t place);
uint32_t live_streams(const live *l, uint32_t place);

/* ---- journal ---- */

/* A request that was answered. */
typedef struct {
    uint64_t check;        /* hash of the rest; ours to fill */
    uint64_t sequence;     /* number in its journal; ours to fill */
    uint64_t tenant;
    uint64_t nanodollars;  /* price of the whole request */
    uint32_t day;          /* days since 1970-01-01, UTC */
    uint32_t requests;
    uint32_t input_tokens, cached_tokens, output_tokens;
    uint32_t unused;
    char model[LIVE_MODEL_BYTES];
} live_record;
_Static_assert(sizeof(live_record) == 128, "it is part of a file");

/* Reserve one record until it is added or released; false: the journal is full, which happens if
 * the database has not been writable for a long time. */
bool live_reserve(live *l);
void live_unreserve(live *l);
/* Add a record to the reserved place.  The kernel has it on return. */
void live_add(live *l, const live_record *record);

enum { LIVE_OWN = -1 }; /* our own journal, in place of a slot's number */

/* The journal's id in the database: the same while its file exists. */
int64_t live_journal(const live *l, int slot);
/* The position in the database: it has all records before that number. */
void live_resume(live *l, int slot, uint64_t sequence);
/* The waiting records, oldest first, at most n; *end is the number after the last. A record half
 * written at a power loss is skipped and counted in *n_torn. */
uint32_t live_peek(live *l, int slot, live_record *out, uint32_t n, uint64_t *end,
                   uint32_t *n_torn);
/* Drop the records before `end`: the database has them. */
void live_forget(live *l, int slot, uint64_t end);

/* Find a server that ended without closing: returns its slot, which belongs to the caller until
 * live_release(), or -1. Its streams are already dropped; its journal must be drained.
 *   from: 0 first, then the last slot found plus 1 */
int live_adopt(live *l, int from);
void live_release(live *l, int slot);

#endif
