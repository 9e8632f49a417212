/* state_marks.h - a simulated model with recurrent layers, for tests of the KV cache: a state is
 * made of the tenant and all tokens so far, like the marks of pages. */
#ifndef UNIT_STATE_MARKS_H
#define UNIT_STATE_MARKS_H

#include "kv_marks.h"

static uint32_t state_bytes = 64;

static inline kv_pool *open_with_states(uint32_t sequences, uint64_t size)
{
    kv_layout layout = {.type = type, .n_layers = LAYERS, .n_kv_heads = HEADS, .head_dim = DIM,
                        .windows = windows, .context_tokens = CONTEXT, .batch_tokens = BATCH,
                        .sequences_max = sequences, .bytes = size, .state_bytes = state_bytes};
    kv_pool *pool = NULL;
    cerium_error err;
    TEST_CHECK(kv_pool_open(&pool, &layout, &err) == 0);
    return pool;
}

static inline uint32_t number_of(uint64_t tenant, const int32_t *tokens, uint32_t n)
{
    uint32_t state = (uint32_t)tenant;
    for (uint32_t i = 0; i < n; i++) state = add_token(state, tokens[i]);
    return state;
}

/* All of it, so that a part of another one shows. */
static inline void write_state(float *to, uint32_t value)
{
    uint32_t *words = (uint32_t *)(void *)to;
    for (uint32_t i = 0; i < state_bytes / 4; i++) words[i] = value + i;
}

/* Whether its state is that of tokens [n], which it holds. */
static inline bool has_its_state(const kv_sequence *seq, uint64_t tenant, const int32_t *tokens,
                                 uint32_t n)
{
    const uint32_t *words = (const uint32_t *)(const void *)kv_sequence_state(seq);
    const uint32_t want = number_of(tenant, tokens, n);
    if (!words) return n == 0;
    for (uint32_t i = 0; i < state_bytes / 4; i++)
        if (words[i] != want + i) return false;
    return true;
}

/* One pass over tokens [from, end), keeping the states at `keeps`; abandoned before its end
 * if it is not whole. */
static inline int pass_over(kv_sequence *seq, uint64_t tenant, const int32_t *tokens, uint32_t from,
                            uint32_t end, const uint32_t *keeps, uint32_t n_keeps, bool is_whole)
{
    uint32_t state = number_of(tenant, tokens, from);
    RETURN_IF(kv_sequence_reserve(seq, end));
    for (uint32_t i = 0; i < n_keeps; i++) {
        float *to = keeps[i] > from && keeps[i] < end ? kv_sequence_keep_state(seq, keeps[i])
                                                      : NULL;
        if (to) write_state(to, number_of(tenant, tokens, keeps[i]));
    }
    for (uint32_t i = from; i < end; i++) {
        state = add_token(state, tokens[i]);
        for (uint32_t layer = 0; layer < LAYERS; layer++)
            for (uint32_t head = 0; head < HEADS; head++) {
                kv_page page = kv_sequence_page(seq, layer, head, i / KERNEL_PAGE);
                *number(page.values, i % KERNEL_PAGE) = mark(state, layer, head);
                *number(page.keys, i % KERNEL_PAGE) = mark(state, layer, head);
            }
    }
    write_state(kv_sequence_next_state(seq), state);
    if (!is_whole) return 0;
    kv_sequence_commit(seq, tokens + from, end - from);
    kv_sequence_commit_state(seq, end);
    return 0;
}

/* In passes of a batch. */
static inline int compute_all(kv_sequence *seq, uint64_t tenant, const int32_t *tokens,
                              uint32_t from, uint32_t end, const uint32_t *keeps, uint32_t n_keeps)
{
    for (uint32_t at = from, next; at < end; at = next) {
        next = end - at < BATCH ? end : at + BATCH;
        RETURN_IF(pass_over(seq, tenant, tokens, at, next, keeps, n_keeps, true));
    }
    return 0;
}

static inline bool is_right(kv_sequence *seq, uint64_t tenant, const int32_t *tokens)
{
    const uint32_t n = kv_sequence_length(seq);
    return count_lost(seq, tenant, tokens, n) == 0 && has_its_state(seq, tenant, tokens, n);
}

#endif
