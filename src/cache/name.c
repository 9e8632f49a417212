/* name.c - names of timelines, the keys of blocks in memory and on disk. */
#include "cache/pool.h"

hash_name kv_name_root(const kv_pool *pool, uint64_t tenant)
{
    const uint64_t numbers[3] = {pool->root.low, pool->root.high, tenant};
    return hash_name_of(numbers, sizeof numbers);
}

hash_name kv_name_after(hash_name before, const int32_t *tokens, uint32_t n)
{
    struct {
        hash_name before;
        int32_t tokens[KERNEL_PAGE];
    } all = {.before = before};
    CHECK(n <= KERNEL_PAGE);
    memcpy(all.tokens, tokens, n * sizeof *tokens);
    return hash_name_of(&all, sizeof all.before + n * sizeof *tokens);
}

uint64_t kv_name_near(hash_name before, int32_t first_token)
{
    return hash_u64((uint32_t)first_token, before.low);
}
