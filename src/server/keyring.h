/* keyring.h - the store's keys as the event loop reads them: in memory, never changed.
 *
 * The accounts thread makes a new ring when a key changed, and the event loop replaces the old one;
 * so a key is checked without SQL, and without a lock. */
#ifndef SERVER_KEYRING_H
#define SERVER_KEYRING_H

#include "store/key.h"

typedef struct {
    store_key *keys; /* [n] owned, in the order of their prefixes */
    size_t n;
    int64_t version; /* store_keys_version() */
} keyring;

/* *out owned. */
CERIUM_CHECKED int keyring_read(keyring **out, store *s, cerium_error *err);
void keyring_free(keyring **ring);

/* The key with this text, unless it is revoked; NULL = none.  Known and unknown prefixes take the
 * same time. */
const store_key *keyring_find(const keyring *ring, view text);
/* The key of a tenant, unless it is revoked. */
const store_key *keyring_of(const keyring *ring, uint64_t tenant);

#endif
