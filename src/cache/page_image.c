/* page_image.c - the full blocks of a sequence as bytes, for sessions that are saved and loaded.
 *
 * Block after block, and of each block the page of every group.  Where a group has a window, pages
 * that nobody looks at any more are left out: from the number of blocks follows which. */
#include "base/hash.h"
#include "cache/pool.h"

/* Is this group's page of block `index` a part of the image of n_blocks? */
static bool is_in(const kv_group *group, uint32_t n_blocks, uint32_t index)
{
    return !group->window || index >= kv_window_first(group, n_blocks * KERNEL_PAGE);
}

uint64_t kv_pool_image_key(const kv_pool *pool)
{
    uint64_t key = hash_u64(KERNEL_PAGE, (uint64_t)pool->type);
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        key = hash_u64(pool->groups[g].window, key);
        key = hash_u64(pool->groups[g].page_bytes, key);
    }
    return key;
}

uint64_t kv_pool_image_bytes(const kv_pool *pool, uint32_t n_blocks)
{
    uint64_t n = 0;
    for (uint32_t g = 0; g < pool->n_groups; g++)
        for (uint32_t i = 0; i < n_blocks; i++)
            n += is_in(&pool->groups[g], n_blocks, i) ? pool->groups[g].page_bytes : 0;
    return n;
}

/* With the lock: are all pages of such an image there? */
static bool has_pages(const kv_sequence *seq, uint32_t n_blocks)
{
    for (uint32_t g = 0; g < seq->pool->n_groups; g++) {
        const kv_group *group = &seq->pool->groups[g];
        for (uint32_t i = 0; group->window && i < n_blocks; i++)
            if (is_in(group, n_blocks, i) && group->page_of[seq->blocks[i]] == KV_NONE)
                return false;
    }
    return true;
}

uint32_t kv_sequence_image_blocks(kv_sequence *seq)
{
    if (seq->pool->states.bytes) return 0; /* of pages alone nothing can go on */
    pthread_mutex_lock(&seq->pool->lock);
    uint32_t n = seq->n_tokens / KERNEL_PAGE;
    while (!has_pages(seq, n)) n--;
    pthread_mutex_unlock(&seq->pool->lock);
    return n;
}

bool kv_sequence_save(kv_sequence *seq, uint32_t n_blocks, uint8_t *out)
{
    kv_pool *pool = seq->pool;
    bool is_good = true;
    for (uint32_t i = 0; i < n_blocks && is_good; i++) {
        pthread_mutex_lock(&pool->lock); /* for a block: others may need the room of a window */
        is_good = i < seq->n_blocks && has_pages(seq, n_blocks);
        for (uint32_t g = 0; g < pool->n_groups && is_good; g++) {
            const kv_group *group = &pool->groups[g];
            if (!is_in(group, n_blocks, i)) continue;
            memcpy(out, kv_group_page(group, seq->blocks[i]), group->page_bytes);
            out += group->page_bytes;
        }
        pthread_mutex_unlock(&pool->lock);
    }
    return is_good;
}

uint32_t kv_sequence_load(kv_sequence *seq, const int32_t *tokens, uint32_t n_blocks,
                          const uint8_t *in)
{
    kv_pool *pool = seq->pool;
    uint32_t n = 0;
    CHECK(n_blocks * KERNEL_PAGE <= seq->context_tokens);
    kv_sequence_rest(seq);
    if (pool->states.bytes) return 0;
    pthread_mutex_lock(&pool->lock);
    kv_sequence_follow(seq, seq->tenant, KV_NONE, n_blocks * KERNEL_PAGE);
    pthread_mutex_unlock(&pool->lock);
    for (; n < n_blocks; n++) {
        uint32_t groups = 0;
        for (uint32_t g = 0; g < pool->n_groups; g++)
            if (is_in(&pool->groups[g], n_blocks, n)) groups |= 1u << g;
        pthread_mutex_lock(&pool->lock);
        bool has_place = kv_sequence_extend(seq, groups);
        pthread_mutex_unlock(&pool->lock);
        if (!has_place) break;
        for (uint32_t g = 0; g < pool->n_groups; g++) { /* a private block: nobody else looks */
            if (!(groups >> g & 1)) continue;
            const kv_group *group = &pool->groups[g];
            memcpy(kv_group_page(group, seq->blocks[n]), in, group->page_bytes);
            in += group->page_bytes;
        }
        kv_sequence_commit(seq, tokens + n * KERNEL_PAGE, KERNEL_PAGE);
    }
    return n;
}
