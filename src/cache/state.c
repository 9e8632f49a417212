/* state.c - states of a model with recurrent layers: which are free, held and findable, and which
 * is evicted first.
 *
 * A state belongs to one place of a timeline.  It is held by the sequences at that place, and found
 * by others through the last full block before it.  Idle states are evicted by the cost of
 * computing them again from the state before them (as blocks are, evict.c); there are hundreds at
 * most, so a linear search finds the first. */
#include "cache/pool.h"

#include "base/memory.h"

enum { USES_MAX = 8, LOOK_BACK_MAX = 256 }; /* blocks: a longer distance costs no more */

int kv_states_open(kv_pool *pool)
{
    kv_states *s = &pool->states;
    size_t size;
    s->first = KV_NONE;
    if (!s->bytes) return CERIUM_OK;
    CHECK(s->bytes % MEMORY_ALIGN == 0);
    if (!size_mul(s->bytes, s->n, &size)) return CERIUM_ERR_MEMORY;
    s->memory = memory_map(size);
    s->all = memory_zalloc(s->n, sizeof *s->all);
    s->free = memory_alloc(s->n * sizeof *s->free);
    if (!s->memory || !s->all || !s->free) return CERIUM_ERR_MEMORY;
    s->n_free = s->n;
    for (uint32_t i = 0; i < s->n; i++) s->free[i] = s->n - 1 - i;
    return CERIUM_OK;
}

void kv_states_close(kv_pool *pool)
{
    kv_states *s = &pool->states;
    if (s->memory) memory_unmap(s->memory, s->n * s->bytes);
    memory_free(s->all);
    memory_free(s->free);
}

void kv_states_measure(const kv_pool *pool, kv_use *use)
{
    const kv_states *s = &pool->states;
    if (!s->bytes) return;
    use->states_max = s->limit;
    for (uint32_t i = 0; i < s->n; i++)
        use->states_idle += s->all[i].is_found && s->all[i].holders == 0;
    use->states_held = s->n - s->n_free - use->states_idle;
    use->held_bytes += use->states_held * s->bytes;
}

static void free_state(kv_pool *pool, uint32_t state)
{
    kv_states *s = &pool->states;
    s->free[s->n_free++] = state;
    if (s->n - s->n_free >= s->limit) memory_drop(s->memory + state * s->bytes, s->bytes);
}

/* ---- who finds it ---- */

static uint32_t *list_of(kv_pool *pool, uint32_t parent)
{
    return parent == KV_NONE ? &pool->states.first : &pool->blocks[parent].first_state;
}

uint32_t kv_state_find(const kv_pool *pool, uint64_t tenant, uint32_t parent, const int32_t *tokens,
                       uint32_t n)
{
    const kv_states *s = &pool->states;
    uint32_t at = parent == KV_NONE ? s->first : pool->blocks[parent].first_state, best = KV_NONE;
    for (; at != KV_NONE; at = s->all[at].next) {
        const kv_state *x = &s->all[at];
        const uint32_t n_tail = x->n_tokens % KERNEL_PAGE;
        if (x->tenant != tenant || n_tail > n ||
            (n_tail && memcmp(x->tail, tokens, n_tail * sizeof *tokens) != 0))
            continue;
        if (best == KV_NONE || s->all[best].n_tokens < x->n_tokens) best = at;
    }
    return best;
}

static void unlink_state(kv_pool *pool, uint32_t state)
{
    kv_state *x = &pool->states.all[state];
    uint32_t *at = list_of(pool, x->parent);
    while (*at != state) at = &pool->states.all[*at].next;
    *at = x->next;
    x->is_found = false;
    if (x->holders == 0) free_state(pool, state);
}

void kv_states_leave(kv_pool *pool, uint32_t block)
{
    while (pool->blocks[block].first_state != KV_NONE)
        unlink_state(pool, pool->blocks[block].first_state);
}

/* It is not only passed through: it stays findable when nobody holds it. */
static void settle(kv_pool *pool, uint32_t state, bool is_passing)
{
    kv_state *x = &pool->states.all[state];
    if (is_passing || !x->is_passing) return;
    x->is_passing = false;
    kv_pool_tell_state(pool, state, false);
}

bool kv_state_add(kv_pool *pool, uint32_t state, uint64_t tenant, uint32_t parent,
                  uint32_t n_tokens, const int32_t *tail, bool is_passing)
{
    kv_state *x = &pool->states.all[state];
    const uint32_t n_tail = n_tokens % KERNEL_PAGE;
    CHECK(x->holders > 0 && n_tokens > 0 && (parent == KV_NONE || pool->blocks[parent].in_tree));
    if (x->is_found) {
        settle(pool, state, is_passing);
        return true;
    }
    uint32_t same = kv_state_find(pool, tenant, parent, tail, n_tail);
    if (same != KV_NONE && pool->states.all[same].n_tokens == n_tokens) {
        settle(pool, same, is_passing);
        return false;
    }
    uint32_t *list = list_of(pool, parent);
    x->tenant = tenant;
    x->n_tokens = n_tokens;
    x->is_found = true;
    x->is_passing = true;
    x->serial = ++pool->n_serials;
    x->parent = parent;
    x->next = *list;
    x->n_uses = 1;
    if (n_tail) memcpy(x->tail, tail, n_tail * sizeof *tail);
    *list = state;
    settle(pool, state, is_passing);
    return true;
}

/* ---- who holds it ---- */

/* Tokens from the state before it on the same timeline. */
static uint32_t cost_of(const kv_pool *pool, const kv_state *x)
{
    uint32_t block = x->parent, n_tail = x->n_tokens % KERNEL_PAGE;
    const int32_t *tail = x->tail;
    for (uint32_t i = 0; i < LOOK_BACK_MAX; i++) {
        uint32_t most = i == 0 && n_tail ? n_tail - 1 : n_tail;
        uint32_t before = i == 0 && n_tail == 0
                              ? KV_NONE
                              : kv_state_find(pool, x->tenant, block, tail, most);
        if (before != KV_NONE) return x->n_tokens - pool->states.all[before].n_tokens;
        if (block == KV_NONE) return x->n_tokens;
        tail = pool->blocks[block].tokens;
        n_tail = KERNEL_PAGE - 1;
        block = pool->blocks[block].parent;
    }
    return LOOK_BACK_MAX * KERNEL_PAGE;
}

void kv_state_hold(kv_pool *pool, uint32_t state)
{
    kv_state *x = &pool->states.all[state];
    CHECK(x->is_found || x->holders > 0);
    x->holders++;
}

void kv_state_let_go(kv_pool *pool, uint32_t state)
{
    if (state == KV_NONE) return;
    kv_state *x = &pool->states.all[state];
    CHECK(x->holders > 0);
    if (--x->holders > 0) return;
    if (!x->is_found || x->is_passing) {
        if (x->is_found)
            unlink_state(pool, state);
        else
            free_state(pool, state);
        return;
    }
    uint32_t n_uses = x->n_uses < USES_MAX ? x->n_uses : USES_MAX;
    x->priority = pool->states.priority_floor + (double)cost_of(pool, x) * n_uses;
}

/* Evict the state of the least priority; false: all are held. */
static bool evict(kv_pool *pool)
{
    kv_states *s = &pool->states;
    uint32_t first = KV_NONE;
    for (uint32_t i = 0; i < s->n; i++) {
        if (!s->all[i].is_found || s->all[i].holders > 0) continue;
        if (first == KV_NONE || s->all[i].priority < s->all[first].priority) first = i;
    }
    if (first == KV_NONE) return false;
    s->priority_floor = s->all[first].priority;
    unlink_state(pool, first);
    return true;
}

static uint32_t used(const kv_states *s) { return s->n - s->n_free; }

void kv_states_keep_limit(kv_pool *pool)
{
    while (used(&pool->states) > pool->states.limit && evict(pool)) continue;
}

void kv_states_limit(kv_pool *pool, double share)
{
    kv_states *s = &pool->states;
    if (!s->bytes) return;
    const uint32_t before = s->limit, some = (uint32_t)(s->n * share);
    s->limit = some > KV_STATES_MIN ? some : KV_STATES_MIN;
    kv_states_keep_limit(pool);
    for (uint32_t i = 0; i < s->n_free && s->limit < before; i++)
        memory_drop(s->memory + s->free[i] * s->bytes, s->bytes);
}

uint32_t kv_state_take(kv_pool *pool)
{
    kv_states *s = &pool->states;
    while (s->n_free == 0 || used(s) >= s->limit)
        if (!evict(pool)) return KV_NONE;
    uint32_t state = s->free[--s->n_free];
    s->all[state] = (kv_state){.holders = 1};
    return state;
}

/* ---- for tests ---- */

static bool list_agrees(const kv_pool *pool, uint32_t parent, uint32_t *n_found)
{
    const kv_states *s = &pool->states;
    uint32_t at = parent == KV_NONE ? s->first : pool->blocks[parent].first_state;
    for (; at != KV_NONE; at = s->all[at].next) {
        const kv_state *x = &s->all[at];
        uint32_t blocks = parent == KV_NONE ? 0 : pool->blocks[parent].position + 1;
        if (!x->is_found || x->parent != parent || x->n_tokens / KERNEL_PAGE != blocks)
            return false;
        if (++*n_found > s->n) return false;
    }
    return true;
}

bool kv_states_agree(const kv_pool *pool)
{
    const kv_states *s = &pool->states;
    uint32_t n_found = 0, n_listed = 0, n_used = 0;
    if (!s->bytes) return true;
    if (!list_agrees(pool, KV_NONE, &n_listed)) return false;
    for (uint32_t i = 0; i < pool->n_blocks; i++)
        if (pool->blocks[i].in_tree && !list_agrees(pool, i, &n_listed)) return false;
    for (uint32_t i = 0; i < s->n; i++) {
        n_found += s->all[i].is_found;
        n_used += s->all[i].is_found || s->all[i].holders > 0;
    }
    return n_found == n_listed && n_used + s->n_free == s->n;
}
