/* test_disk_states.c - states on disk: a pool finds those of the one before, of the right tenants
 * and tokens, with all pages before them; their files stay within their bounds, and what is used
 * stays in them. */
#include "../random.h"
#include "disk_states.h"

static const uint32_t keeps[] = {5, 63, 65, 100, 130, 199};

/* The furthest place of a state that is read for n tokens: of a few tokens nothing is, and 200 is
 * not kept beside 199. */
static uint32_t wanted(uint32_t n)
{
    uint32_t want = 0;
    for (uint32_t i = 1; i < ARRAY_LEN(keeps); i++)
        if (keeps[i] <= n) want = keeps[i];
    return want;
}

static void test_restart(void)
{
    static int32_t tokens[300], other[300];
    kv_use use;
    state_bytes = 3 * (64 << 10) + 192; /* pieces, and a rest */
    empty_kept_folder();
    fill(tokens, 300, 1);
    leave(7, tokens, 200, keeps, ARRAY_LEN(keeps));
    for (uint32_t n = 1; n <= 250; n += n % 9 ? 1 : 7) {
        uint32_t found = find_anew(7, tokens, n);
        TEST_CHECK_THAT(found == wanted(n) && n_notices == 0, "%u of %u %s", found, n, notice_text);
        memcpy(other, tokens, sizeof other);
        other[n - 1] ^= 1;
        found = find_anew(7, other, 250);
        TEST_CHECK_THAT(found == wanted(n - 1), "%u of %u", found, n - 1);
        TEST_CHECK(find_anew(8, tokens, n) == 0);
    }
    kv_pool *pool = open_kept_states(2, 0);
    kv_sequence *seq = open_sequence(pool, 7);
    TEST_CHECK(find_all(seq, pool, 7, tokens, 150) == 130);
    kv_pool_measure(pool, &use);
    TEST_CHECK_THAT(use.disk_states == 6 && use.states_loaded == 1 && use.loaded == 3,
                    "%u, %llu, %llu", use.disk_states, (unsigned long long)use.states_loaded,
                    (unsigned long long)use.loaded);
    TEST_CHECK(use.hits == 1 && use.disk_bytes == sum_kept());
    /* What is in memory is not read, and what is held not looked for. */
    TEST_CHECK(find_all(seq, pool, 7, tokens, 140) == 130);
    TEST_CHECK(kv_pool_fetch(pool, 7, tokens, 200, 195) == 0);
    TEST_CHECK(find_all(seq, pool, 7, tokens, 300) == 199);
    kv_pool_measure(pool, &use);
    TEST_CHECK(use.states_loaded == 2 && use.loaded == 4 && use.states_written == 0);
    close_all(pool, &seq, 1);
}

/* Texts that part within a block have states at the same place: each finds its own. */
static void test_siblings(void)
{
    static int32_t tokens[3][100];
    empty_kept_folder();
    for (uint32_t i = 0; i < 3; i++) {
        fill(tokens[i], 100, 1);
        tokens[i][70] ^= (int32_t)i;
        leave(7, tokens[i], 100, NULL, 0);
    }
    for (uint32_t i = 0; i < 3; i++) TEST_CHECK(find_anew(7, tokens[i], 100) == 100);
}

/* States evicted from memory are found on disk, while pages of others or none are there. */
static void test_more_than_memory(void)
{
    enum { TEXTS = 12 };
    static int32_t tokens[TEXTS][CONTEXT];
    kv_use use;
    const uint32_t keep = 300;
    empty_kept_folder();
    kv_pool *pool = open_kept_states(1, 1);
    kv_sequence *seq = open_sequence(pool, 1);
    for (uint32_t i = 0; i < TEXTS; i++) {
        fill(tokens[i], CONTEXT, i / 2); /* two of each, that differ from here: */
        if (i % 2) tokens[i][400] ^= 1;
        uint32_t found = find_all(seq, pool, 1, tokens[i], 700);
        TEST_CHECK_THAT(found == (i % 2 ? 300 : 0), "%u: %u", i, found);
        TEST_CHECK(compute_all(seq, 1, tokens[i], found, 700, &keep, 1) == 0);
        kv_sequence_rest(seq);
        wait_for_writer(pool, &use);
    }
    for (uint32_t i = 0; i < TEXTS; i++) {
        uint32_t found = find_all(seq, pool, 1, tokens[i], 900);
        TEST_CHECK_THAT(found == 700, "%u: %u", i, found);
    }
    TEST_CHECK(kv_pool_check_invariants(pool) && n_notices == 0);
    close_all(pool, &seq, 1);
}

/* Files are bounded, and a used state outlives others. */
static void test_bounds(void)
{
    static int32_t hot[CONTEXT], tokens[CONTEXT];
    kv_use use;
    state_bytes = 1 << 20;
    disk_bytes = UINT64_C(110) << 20;
    empty_kept_folder();
    kv_pool *pool = open_kept_states(1, 1);
    kv_sequence *seq = open_sequence(pool, 1);
    fill(hot, CONTEXT, 1);
    for (uint32_t i = 0; i < 60; i++) {
        if (i % 6 == 0) {
            uint32_t found = find_all(seq, pool, 1, hot, 640);
            TEST_CHECK_THAT(found == (i ? 640 : 0), "%u: %u", i, found);
            TEST_CHECK(compute_all(seq, 1, hot, found, 640, NULL, 0) == 0);
            kv_sequence_rest(seq);
            wait_for_writer(pool, &use);
        }
        fill(tokens, CONTEXT, 2 + i);
        TEST_CHECK(find_all(seq, pool, 1, tokens, 700) == 0);
        TEST_CHECK(compute_all(seq, 1, tokens, 0, 700, keeps, ARRAY_LEN(keeps)) == 0);
        kv_sequence_rest(seq);
        wait_for_writer(pool, &use);
        TEST_CHECK(use.disk_bytes == sum_kept() && use.disk_bytes <= disk_bytes);
    }
    TEST_CHECK_THAT(use.states_evicted > 100 && use.disk_states >= 20, "%llu, %u",
                    (unsigned long long)use.states_evicted, use.disk_states);
    TEST_CHECK(use.states_written == use.states_evicted + use.disk_states);
    close_all(pool, &seq, 1);
    TEST_CHECK(find_anew(1, hot, 700) == 640 && find_anew(1, tokens, 800) == 700);
    fill(tokens, CONTEXT, 2);
    TEST_CHECK(find_anew(1, tokens, 800) == 0); /* the first */
    TEST_CHECK_THAT(n_notices == 0, "%s", notice_text);
    /* Fewer bytes than before: the newest states stay. */
    disk_bytes -= UINT64_C(15) << 20;
    TEST_CHECK(find_anew(1, hot, 700) == 0);
    fill(tokens, CONTEXT, 61);
    TEST_CHECK(find_anew(1, tokens, 800) == 700 && sum_kept() <= disk_bytes);
    disk_bytes = UINT64_C(1) << 30;
    state_bytes = 64;
}

/* Any order of prompts, forks, limits and restarts: the right states and pages, always. */
static void check_random(const uint32_t *with, uint32_t seed)
{
    enum { SEQUENCES = 4 };
    static int32_t tokens[SEQUENCES][CONTEXT];
    static uint32_t n[SEQUENCES];
    uint32_t n_found = 0;
    windows = with;
    random_state = seed;
    empty_kept_folder();
    for (int start = 0; start < 6; start++) {
        kv_pool *pool = open_kept_states(SEQUENCES, seed % 2);
        kv_sequence *seq[SEQUENCES];
        for (uint32_t i = 0; i < SEQUENCES; i++) seq[i] = open_sequence(pool, i % 2);
        for (uint32_t round = 0; round < 60; round++) {
            const uint32_t i = round < SEQUENCES ? round : random_u32() % SEQUENCES;
            const uint32_t k = random_u32() % SEQUENCES;
            if (round >= SEQUENCES && random_u32() % 4 == 0 && i != k && i % 2 == k % 2) {
                kv_sequence_rest(seq[i]);
                memcpy(tokens[i], tokens[k], sizeof tokens[i]);
                n[i] = kv_sequence_fork(seq[i], seq[k]);
                continue;
            }
            /* After a restart each continues from where it was. */
            uint32_t keep = round < SEQUENCES ? n[i] : random_below(n[i] + 1);
            uint32_t all = keep + 1 + random_below(CONTEXT - keep) / 2;
            if (all > CONTEXT) all = CONTEXT;
            for (uint32_t t = keep; t < all; t++)
                tokens[i][t] = (int32_t)(random_below(4) ? t % 5 : random_below(2));
            const uint32_t places[] = {keep, keep + (all - keep) / 2, all - 1};
            if (start == 0 && round < SEQUENCES) n[i] = 0;
            uint32_t found = find_all(seq[i], pool, i % 2, tokens[i], all);
            if (round < SEQUENCES) n_found += found;
            if (compute_all(seq[i], i % 2, tokens[i], found, all, places, 3)) all = 0;
            n[i] = kv_sequence_length(seq[i]);
            TEST_CHECK(all == 0 || n[i] == all);
            TEST_CHECK(is_right(seq[i], i % 2, tokens[i]) && kv_pool_check_invariants(pool));
        }
        close_all(pool, seq, SEQUENCES);
        TEST_CHECK_THAT(n_notices == 0, "%s", notice_text);
    }
    for (uint32_t i = 0; i < SEQUENCES; i++) n[i] = 0;
    TEST_CHECK_THAT(n_found > 1000, "%u", n_found);
    windows = no_windows;
}

static void test_random(void)
{
    for (uint32_t seed = 1; seed <= 4; seed++) {
        check_random(no_windows, seed);
        check_random(some_windows, seed);
    }
}

static void test_allocation(void)
{
    const int n_failed = count_failures(open_with_states);
    TEST_CHECK_THAT(n_failed >= 9, "%d", n_failed);
    state_bytes = 40 << 20; /* pages have room, and three states have not */
    disk_bytes = UINT64_C(150) << 20;
    kv_pool *pool = open_with_states(1, 1);
    TEST_CHECK(keep_pool(pool) == CERIUM_ERR_ARGUMENT);
    kv_pool_close(&pool);
    disk_bytes = UINT64_C(1) << 30;
    state_bytes = 64;
}

int main(void)
{
    windows = no_windows;
    make_kept_folder();
    TEST_RUN(test_restart);
    TEST_RUN(test_siblings);
    TEST_RUN(test_more_than_memory);
    TEST_RUN(test_bounds);
    TEST_RUN(test_random);
    TEST_RUN(test_allocation);
    remove_kept_folder();
    return unit_report("disk_states");
}
