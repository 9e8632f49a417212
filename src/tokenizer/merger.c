/* merger.c - owns the merge loop; knows only symbols and the map of pairs. */
#include "tokenizer/merger.h"

#define RANK_NEVER UINT32_MAX

void merger_open(merger *m)
{
    CHECK(m);
    m->ids = m->small_ids;
    m->ranks = m->small_ranks;
    m->merged = m->small_merged;
    m->next = m->previous = NULL;
    m->heap = NULL;
    m->cap = MERGER_SCAN_MAX;
    m->n = 0;
    m->n_heap_moves = 0;
}

/* All arrays lie in one block that begins with the heap. */
void merger_close(merger *m)
{
    memory_free(m->heap);
    merger_open(m);
}

int merger_reserve(merger *m, size_t n)
{
    m->n = 0;
    if (n <= m->cap) return CERIUM_OK;
    size_t cap = m->cap * 2 > n ? m->cap * 2 : n, size;
    if (!size_mul(cap, 2 * sizeof *m->heap + 5 * sizeof *m->ids, &size)) return CERIUM_ERR_MEMORY;
    uint64_t *block = memory_alloc(size);
    if (!block) return CERIUM_ERR_MEMORY;
    memory_free(m->heap);
    m->heap = block;
    m->ids = (int32_t *)(block + 2 * cap);
    m->merged = m->ids + cap;
    m->ranks = (uint32_t *)(m->merged + cap);
    m->next = m->ranks + cap;
    m->previous = m->next + cap;
    m->cap = cap;
    return CERIUM_OK;
}

/* ---- Section - Short pieces ---- */

static void look_up(merger *m, const merge_map *pairs, size_t at, size_t right)
{
    const merge_slot *slot = merge_find(pairs, m->ids[at], m->ids[right]);
    m->ranks[at] = slot ? slot->rank : RANK_NEVER;
    m->merged[at] = slot ? slot->id : TOKEN_NONE;
}

static void run_scan(merger *m, const merge_map *pairs)
{
    size_t n = m->n;
    for (size_t i = 0; i + 1 < n; i++) look_up(m, pairs, i, i + 1);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (m->ranks[i] < m->ranks[best]) best = i;
        if (m->ranks[best] == RANK_NEVER) break;
        m->ids[best] = m->merged[best];
        n--;
        for (size_t i = best + 1; i < n; i++) {
            m->ids[i] = m->ids[i + 1];
            m->ranks[i] = m->ranks[i + 1];
            m->merged[i] = m->merged[i + 1];
        }
        if (best + 1 < n) look_up(m, pairs, best, best + 1);
        if (best > 0) look_up(m, pairs, best - 1, best);
    }
    m->n = n;
}

/* ---- Section - Long pieces ---- */

/* A heap entry is stale when its place is dead or has another rank by now; so nothing is ever
 * removed from the middle.  Every merge takes one entry and adds at most two: 2n are enough. */

static void heap_sink(merger *m, size_t n, size_t at)
{
    uint64_t *heap = m->heap, entry = heap[at];
    for (;;) {
        size_t first = 4 * at + 1;
        if (first >= n) break;
        size_t least = first, end = first + 4 < n ? first + 4 : n;
        for (size_t i = first + 1; i < end; i++)
            if (heap[i] < heap[least]) least = i;
        if (heap[least] >= entry) break;
        heap[at] = heap[least];
        at = least;
        m->n_heap_moves++;
    }
    heap[at] = entry;
}

static void heap_add(merger *m, size_t *n, uint64_t entry)
{
    CHECK(*n < 2 * m->cap);
    size_t at = (*n)++;
    while (at > 0 && m->heap[(at - 1) / 4] > entry) {
        m->heap[at] = m->heap[(at - 1) / 4];
        at = (at - 1) / 4;
        m->n_heap_moves++;
    }
    m->heap[at] = entry;
}

static uint64_t heap_take(merger *m, size_t *n)
{
    uint64_t least = m->heap[0];
    m->heap[0] = m->heap[--*n];
    if (*n) heap_sink(m, *n, 0);
    return least;
}

static void look_up_long(merger *m, const merge_map *pairs, size_t *n_heap, uint32_t at)
{
    uint32_t right = m->next[at];
    m->ranks[at] = RANK_NEVER;
    if (right == m->n) return;
    look_up(m, pairs, at, right);
    if (m->ranks[at] != RANK_NEVER) heap_add(m, n_heap, (uint64_t)m->ranks[at] << 32 | at);
}

/* Ranks reach at most TOKENIZER_TOKENS_MAX, so RANK_NEVER is none.  A dead place has RANK_NEVER. */
static void run_heap(merger *m, const merge_map *pairs)
{
    uint32_t n = (uint32_t)m->n;
    size_t n_heap = 0;
    for (uint32_t i = 0; i < n; i++) {
        m->next[i] = i + 1;
        m->previous[i] = i - 1;
        m->ranks[i] = RANK_NEVER;
        if (i + 1 < n) look_up(m, pairs, i, i + 1);
        if (m->ranks[i] != RANK_NEVER) m->heap[n_heap++] = (uint64_t)m->ranks[i] << 32 | i;
    }
    for (size_t i = n_heap / 4 + 1; i-- > 0;)
        if (i < n_heap) heap_sink(m, n_heap, i);
    while (n_heap) {
        uint64_t entry = heap_take(m, &n_heap);
        uint32_t at = (uint32_t)entry;
        if (m->ranks[at] != entry >> 32) continue;
        uint32_t right = m->next[at];
        m->ids[at] = m->merged[at];
        m->next[at] = m->next[right];
        m->ranks[right] = RANK_NEVER;
        if (m->next[at] < n) m->previous[m->next[at]] = at;
        look_up_long(m, pairs, &n_heap, at);
        if (at > 0) look_up_long(m, pairs, &n_heap, m->previous[at]);
    }
    size_t n_left = 0;
    for (uint32_t i = 0; i < n; i = m->next[i]) m->ids[n_left++] = m->ids[i];
    m->n = n_left;
}

void merger_run(merger *m, const merge_map *pairs)
{
    CHECK(m->n <= m->cap);
    if (m->n < 2) return;
    if (m->n <= MERGER_SCAN_MAX) run_scan(m, pairs);
    else run_heap(m, pairs);
}
