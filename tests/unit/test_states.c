/* test_states.c - states in the KV cache: whatever was found, kept, evicted, rewound or left in
 * the middle, a sequence has the state of exactly the tokens that it holds, with all their pages.
 */
#include "../random.h"
#include "state_marks.h"

static void test_found_where_kept(void)
{
    static int32_t tokens[300], other[300];
    static const uint32_t keeps[] = {5, 63, 65, 100, 130, 199};
    kv_pool *pool = open_with_states(4, 0);
    kv_sequence *a = open_sequence(pool, 7), *b = open_sequence(pool, 7);
    fill(tokens, 300, 1);
    TEST_CHECK(compute_all(a, 7, tokens, 0, 200, keeps, 6) == 0 && is_right(a, 7, tokens));
    kv_sequence_rest(a);
    for (uint32_t n = 1; n <= 250; n++) {
        uint32_t want = n >= 200 ? 200 : 0; /* one is kept where it rested, too */
        for (uint32_t i = 0; i < 6; i++)
            if (keeps[i] <= n && keeps[i] > want) want = keeps[i];
        uint32_t found = kv_sequence_adopt(b, tokens, n);
        TEST_CHECK_THAT(found == want && is_right(b, 7, tokens), "%u of %u", found, n);
        memcpy(other, tokens, sizeof other);
        other[n - 1] ^= 1; /* a state after the difference does not fit */
        TEST_CHECK(kv_sequence_adopt(b, other, 250) < n && is_right(b, 7, other));
    }
    /* Up to there the tree has pages but no state: one is wanted at its end. */
    memcpy(other, tokens, sizeof other);
    other[170] ^= 1;
    TEST_CHECK(kv_sequence_adopt(b, other, 250) == 130 && kv_sequence_known(b) == 170);
    kv_sequence *two[2] = {a, b};
    close_all(pool, two, 2);
}

/* Output of an unfinished pass is never used, whatever replaces it. */
static void test_left_in_the_middle(void)
{
    static int32_t tokens[200], other[200];
    const uint32_t keep = 20;
    kv_pool *pool = open_with_states(3, 0);
    kv_sequence *seq[2] = {open_sequence(pool, 1), open_sequence(pool, 1)};
    fill(tokens, 200, 1);
    fill(other, 200, 2);
    TEST_CHECK(pass_over(seq[0], 1, tokens, 0, 30, &keep, 1, false) == 0);
    TEST_CHECK(kv_sequence_adopt(seq[0], other, 40) == 0);
    TEST_CHECK(pass_over(seq[0], 1, other, 0, 30, NULL, 0, true) == 0);
    kv_sequence_rest(seq[0]);
    TEST_CHECK(kv_sequence_adopt(seq[1], other, 25) == 0 && is_right(seq[1], 1, other));
    TEST_CHECK(kv_sequence_adopt(seq[1], other, 30) == 30 && is_right(seq[1], 1, other));
    close_all(pool, seq, 2);
}

static void test_hidden(void)
{
    static int32_t tokens[200];
    static const uint32_t keeps[] = {50, 90, 120};
    kv_pool *pool = open_with_states(3, 0);
    kv_sequence *seq[2] = {open_sequence(pool, 1), open_sequence(pool, 1)};
    fill(tokens, 200, 3);
    kv_sequence_hide(seq[0], 100);
    TEST_CHECK(compute_all(seq[0], 1, tokens, 0, 150, keeps, 3) == 0);
    kv_sequence_mark(seq[0]);
    TEST_CHECK(kv_sequence_adopt(seq[1], tokens, 150) == 50);
    kv_sequence_hide(seq[0], 0); /* it no longer holds hidden tokens */
    TEST_CHECK(kv_sequence_length(seq[0]) <= 100 && is_right(seq[0], 1, tokens));
    TEST_CHECK(kv_sequence_adopt(seq[1], tokens, 150) == 90 && is_right(seq[1], 1, tokens));
    close_all(pool, seq, 2);
}

/* A state that another sequence passed is kept for a request of exactly these tokens: from a
 * block that the other still fills, from a full one, or held before. */
static void test_asked_again(void)
{
    static int32_t tokens[200];
    static const uint32_t ends[] = {64, 68};
    fill(tokens, 200, 4);
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t n = ends[i % 2];
        kv_pool *pool = open_with_states(3, 0);
        kv_sequence *seq[2] = {open_sequence(pool, 1), open_sequence(pool, 1)};
        kv_sequence *asks = seq[i < 2];
        TEST_CHECK(pass_over(seq[0], 1, tokens, 0, n, NULL, 0, true) == 0);
        if (kv_sequence_adopt(asks, tokens, n) < n)
            TEST_CHECK(kv_sequence_borrow(asks, seq[0], tokens, n) == n);
        for (uint32_t k = 0; k < 2; k++)
            if (kv_sequence_length(seq[k]) == n)
                TEST_CHECK(pass_over(seq[k], 1, tokens, n, n + 3, NULL, 0, true) == 0);
        uint32_t found = kv_sequence_adopt(asks, tokens, n);
        TEST_CHECK_THAT(found == n && is_right(asks, 1, tokens), "%u of %u", found, n);
        close_all(pool, seq, 2);
    }
}

/* Everything at once, with as few states and blocks as possible, with plenty, and with a limit that
 * comes and goes. */
static void test_at_random(void)
{
    enum { SEQUENCES = 5, STEPS = 4000, FAMILIES = 3 };
    static int32_t tokens[SEQUENCES][CONTEXT];
    static const uint64_t sizes[] = {1, 0};
    for (int round = 0; round < 6; round++) {
        kv_pool *pool = open_with_states(SEQUENCES, sizes[round % 2]);
        kv_sequence *seq[SEQUENCES];
        windows = round % 4 < 2 ? no_windows : some_windows;
        random_state = 11 + (uint32_t)round;
        for (uint32_t i = 0; i < SEQUENCES; i++) seq[i] = open_sequence(pool, i % 2);
        for (uint32_t step = 0; step < STEPS; step++) {
            const uint32_t i = random_u32() % SEQUENCES, k = random_u32() % SEQUENCES;
            const uint32_t n = 1 + random_u32() % 300, at = random_u32() % n;
            const uint32_t keeps[] = {random_u32() % n, random_u32() % n, n - 1};
            int32_t next[300];
            uint32_t found = kv_sequence_length(seq[i]);
            if (round >= 4 && random_u32() % 8 == 0)
                kv_pool_limit(pool, random_u32() % 4 ? 1 + random_u32() % (1 << 20) : 0);
            switch (random_u32() % 6) {
            case 0: kv_sequence_rest(seq[i]); break;
            case 1:
                if (i == k || i % 2 != k % 2) break;
                kv_sequence_rest(seq[i]);
                memcpy(tokens[i], tokens[k], sizeof tokens[i]);
                kv_sequence_fork(seq[i], seq[k]);
                break;
            default: /* a prompt that agrees with others, and goes its own way */
                fill(next, n, random_u32() % FAMILIES);
                for (uint32_t t = at; t < n && random_u32() % 2; t++) next[t] ^= 1;
                found = kv_sequence_adopt(seq[i], next, n);
                memcpy(tokens[i], next, n * sizeof *next);
                TEST_CHECK(is_right(seq[i], i % 2, tokens[i]));
                if (i != k && i % 2 == k % 2) found = kv_sequence_borrow(seq[i], seq[k], next, n);
                TEST_CHECK(found <= n && is_right(seq[i], i % 2, tokens[i]));
                if (random_u32() % 4 == 0 && found < n)
                    pass_over(seq[i], i % 2, next, found, found + (n - found + 1) / 2 % BATCH,
                              keeps, 3, false);
                else
                    compute_all(seq[i], i % 2, next, found, n, keeps, 3);
                break;
            }
            TEST_CHECK(is_right(seq[i], i % 2, tokens[i]));
            TEST_CHECK(kv_pool_check_invariants(pool));
        }
        close_all(pool, seq, SEQUENCES);
    }
    windows = no_windows;
}

int main(void)
{
    windows = no_windows;
    TEST_RUN(test_found_where_kept);
    TEST_RUN(test_left_in_the_middle);
    TEST_RUN(test_hidden);
    TEST_RUN(test_asked_again);
    TEST_RUN(test_at_random);
    return unit_report("states");
}
