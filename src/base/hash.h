/* hash.h - a fast hash of bytes. It detects accidents; it does not resist attacks. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/base.h"

/* XXH3 with 64 bits: the same on every machine, and faster than memory.  To hash several runs of
 * bytes, pass each hash as the seed of the next. */
uint64_t hash_bytes(const void *ptr, size_t len, uint64_t seed);
/* The hash of one number. */
uint64_t hash_u64(uint64_t value, uint64_t seed);

/* A name for content: 128 bits, so accidental collisions can be ignored. */
typedef struct {
    uint64_t low, high;
} hash_name;

hash_name hash_name_of(const void *ptr, size_t len);
/* Its bytes in xxHash's canonical form. */
enum { HASH_NAME_BYTES = 16 };
void hash_name_write(hash_name name, unsigned char out[HASH_NAME_BYTES]);
static inline bool hash_name_equal(hash_name a, hash_name b)
{
    return a.low == b.low && a.high == b.high;
}

#endif
