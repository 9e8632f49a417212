/* store.h - data that outlives the server, in SQLite: stored responses; keys (key.h), usage
 * (metered.h).
 *
 * A row is stored when store_put() returns, and survives any death of the process: WAL, one
 * transaction a call.  Rows belong to a tenant and are found by no other.  One thread at a time;
 * several processes may have the same file open. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/base.h"
#include "base/memory.h"

typedef struct store store;

/* path: of the database, created if missing; ":memory:" is lost at exit.  *out owned. A link is
 * followed to an existing database; nothing is created or overwritten through a link.
 * CERIUM_ERR_IO, CERIUM_ERR_FORMAT (a foreign file, also at a path that SQLite needs beside the
 * database, or a newer version): nothing was written, and no mode changed. */
CERIUM_CHECKED int store_open(store **out, const char *path, cerium_error *err);
void store_close(store **s);
/* The resolved path of the file, without links; NULL: it is in memory. */
const char *store_file(const store *s);

/* Set the bounds: the maximum bytes of responses (0 = no limit) and their maximum age in days (0 =
 * no limit). A response counts as its whole pages.  The newest one is never deleted. */
void store_bound(store *s, uint64_t bytes_max, uint32_t days);

typedef struct {
    uint64_t bytes, responses; /* stored, at the last check of this connection */
    uint64_t expired;          /* removed by this connection for a bound */
} store_size;

/* Check again: other connections add and remove, too. */
CERIUM_CHECKED int store_count(store *s, cerium_error *err);
/* Callable from any thread. */
store_size store_measure(const store *s);

typedef struct {
    const char *id;             /* "resp_..." */
    const char *previous_id;    /* or NULL */
    uint64_t tenant;
    int64_t created_at;         /* seconds since 1970 */
    view response;              /* the Response object, JSON */
    view input;                 /* the request's own items, JSON array */
    const int32_t *tokens;      /* [n_tokens] the timeline at its end; the next turn continues it */
    size_t n_tokens;
    uint64_t instructions;      /* hash of the current ones; 0 = none */
    size_t n_head;              /* tokens of them and the tools; SIZE_MAX = unknown */
    const char *model;          /* the model of the tokens */
} store_response;

/* Insert or replace; responses beyond the bounds are deleted, oldest first, in the same transaction
 * (a few dozen at most; store_expire() deletes the rest). On return it survives the death of the
 * process. */
CERIUM_CHECKED int store_put(store *s, const store_response *response, cerium_error *err);

/* One response, its parts in *memory (owned by the caller, freed with bytes_free()).
 * Returns CERIUM_OK and *found false when this tenant has no such response. */
CERIUM_CHECKED int store_get(store *s, uint64_t tenant, const char *id, store_response *out,
                             bytes *memory, bool *found, cerium_error *err);
/* Whether store_get() would find it. */
CERIUM_CHECKED int store_has(store *s, uint64_t tenant, const char *id, bool *found,
                             cerium_error *err);
CERIUM_CHECKED int store_delete(store *s, uint64_t tenant, const char *id, bool *found,
                                cerium_error *err);
/* The newest responses of a tenant, newest first: calls seen() for each until it returns false. */
CERIUM_CHECKED int store_list(store *s, uint64_t tenant, uint32_t n_max,
                              bool (*seen)(void *arg, const store_response *response), void *arg,
                              cerium_error *err);
/* Delete responses beyond the bounds, oldest first, one batch per transaction, and count the rest.
 *   now: seconds since 1970
 *   *n_deleted: by this call */
CERIUM_CHECKED int store_expire(store *s, int64_t now, uint64_t *n_deleted, cerium_error *err);

#endif
