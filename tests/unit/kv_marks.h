/* kv_marks.h - a simulated model, for tests of the KV cache: a token's data in its pages depend,
 * like in a model, on the whole timeline up to it; here they are a mark of tenant, layer, head and
 * all tokens so far. */
#ifndef UNIT_KV_MARKS_H
#define UNIT_KV_MARKS_H

#include <unistd.h>

#include "base/memory.h"
#include "cache/kv.h"
#include "unit.h"

enum { LAYERS = 3, HEADS = 2, DIM = 4, CONTEXT = 1024, BATCH = 32, WINDOW = 100 };
static const uint32_t some_windows[LAYERS] = {WINDOW, 0, WINDOW};
__attribute__((unused)) static const uint32_t no_windows[LAYERS] = {0, 0, 0};
__attribute__((unused)) static const uint32_t all_windows[LAYERS] = {WINDOW, 30, WINDOW};

static const uint32_t *windows = some_windows;
static kernel_kv_type type = KERNEL_KV_F16;

/* Bytes of the pages of a block: windows or not, all layers together. */
static inline uint64_t size_of_block(void)
{
    return (uint64_t)LAYERS * HEADS * 2 * KERNEL_PAGE * DIM * sizeof(uint16_t);
}

static inline kv_pool *open_pool(uint32_t sequences, uint64_t size)
{
    kv_layout layout = {.type = type, .n_layers = LAYERS, .n_kv_heads = HEADS, .head_dim = DIM,
                        .windows = windows, .context_tokens = CONTEXT, .batch_tokens = BATCH,
                        .sequences_max = sequences, .bytes = size};
    kv_pool *pool = NULL;
    cerium_error err;
    TEST_CHECK(kv_pool_open(&pool, &layout, &err) == 0);
    return pool;
}

static inline kv_sequence *open_sequence(kv_pool *pool, uint64_t tenant)
{
    kv_sequence *seq = NULL;
    cerium_error err;
    TEST_CHECK(kv_sequence_open(&seq, pool, CONTEXT, tenant, &err) == 0);
    return seq;
}

/* One running number over tenant and tokens. */
static inline uint32_t add_token(uint32_t state, int32_t token)
{
    return (state ^ (uint32_t)token) * 0x9e3779b1u + 0x7f4a7c15u;
}

static inline uint16_t mark(uint32_t state, uint32_t layer, uint32_t head)
{
    return (uint16_t)((state + layer * 104729 + head * 1299709) % 65521);
}

/* The place of a slot's mark in a page's keys or values: marks are spread over all of it. */
static inline uint16_t *number(void *numbers, uint32_t slot)
{
    size_t step = kernel_kv_bytes(type, DIM) / KERNEL_PAGE / 2 * 2;
    return (uint16_t *)(void *)((uint8_t *)numbers + slot * step);
}

/* Compute tokens [from, end) like passes do: a batch sees the tokens before it. */
static inline int compute(kv_sequence *seq, uint64_t tenant, const int32_t *tokens, uint32_t from,
                   uint32_t end)
{
    uint32_t state = (uint32_t)tenant;
    for (uint32_t i = 0; i < from; i++) state = add_token(state, tokens[i]);
    for (uint32_t at = from; at < end;) {
        uint32_t n = end - at < BATCH ? end - at : BATCH;
        RETURN_IF(kv_sequence_reserve(seq, at + n));
        for (uint32_t i = at; i < at + n; i++) {
            state = add_token(state, tokens[i]);
            for (uint32_t layer = 0; layer < LAYERS; layer++)
                for (uint32_t head = 0; head < HEADS; head++) {
                    kv_page page = kv_sequence_page(seq, layer, head, i / KERNEL_PAGE);
                    uint32_t slot = i % KERNEL_PAGE;
                    *number(page.values, slot) = mark(state, layer, head);
                    *number(page.keys, slot) = mark(state, layer, head);
                }
        }
        kv_sequence_commit(seq, tokens + at, n);
        at += n;
    }
    return 0;
}

/* Number of missing slots among those that a token at position n sees. */
static inline uint32_t count_lost(const kv_sequence *seq, uint64_t tenant, const int32_t *tokens,
                           uint32_t n)
{
    uint32_t lost = 0, state = (uint32_t)tenant;
    for (uint32_t i = 0; i < n; i++) {
        state = add_token(state, tokens[i]);
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            if (windows[layer] && i + windows[layer] <= n) continue;
            for (uint32_t head = 0; head < HEADS; head++) {
                kv_page page = kv_sequence_page(seq, layer, head, i / KERNEL_PAGE);
                uint32_t slot = i % KERNEL_PAGE;
                lost += *number(page.values, slot) != mark(state, layer, head);
                lost += *number(page.keys, slot) != mark(state, layer, head);
            }
        }
    }
    return lost;
}

static inline void fill(int32_t *tokens, uint32_t n, uint32_t who)
{
    for (uint32_t i = 0; i < n; i++) tokens[i] = (int32_t)((i * 7919 + who * 104729) % 50021);
}

/* Adopt cached tokens, and compute the rest.  Returns the number of cached ones. */
static inline uint32_t take(kv_sequence *seq, uint64_t tenant, const int32_t *tokens, uint32_t n)
{
    uint32_t found = kv_sequence_adopt(seq, tokens, n);
    TEST_CHECK(found <= n && count_lost(seq, tenant, tokens, found) == 0);
    TEST_CHECK(compute(seq, tenant, tokens, found, n) == 0);
    TEST_CHECK(kv_sequence_length(seq) == n && count_lost(seq, tenant, tokens, n) == 0);
    return found;
}

static inline void close_all(kv_pool *pool, kv_sequence **seq, int n)
{
    TEST_CHECK(kv_pool_check_invariants(pool));
    for (int i = 0; i < n; i++) kv_sequence_close(&seq[i]);
    TEST_CHECK(kv_pool_check_invariants(pool));
    kv_use use;
    kv_pool_measure(pool, &use);
    for (int i = 0; use.held && i < 20000; i++) { /* the disk's thread may still write some */
        usleep(1000);
        kv_pool_measure(pool, &use);
    }
    TEST_CHECK_THAT(use.held == 0, "%u", use.held);
    kv_pool_close(&pool);
}

#endif
