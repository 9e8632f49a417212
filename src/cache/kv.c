/* kv.c - groups of layers, the page pool with its free list, and page tables. */
#include "cache/kv.h"

#include "base/memory.h"

typedef struct {
    uint32_t window;      /* 0 = everything */
    uint32_t n_layers;
    uint32_t table_pages; /* entries of a sequence's table: a ring where there is a window */
    size_t page_bytes;    /* of all layers of the group */
    uint8_t *pages;       /* [n_pages][page_bytes] */
    size_t pages_bytes;
    uint32_t n_pages;
    uint32_t *free_list;  /* [n_free]: a stack of page numbers */
    uint32_t n_free;
} kv_group;

typedef struct {
    uint32_t group, index; /* of the layer within its group */
} kv_place;

struct kv_pool {
    kernel_kv_type type;
    size_t keys_bytes; /* of one page of one KV head; its values take as many */
    uint32_t n_layers, n_kv_heads, context_tokens, sequences_max;
    uint32_t n_groups, n_sequences;
    kv_group groups[KV_GROUPS_MAX];
    kv_place *places; /* [n_layers] */
};

struct kv_sequence {
    kv_pool *pool;
    uint32_t context_tokens;
    uint32_t n_pages;     /* of tokens [0, n_pages * KERNEL_PAGE) have their place */
    uint32_t written_end; /* highest token ever reserved since the last restart */
    uint32_t *tables[KV_GROUPS_MAX]; /* [table_pages] page numbers */
};

static uint32_t pages_for(uint32_t n_tokens) { return (n_tokens + KERNEL_PAGE - 1) / KERNEL_PAGE; }

/* Tables are rings only where a ring is shorter than the context. */
static uint32_t group_table_pages(const kv_layout *layout, uint32_t window)
{
    uint32_t all = pages_for(layout->context_tokens);
    if (!window) return all;
    uint64_t ring = ((uint64_t)window + layout->batch_tokens + KERNEL_PAGE - 1) / KERNEL_PAGE + 1;
    return ring < all ? (uint32_t)ring : all;
}

static int group_layers(kv_pool *pool, const kv_layout *layout, cerium_error *err)
{
    for (uint32_t layer = 0; layer < layout->n_layers; layer++) {
        uint32_t g = 0;
        while (g < pool->n_groups && pool->groups[g].window != layout->windows[layer]) g++;
        if (g == KV_GROUPS_MAX)
            return error_set(err, CERIUM_ERR_CAPACITY,
                             "layers with more than %d different windows are not supported",
                             KV_GROUPS_MAX);
        if (g == pool->n_groups) {
            pool->groups[g].window = layout->windows[layer];
            pool->groups[g].table_pages = group_table_pages(layout, layout->windows[layer]);
            pool->n_groups++;
        }
        pool->places[layer] = (kv_place){g, pool->groups[g].n_layers++};
    }
    return CERIUM_OK;
}

static int take_pages(const kv_pool *pool, kv_group *group)
{
    size_t heads = (size_t)pool->n_kv_heads * group->n_layers, n_pages;
    if (!size_mul(2 * pool->keys_bytes, heads, &group->page_bytes) ||
        !size_mul(group->table_pages, pool->sequences_max, &n_pages) || n_pages >= KV_NO_PAGE ||
        !size_mul(group->page_bytes, n_pages, &group->pages_bytes))
        return CERIUM_ERR_MEMORY;
    group->n_pages = group->n_free = (uint32_t)n_pages;
    group->pages = memory_map(group->pages_bytes);
    group->free_list = memory_alloc(n_pages * sizeof *group->free_list);
    if (!group->pages || !group->free_list) return CERIUM_ERR_MEMORY;
    for (uint32_t i = 0; i < group->n_pages; i++) group->free_list[i] = group->n_pages - 1 - i;
    return CERIUM_OK;
}

int kv_pool_open(kv_pool **out, const kv_layout *layout, cerium_error *err)
{
    int status = CERIUM_ERR_MEMORY;
    kv_pool *pool = memory_zalloc(1, sizeof *pool);
    if (!pool) goto fail;
    pool->type = layout->type;
    pool->keys_bytes = kernel_kv_bytes(layout->type, layout->head_dim);
    pool->n_layers = layout->n_layers;
    pool->n_kv_heads = layout->n_kv_heads;
    pool->context_tokens = layout->context_tokens;
    pool->sequences_max = layout->sequences_max;
    pool->places = memory_zalloc(layout->n_layers, sizeof *pool->places);
    if (!pool->places) goto fail;
    status = group_layers(pool, layout, err);
    if (status) {
        kv_pool_close(&pool);
        return status;
    }
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        status = take_pages(pool, &pool->groups[g]);
        if (status) goto fail;
    }
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
    CHECK((*pool)->n_sequences == 0);
    for (uint32_t g = 0; g < KV_GROUPS_MAX; g++) {
        memory_unmap((*pool)->groups[g].pages, (*pool)->groups[g].pages_bytes);
        memory_free((*pool)->groups[g].free_list);
    }
    memory_free((*pool)->places);
    memory_free(*pool);
    *pool = NULL;
}

uint64_t kv_token_bytes(const kv_pool *pool)
{
    for (uint32_t g = 0; g < pool->n_groups; g++)
        if (!pool->groups[g].window) return pool->groups[g].page_bytes / KERNEL_PAGE;
    return 0;
}

int kv_sequence_open(kv_sequence **out, kv_pool *pool, uint32_t context_tokens, cerium_error *err)
{
    CHECK(context_tokens >= 1 && context_tokens <= pool->context_tokens);
    if (pool->n_sequences >= pool->sequences_max)
        return error_set(err, CERIUM_ERR_CAPACITY,
                         "%u sessions are open, the most that the engine was opened for",
                         pool->n_sequences);
    kv_sequence *seq = memory_zalloc(1, sizeof *seq);
    if (!seq) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a session");
    seq->pool = pool;
    seq->context_tokens = context_tokens;
    pool->n_sequences++;
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        uint32_t n = pool->groups[g].table_pages;
        seq->tables[g] = memory_alloc(n * sizeof(uint32_t));
        if (!seq->tables[g]) {
            kv_sequence_close(&seq);
            return error_set(err, CERIUM_ERR_MEMORY, "no memory for a session");
        }
        for (uint32_t i = 0; i < n; i++) seq->tables[g][i] = KV_NO_PAGE;
    }
    *out = seq;
    return CERIUM_OK;
}

static void give_back(kv_sequence *seq, uint32_t g, uint32_t entry)
{
    kv_group *group = &seq->pool->groups[g];
    uint32_t *page = &seq->tables[g][entry];
    if (*page == KV_NO_PAGE) return;
    group->free_list[group->n_free++] = *page;
    *page = KV_NO_PAGE;
}

void kv_sequence_close(kv_sequence **seq)
{
    if (!seq || !*seq) return;
    kv_pool *pool = (*seq)->pool;
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        if (!(*seq)->tables[g]) continue;
        for (uint32_t i = 0; i < pool->groups[g].table_pages; i++) give_back(*seq, g, i);
        memory_free((*seq)->tables[g]);
    }
    pool->n_sequences--;
    memory_free(*seq);
    *seq = NULL;
}

int kv_sequence_reserve(kv_sequence *seq, uint32_t end)
{
    if (end > seq->context_tokens) return CERIUM_ERR_CAPACITY;
    uint32_t n = pages_for(end);
    for (uint32_t g = 0; g < seq->pool->n_groups; g++) {
        kv_group *group = &seq->pool->groups[g];
        for (uint32_t p = seq->n_pages; p < n; p++) {
            uint32_t *page = &seq->tables[g][p % group->table_pages];
            if (*page != KV_NO_PAGE) continue;
            /* The pool holds a full table for every sequence: it cannot be empty here. */
            CHECK(group->n_free > 0);
            *page = group->free_list[--group->n_free];
        }
    }
    if (n > seq->n_pages) seq->n_pages = n;
    if (end > seq->written_end) seq->written_end = end;
    return CERIUM_OK;
}

/* Whether token n's window still lies in the ring, whose last page may be far ahead of n. */
static bool window_is_there(const kv_sequence *seq, const kv_group *group, uint32_t n)
{
    if (!group->window || seq->written_end == 0) return true;
    uint32_t first = n + 1 > group->window ? n + 1 - group->window : 0;
    uint32_t last_page = (seq->written_end - 1) / KERNEL_PAGE;
    return last_page - first / KERNEL_PAGE < group->table_pages || last_page < first / KERNEL_PAGE;
}

uint32_t kv_sequence_truncate(kv_sequence *seq, uint32_t n)
{
    kv_pool *pool = seq->pool;
    for (uint32_t g = 0; g < pool->n_groups; g++)
        if (!window_is_there(seq, &pool->groups[g], n)) n = 0;
    if (n == 0) seq->written_end = 0;
    if (seq->n_pages > pages_for(n)) seq->n_pages = pages_for(n);
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        if (pool->groups[g].window) continue; /* a ring keeps its pages */
        for (uint32_t p = pages_for(n); p < pool->groups[g].table_pages; p++) {
            if (seq->tables[g][p] == KV_NO_PAGE) break;
            give_back(seq, g, p);
        }
    }
    return n;
}

kv_page kv_sequence_page(const kv_sequence *seq, uint32_t layer, uint32_t kv_head, uint32_t page)
{
    const kv_pool *pool = seq->pool;
    kv_place place = pool->places[layer];
    const kv_group *group = &pool->groups[place.group];
    uint32_t number = seq->tables[place.group][page % group->table_pages];
    size_t head = (size_t)place.index * pool->n_kv_heads + kv_head;
    uint8_t *keys = group->pages + number * group->page_bytes + head * 2 * pool->keys_bytes;
    return (kv_page){pool->type, keys, keys + pool->keys_bytes};
}
