/* merger.c - owns the merge loop; knows only symbols and the map of pairs.
 *
 * Long pieces.  Every place where a rule applies is in the list of the rule's rank; the lowest rank
 * is taken from a heap of ranks, and its list is processed from left to right.  Unlike in a heap of
 * places, the next place is then beside the last one in memory; a piece of many megabytes would
 * wait for memory otherwise.
 *
 * A merge makes one new symbol, and with it at most two new pairs: of its left neighbour and it,
 * and of it and its right neighbour.  So while a list is processed
 *   - places are added to a higher rank from left to right: they are appended, and only a list that
 *     was filled in several goes can be mixed, and is sorted once, before it is opened;
 *   - a lower rank can only apply to the new symbol.  It goes first, and makes a new symbol that
 *     holds the one before, until no lower rank is left;
 *   - a place that returns to the open list is the new symbol or its left neighbour.  All others in
 *     the list lie to the right of both, so its place is the first or the second.
 *
 * Windows.  A long piece is merged a window at a time, in the caches.  The result is that of the
 * whole piece by this lemma, for any rules: let X end with the token a, Y begin with b, each merged
 * alone.  If the symbols of a and b together merge to a, b, then XY merges to the symbols of X and
 * of Y.
 *   Proof: until a rule joins X and Y, both merge as they do alone, and so do the symbols under a
 *   and b, as no other symbol ever joins them.  At every moment the next merge within a, within b,
 *   or of the pair between them is the one of the lowest rank, then the leftmost, of these three,
 *   independent of merges elsewhere; and of these three the pair between was never the next when a
 *   and b went together.
 * Neighbouring tokens in a window are such a and b.  So all of a window but its end is kept, and
 * the next window begins with the first token that is not kept: if that token results again, the
 * seam is right.  If not, the end of the window had an effect over an eighth of it: the piece is
 * merged in one window, which needs no proof. */
#include "tokenizer/merger.h"

#define MERGER_NONE UINT32_MAX
#define RANK_NEVER  UINT32_MAX

void merger_open(merger *m, const merge_map *pairs)
{
    CHECK(m && pairs);
    m->pairs = pairs;
    m->ids = m->merged = m->small_ids;
    m->cap = MERGER_SCAN_MAX;
    m->n = m->n_merged = 0;
    m->window = MERGER_WINDOW;
    m->work = NULL;
    m->symbols = NULL;
    m->lists = NULL;
    m->queue = NULL;
    m->work_cap = m->n_work = m->n_queue = 0;
    m->n_moves = m->n_looked = 0;
}

/* Three blocks: ids and merged, symbols and work, lists and queue. */
void merger_close(merger *m)
{
    if (m->ids != m->small_ids) memory_free(m->ids);
    memory_free(m->symbols);
    memory_free(m->lists);
    merger_open(m, m->pairs);
}

static int reserve_lists(merger *m)
{
    size_t n = (size_t)m->pairs->n_ranks + 1;
    if (m->lists) return CERIUM_OK;
    m->lists = memory_zalloc(n, sizeof *m->lists + sizeof *m->queue);
    if (!m->lists) return CERIUM_ERR_MEMORY;
    m->queue = (uint32_t *)(m->lists + n);
    return CERIUM_OK;
}

static int reserve_window(merger *m, size_t n)
{
    size_t size;
    if (n <= m->work_cap) return CERIUM_OK;
    if (!size_mul(n, sizeof *m->symbols + sizeof *m->work, &size)) return CERIUM_ERR_MEMORY;
    merger_symbol *block = memory_alloc(size);
    if (!block) return CERIUM_ERR_MEMORY;
    memory_free(m->symbols);
    m->symbols = block;
    m->work = (int32_t *)(block + n);
    m->work_cap = n;
    return CERIUM_OK;
}

int merger_reserve(merger *m, size_t n)
{
    m->n = 0;
    if (n <= m->cap) return CERIUM_OK;
    RETURN_IF(reserve_lists(m));
    size_t cap = m->cap * 2 > n ? m->cap * 2 : n, size;
    RETURN_IF(reserve_window(m, cap < m->window ? cap : m->window));
    if (!size_mul(cap, sizeof *m->ids + sizeof *m->merged, &size)) return CERIUM_ERR_MEMORY;
    int32_t *block = memory_alloc(size);
    if (!block) return CERIUM_ERR_MEMORY;
    if (m->ids != m->small_ids) memory_free(m->ids);
    m->ids = block;
    m->merged = block + cap;
    m->cap = cap;
    return CERIUM_OK;
}

/* ---- short pieces ---- */

static void look_up(merger *m, size_t at)
{
    const merge_slot *slot = merge_find(m->pairs, m->ids[at], m->ids[at + 1]);
    m->n_looked++;
    m->small_ranks[at] = slot ? slot->rank : RANK_NEVER;
    m->small_merged[at] = slot ? slot->id : TOKEN_NONE;
}

/* Works in m->ids; m->merged may be another array by now. */
static void run_scan(merger *m)
{
    size_t n = m->n;
    uint32_t *ranks = m->small_ranks;
    for (size_t i = 0; i + 1 < n; i++) look_up(m, i);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (ranks[i] < ranks[best]) best = i;
        if (ranks[best] == RANK_NEVER) break;
        m->ids[best] = m->small_merged[best];
        n--;
        for (size_t i = best + 1; i < n; i++) {
            m->ids[i] = m->ids[i + 1];
            ranks[i] = ranks[i + 1];
            m->small_merged[i] = m->small_merged[i + 1];
        }
        if (best + 1 < n) look_up(m, best);
        if (best > 0) look_up(m, best - 1);
    }
    if (m->merged != m->ids) memcpy(m->merged, m->ids, n * sizeof *m->ids);
    m->n_merged = n;
}

/* ---- the queue of ranks ---- */

static void queue_add(merger *m, uint32_t rank)
{
    size_t at = m->n_queue++;
    CHECK(at < (size_t)m->pairs->n_ranks);
    for (; at > 0 && m->queue[(at - 1) / 4] > rank; at = (at - 1) / 4, m->n_moves++)
        m->queue[at] = m->queue[(at - 1) / 4];
    m->queue[at] = rank;
}

static void queue_drop_first(merger *m)
{
    uint32_t *queue = m->queue, rank = queue[--m->n_queue];
    size_t n = m->n_queue, at = 0;
    for (;;) {
        size_t first = 4 * at + 1;
        if (first >= n) break;
        size_t least = first, end = first + 4 < n ? first + 4 : n;
        for (size_t i = first + 1; i < end; i++)
            if (queue[i] < queue[least]) least = i;
        if (queue[least] >= rank) break;
        queue[at] = queue[least];
        at = least;
        m->n_moves++;
    }
    queue[at] = rank;
}

/* ---- the list of a rank ---- */

static void list_remove(merger *m, uint32_t at)
{
    merger_symbol *s = m->symbols;
    if (s[at].rule == MERGER_NONE) return;
    merger_list *list = &m->lists[m->pairs->slots[s[at].rule].rank];
    uint32_t before = s[at].before, after = s[at].after;
    if (before == MERGER_NONE) list->first = after;
    else s[before].after = after;
    if (after == MERGER_NONE) list->last = before;
    else s[after].before = before;
    list->n--;
    s[at].rule = MERGER_NONE;
}

/* Insert into an open list after all places to the left of it: the top of the file says why that
 * place is found soon. */
static void list_insert(merger *m, merger_list *list, uint32_t at)
{
    merger_symbol *s = m->symbols;
    uint32_t before = MERGER_NONE, after = list->first;
    for (; after != MERGER_NONE && after < at; m->n_moves++) {
        before = after;
        after = s[after].after;
    }
    s[at].before = before;
    s[at].after = after;
    if (before == MERGER_NONE) list->first = at;
    else s[before].after = at;
    if (after == MERGER_NONE) list->last = at;
    else s[after].before = at;
}

static void list_add(merger *m, uint32_t at, uint32_t rank)
{
    merger_list *list = &m->lists[rank];
    merger_symbol *s = m->symbols;
    if (!list->n) {
        s[at].before = s[at].after = MERGER_NONE;
        list->first = list->last = at;
        list->mixed = false;
    } else if (list->open) {
        list_insert(m, list, at);
    } else {
        if (at < list->last) list->mixed = true;
        s[at].before = list->last;
        s[at].after = MERGER_NONE;
        s[list->last].after = at;
        list->last = at;
    }
    list->n++;
    if (list->queued) return;
    list->queued = true;
    queue_add(m, rank);
}

/* Merges two lists, ordered by `after` alone, into one. */
static uint32_t join(merger *m, uint32_t a, uint32_t b)
{
    merger_symbol *s = m->symbols;
    uint32_t first = a < b ? a : b, last = MERGER_NONE;
    while (a != MERGER_NONE && b != MERGER_NONE) {
        uint32_t *least = a < b ? &a : &b, at = *least;
        *least = s[at].after;
        if (last != MERGER_NONE) s[last].after = at;
        last = at;
        m->n_moves++;
    }
    s[last].after = a != MERGER_NONE ? a : b;
    return first;
}

/* Merge sort of the runs that are in order already; runs[k] holds 2^k of them. */
static void list_sort(merger *m, merger_list *list)
{
    enum { RUNS = 32 };
    merger_symbol *s = m->symbols;
    uint32_t runs[RUNS], all = MERGER_NONE;
    for (int k = 0; k < RUNS; k++) runs[k] = MERGER_NONE;
    for (uint32_t from = list->first, next; from != MERGER_NONE; from = next) {
        uint32_t at = from, run = from;
        while (s[at].after != MERGER_NONE && s[at].after > at) at = s[at].after;
        next = s[at].after;
        s[at].after = MERGER_NONE;
        int k = 0;
        for (; runs[k] != MERGER_NONE; runs[k++] = MERGER_NONE) run = join(m, runs[k], run);
        runs[k] = run;
    }
    for (int k = 0; k < RUNS; k++) {
        if (runs[k] == MERGER_NONE) continue;
        all = all == MERGER_NONE ? runs[k] : join(m, runs[k], all);
    }
    list->first = all;
    uint32_t before = MERGER_NONE;
    for (uint32_t at = all; at != MERGER_NONE; before = at, at = s[at].after)
        s[at].before = before;
    list->last = before;
    list->mixed = false;
}

/* ---- windows ---- */

static void add_rule(merger *m, uint32_t at, const merge_slot *slot)
{
    m->symbols[at].rule = slot ? (uint32_t)(slot - m->pairs->slots) : MERGER_NONE;
    if (slot) list_add(m, at, slot->rank);
}

/* The pair that begins at this place has changed. */
static void renew(merger *m, uint32_t at)
{
    list_remove(m, at);
    uint32_t right = m->symbols[at].right;
    if (right >= m->n_work) return;
    m->n_looked++;
    add_rule(m, at, merge_find(m->pairs, m->work[at], m->work[right]));
}

static void begin_lists(merger *m)
{
    const int32_t *ids = m->work;
    const merge_slot *slot = NULL;
    uint32_t n = (uint32_t)m->n_work;
    for (uint32_t i = 0; i < n; i++) {
        m->symbols[i].left = i - 1;
        m->symbols[i].right = i + 1;
        m->symbols[i].rule = MERGER_NONE;
        if (i + 1 == n) break;
        bool same = i > 0 && ids[i - 1] == ids[i] && ids[i] == ids[i + 1];
        if (!same) slot = merge_find(m->pairs, ids[i], ids[i + 1]);
        m->n_looked += !same;
        add_rule(m, i, slot);
    }
}

static void merge_at(merger *m, uint32_t at)
{
    merger_symbol *s = m->symbols;
    uint32_t right = s[at].right, end = s[right].right;
    m->work[at] = m->pairs->slots[s[at].rule].id;
    list_remove(m, right);
    s[at].right = end;
    if (end < m->n_work) s[end].left = at;
    if (at > 0) renew(m, s[at].left);
    renew(m, at);
}

/* Merge the n symbols from a place of the piece.  The result begins at place 0 of the window and
 * continues at symbols[].right. */
static int run_window(merger *m, size_t from, size_t n)
{
    RETURN_IF(reserve_window(m, n));
    memcpy(m->work, m->ids + from, n * sizeof *m->work);
    m->n_work = n;
    begin_lists(m);
    while (m->n_queue) {
        merger_list *list = &m->lists[m->queue[0]];
        if (!list->n) {
            list->queued = list->open = false;
            queue_drop_first(m);
            continue;
        }
        if (list->mixed) list_sort(m, list);
        list->open = true;
        merge_at(m, list->first);
    }
    return CERIUM_OK;
}

/* Keep the tokens that begin before limit, but never the last one; returns the beginning of the
 * first token not kept. */
static uint32_t keep_until(merger *m, size_t limit)
{
    uint32_t at = 0;
    for (; at < limit && m->symbols[at].right < m->n_work; at = m->symbols[at].right)
        m->merged[m->n_merged++] = m->work[at];
    return at;
}

/* If the n symbols from a place equal those of the last merged window, so does their result.
 * In a run of repetitions every window is equal. */
static bool is_merged(const merger *m, size_t last, size_t from, size_t n)
{
    return from > last && n == m->n_work &&
           memcmp(m->ids + from, m->ids + last, n * sizeof *m->ids) == 0;
}

/* One window after the other; *whole is false: a seam is not right. */
static int run_windows(merger *m, size_t width, bool *whole)
{
    uint32_t expected = 0; /* symbols under the token that the window must begin with; 0: any */
    size_t merged_from = 0;
    *whole = true;
    m->n_merged = 0;
    for (size_t from = 0;;) {
        size_t n = m->n - from < width ? m->n - from : width;
        if (!is_merged(m, merged_from, from, n)) RETURN_IF(run_window(m, from, n));
        merged_from = from;
        *whole = !expected || m->symbols[0].right == expected;
        if (!*whole) return CERIUM_OK;
        bool last = from + n == m->n;
        uint32_t at = keep_until(m, last ? n : n - n / 8);
        if (last) {
            m->merged[m->n_merged++] = m->work[at];
            return CERIUM_OK;
        }
        *whole = at > 0;
        if (!*whole) return CERIUM_OK;
        expected = m->symbols[at].right - at;
        from += at;
    }
}

int merger_run(merger *m)
{
    CHECK(m->n <= m->cap && m->n < MERGER_NONE);
    if (m->n <= MERGER_SCAN_MAX) {
        run_scan(m);
        return CERIUM_OK;
    }
    bool whole = false;
    RETURN_IF(run_windows(m, m->window, &whole));
    if (!whole) RETURN_IF(run_windows(m, m->n, &whole));
    CHECK(whole);
    return CERIUM_OK;
}
