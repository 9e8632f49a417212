/* key.h - API keys, and their tiers.
 *
 * A key is "cer_" PREFIX "_" SECRET, both random and hexadecimal, of 48 and 256 bits.  The prefix
 * is public and finds the row; of the whole key only HMAC-SHA-256 under a random salt is stored.
 * A slow hash would add nothing: 2^256 secrets cannot be tried. Keys are never deleted: a revoked
 * key keeps its id and its row, which usage reports need for its name. */
#ifndef STORE_KEY_H
#define STORE_KEY_H

#include "base/limits.h"
#include "store/store.h"

enum {
    KEY_PREFIX_BYTES = 12, /* of the text, without its end */
    KEY_TEXT_BYTES = 4 + KEY_PREFIX_BYTES + 1 + 64 + 1,
    KEY_SALT_BYTES = 16,
    KEY_HASH_BYTES = 32,
};

typedef struct {
    int64_t id;                 /* 1, 2, 3, ... */
    char name[STORE_LABEL_BYTES_MAX + 1];
    char prefix[KEY_PREFIX_BYTES + 1];
    char tier[STORE_LABEL_BYTES_MAX + 1];
    unsigned char salt[KEY_SALT_BYTES], hash[KEY_HASH_BYTES];
    int64_t created_at, revoked_at; /* seconds since 1970; 0 = not revoked */
} store_key;

/* The tenant that owns this key's responses, cached prefixes and usage. Even, so that it differs
 * from every key of --api-key (server/access.c), and never 0. */
static inline uint64_t store_key_tenant(const store_key *key) { return (uint64_t)key->id << 1; }

/* 1 to STORE_LABEL_BYTES_MAX letters, digits and "-_.@+". */
bool store_key_name_is_good(const char *name);

/* Receives a key's text before the key is stored; if it fails, nothing is stored. */
typedef struct {
    int (*tell)(void *user, const store_key *key, const char *text, cerium_error *err);
    void *user;
} store_key_hearer;

/* Make a key; its text is available only this once.
 *   *key: filled
 *   hearer: NULL: only the caller gets it
 * CERIUM_ERR_ARGUMENT: the name is bad, or a key that is not revoked has it.  CERIUM_ERR_CAPACITY:
 * STORE_KEYS_MAX of them.  The hearer's error. */
CERIUM_CHECKED int store_key_add(store *s, const char *name, const char *tier, int64_t now,
                                 const store_key_hearer *hearer, store_key *key,
                                 char text[KEY_TEXT_BYTES], cerium_error *err);
/* CERIUM_ERR_ARGUMENT: no key has that name, or it is revoked already. */
CERIUM_CHECKED int store_key_revoke(store *s, const char *name, int64_t now, cerium_error *err);
/* Another secret for the same key: the old text is invalid from now on.  As add. */
CERIUM_CHECKED int store_key_rotate(store *s, const char *name, const store_key_hearer *hearer,
                                    store_key *key, char text[KEY_TEXT_BYTES], cerium_error *err);

/* All keys, in the order of their prefixes, revoked ones too.  *out owned (memory_free), [*n]. */
CERIUM_CHECKED int store_keys_read(store *s, store_key **out, size_t *n, cerium_error *err);
/* Changes whenever a key does. */
CERIUM_CHECKED int store_keys_version(store *s, int64_t *version, cerium_error *err);

/* Pure.  The prefix of a text with the form of a key; false: it has another form. */
bool store_key_prefix(view text, char prefix[KEY_PREFIX_BYTES + 1]);
/* Pure.  Whether it is this key, in a time that does not depend on the length of the correct
 * part. */
bool store_key_fits(const store_key *key, view text);

#endif
