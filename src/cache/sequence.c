/* sequence.c - sequences: what they hold, adopt from the tree, and add to it. */
#include "cache/pool.h"

#include "base/memory.h"

int kv_sequence_open(kv_sequence **out, kv_pool *pool, uint32_t context_tokens, uint64_t tenant,
                     cerium_error *err)
{
    CHECK(context_tokens >= 1 && context_tokens <= pool->context_tokens);
    pthread_mutex_lock(&pool->lock);
    bool is_room = pool->n_sequences < pool->sequences_max;
    if (is_room) pool->n_sequences++;
    pthread_mutex_unlock(&pool->lock);
    if (!is_room)
        return error_set(err, CERIUM_ERR_CAPACITY,
                         "%u sessions are open, the most that the engine was opened for",
                         pool->sequences_max);
    kv_sequence *seq =
        memory_alloc(sizeof *seq + kv_blocks_for(context_tokens) * sizeof *seq->blocks);
    if (!seq) {
        pthread_mutex_lock(&pool->lock);
        pool->n_sequences--;
        pthread_mutex_unlock(&pool->lock);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a session");
    }
    *seq = (kv_sequence){.pool = pool, .tenant = tenant, .context_tokens = context_tokens,
                         .state = KV_NONE};
    *out = seq;
    return CERIUM_OK;
}

static uint32_t parent_of(const kv_sequence *seq, uint32_t index)
{
    return index ? seq->blocks[index - 1] : KV_NONE;
}

/* Hold block number n_blocks of the timeline, which the caller has held already. */
static void append(kv_sequence *seq, uint32_t block)
{
    for (uint32_t g = 0; g < seq->pool->n_groups; g++)
        if (seq->pool->groups[g].window && seq->n_blocks >= seq->first[g])
            kv_block_use_page(seq->pool, g, block);
    seq->blocks[seq->n_blocks++] = block;
}

/* Whether tokens of block number `index` are for this sequence alone, should it become full. */
static bool hides(const kv_sequence *seq, uint32_t index)
{
    return seq->hidden && seq->hidden < (index + 1) * KERNEL_PAGE;
}

/* Clear what a released block hid.  A block of the tree was there before. */
static void forget_hidden(const kv_sequence *seq, uint32_t index)
{
    kv_block *b = &seq->pool->blocks[seq->blocks[index]];
    uint32_t first = index * KERNEL_PAGE, n = seq->hidden > first ? seq->hidden - first : 0;
    if (hides(seq, index) && !b->in_tree && b->n_tokens > n) b->n_tokens = n;
}

/* Release all blocks but the first n, last one first: see pool.h. */
void kv_sequence_drop(kv_sequence *seq, uint32_t n)
{
    kv_pool *pool = seq->pool;
    while (seq->n_blocks > n) {
        uint32_t at = --seq->n_blocks, block = seq->blocks[at];
        forget_hidden(seq, at);
        for (uint32_t g = 0; g < pool->n_groups; g++)
            if (pool->groups[g].window && at >= seq->first[g])
                kv_block_leave_page(pool, g, block);
        if (pool->blocks[block].in_tree)
            kv_block_let_go(pool, block);
        else if (pool->blocks[block].n_tokens > 0)
            kv_tree_add_last(pool, seq->tenant, parent_of(seq, at), block);
        else
            kv_block_free(pool, block);
    }
    if (seq->n_tokens > n * KERNEL_PAGE) seq->n_tokens = n * KERNEL_PAGE;
}

/* Use the pages that a token at position n sees, and release older ones. */
static void look_from(kv_sequence *seq, uint32_t n)
{
    for (uint32_t g = 0; g < seq->pool->n_groups; g++) {
        if (!seq->pool->groups[g].window) continue;
        uint32_t from = seq->first[g], to = kv_window_first(&seq->pool->groups[g], n);
        for (uint32_t i = from; i < to && i < seq->n_blocks; i++)
            kv_block_leave_page(seq->pool, g, seq->blocks[i]);
        for (uint32_t i = to; i < from && i < seq->n_blocks; i++)
            kv_block_use_page(seq->pool, g, seq->blocks[i]);
        seq->first[g] = to;
    }
}

static void cut_to_state(kv_sequence *seq);

/* The timeline may be adopted up to position n, which the sequence holds. */
static void mark(kv_sequence *seq, uint32_t n)
{
    for (uint32_t g = 0; g < seq->pool->n_groups; g++) {
        const kv_group *group = &seq->pool->groups[g];
        for (uint32_t i = kv_window_first(group, n); group->window && i < kv_blocks_for(n); i++)
            kv_block_mark(seq->pool, seq->blocks[i]);
    }
    if (n >= seq->fork) seq->fork = 0;
}

void kv_sequence_rest(kv_sequence *seq)
{
    pthread_mutex_lock(&seq->pool->lock);
    kv_sequence_show_state(seq, seq->state, seq->state_at, false);
    kv_sequence_drop(seq, 0);
    look_from(seq, 0);
    kv_sequence_set_state(seq, KV_NONE, 0);
    kv_sequence_drop_next(seq);
    seq->fork = 0;
    kv_limit_keep(seq->pool);
    pthread_mutex_unlock(&seq->pool->lock);
}

void kv_sequence_hide(kv_sequence *seq, uint32_t n)
{
    pthread_mutex_lock(&seq->pool->lock);
    if (seq->hidden && seq->n_tokens > seq->hidden)
        kv_sequence_drop(seq, seq->hidden / KERNEL_PAGE);
    if (seq->state_at > seq->n_tokens) cut_to_state(seq);
    seq->hidden = n;
    pthread_mutex_unlock(&seq->pool->lock);
}

void kv_sequence_close(kv_sequence **seq)
{
    if (!seq || !*seq) return;
    kv_pool *pool = (*seq)->pool;
    kv_sequence_rest(*seq);
    pthread_mutex_lock(&pool->lock);
    pool->n_sequences--;
    pthread_mutex_unlock(&pool->lock);
    memory_free(*seq);
    *seq = NULL;
}

uint32_t kv_sequence_length(kv_sequence *seq)
{
    pthread_mutex_lock(&seq->pool->lock);
    uint32_t n = seq->n_tokens;
    pthread_mutex_unlock(&seq->pool->lock);
    return n;
}

uint32_t kv_sequence_blocks(kv_sequence *seq)
{
    pthread_mutex_lock(&seq->pool->lock);
    uint32_t n = seq->n_blocks;
    pthread_mutex_unlock(&seq->pool->lock);
    return n;
}

/* A private block; evicts an idle one. */
static uint32_t take_block(kv_pool *pool, uint32_t groups)
{
    while (pool->n_free == 0 || kv_blocks_used(pool) >= pool->blocks_limit) {
        uint32_t idle = kv_idle_first(pool);
        if (idle == KV_NONE) return KV_NONE;
        kv_idle_evicts(pool, idle);
        kv_tree_discard(pool, idle);
    }
    return kv_block_take(pool, groups);
}

static int reserve(kv_sequence *seq, uint32_t end)
{
    uint32_t n_before = seq->n_blocks;
    if (end > seq->context_tokens) return CERIUM_ERR_CAPACITY;
    while (seq->n_blocks < kv_blocks_for(end)) {
        uint32_t block = take_block(seq->pool, KV_ALL_GROUPS);
        if (block == KV_NONE) {
            kv_sequence_drop(seq, n_before);
            return CERIUM_ERR_MEMORY;
        }
        append(seq, block);
    }
    return CERIUM_OK;
}

static int reserve_with_states(kv_sequence *seq, uint32_t end, uint32_t n_states)
{
    pthread_mutex_lock(&seq->pool->lock);
    int status = kv_sequence_take_next(seq, n_states);
    if (!status) status = reserve(seq, end);
    pthread_mutex_unlock(&seq->pool->lock);
    return status;
}

int kv_sequence_reserve(kv_sequence *seq, uint32_t end)
{
    return reserve_with_states(seq, end, 1);
}

int kv_sequence_reserve_two(kv_sequence *seq, uint32_t end)
{
    return reserve_with_states(seq, end, 2);
}

/* Block number `index` became full: put it into the tree, or use the equal one that is there. */
static void publish(kv_sequence *seq, uint32_t index)
{
    kv_pool *pool = seq->pool;
    uint32_t block = seq->blocks[index], parent = parent_of(seq, index);
    uint32_t same = kv_tree_full(pool, seq->tenant, parent, pool->blocks[block].tokens);
    if (same == KV_NONE) {
        kv_tree_add(pool, seq->tenant, parent, block);
        return;
    }
    kv_block_hold(pool, same);
    kv_block_give_pages(pool, same, block);
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        if (!pool->groups[g].window || index < seq->first[g]) continue;
        kv_block_use_page(pool, g, same);
        kv_block_leave_page(pool, g, block);
    }
    kv_block_free(pool, block);
    seq->blocks[index] = same;
}

void kv_sequence_add(kv_sequence *seq, const int32_t *tokens, uint32_t n)
{
    CHECK(n <= seq->n_blocks * KERNEL_PAGE - seq->n_tokens);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t index = seq->n_tokens / KERNEL_PAGE;
        kv_block *b = &seq->pool->blocks[seq->blocks[index]];
        CHECK(!b->in_tree && b->n_tokens == seq->n_tokens % KERNEL_PAGE);
        b->tokens[b->n_tokens++] = tokens[i];
        seq->n_tokens++;
        if (b->n_tokens == KERNEL_PAGE && !hides(seq, index)) publish(seq, index);
    }
    if (seq->fork && seq->n_tokens >= seq->fork) mark(seq, seq->fork);
    look_from(seq, seq->n_tokens);
}

void kv_sequence_commit(kv_sequence *seq, const int32_t *tokens, uint32_t n)
{
    pthread_mutex_lock(&seq->pool->lock);
    kv_sequence_add(seq, tokens, n);
    pthread_mutex_unlock(&seq->pool->lock);
}

void kv_sequence_mark(kv_sequence *seq)
{
    pthread_mutex_lock(&seq->pool->lock);
    mark(seq, seq->n_tokens);
    kv_sequence_show_state(seq, seq->state, seq->state_at, false);
    pthread_mutex_unlock(&seq->pool->lock);
}

/* ---- taking up ---- */

typedef struct {
    uint32_t n_blocks; /* full ones, in seq->blocks, held or not */
    uint32_t last;     /* the block that has n_last tokens after them, or KV_NONE */
    uint32_t n_last;
} path;

static bool has_window(const kv_sequence *seq, const path *p)
{
    const kv_pool *pool = seq->pool;
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        const kv_group *group = &pool->groups[g];
        if (!group->window) continue;
        if (p->n_last && group->page_of[p->last] == KV_NONE) return false;
        uint32_t first = kv_window_first(group, p->n_blocks * KERNEL_PAGE + p->n_last);
        for (uint32_t i = p->n_blocks; i-- > first;)
            if (group->page_of[seq->blocks[i]] == KV_NONE) return false;
    }
    return true;
}

/* The part of tokens that the tree has after the first n_blocks, which the sequence holds. */
static path find(kv_sequence *seq, uint32_t n_blocks, const int32_t *tokens, uint32_t n)
{
    path p = {.n_blocks = n_blocks};
    while (n - p.n_blocks * KERNEL_PAGE >= KERNEL_PAGE) {
        uint32_t block = kv_tree_full(seq->pool, seq->tenant, parent_of(seq, p.n_blocks),
                                      tokens + p.n_blocks * KERNEL_PAGE);
        if (block == KV_NONE) break;
        seq->blocks[p.n_blocks++] = block;
    }
    uint32_t at = p.n_blocks * KERNEL_PAGE;
    p.last = kv_tree_near(seq->pool, seq->tenant, parent_of(seq, p.n_blocks), tokens + at, n - at,
                          &p.n_last);
    return p;
}

/* Hold a copy of a block's first n tokens; false: no block is free.  n_tokens: the caller's. */
static bool append_copy(kv_sequence *seq, uint32_t block, uint32_t n)
{
    kv_pool *pool = seq->pool;
    uint32_t copy = take_block(pool, KV_ALL_GROUPS);
    if (copy == KV_NONE) return false;
    kv_block *b = &pool->blocks[copy];
    kv_block_copy(pool, copy, block);
    memcpy(b->tokens, pool->blocks[block].tokens, n * sizeof *b->tokens);
    b->n_tokens = n;
    append(seq, copy);
    return true;
}

/* Hold what follows the last full block of a path: the block itself if all of it agrees and no
 * other sequence can hold it, else a copy.  False: no block is free for a copy. */
static bool take_last(kv_sequence *seq, const path *p)
{
    kv_pool *pool = seq->pool;
    kv_block *b = &pool->blocks[p->last];
    kv_block_hold(pool, p->last);
    b->n_uses++;
    if (b->n_tokens == p->n_last && b->n_tokens < KERNEL_PAGE) {
        kv_tree_remove(pool, p->last);
        append(seq, p->last);
        return true;
    }
    for (uint32_t g = 0; g < pool->n_groups; g++) /* taking must not evict what is copied */
        if (pool->groups[g].window) kv_block_use_page(pool, g, p->last);
    bool is_copied = append_copy(seq, p->last, p->n_last);
    for (uint32_t g = 0; g < pool->n_groups; g++)
        if (pool->groups[g].window) kv_block_leave_page(pool, g, p->last);
    kv_block_let_go(pool, p->last);
    return is_copied;
}

/* Hold as much of a path as there are window pages and free blocks for. */
static void take(kv_sequence *seq, path p)
{
    uint32_t n_held = seq->n_blocks;
    for (;;) {
        while (!has_window(seq, &p)) {
            if (p.n_last == 0) p.n_blocks--;
            p.n_last = 0;
        }
        kv_sequence_drop(seq, p.n_blocks < n_held ? p.n_blocks : n_held);
        look_from(seq, p.n_blocks * KERNEL_PAGE + p.n_last);
        while (seq->n_blocks < p.n_blocks) {
            uint32_t block = seq->blocks[seq->n_blocks];
            kv_block_hold(seq->pool, block);
            seq->pool->blocks[block].n_uses++;
            append(seq, block);
        }
        seq->n_tokens = p.n_blocks * KERNEL_PAGE + p.n_last;
        if (p.n_last == 0 || take_last(seq, &p)) return;
        p.n_last = 0;
        n_held = p.n_blocks;
    }
}

/* The path up to n, which lies on it. */
static path shorter(const kv_sequence *seq, path p, uint32_t n)
{
    const uint32_t n_blocks = n / KERNEL_PAGE;
    if (n_blocks < p.n_blocks) p.last = seq->blocks[n_blocks];
    p.n_blocks = n_blocks;
    p.n_last = n % KERNEL_PAGE;
    if (p.n_last == 0) p.last = KV_NONE;
    return p;
}

/* The furthest state on a path, and its place; KV_NONE: the beginning. */
static uint32_t furthest_state(const kv_sequence *seq, const path *p, uint32_t *at)
{
    const kv_pool *pool = seq->pool;
    for (uint32_t i = p->n_blocks + 1; i-- > 0;) {
        const bool is_last = i == p->n_blocks;
        const uint32_t block = is_last ? p->last : seq->blocks[i];
        const uint32_t n = is_last ? p->n_last : KERNEL_PAGE - 1;
        uint32_t state = kv_state_find(pool, seq->tenant, parent_of(seq, i),
                                       n ? pool->blocks[block].tokens : NULL, n);
        if (state == KV_NONE) continue;
        *at = pool->states.all[state].n_tokens;
        return state;
    }
    *at = 0;
    return KV_NONE;
}

uint32_t kv_sequence_state_before(const kv_sequence *seq, uint32_t n, uint32_t *at)
{
    const uint32_t n_held = seq->n_tokens, n_blocks = n_held / KERNEL_PAGE;
    path p = {n_blocks, n_held % KERNEL_PAGE ? seq->blocks[n_blocks] : KV_NONE,
              n_held % KERNEL_PAGE};
    p = shorter(seq, p, n < n_held ? n : n_held);
    uint32_t state = furthest_state(seq, &p, at);
    if (seq->state_at > n || seq->state_at < *at) return state;
    *at = seq->state_at;
    return seq->state;
}

static void use_state(kv_pool *pool, uint32_t state)
{
    pool->states.all[state].n_uses++;
    if (!pool->states.all[state].is_passing) kv_pool_tell_state(pool, state, true);
}

/* Hold the part of a path that ends with a state; the path is not held after n_blocks.  own: the
 * sequence's state is on it. */
static void take_with_state(kv_sequence *seq, path p, bool own)
{
    kv_pool *pool = seq->pool;
    for (;;) {
        uint32_t at, state = furthest_state(seq, &p, &at);
        const uint32_t n = p.n_blocks * KERNEL_PAGE + p.n_last;
        if (own && seq->state_at <= n && seq->state_at >= at)
            state = seq->state, at = seq->state_at;
        if (state != KV_NONE) kv_state_hold(pool, state);
        take(seq, shorter(seq, p, at));
        const bool is_whole = seq->n_tokens == at;
        if (is_whole) {
            if (state != KV_NONE && state != seq->state) use_state(pool, state);
            kv_sequence_set_state(seq, state, at);
        }
        kv_state_let_go(pool, state);
        if (is_whole) return;
        p = (path){.n_blocks = seq->n_blocks, .last = KV_NONE}; /* there was no room for the rest */
    }
}

/* A timeline that was adopted to its end will be adopted again: its state stays, even if it was
 * only passed through. */
static void keep_end(kv_sequence *seq, uint32_t n)
{
    if (seq->n_tokens == n) kv_sequence_show_state(seq, seq->state, n, false);
}

/* Hold only tokens up to a known state. */
static void cut_to_state(kv_sequence *seq)
{
    kv_pool *pool = seq->pool;
    int32_t tail[KERNEL_PAGE];
    uint32_t n = seq->n_tokens, at;
    const bool own = seq->state_at <= n;
    if (!pool->states.bytes || seq->state_at == n) return;
    path p = {.n_blocks = n / KERNEL_PAGE, .last = KV_NONE, .n_last = n % KERNEL_PAGE};
    if (p.n_last) p.last = seq->blocks[p.n_blocks];
    furthest_state(seq, &p, &at);
    if (own && seq->state_at > at) at = seq->state_at;
    p = (path){.n_blocks = at / KERNEL_PAGE, .last = KV_NONE};
    n = at % KERNEL_PAGE;
    if (n) memcpy(tail, pool->blocks[seq->blocks[p.n_blocks]].tokens, n * sizeof *tail);
    kv_sequence_drop(seq, p.n_blocks);
    p.last = kv_tree_near(pool, seq->tenant, parent_of(seq, p.n_blocks), tail, n, &p.n_last);
    take_with_state(seq, p, own);
}

static uint32_t adopt(kv_sequence *seq, const int32_t *tokens, uint32_t n)
{
    const kv_pool *pool = seq->pool;
    const bool has_states = pool->states.bytes > 0;
    uint32_t n_own = 0, n_same = 0; /* full blocks that agree; tokens after them */
    uint32_t limit = n < seq->n_tokens ? n : seq->n_tokens;
    while ((n_own + 1) * KERNEL_PAGE <= limit &&
           !memcmp(pool->blocks[seq->blocks[n_own]].tokens, tokens + n_own * KERNEL_PAGE,
                   KERNEL_PAGE * sizeof *tokens))
        n_own++;
    uint32_t at = n_own * KERNEL_PAGE;
    while (at + n_same < limit &&
           pool->blocks[seq->blocks[n_own]].tokens[n_same] == tokens[at + n_same])
        n_same++;
    const bool own = seq->state_at <= at + n_same; /* its state is one of these tokens */
    if (!own) kv_sequence_show_state(seq, seq->state, seq->state_at, false);
    if (n_same > 0 && at + n_same == seq->n_tokens &&
        (!has_states || seq->state_at == seq->n_tokens)) {
        /* All of its unfinished block agrees: is there a longer one?  The sequence holds the window
         * pages that it needs. */
        uint32_t parent = parent_of(seq, n_own), n_near;
        uint32_t near = kv_tree_near(pool, seq->tenant, parent, tokens + at, n - at, &n_near);
        if (n_near <= n_same || !kv_block_has_pages(pool, near)) {
            kv_sequence_drop(seq, n_own + 1);
            if (has_states) keep_end(seq, n);
            return seq->n_tokens;
        }
    }
    kv_sequence_drop(seq, n_own);
    path p = find(seq, n_own, tokens, n);
    uint32_t n_known = p.n_blocks * KERNEL_PAGE + p.n_last;
    if (has_states)
        take_with_state(seq, p, own);
    else
        take(seq, p);
    if (has_states) keep_end(seq, n);
    if (seq->n_tokens >= KERNEL_PAGE && !hides(seq, seq->n_tokens / KERNEL_PAGE - 1))
        kv_pool_tell(seq->pool, seq->blocks[seq->n_tokens / KERNEL_PAGE - 1], true);
    mark(seq, seq->n_tokens);
    seq->fork = n_known > seq->n_tokens ? n_known : 0;
    return seq->n_tokens;
}

uint32_t kv_sequence_adopt(kv_sequence *seq, const int32_t *tokens, uint32_t n)
{
    CHECK(n <= seq->context_tokens);
    pthread_mutex_lock(&seq->pool->lock);
    uint32_t n_held = adopt(seq, tokens, n);
    pthread_mutex_unlock(&seq->pool->lock);
    return n_held;
}

uint32_t kv_sequence_fork(kv_sequence *to, kv_sequence *from)
{
    kv_pool *pool = to->pool;
    pthread_mutex_lock(&pool->lock);
    CHECK(to->n_blocks == 0 && to->tenant == from->tenant);
    CHECK(to->context_tokens >= from->n_tokens && pool == from->pool);
    uint32_t n_shared = from->n_tokens;
    if (from->hidden && n_shared > from->hidden) n_shared = from->hidden;
    uint32_t n_full = n_shared / KERNEL_PAGE, n_last = n_shared % KERNEL_PAGE;
    uint32_t last = n_full ? from->blocks[n_full - 1] : KV_NONE;
    if (n_full) pool->blocks[last].n_uses++;
    kv_sequence_follow(to, to->tenant, last, n_shared);
    if (n_last && append_copy(to, from->blocks[n_full], n_last)) to->n_tokens += n_last;
    look_from(to, to->n_tokens);
    mark(to, to->n_tokens);
    to->hidden = from->hidden;
    if (from->state != KV_NONE && from->state_at <= to->n_tokens)
        kv_sequence_set_state(to, from->state, from->state_at);
    cut_to_state(to);
    uint32_t n = to->n_tokens;
    pthread_mutex_unlock(&pool->lock);
    return n;
}

/* How many of tokens after n_full blocks `from` computed in its unfinished block: 0 unless both are
 * at the same place. */
static uint32_t agreement(const kv_sequence *seq, const kv_sequence *from, uint32_t n_full,
                          const int32_t *tokens, uint32_t n)
{
    uint32_t n_last = from->n_tokens % KERNEL_PAGE, n_same = 0;
    if (from->n_tokens / KERNEL_PAGE != n_full || n_last == 0) return 0;
    if (n_full && seq->blocks[n_full - 1] != from->blocks[n_full - 1]) return 0;
    const int32_t *have = seq->pool->blocks[from->blocks[n_full]].tokens;
    while (n_same < n_last && n_same < n && have[n_same] == tokens[n_same]) n_same++;
    return n_same;
}

/* The same where there are states: up to one after what the tree has of the tokens. */
static uint32_t borrow_with_state(kv_sequence *seq, const kv_sequence *from, const int32_t *tokens,
                                  uint32_t n)
{
    kv_pool *pool = seq->pool;
    const uint32_t before = seq->n_tokens, n_held = before / KERNEL_PAGE;
    if (seq->hidden || from->n_tokens <= before || n <= before) return before;
    kv_sequence_drop(seq, n_held);
    path p = find(seq, n_held, tokens, n);
    const uint32_t at = p.n_blocks * KERNEL_PAGE;
    uint32_t n_same = agreement(seq, from, p.n_blocks, tokens + at, n - at);
    uint32_t state = kv_state_find(pool, seq->tenant, parent_of(seq, p.n_blocks), tokens + at,
                                   n_same);
    if (state == KV_NONE || pool->states.all[state].n_tokens <= before) {
        take_with_state(seq, p, true);
        keep_end(seq, n);
        return seq->n_tokens;
    }
    const uint32_t n_state = pool->states.all[state].n_tokens;
    kv_state_hold(pool, state);
    take(seq, (path){.n_blocks = p.n_blocks, .last = KV_NONE});
    bool has_pages = seq->n_tokens == at;
    if (has_pages && n_state > at && append_copy(seq, from->blocks[p.n_blocks], n_state - at))
        seq->n_tokens = n_state;
    if (seq->n_tokens == n_state) {
        kv_sequence_set_state(seq, state, n_state);
        mark(seq, n_state);
    }
    kv_state_let_go(pool, state);
    cut_to_state(seq);
    keep_end(seq, n);
    return seq->n_tokens;
}

uint32_t kv_sequence_borrow(kv_sequence *seq, const kv_sequence *from, const int32_t *tokens,
                            uint32_t n)
{
    kv_pool *pool = seq->pool;
    CHECK(seq != from && seq->tenant == from->tenant && n <= seq->context_tokens);
    pthread_mutex_lock(&pool->lock);
    if (pool->states.bytes) {
        uint32_t n_borrowed = borrow_with_state(seq, from, tokens, n);
        pthread_mutex_unlock(&pool->lock);
        return n_borrowed;
    }
    uint32_t n_full = seq->n_tokens / KERNEL_PAGE, at = n_full * KERNEL_PAGE;
    uint32_t n_same = n > at ? agreement(seq, from, n_full, tokens + at, n - at) : 0;
    if (at + n_same > seq->n_tokens) {
        kv_sequence_drop(seq, n_full);
        if (append_copy(seq, from->blocks[n_full], n_same)) seq->n_tokens = at + n_same;
        look_from(seq, seq->n_tokens);
        mark(seq, seq->n_tokens);
    }
    uint32_t n_held = seq->n_tokens;
    pthread_mutex_unlock(&pool->lock);
    return n_held;
}

/* ---- a sequence that is filled from elsewhere ---- */

kv_sequence *kv_sequence_own(kv_pool *pool)
{
    kv_sequence *seq =
        memory_alloc(sizeof *seq + kv_blocks_for(pool->context_tokens) * sizeof *seq->blocks);
    if (seq) *seq = (kv_sequence){.pool = pool, .context_tokens = pool->context_tokens,
                                  .state = KV_NONE};
    return seq;
}

void kv_sequence_follow(kv_sequence *seq, uint64_t tenant, uint32_t last, uint32_t n)
{
    kv_pool *pool = seq->pool;
    CHECK(seq->n_blocks == 0 && n <= seq->context_tokens);
    seq->tenant = tenant;
    look_from(seq, n);
    uint32_t n_blocks = last == KV_NONE ? 0 : pool->blocks[last].position + 1;
    for (uint32_t i = n_blocks; i-- > 0; last = pool->blocks[last].parent) seq->blocks[i] = last;
    while (seq->n_blocks < n_blocks) {
        kv_block_hold(pool, seq->blocks[seq->n_blocks]);
        append(seq, seq->blocks[seq->n_blocks]);
    }
    seq->n_tokens = n_blocks * KERNEL_PAGE;
}

bool kv_sequence_extend(kv_sequence *seq, uint32_t groups)
{
    uint32_t block = take_block(seq->pool, groups);
    if (block != KV_NONE) append(seq, block);
    return block != KV_NONE;
}

kv_page kv_sequence_page(const kv_sequence *seq, uint32_t layer, uint32_t kv_head, uint32_t page)
{
    const kv_pool *pool = seq->pool;
    const kv_layer *place = &pool->layers[layer];
    const kv_group *group = &pool->groups[place->group];
    uint8_t *keys = kv_group_page(group, seq->blocks[page]) + place->at +
                    kv_head * place->head_bytes;
    const bool has_values = place->head_bytes > place->keys_bytes;
    return (kv_page){keys, has_values ? keys + place->keys_bytes : NULL};
}

kernel_kv_type kv_sequence_type(const kv_sequence *seq) { return seq->pool->type; }
