/* accounts_sync.h - the thread that speaks SQL for keys and usage, so that the event loop does not.
 *
 * Five times a second it looks whether a key changed, brings the journal of metered requests into
 * the database, and once a second takes over what a server left that was killed.  Once a minute it
 * removes the responses that are over the store's bounds.  A database that
 * is locked, or on a full disk, is tried again each time; until then requests wait in the
 * journal, and when that is full, no more are taken (store/live.h). */
#ifndef SERVER_ACCOUNTS_SYNC_H
#define SERVER_ACCOUNTS_SYNC_H

#include "server/keyring.h"
#include "store/live.h"
#include "store/store.h"

typedef struct accounts_sync accounts_sync;

/* Open a separate connection, import rows left from an earlier run, and read the keys.
 *   l: borrowed until accounts_sync_close() */
CERIUM_CHECKED int accounts_sync_open(accounts_sync **out, const char *store_path, live *l,
                                      cerium_error *err);
/* Before the thread starts: what the store may keep (store_bound()). */
void accounts_sync_bound(accounts_sync *k, uint64_t bytes_max, uint32_t days);
/* Start the thread; wake(user): called from it when there is a new ring. */
CERIUM_CHECKED int accounts_sync_start(accounts_sync *k, void (*wake)(void *user), void *user,
                                       cerium_error *err);
/* Ends the thread, after the journal is in the database where that is possible. */
void accounts_sync_close(accounts_sync **k);

/* What the store keeps, as of the last look.  Callable from any thread. */
store_size accounts_sync_measure(const accounts_sync *k);

/* The newest ring, which becomes the caller's; NULL when it has that one already.  Cheap. */
keyring *accounts_sync_take(accounts_sync *k);

/* Bring a journal into the database, whole batches at a time; slot: LIVE_OWN, or an adopted one.
 * For the accounts thread itself and for tests. */
CERIUM_CHECKED int accounts_sync_drain(store *s, live *l, int slot, cerium_error *err);

#endif
