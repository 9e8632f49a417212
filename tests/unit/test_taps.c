/* test_taps.c - rings of states: those that stay, and who has a ring where there are few. */
#include "engine/taps.h"

#include "base/memory.h"
#include "unit.h"

enum { N = 3, TIMELINES = 6 };

static taps_pool pool;
static taps of[TIMELINES];

static void begin(uint32_t n)
{
    CHECK(taps_pool_open(&pool, TIMELINES, n) == 0);
    for (int i = 0; i < TIMELINES; i++) of[i] = (taps){.pool = &pool};
}

static void end(void)
{
    for (int i = 0; i < TIMELINES; i++) taps_close(&of[i]);
    taps_pool_close(&pool);
}

static bool put(uint32_t i, uint32_t token)
{
    if (!taps_take(&of[i])) return false;
    taps_put(&of[i], token)[0] = (float)(1000 * i + token);
    return true;
}

static bool knows(uint32_t i, uint32_t token)
{
    const float *state = taps_of(&of[i], token);
    TEST_CHECK(!state || state[0] == (float)(1000 * i + token));
    return state != NULL;
}

static void test_ring(void)
{
    begin(N);
    TEST_CHECK(!knows(0, 0));
    for (uint32_t t = 5; t < 5 + TAPS_MAX + 10; t++) TEST_CHECK(put(0, t));
    TEST_CHECK(!knows(0, 5 + 9) && knows(0, 5 + 10) && knows(0, 5 + TAPS_MAX + 9));
    TEST_CHECK(!knows(0, 5 + TAPS_MAX + 10));
    taps_cut(&of[0], 20);
    TEST_CHECK(knows(0, 19) && !knows(0, 20));
    TEST_CHECK(put(0, 40)); /* it does not join them */
    TEST_CHECK(!knows(0, 19) && knows(0, 40));
    TEST_CHECK(put(1, 40) && knows(0, 40) && knows(1, 40));
    end();
}

/* States so wide that four timelines have a ring. */
static void test_few_rings(void)
{
    begin((uint32_t)(TAPS_BYTES_MAX / TAPS_MAX / sizeof(float) / 2));
    TEST_CHECK(pool.n_rings == TAPS_RINGS_MIN);
    TEST_CHECK(taps_pool_bytes(&pool) == 2 * TAPS_BYTES_MAX);
    for (uint32_t i = 0; i < 4; i++) TEST_CHECK(put(i, 1));
    TEST_CHECK(!put(4, 1) && !knows(4, 1)); /* all have just had passes */
    taps_close(&of[2]);
    TEST_CHECK(put(4, 1) && knows(4, 1) && knows(0, 1) && knows(1, 1) && knows(3, 1));
    uint32_t n = 0;
    for (; !put(5, 2) && n < 100; n++) TEST_CHECK(put(0, 2 + n) && put(3, 2 + n) && put(4, 2 + n));
    TEST_CHECK_THAT(n >= TAPS_IDLE * TIMELINES / 4 - 1 && n < 100, "%u", n);
    TEST_CHECK(knows(5, 2) && !knows(1, 1)); /* the one without passes */
    TEST_CHECK(knows(0, 1 + n) && knows(3, 1 + n) && knows(4, 1 + n));
    taps_cut(&of[1], 1);
    end();
    TEST_CHECK(memory_live() == 0);
}

/* One ring of each session, if they are small. */
static void test_bytes(void)
{
    begin(N);
    TEST_CHECK(pool.n_rings == TIMELINES);
    TEST_CHECK(taps_pool_bytes(&pool) == (uint64_t)TIMELINES * TAPS_MAX * N * sizeof(float));
    end();
}

static void test_no_memory(void)
{
    for (long n = 0; n < 3; n++) {
        memory_fail_at(n);
        TEST_CHECK(taps_pool_open(&pool, TIMELINES, N) == CERIUM_ERR_MEMORY);
        memory_fail_at(-1);
        TEST_CHECK(memory_live() == 0 && pool.n == 0);
    }
}

int main(void)
{
    TEST_RUN(test_ring);
    TEST_RUN(test_few_rings);
    TEST_RUN(test_bytes);
    TEST_RUN(test_no_memory);
    return unit_report("taps");
}
