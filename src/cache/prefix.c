/* prefix.c - the tree of computed blocks: two hash tables over blocks, by content and by beginning.
 *
 * A full block is found by the name of everything up to its end, and compared by tenant, parent and
 * tokens: equal parents mean equal prefixes, as parents stay while they have children.  The table
 * `near` lists every block under its first token, to find the longest common prefix. */
#include "cache/pool.h"

/* How many blocks with the same first token are compared for the longest common prefix. */
enum { NEAR_WALK_MAX = 64 };

static hash_name name_before(const kv_pool *pool, uint64_t tenant, uint32_t parent)
{
    return parent == KV_NONE ? kv_name_root(pool, tenant) : pool->blocks[parent].name;
}

static bool follows(const kv_block *b, uint64_t tenant, uint32_t parent)
{
    return b->tenant == tenant && b->parent == parent;
}

static uint32_t common(const int32_t *a, const int32_t *b, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

uint32_t kv_tree_full(const kv_pool *pool, uint64_t tenant, uint32_t parent,
                      const int32_t *tokens)
{
    hash_name name = kv_name_after(name_before(pool, tenant, parent), tokens, KERNEL_PAGE);
    uint32_t at = pool->full[name.low & (pool->n_buckets - 1)];
    for (; at != KV_NONE; at = pool->blocks[at].next_full) {
        const kv_block *b = &pool->blocks[at];
        if (hash_name_equal(b->name, name) && follows(b, tenant, parent) &&
            !memcmp(b->tokens, tokens, sizeof b->tokens))
            return at;
    }
    return KV_NONE;
}

uint32_t kv_tree_named(const kv_pool *pool, hash_name name)
{
    uint32_t at = pool->full[name.low & (pool->n_buckets - 1)];
    while (at != KV_NONE && !hash_name_equal(pool->blocks[at].name, name))
        at = pool->blocks[at].next_full;
    return at;
}

uint32_t kv_tree_near(const kv_pool *pool, uint64_t tenant, uint32_t parent, const int32_t *tokens,
                      uint32_t n, uint32_t *n_common)
{
    uint32_t best = KV_NONE;
    *n_common = 0;
    if (n == 0) return KV_NONE;
    uint64_t hash = kv_name_near(name_before(pool, tenant, parent), tokens[0]);
    uint32_t at = pool->near[hash & (pool->n_buckets - 1)];
    for (uint32_t i = 0; at != KV_NONE && i < NEAR_WALK_MAX; i++) {
        const kv_block *b = &pool->blocks[at];
        if (b->near_hash == hash && follows(b, tenant, parent)) {
            uint32_t same = common(b->tokens, tokens, n < b->n_tokens ? n : b->n_tokens);
            if (same > *n_common) best = at, *n_common = same;
        }
        at = b->next_near;
    }
    return best;
}

void kv_tree_add(kv_pool *pool, uint64_t tenant, uint32_t parent, uint32_t block)
{
    kv_block *b = &pool->blocks[block];
    CHECK(!b->in_tree && b->n_tokens > 0);
    hash_name before = name_before(pool, tenant, parent);
    b->in_tree = true;
    b->tenant = tenant;
    b->parent = parent;
    b->position = parent == KV_NONE ? 0 : pool->blocks[parent].position + 1;
    b->n_children = 0;
    b->serial = ++pool->n_serials;
    b->name = kv_name_after(before, b->tokens, b->n_tokens);
    b->near_hash = kv_name_near(before, b->tokens[0]);
    if (parent != KV_NONE) kv_idle_followed(pool, parent);
    uint32_t *bucket = &pool->near[b->near_hash & (pool->n_buckets - 1)];
    b->next_near = *bucket;
    *bucket = block;
    if (b->n_tokens == KERNEL_PAGE) {
        bucket = &pool->full[b->name.low & (pool->n_buckets - 1)];
        b->next_full = *bucket;
        *bucket = block;
    }
    kv_block_list_pages(pool, block, true);
    kv_pool_tell(pool, block, false);
    kv_pool_tell_stored(pool, b);
}

void kv_tree_remove(kv_pool *pool, uint32_t block)
{
    kv_block *b = &pool->blocks[block];
    CHECK(b->in_tree);
    kv_block_list_pages(pool, block, false);
    kv_states_leave(pool, block);
    kv_pool_tell_removed(pool, b);
    b->in_tree = false;
    if (b->parent != KV_NONE) kv_idle_unfollowed(pool, b->parent);
    uint32_t *at = &pool->near[b->near_hash & (pool->n_buckets - 1)];
    while (*at != block) at = &pool->blocks[*at].next_near;
    *at = b->next_near;
    if (b->n_tokens < KERNEL_PAGE) return;
    at = &pool->full[b->name.low & (pool->n_buckets - 1)];
    while (*at != block) at = &pool->blocks[*at].next_full;
    *at = b->next_full;
}

void kv_tree_discard(kv_pool *pool, uint32_t block)
{
    CHECK(pool->blocks[block].holders == 0);
    kv_idle_remove(pool, block);
    kv_tree_remove(pool, block);
    kv_block_free(pool, block);
}

void kv_tree_add_last(kv_pool *pool, uint64_t tenant, uint32_t parent, uint32_t block)
{
    kv_block *b = &pool->blocks[block];
    uint64_t hash = kv_name_near(name_before(pool, tenant, parent), b->tokens[0]);
    uint32_t at = pool->near[hash & (pool->n_buckets - 1)], next;
    for (uint32_t i = 0; at != KV_NONE && i < NEAR_WALK_MAX; i++, at = next) {
        kv_block *other = &pool->blocks[at];
        uint32_t n = other->n_tokens < b->n_tokens ? other->n_tokens : b->n_tokens;
        next = other->next_near;
        if (other->near_hash != hash || !follows(other, tenant, parent) ||
            common(other->tokens, b->tokens, n) < n)
            continue;
        bool is_equal = other->n_tokens == b->n_tokens;
        if (n == b->n_tokens && (is_equal || kv_block_has_pages(pool, at))) {
            /* The other block contains it, and counts as used now. */
            kv_block_hold(pool, at);
            if (is_equal) kv_block_give_pages(pool, at, block);
            kv_block_let_go(pool, at);
            kv_block_free(pool, block);
            return;
        }
        if (n < b->n_tokens && other->n_tokens < KERNEL_PAGE && other->holders == 0)
            kv_tree_discard(pool, at);
    }
    kv_tree_add(pool, tenant, parent, block);
    kv_block_let_go(pool, block);
}
