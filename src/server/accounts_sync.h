/* accounts_sync.h - the thread that uses SQL for keys and usage, so that the event loop does not.
 *
 * Five times a second it checks whether a key changed, and moves the journal of metered requests
 * into the database; once a second it takes over the journal of a killed server.  Once a minute it
 * removes responses beyond the store's bounds.  If the database is locked, or its disk is full, it
 * tries again each time; until then requests wait in the journal, and when that is full, no more
 * are admitted (store/live.h). */
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
/* Before the thread starts: set the store's bounds (store_bound()). */
void accounts_sync_bound(accounts_sync *k, uint64_t bytes_max, uint32_t days);
/* Start the thread; it calls wake(user) when there is a new ring. */
CERIUM_CHECKED int accounts_sync_start(accounts_sync *k, void (*wake)(void *user), void *user,
                                       cerium_error *err);
/* Ends the thread, after moving the journal into the database if possible. */
void accounts_sync_close(accounts_sync **k);

/* The store's size as of the last poll.  Callable from any thread. */
store_size accounts_sync_measure(const accounts_sync *k);

/* The newest ring, which the caller then owns; NULL if the caller already has it.  Cheap. */
keyring *accounts_sync_take(accounts_sync *k);

/* Move a journal into the database, whole batches at a time; slot: LIVE_OWN, or an adopted one. For
 * the accounts thread itself and for tests. */
CERIUM_CHECKED int accounts_sync_drain(store *s, live *l, int slot, cerium_error *err);

#endif
