/* hash.h - a fast hash of bytes: finds accidents, not attacks. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/base.h"

/* XXH3 with 64 bits: the same on every machine, and faster than memory.  Chain runs of bytes by
 * giving the hash so far as the seed of the next. */
uint64_t hash_bytes(const void *ptr, size_t len, uint64_t seed);
/* The same of one number. */
uint64_t hash_u64(uint64_t value, uint64_t seed);

#endif
