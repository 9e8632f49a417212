/* pages.c - memory of the cache: groups of layers, pages and blocks, and what is free of them. */
#include "cache/pool.h"

#include "base/memory.h"

enum {
    WINDOW_SPARE = 4,    /* pages of a group with a window: this multiple of what sequences see, as
                            timelines can be adopted only where their window is */
};

static int group_layers(kv_pool *pool, const kv_layout *layout, cerium_error *err)
{
    uint32_t all = kv_blocks_for(layout->context_tokens);
    for (uint32_t layer = 0; layer < layout->n_layers; layer++) {
        uint32_t g = 0, window = layout->windows[layer];
        while (g < pool->n_groups && pool->groups[g].window != window) g++;
        if (g == KV_GROUPS_MAX)
            return error_set(err, CERIUM_ERR_CAPACITY,
                             "layers with more than %d different windows are not supported",
                             KV_GROUPS_MAX);
        if (g == pool->n_groups) {
            uint64_t span = ((uint64_t)window + layout->batch_tokens + KERNEL_PAGE - 1) /
                                KERNEL_PAGE + 1;
            pool->groups[g].window = window;
            pool->groups[g].sequence_pages = window && span < all ? (uint32_t)span : all;
            for (int i = 0; i < 2; i++)
                pool->groups[g].oldest[i] = pool->groups[g].newest[i] = KV_NONE;
            pool->n_groups++;
        }
        const kv_heads same = {layout->n_kv_heads, layout->head_dim, false};
        const kv_heads heads = layout->heads ? layout->heads[layer] : same;
        size_t keys = kernel_kv_bytes(layout->type, heads.width), all_heads;
        const size_t head = heads.is_latent ? keys : 2 * keys;
        pool->layers[layer] = (kv_layer){g, heads.n_heads, pool->groups[g].page_bytes, keys, head};
        if (!size_mul(head, heads.n_heads, &all_heads) ||
            !size_add(pool->groups[g].page_bytes, all_heads, &pool->groups[g].page_bytes))
            return CERIUM_ERR_MEMORY;
    }
    return CERIUM_OK;
}

static double group_share(const kv_group *group, uint32_t all)
{
    double spare = (double)group->sequence_pages * (group->window ? WINDOW_SPARE : 1);
    return spare < all ? spare : all;
}

/* Choose the number of states: a quarter of the memory, at most what all sequences can use, at
 * least what one needs to continue; without a given memory size, what each sequence needs to be
 * adopted again.  Returns their bytes. */
static double share_of_states(kv_pool *pool, const kv_layout *layout, double size)
{
    enum { PART = 4, OF_ONE = 5, OF_ONE_MAX = 16 };
    pool->states.bytes = layout->state_bytes;
    if (!layout->state_bytes) return 0;
    const double most = (double)layout->sequences_max * OF_ONE_MAX;
    double n = size / PART / (double)layout->state_bytes, all = layout->sequences_max * OF_ONE;
    if (n > most) n = most;
    if (layout->bytes == 0 && n < all) n = all;
    if (layout->bytes_max && n * (double)layout->state_bytes > (double)layout->bytes_max / 2)
        n = (double)layout->bytes_max / 2 / (double)layout->state_bytes;
    if (n < KV_STATES_MIN) n = KV_STATES_MIN;
    pool->states.n = pool->states.limit = (uint32_t)n;
    return (double)pool->states.n * (double)layout->state_bytes;
}

/* How many pages each group gets, and how many blocks there are. */
static int share_out(kv_pool *pool, const kv_layout *layout)
{
    uint32_t all = kv_blocks_for(layout->context_tokens);
    double one = 0; /* bytes of a whole sequence */
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        const kv_group *group = &pool->groups[g];
        one += group_share(group, all) * (double)group->page_bytes;
    }
    double size = (double)layout->bytes, states = 0;
    if (size <= 0) size = one * layout->sequences_max;
    if (layout->bytes == 0 && layout->bytes_max && size > (double)layout->bytes_max)
        size = (double)layout->bytes_max;
    states = share_of_states(pool, layout, size);
    if (layout->bytes || (layout->bytes_max && size + states > (double)layout->bytes_max))
        size -= states;
    double sequences = size > one ? size / one : 1;
    double blocks = all * sequences;
    if (blocks > KV_BLOCKS_MAX) return CERIUM_ERR_MEMORY;
    pool->n_blocks = pool->blocks_limit = (uint32_t)blocks;
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        kv_group *group = &pool->groups[g];
        group->pages_min = (uint32_t)group_share(group, all);
        group->n_pages = (uint32_t)(group_share(group, all) * sequences);
        if (!group->window) group->n_pages = pool->n_blocks;
        group->pages_limit = group->n_pages;
        if (!size_mul(group->page_bytes, group->n_pages, &group->pages_bytes))
            return CERIUM_ERR_MEMORY;
    }
    return CERIUM_OK;
}

static int take_window_lists(const kv_pool *pool, kv_group *group)
{
    group->page_of = memory_alloc(pool->n_blocks * sizeof(uint32_t));
    group->users = memory_zalloc(pool->n_blocks, sizeof(uint32_t));
    group->block_of = memory_alloc(group->n_pages * sizeof(uint32_t));
    group->free_pages = memory_alloc(group->n_pages * sizeof(uint32_t));
    group->list_of = memory_zalloc(group->n_pages, 1);
    group->older = memory_alloc(group->n_pages * sizeof(uint32_t));
    group->newer = memory_alloc(group->n_pages * sizeof(uint32_t));
    if (!group->page_of || !group->users || !group->block_of || !group->free_pages ||
        !group->list_of || !group->older || !group->newer)
        return CERIUM_ERR_MEMORY;
    for (uint32_t i = 0; i < pool->n_blocks; i++) group->page_of[i] = KV_NONE;
    group->n_free = group->n_pages;
    for (uint32_t i = 0; i < group->n_pages; i++) group->free_pages[i] = group->n_pages - 1 - i;
    return CERIUM_OK;
}

static int take_memory(kv_pool *pool)
{
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        kv_group *group = &pool->groups[g];
        group->pages = memory_map(group->pages_bytes);
        if (!group->pages) return CERIUM_ERR_MEMORY;
        if (group->window) RETURN_IF(take_window_lists(pool, group));
    }
    pool->n_buckets = 64;
    while (pool->n_buckets < 2 * pool->n_blocks) pool->n_buckets *= 2;
    pool->blocks = memory_map(pool->n_blocks * sizeof *pool->blocks);
    pool->free_blocks = memory_alloc(pool->n_blocks * sizeof(uint32_t));
    pool->heap = memory_alloc(pool->n_blocks * sizeof(uint32_t));
    pool->full = memory_alloc(pool->n_buckets * sizeof(uint32_t));
    pool->near = memory_alloc(pool->n_buckets * sizeof(uint32_t));
    if (!pool->blocks || !pool->free_blocks || !pool->heap || !pool->full || !pool->near)
        return CERIUM_ERR_MEMORY;
    size_t blocks_bytes = pool->n_blocks * sizeof *pool->blocks;
    memory_populate(pool->blocks,
                    blocks_bytes < MEMORY_HUGE_PAGE ? blocks_bytes : MEMORY_HUGE_PAGE);
    for (uint32_t i = 0; i < pool->n_buckets; i++) pool->full[i] = pool->near[i] = KV_NONE;
    RETURN_IF(kv_states_open(pool));
    pool->n_free = pool->n_blocks;
    for (uint32_t i = 0; i < pool->n_blocks; i++) pool->free_blocks[i] = pool->n_blocks - 1 - i;
    return CERIUM_OK;
}

/* Set up all but the memory.  CERIUM_ERR_CAPACITY, with *err; CERIUM_ERR_MEMORY. */
static int lay_out(kv_pool *pool, const kv_layout *layout, cerium_error *err)
{
    pool->type = layout->type;
    pool->n_layers = layout->n_layers;
    pool->context_tokens = layout->context_tokens;
    pool->sequences_max = layout->sequences_max;
    pool->even_blocks = (double)layout->even_tokens / KERNEL_PAGE;
    pool->has_lock = pthread_mutex_init(&pool->lock, NULL) == 0;
    pool->layers = memory_zalloc(layout->n_layers, sizeof *pool->layers);
    if (!pool->layers || !pool->has_lock) return CERIUM_ERR_MEMORY;
    RETURN_IF(group_layers(pool, layout, err));
    return share_out(pool, layout);
}

uint64_t kv_layout_bytes(const kv_layout *layout)
{
    uint64_t n = 0;
    kv_pool *pool = memory_zalloc(1, sizeof *pool);
    if (pool && !lay_out(pool, layout, NULL))
        for (uint32_t g = 0; g < pool->n_groups; g++) n += pool->groups[g].pages_bytes;
    if (pool) n += (uint64_t)pool->states.n * pool->states.bytes;
    kv_pool_close(&pool);
    return n;
}

int kv_pool_open(kv_pool **out, const kv_layout *layout, cerium_error *err)
{
    int status = CERIUM_ERR_MEMORY;
    kv_pool *pool = memory_zalloc(1, sizeof *pool);
    if (!pool) goto fail;
    status = lay_out(pool, layout, err);
    if (status == CERIUM_ERR_CAPACITY) {
        kv_pool_close(&pool);
        return status;
    }
    if (!status) status = take_memory(pool);
    if (status) goto fail;
    kv_prefault_open(pool);
    *out = pool;
    return CERIUM_OK;
fail:
    kv_pool_close(&pool);
    return error_set(err, status,
                     "no memory for the KV cache of %u sequences of %u tokens; "
                     "lower the context or the number of sessions",
                     layout->sequences_max, layout->context_tokens);
}

void kv_pool_close(kv_pool **pool)
{
    if (!pool || !*pool) return;
    kv_pool *p = *pool;
    CHECK(p->n_sequences == 0);
    kv_pool_detach_disk(p);
    if (p->watcher) p->watcher->cleared(p->watcher_user);
    kv_prefault_close(p);
    for (uint32_t g = 0; g < KV_GROUPS_MAX; g++) {
        kv_group *group = &p->groups[g];
        memory_unmap(group->pages, group->pages_bytes);
        memory_free(group->page_of);
        memory_free(group->users);
        memory_free(group->block_of);
        memory_free(group->free_pages);
        memory_free(group->list_of);
        memory_free(group->older);
        memory_free(group->newer);
    }
    kv_states_close(p);
    memory_unmap(p->blocks, p->n_blocks * sizeof *p->blocks);
    memory_free(p->free_blocks);
    memory_free(p->heap);
    memory_free(p->full);
    memory_free(p->near);
    memory_free(p->layers);
    if (p->has_lock) pthread_mutex_destroy(&p->lock);
    memory_free(p);
    *pool = NULL;
}

uint64_t kv_token_bytes(const kv_pool *pool)
{
    for (uint32_t g = 0; g < pool->n_groups; g++)
        if (!pool->groups[g].window) return pool->groups[g].page_bytes / KERNEL_PAGE;
    return 0;
}

void kv_pool_measure(kv_pool *pool, kv_use *use)
{
    pthread_mutex_lock(&pool->lock);
    *use = (kv_use){.blocks_max = pool->blocks_limit,
                    .held = pool->n_blocks - pool->n_free - pool->n_idle,
                    .idle = pool->n_idle};
    kv_states_measure(pool, use);
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        const kv_group *group = &pool->groups[g];
        const uint32_t n = kv_pages_used(group);
        use->held_bytes += (group->window && n < use->held ? n : use->held) * group->page_bytes;
    }
    if (pool->listener) pool->listener->measure(pool->listener_user, use);
    pthread_mutex_unlock(&pool->lock);
}

void kv_pool_detach_disk(kv_pool *pool)
{
    if (!pool->listener) return;
    CHECK(pool->n_sequences == 0);
    pool->listener->close(pool->listener_user);
    pool->listener = NULL;
    pool->listener_user = NULL;
}

/* ---- pages of groups with a window ---- */

static void list_page(const kv_pool *pool, kv_group *group, uint32_t page)
{
    uint8_t list = group->list_of[page] = pool->blocks[group->block_of[page]].is_marked;
    uint32_t newest = group->newest[list];
    group->older[page] = newest;
    group->newer[page] = KV_NONE;
    *(newest == KV_NONE ? &group->oldest[list] : &group->newer[newest]) = page;
    group->newest[list] = page;
}

void kv_page_unlist(kv_group *group, uint32_t page)
{
    uint32_t older = group->older[page], newer = group->newer[page], list = group->list_of[page];
    *(older == KV_NONE ? &group->oldest[list] : &group->newer[older]) = newer;
    *(newer == KV_NONE ? &group->newest[list] : &group->older[newer]) = older;
}

/* Pages are listed for eviction when their block is in the tree and no sequence uses them. */
static bool is_listed(const kv_pool *pool, const kv_group *group, uint32_t block)
{
    return pool->blocks[block].in_tree && group->page_of[block] != KV_NONE &&
           group->users[block] == 0;
}

static bool take_page(kv_pool *pool, kv_group *group, uint32_t block)
{
    uint32_t page = group->oldest[group->oldest[0] == KV_NONE];
    if (group->n_free > 0 && kv_pages_used(group) < group->pages_limit) {
        page = group->free_pages[--group->n_free];
    } else {
        if (page == KV_NONE) return false;
        kv_page_unlist(group, page);
        group->page_of[group->block_of[page]] = KV_NONE;
    }
    group->page_of[block] = page;
    group->block_of[page] = block;
    kv_prefault_note(pool, group, page);
    return true;
}

void kv_block_use_page(kv_pool *pool, uint32_t g, uint32_t block)
{
    kv_group *group = &pool->groups[g];
    if (is_listed(pool, group, block)) kv_page_unlist(group, group->page_of[block]);
    group->users[block]++;
}

void kv_block_leave_page(kv_pool *pool, uint32_t g, uint32_t block)
{
    kv_group *group = &pool->groups[g];
    CHECK(group->users[block] > 0);
    group->users[block]--;
    if (is_listed(pool, group, block)) list_page(pool, group, group->page_of[block]);
}

void kv_block_list_pages(kv_pool *pool, uint32_t block, bool listed)
{
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        kv_group *group = &pool->groups[g];
        if (!group->window || group->page_of[block] == KV_NONE || group->users[block]) continue;
        if (listed)
            list_page(pool, group, group->page_of[block]);
        else
            kv_page_unlist(group, group->page_of[block]);
    }
}

bool kv_block_has_pages(const kv_pool *pool, uint32_t block)
{
    for (uint32_t g = 0; g < pool->n_groups; g++)
        if (pool->groups[g].window && pool->groups[g].page_of[block] == KV_NONE) return false;
    return true;
}

void kv_block_give_pages(kv_pool *pool, uint32_t to, uint32_t from)
{
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        kv_group *group = &pool->groups[g];
        if (!group->window || group->page_of[to] != KV_NONE) continue;
        CHECK(!pool->blocks[from].in_tree);
        group->page_of[to] = group->page_of[from];
        group->page_of[from] = KV_NONE;
        if (group->page_of[to] == KV_NONE) continue;
        group->block_of[group->page_of[to]] = to;
        if (is_listed(pool, group, to)) list_page(pool, group, group->page_of[to]);
    }
}

void kv_block_mark(kv_pool *pool, uint32_t block)
{
    kv_block *b = &pool->blocks[block];
    if (b->is_marked) return;
    if (b->in_tree) kv_block_list_pages(pool, block, false);
    b->is_marked = true;
    if (b->in_tree) kv_block_list_pages(pool, block, true);
}

void kv_pages_drop(const kv_group *group, uint32_t first, uint32_t n)
{
    memory_drop(group->pages + (size_t)first * group->page_bytes, n * group->page_bytes);
}

/* ---- blocks ---- */

void kv_block_hold(kv_pool *pool, uint32_t block)
{
    CHECK(pool->blocks[block].in_tree);
    if (pool->blocks[block].holders++ == 0) kv_idle_remove(pool, block);
}

void kv_block_let_go(kv_pool *pool, uint32_t block)
{
    CHECK(pool->blocks[block].in_tree && pool->blocks[block].holders > 0);
    if (--pool->blocks[block].holders == 0) kv_idle_add(pool, block);
}

void kv_block_free(kv_pool *pool, uint32_t block)
{
    CHECK(!pool->blocks[block].in_tree && pool->n_free < pool->n_blocks);
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        kv_group *group = &pool->groups[g];
        if (!group->window) continue;
        CHECK(group->users[block] == 0);
        const uint32_t page = group->page_of[block];
        if (page == KV_NONE) continue;
        group->free_pages[group->n_free++] = page;
        group->page_of[block] = KV_NONE;
        if (kv_pages_used(group) >= group->pages_limit) kv_pages_drop(group, page, 1);
    }
    pool->free_blocks[pool->n_free++] = block;
    for (uint32_t g = 0; g < pool->n_groups && kv_blocks_used(pool) >= pool->blocks_limit; g++)
        if (!pool->groups[g].window) kv_pages_drop(&pool->groups[g], block, 1);
}

uint32_t kv_block_take(kv_pool *pool, uint32_t groups)
{
    if (pool->n_free == 0) return KV_NONE;
    uint32_t block = pool->free_blocks[--pool->n_free];
    kv_block *b = &pool->blocks[block];
    b->n_tokens = 0;
    b->holders = 1;
    b->is_marked = false;
    b->n_uses = 1;
    b->first_state = KV_NONE;
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        if (!pool->groups[g].window) kv_prefault_note(pool, &pool->groups[g], block);
        if (!pool->groups[g].window || !(groups >> g & 1)) continue;
        if (take_page(pool, &pool->groups[g], block)) continue;
        kv_block_free(pool, block);
        return KV_NONE;
    }
    return block;
}

void kv_block_copy(kv_pool *pool, uint32_t to, uint32_t from)
{
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        kv_group *group = &pool->groups[g];
        size_t a = group->window ? group->page_of[to] : to;
        size_t b = group->window ? group->page_of[from] : from;
        CHECK(a < group->n_pages && b < group->n_pages);
        memcpy(group->pages + a * group->page_bytes, group->pages + b * group->page_bytes,
               group->page_bytes);
    }
}
