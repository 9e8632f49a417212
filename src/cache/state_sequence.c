/* state_sequence.c - the state that a sequence holds, those that a pass writes for it, and which of
 * them others find. */
#include "cache/pool.h"

void kv_sequence_set_state(kv_sequence *seq, uint32_t state, uint32_t n_tokens)
{
    uint32_t before = seq->state;
    if (state != KV_NONE) kv_state_hold(seq->pool, state);
    seq->state = state;
    seq->state_at = n_tokens;
    kv_state_let_go(seq->pool, before);
}

static void drop_keeps(kv_sequence *seq)
{
    while (seq->n_keeps > 0) kv_state_let_go(seq->pool, seq->keeps[--seq->n_keeps].state);
}

int kv_sequence_take_next(kv_sequence *seq, uint32_t n)
{
    CHECK(n <= ARRAY_LEN(seq->next));
    drop_keeps(seq); /* of a pass that did not finish */
    while (seq->pool->states.bytes && seq->n_next < n) {
        uint32_t state = kv_state_take(seq->pool);
        if (state == KV_NONE) return CERIUM_ERR_MEMORY;
        seq->next[seq->n_next++] = state;
    }
    return CERIUM_OK;
}

void kv_sequence_drop_next(kv_sequence *seq)
{
    while (seq->n_next > 0) kv_state_let_go(seq->pool, seq->next[--seq->n_next]);
    drop_keeps(seq);
}

const float *kv_sequence_state(const kv_sequence *seq)
{
    return seq->state == KV_NONE ? NULL : kv_state_at(seq->pool, seq->state);
}

float *kv_sequence_next_state(kv_sequence *seq)
{
    CHECK(seq->n_next > 0);
    return kv_state_at(seq->pool, seq->next[0]);
}

void kv_sequence_show_state(kv_sequence *seq, uint32_t state, uint32_t n_tokens, bool is_passing)
{
    const kv_pool *pool = seq->pool;
    const uint32_t index = n_tokens / KERNEL_PAGE;
    if (state == KV_NONE || n_tokens == 0 || n_tokens > seq->n_tokens) return;
    if (seq->hidden && n_tokens > seq->hidden) return;
    const uint32_t parent = index ? seq->blocks[index - 1] : KV_NONE;
    if (parent != KV_NONE && !pool->blocks[parent].in_tree) return;
    const int32_t *tail =
        n_tokens % KERNEL_PAGE ? pool->blocks[seq->blocks[index]].tokens : NULL;
    kv_state_add(seq->pool, state, seq->tenant, parent, n_tokens, tail, is_passing);
}

float *kv_sequence_keep_state(kv_sequence *seq, uint32_t n)
{
    kv_pool *pool = seq->pool;
    float *to = NULL;
    pthread_mutex_lock(&pool->lock);
    for (uint32_t i = 0; i < seq->n_keeps && !to; i++) /* asked for twice */
        if (seq->keeps[i].n_tokens == n) to = kv_state_at(pool, seq->keeps[i].state);
    uint32_t state = to || seq->n_keeps == KV_KEEPS_MAX ? KV_NONE : kv_state_take(pool);
    if (state != KV_NONE) {
        seq->keeps[seq->n_keeps].state = state;
        seq->keeps[seq->n_keeps++].n_tokens = n;
        to = kv_state_at(pool, state);
    }
    pthread_mutex_unlock(&pool->lock);
    return to;
}

void kv_sequence_commit_state(kv_sequence *seq, uint32_t n)
{
    kv_pool *pool = seq->pool;
    pthread_mutex_lock(&pool->lock);
    CHECK(n <= seq->n_tokens && seq->n_next > 0);
    for (uint32_t i = 0; i < seq->n_keeps; i++) {
        if (seq->keeps[i].n_tokens <= n)
            kv_sequence_show_state(seq, seq->keeps[i].state, seq->keeps[i].n_tokens, false);
        kv_state_let_go(pool, seq->keeps[i].state);
    }
    seq->n_keeps = 0;
    kv_sequence_set_state(seq, seq->next[0], n);
    kv_sequence_show_state(seq, seq->state, n, true); /* a waiting request continues from here */
    kv_state_let_go(pool, seq->next[0]);
    seq->next[0] = seq->next[1];
    seq->n_next--;
    pthread_mutex_unlock(&pool->lock);
}

uint32_t kv_sequence_known(kv_sequence *seq)
{
    pthread_mutex_lock(&seq->pool->lock);
    uint32_t n = seq->fork > seq->n_tokens ? seq->fork : 0;
    pthread_mutex_unlock(&seq->pool->lock);
    return n;
}
