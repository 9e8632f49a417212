/* hash.c - wraps xxHash. */
#include "base/hash.h"

#include <string.h>
#include <xxhash.h>

uint64_t hash_bytes(const void *ptr, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(ptr, len, seed);
}

hash_name hash_name_of(const void *ptr, size_t len)
{
    XXH128_hash_t hash = XXH3_128bits(ptr, len);
    return (hash_name){hash.low64, hash.high64};
}

void hash_name_write(hash_name name, unsigned char out[HASH_NAME_BYTES])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, (XXH128_hash_t){name.low, name.high});
    memcpy(out, canonical.digest, HASH_NAME_BYTES);
}

uint64_t hash_u64(uint64_t value, uint64_t seed) { return hash_bytes(&value, sizeof value, seed); }
