/* test_kv_limit.c - a memory limit below the KV cache's size: held blocks stay, idle
 * ones are evicted, their memory is returned to the system, and no found data is wrong. */
#include <sys/mman.h>

#include "../random.h"
#include "kv_marks.h"

enum { SEQUENCES = 8, BLOCKS = CONTEXT / KERNEL_PAGE };

static kv_use measure(kv_pool *pool)
{
    kv_use use;
    kv_pool_measure(pool, &use);
    return use;
}

static uint64_t whole(void) { return (uint64_t)SEQUENCES * BLOCKS * size_of_block(); }

static void test_idle_goes(void)
{
    static int32_t tokens[CONTEXT];
    windows = no_windows;
    kv_pool *pool = open_pool(SEQUENCES, whole());
    kv_sequence *seq = open_sequence(pool, 1);
    TEST_CHECK(measure(pool).blocks_max == SEQUENCES * BLOCKS);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        fill(tokens, CONTEXT, i);
        take(seq, 1, tokens, CONTEXT);
        kv_sequence_rest(seq);
    }
    TEST_CHECK(measure(pool).idle == SEQUENCES * BLOCKS);
    kv_pool_limit(pool, whole() / 4);
    kv_use use = measure(pool);
    TEST_CHECK_THAT(use.idle == 2 * BLOCKS && use.blocks_max == 2 * BLOCKS, "%u of %u", use.idle,
                    use.blocks_max);
    TEST_CHECK(kv_pool_check_invariants(pool));
    /* No more than the limit is ever in use, and at least one whole context always remains. */
    kv_pool_limit(pool, 1);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        fill(tokens, CONTEXT, 100 + i);
        take(seq, 1, tokens, CONTEXT);
        use = measure(pool);
        TEST_CHECK_THAT(use.held == BLOCKS && use.idle == 0, "%u, %u", use.held, use.idle);
        TEST_CHECK(use.held_bytes == BLOCKS * size_of_block());
    }
    /* And all of it again. */
    kv_pool_limit(pool, 0);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        fill(tokens, CONTEXT, 200 + i);
        take(seq, 1, tokens, CONTEXT);
    }
    use = measure(pool);
    TEST_CHECK(use.held + use.idle == SEQUENCES * BLOCKS);
    close_all(pool, &seq, 1);
    windows = some_windows;
}

static void test_held_stays(void)
{
    static int32_t tokens[2][CONTEXT];
    windows = no_windows;
    kv_pool *pool = open_pool(SEQUENCES, whole());
    kv_sequence *seq[2];
    for (uint32_t i = 0; i < 2; i++) {
        seq[i] = open_sequence(pool, 1);
        fill(tokens[i], CONTEXT, i);
        take(seq[i], 1, tokens[i], CONTEXT / 4 * 3);
    }
    kv_pool_limit(pool, 1);
    TEST_CHECK(measure(pool).held == 2 * BLOCKS / 4 * 3);
    for (uint32_t i = 0; i < 2; i++)
        TEST_CHECK(count_lost(seq[i], 1, tokens[i], CONTEXT / 4 * 3) == 0);
    TEST_CHECK(compute(seq[0], 1, tokens[0], CONTEXT / 4 * 3, CONTEXT) == CERIUM_ERR_MEMORY);
    kv_sequence_rest(seq[1]); /* its end is evicted, and the first can continue */
    TEST_CHECK(measure(pool).idle == BLOCKS - BLOCKS / 4 * 3);
    TEST_CHECK(kv_pool_check_invariants(pool));
    take(seq[0], 1, tokens[0], CONTEXT);
    TEST_CHECK(measure(pool).idle == 0);
    close_all(pool, seq, 2);
    windows = some_windows;
}

/* Resident memory from p on. */
static size_t resident(const uint8_t *p, size_t size)
{
    static unsigned char is_there[1 << 16];
    size_t n = 0, pages = size / 4096;
    CHECK(pages <= sizeof is_there && (uintptr_t)p % 4096 == 0);
    CHECK(mincore((void *)(uintptr_t)p, pages * 4096, is_there) == 0);
    for (size_t i = 0; i < pages; i++) n += is_there[i] & 1;
    return n * 4096;
}

static void test_memory_goes(void)
{
    static int32_t tokens[CONTEXT];
    windows = no_windows;
    const size_t size = 96 << 20;
    kv_pool *pool = open_pool(2, size);
    kv_sequence *seq = open_sequence(pool, 1);
    fill(tokens, CONTEXT, 0);
    take(seq, 1, tokens, CONTEXT);
    const uint8_t *first = kv_sequence_page(seq, 0, 0, 0).keys;
    for (uint32_t i = 1; i < 2000; i++) {
        fill(tokens, CONTEXT, i);
        kv_sequence_adopt(seq, tokens, CONTEXT);
        TEST_CHECK(compute(seq, 1, tokens, kv_sequence_length(seq), CONTEXT) == 0);
    }
    TEST_CHECK(resident(first, size) > 60 << 20);
    kv_pool_limit(pool, 4 << 20);
    /* A block's ends share pages of the system with its neighbours'. */
    TEST_CHECK_THAT(resident(first, size) < 12 << 20, "%zu", resident(first, size));
    for (uint32_t i = 3000; i < 4000; i++) {
        fill(tokens, CONTEXT, i);
        take(seq, 1, tokens, CONTEXT);
    }
    TEST_CHECK_THAT(resident(first, size) < 12 << 20, "%zu", resident(first, size));
    close_all(pool, &seq, 1);
    windows = some_windows;
}

/* In any order: found data is right, and the limit holds, except for held blocks. */
static void test_random(void)
{
    static int32_t tokens[CONTEXT];
    const uint32_t *all[] = {some_windows, no_windows, all_windows};
    random_state = 7;
    for (uint32_t w = 0; w < ARRAY_LEN(all); w++) {
        windows = all[w];
        kv_pool *pool = open_pool(SEQUENCES, 0);
        const uint32_t most = measure(pool).blocks_max;
        kv_sequence *seq[SEQUENCES];
        for (uint32_t i = 0; i < SEQUENCES; i++) seq[i] = open_sequence(pool, 1);
        for (uint32_t step = 0; step < 3000; step++) {
            const uint32_t who = random_below(SEQUENCES);
            const uint32_t n = 1 + random_below(CONTEXT);
            if (random_below(8) == 0)
                kv_pool_limit(pool, 1 + random_below((uint32_t)(whole() / 4 * 5)));
            if (random_below(3) == 0) kv_sequence_rest(seq[who]);
            fill(tokens, CONTEXT, random_below(12));
            const uint32_t found = kv_sequence_adopt(seq[who], tokens, n);
            TEST_CHECK(count_lost(seq[who], 1, tokens, found) == 0);
            const int status = compute(seq[who], 1, tokens, found, n);
            TEST_CHECK(status == 0 || status == CERIUM_ERR_MEMORY);
            const uint32_t got = kv_sequence_length(seq[who]);
            TEST_CHECK(count_lost(seq[who], 1, tokens, got) == 0);
            const kv_use use = measure(pool);
            TEST_CHECK(use.blocks_max >= BLOCKS && use.blocks_max <= most);
            if (step % 64 == 0) TEST_CHECK(kv_pool_check_invariants(pool));
        }
        kv_pool_limit(pool, 1);
        for (uint32_t i = 0; i < SEQUENCES; i++) kv_sequence_rest(seq[i]);
        const kv_use use = measure(pool);
        TEST_CHECK_THAT(use.held == 0 && use.idle <= use.blocks_max, "%u", use.idle);
        close_all(pool, seq, SEQUENCES);
    }
    windows = some_windows;
}

int main(void)
{
    TEST_RUN(test_idle_goes);
    TEST_RUN(test_held_stays);
    TEST_RUN(test_memory_goes);
    TEST_RUN(test_random);
    return unit_report("kv_limit");
}
