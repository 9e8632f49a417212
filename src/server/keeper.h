/* keeper.h - the thread that speaks SQL for keys and usage, so that the event loop does not.
 *
 * Five times a second it looks whether a key changed, brings the journal of metered requests into
 * the database, and once a second takes over what a server left that was killed.  Once a minute it
 * removes the responses that are over the store's bounds.  A database that
 * is locked, or on a full disk, is tried again each time; until then requests wait in the
 * journal, and when that is full, no more are taken (store/live.h). */
#ifndef SERVER_KEEPER_H
#define SERVER_KEEPER_H

#include "server/keyring.h"
#include "store/live.h"
#include "store/store.h"

typedef struct keeper keeper;

/* Open a connection of its own, bring in what was left over, and read the keys.
 *   l: borrowed until keeper_close() */
CERIUM_CHECKED int keeper_open(keeper **out, const char *store_path, live *l, cerium_error *err);
/* Before the thread starts: what the store may keep (store_bound()). */
void keeper_bound(keeper *k, uint64_t bytes_max, uint32_t days);
/* Start the thread; wake(user): called from it when there is a new ring. */
CERIUM_CHECKED int keeper_start(keeper *k, void (*wake)(void *user), void *user,
                                cerium_error *err);
/* Ends the thread, after the journal is in the database where that is possible. */
void keeper_close(keeper **k);

/* What the store keeps, as of the last look.  Callable from any thread. */
store_size keeper_measure(const keeper *k);

/* The newest ring, which becomes the caller's; NULL when it has that one already.  Cheap. */
keyring *keeper_take(keeper *k);

/* Bring a journal into the database, whole batches at a time; slot: LIVE_OWN, or an adopted one.
 * For the keeper itself and for tests. */
CERIUM_CHECKED int keeper_drain(store *s, live *l, int slot, cerium_error *err);

#endif
