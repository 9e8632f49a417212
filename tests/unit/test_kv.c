/* test_kv.c - page tables: what was written is found again, rings keep exactly their window, and
 * no page belongs to two sequences. */
#include "base/memory.h"
#include "cache/kv.h"
#include "unit.h"

enum { LAYERS = 3, HEADS = 2, DIM = 4, CONTEXT = 1024, BATCH = 32, WINDOW = 100 };
static const uint32_t windows[LAYERS] = {WINDOW, 0, WINDOW};

static kv_pool *open_pool(kernel_kv_type type, uint32_t sequences)
{
    kv_layout layout = {.type = type, .n_layers = LAYERS, .n_kv_heads = HEADS, .head_dim = DIM,
                        .windows = windows, .context_tokens = CONTEXT, .batch_tokens = BATCH,
                        .sequences_max = sequences};
    kv_pool *pool = NULL;
    cerium_error err;
    TEST_CHECK(kv_pool_open(&pool, &layout, &err) == 0);
    return pool;
}

/* A mark that names sequence, layer, head and token. */
static uint16_t mark(uint32_t who, uint32_t layer, uint32_t head, uint32_t token)
{
    return (uint16_t)((who * 7919 + layer * 104729 + head * 1299709 + token * 31) % 65521);
}

/* Number i of a page's keys or values, where its mark is. */
static uint16_t *number(const kv_page *page, void *numbers, size_t i)
{
    size_t size = kernel_kv_bytes(page->type, 1) / KERNEL_PAGE; /* at least those of a mark */
    return (uint16_t *)(void *)((uint8_t *)numbers + i * size);
}

static void write_token(kv_sequence *seq, uint32_t who, uint32_t token)
{
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (uint32_t head = 0; head < HEADS; head++) {
            kv_page page = kv_sequence_page(seq, layer, head, token / KERNEL_PAGE);
            uint32_t slot = token % KERNEL_PAGE;
            *number(&page, page.values, slot * DIM) = mark(who, layer, head, token);
            *number(&page, page.keys, slot) = mark(who, layer, head, token);
        }
}

/* Tokens of layer that token n sees are all there. */
static uint32_t count_lost(const kv_sequence *seq, uint32_t who, uint32_t n)
{
    uint32_t lost = 0;
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        uint32_t first = windows[layer] && n + 1 > windows[layer] ? n + 1 - windows[layer] : 0;
        for (uint32_t token = first; token < n; token++)
            for (uint32_t head = 0; head < HEADS; head++) {
                kv_page page = kv_sequence_page(seq, layer, head, token / KERNEL_PAGE);
                uint32_t slot = token % KERNEL_PAGE;
                uint16_t want = mark(who, layer, head, token);
                lost += *number(&page, page.values, slot * DIM) != want;
                lost += *number(&page, page.keys, slot) != want;
            }
    }
    return lost;
}

static void check_two_sequences(kernel_kv_type type, uint64_t number_bytes)
{
    kv_pool *pool = open_pool(type, 2);
    TEST_CHECK(kv_token_bytes(pool) == 2 * HEADS * DIM * number_bytes); /* of one layer */
    kv_sequence *seq[2] = {NULL, NULL};
    cerium_error err;
    for (int i = 0; i < 2; i++) TEST_CHECK(kv_sequence_open(&seq[i], pool, CONTEXT, &err) == 0);
    kv_sequence *third = NULL;
    TEST_CHECK(kv_sequence_open(&third, pool, CONTEXT, &err) == CERIUM_ERR_CAPACITY);
    for (uint32_t at = 0; at < CONTEXT; at += BATCH) {
        for (uint32_t i = 0; i < 2; i++) {
            TEST_CHECK(kv_sequence_reserve(seq[i], at + BATCH) == 0);
            for (uint32_t token = at; token < at + BATCH; token++) write_token(seq[i], i, token);
            /* The first token of the batch sees its window although the whole batch is written. */
            TEST_CHECK(count_lost(seq[i], i, at) == 0);
            TEST_CHECK(count_lost(seq[i], i, at + BATCH - 1) == 0);
        }
    }
    TEST_CHECK(kv_sequence_reserve(seq[0], CONTEXT + 1) == CERIUM_ERR_CAPACITY);
    for (int i = 0; i < 2; i++) kv_sequence_close(&seq[i]);
    kv_pool_close(&pool);
}

static void test_two_sequences_in_batches(void)
{
    check_two_sequences(KERNEL_KV_F16, 2);
    check_two_sequences(KERNEL_KV_F32, 4);
}

static void test_truncate(void)
{
    kv_pool *pool = open_pool(KERNEL_KV_F16, 1);
    kv_sequence *seq = NULL;
    cerium_error err;
    TEST_CHECK(kv_sequence_open(&seq, pool, CONTEXT, &err) == 0);
    for (uint32_t at = 0; at < 600; at += 20) {
        TEST_CHECK(kv_sequence_reserve(seq, at + 20) == 0);
        for (uint32_t token = at; token < at + 20; token++) write_token(seq, 0, token);
    }
    /* A little back: the ring still has the window. */
    TEST_CHECK(kv_sequence_truncate(seq, 590) == 590);
    TEST_CHECK(count_lost(seq, 0, 590) == 0);
    /* As far as it says it can: then everything that token n sees must be there. */
    for (uint32_t n = 589; n > 0; n--) {
        uint32_t kept = kv_sequence_truncate(seq, n);
        if (kept == 0) break;
        TEST_CHECK(kept == n);
        TEST_CHECK_THAT(count_lost(seq, 0, n) == 0, "at %u", n);
    }
    /* From nothing it grows again. */
    TEST_CHECK(kv_sequence_truncate(seq, 0) == 0);
    for (uint32_t token = 0; token < 300; token++) {
        TEST_CHECK(kv_sequence_reserve(seq, token + 1) == 0);
        write_token(seq, 5, token);
    }
    TEST_CHECK(count_lost(seq, 5, 299) == 0);
    kv_sequence_close(&seq);
    kv_pool_close(&pool);
}

static void test_nothing_leaks(void)
{
    long before = memory_live();
    kv_pool *pool = open_pool(KERNEL_KV_F16, 1);
    cerium_error err;
    for (int i = 0; i < 50; i++) { /* pages go back to the pool, or this would run dry */
        kv_sequence *seq = NULL;
        TEST_CHECK(kv_sequence_open(&seq, pool, CONTEXT, &err) == 0);
        TEST_CHECK(kv_sequence_reserve(seq, CONTEXT) == 0);
        kv_sequence_close(&seq);
    }
    kv_pool_close(&pool);
    TEST_CHECK(memory_live() == before);
}

int main(void)
{
    TEST_RUN(test_two_sequences_in_batches);
    TEST_RUN(test_truncate);
    TEST_RUN(test_nothing_leaks);
    return unit_report("kv");
}
