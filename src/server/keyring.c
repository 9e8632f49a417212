/* keyring.c - reads a ring and looks keys up in it. */
#include "server/keyring.h"

int keyring_read(keyring **out, store *s, cerium_error *err)
{
    keyring *ring = memory_zalloc(1, sizeof *ring);
    if (!ring) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the keys");
    /* The version first: a change in between is read again. */
    int status = store_keys_version(s, &ring->version, err);
    if (!status) status = store_keys_read(s, &ring->keys, &ring->n, err);
    if (status)
        keyring_free(&ring);
    else
        *out = ring;
    return status;
}

void keyring_free(keyring **ring)
{
    if (!ring || !*ring) return;
    memory_free((*ring)->keys);
    memory_free(*ring);
    *ring = NULL;
}

static int by_prefix(const void *prefix, const void *key)
{
    return strcmp(prefix, ((const store_key *)key)->prefix);
}

const store_key *keyring_find(const keyring *ring, view text)
{
    static const store_key nobody = {.id = 0};
    char prefix[KEY_PREFIX_BYTES + 1];
    if (!store_key_prefix(text, prefix)) return NULL;
    const store_key *key = ring->n ? bsearch(prefix, ring->keys, ring->n, sizeof *key, by_prefix)
                                   : NULL;
    bool fits = store_key_fits(key ? key : &nobody, text);
    return key && fits && !key->revoked_at ? key : NULL;
}

const store_key *keyring_of(const keyring *ring, uint64_t tenant)
{
    for (size_t i = 0; i < ring->n; i++)
        if (store_key_tenant(&ring->keys[i]) == tenant && !ring->keys[i].revoked_at)
            return &ring->keys[i];
    return NULL;
}
