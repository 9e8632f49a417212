/* page_image.c - the beginning of a sequence as bytes, for sessions that are saved and loaded.
 *
 * Block after block, and of each block the page of every group.  In a group with a window, pages
 * outside the window are left out; the number of blocks says which.  If the model has states, the
 * state after the last token comes last; else all blocks are full. */
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
    if (pool->states.bytes) key = hash_u64(pool->states.bytes, key);
    return key;
}

uint64_t kv_pool_image_bytes(const kv_pool *pool, uint32_t n)
{
    const uint32_t n_blocks = kv_blocks_for(n);
    uint64_t bytes = n ? pool->states.bytes : 0;
    for (uint32_t g = 0; g < pool->n_groups; g++)
        for (uint32_t i = 0; i < n_blocks; i++)
            bytes += is_in(&pool->groups[g], n_blocks, i) ? pool->groups[g].page_bytes : 0;
    return bytes;
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

static bool has_windows(const kv_pool *pool)
{
    bool has = false;
    for (uint32_t g = 0; g < pool->n_groups; g++) has |= pool->groups[g].window != 0;
    return has;
}

uint32_t kv_sequence_image_tokens(kv_sequence *seq, uint32_t n_max)
{
    const kv_pool *pool = seq->pool;
    pthread_mutex_lock(&seq->pool->lock);
    uint32_t n = seq->n_tokens < n_max ? seq->n_tokens : n_max, at = 0;
    if (pool->states.bytes) {
        if (!has_windows(pool)) kv_sequence_state_before(seq, n, &at);
    } else {
        n /= KERNEL_PAGE;
        while (!has_pages(seq, n)) n--;
        at = n * KERNEL_PAGE;
    }
    pthread_mutex_unlock(&seq->pool->lock);
    return at;
}

/* With the lock: the state after n tokens, unless it was evicted. */
static bool save_state(const kv_sequence *seq, uint32_t n, uint8_t *out)
{
    uint32_t at, state = kv_sequence_state_before(seq, n, &at);
    if (at != n || state == KV_NONE) return false;
    memcpy(out, kv_state_at(seq->pool, state), seq->pool->states.bytes);
    return true;
}

bool kv_sequence_save(kv_sequence *seq, uint32_t n, uint8_t *out)
{
    kv_pool *pool = seq->pool;
    const uint32_t n_blocks = kv_blocks_for(n);
    bool is_good = true;
    for (uint32_t i = 0; i < n_blocks && is_good; i++) {
        pthread_mutex_lock(&pool->lock); /* for a block: others may need the window's pages */
        is_good = i < seq->n_blocks && has_pages(seq, n_blocks);
        for (uint32_t g = 0; g < pool->n_groups && is_good; g++) {
            const kv_group *group = &pool->groups[g];
            if (!is_in(group, n_blocks, i)) continue;
            memcpy(out, kv_group_page(group, seq->blocks[i]), group->page_bytes);
            out += group->page_bytes;
        }
        pthread_mutex_unlock(&pool->lock);
    }
    if (!pool->states.bytes || !n || !is_good) return is_good;
    pthread_mutex_lock(&pool->lock);
    is_good = save_state(seq, n, out);
    pthread_mutex_unlock(&pool->lock);
    return is_good;
}

/* The pages of block number i of n. */
static const uint8_t *load_pages(const kv_sequence *seq, uint32_t n_blocks, uint32_t i,
                                 const uint8_t *in)
{
    for (uint32_t g = 0; g < seq->pool->n_groups; g++) { /* a private block: not read by others */
        const kv_group *group = &seq->pool->groups[g];
        if (!is_in(group, n_blocks, i)) continue;
        memcpy(kv_group_page(group, seq->blocks[i]), in, group->page_bytes);
        in += group->page_bytes;
    }
    return in;
}

static bool extend(kv_sequence *seq, uint32_t n_blocks, uint32_t i)
{
    uint32_t groups = 0;
    for (uint32_t g = 0; g < seq->pool->n_groups; g++)
        if (is_in(&seq->pool->groups[g], n_blocks, i)) groups |= 1u << g;
    pthread_mutex_lock(&seq->pool->lock);
    bool has_place = kv_sequence_extend(seq, groups);
    pthread_mutex_unlock(&seq->pool->lock);
    return has_place;
}

uint32_t kv_sequence_load(kv_sequence *seq, const int32_t *tokens, uint32_t n, const uint8_t *in)
{
    kv_pool *pool = seq->pool;
    const uint32_t n_blocks = kv_blocks_for(n);
    uint32_t at = 0;
    CHECK(n <= seq->context_tokens && (pool->states.bytes || n % KERNEL_PAGE == 0));
    kv_sequence_rest(seq);
    pthread_mutex_lock(&pool->lock);
    bool has_place = kv_sequence_take_next(seq, 1) == CERIUM_OK;
    if (has_place) kv_sequence_follow(seq, seq->tenant, KV_NONE, n_blocks * KERNEL_PAGE);
    pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < n_blocks && has_place; i++) {
        has_place = extend(seq, n_blocks, i);
        if (!has_place) break;
        in = load_pages(seq, n_blocks, i, in);
        uint32_t more = n - at < KERNEL_PAGE ? n - at : KERNEL_PAGE;
        kv_sequence_commit(seq, tokens + at, more);
        at += more;
    }
    if (!pool->states.bytes || n == 0) return at;
    if (!has_place) { /* pages without a state cannot be continued */
        kv_sequence_rest(seq);
        return 0;
    }
    memcpy(kv_sequence_next_state(seq), in, pool->states.bytes);
    kv_sequence_commit_state(seq, n);
    return n;
}
