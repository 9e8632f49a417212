/* test_kv.c - the KV cache: computed tokens are found again, by the right tenants, with the right
 * bytes, windows are whole, and the least valuable blocks are evicted. */
#include <sys/mman.h>
#include <unistd.h>

#include "../random.h"
#include "kv_marks.h"

static void check_two_sequences(uint64_t head_bytes)
{
    static int32_t tokens[2][CONTEXT];
    kv_pool *pool = open_pool(2, 0);
    TEST_CHECK(kv_token_bytes(pool) == 2 * HEADS * head_bytes); /* of one layer */
    kv_sequence *seq[2], *third = NULL;
    cerium_error err;
    for (uint32_t i = 0; i < 2; i++) {
        seq[i] = open_sequence(pool, 0);
        fill(tokens[i], CONTEXT, i);
    }
    TEST_CHECK(kv_sequence_open(&third, pool, CONTEXT, 0, &err) == CERIUM_ERR_CAPACITY);
    for (uint32_t at = 0; at < CONTEXT; at += BATCH)
        for (uint32_t i = 0; i < 2; i++) {
            TEST_CHECK(compute(seq[i], 0, tokens[i], at, at + BATCH) == 0);
            TEST_CHECK(count_lost(seq[i], 0, tokens[i], at + BATCH) == 0);
        }
    TEST_CHECK(kv_sequence_reserve(seq[0], CONTEXT + 1) == CERIUM_ERR_CAPACITY);
    close_all(pool, seq, 2);
}

static void test_two_sequences(void)
{
    check_two_sequences(DIM * 2);
    type = KERNEL_KV_F32;
    check_two_sequences(DIM * 4);
    type = KERNEL_KV_I8;
    check_two_sequences((DIM + 15) / 16 * 16 + 4); /* whole sixteens, and a scale */
    type = KERNEL_KV_F16;
}

static void test_others_find_it(void)
{
    int32_t tokens[400], other[400];
    kv_pool *pool = open_pool(4, 0);
    kv_sequence *seq[4];
    for (int i = 0; i < 4; i++) seq[i] = open_sequence(pool, i == 3 ? 77 : 5);
    fill(tokens, 400, 1);
    memcpy(other, tokens, sizeof tokens);
    TEST_CHECK(take(seq[0], 5, tokens, 330) == 0);
    /* While the first still holds them, only whole blocks are found; its last block is private. */
    TEST_CHECK(take(seq[1], 5, tokens, 400) == 320);
    other[350] = other[350] + 1; /* inside of a block: found up to there, and copied */
    TEST_CHECK(take(seq[2], 5, other, 400) == 350);
    /* Never another tenant's. */
    TEST_CHECK(take(seq[3], 77, tokens, 400) == 0);
    /* Released tokens are found to the last one that agrees. */
    kv_sequence_rest(seq[1]);
    kv_sequence_rest(seq[2]);
    TEST_CHECK(kv_sequence_length(seq[1]) == 0 && kv_sequence_blocks(seq[1]) == 0);
    TEST_CHECK(take(seq[1], 5, other, 399) == 399);
    TEST_CHECK(take(seq[2], 5, tokens, 395) == 395);
    other[100] = other[100] + 1;
    TEST_CHECK(take(seq[2], 5, other, 200) == 100);
    close_all(pool, seq, 4);
}

/* Hold tokens as take() does, but first borrow those in another's unfinished block. */
static uint32_t borrow(kv_sequence *seq, kv_sequence *from, const int32_t *tokens, uint32_t n)
{
    kv_sequence_adopt(seq, tokens, n);
    uint32_t found = kv_sequence_borrow(seq, from, tokens, n);
    TEST_CHECK(found == kv_sequence_length(seq) && count_lost(seq, 5, tokens, found) == 0);
    TEST_CHECK(compute(seq, 5, tokens, found, n) == 0 && count_lost(seq, 5, tokens, n) == 0);
    return found;
}

/* Tokens in another's unfinished block are copied as far as they agree. */
static void test_unfinished_block(void)
{
    int32_t tokens[400], other[400];
    kv_pool *pool = open_pool(4, 0);
    kv_sequence *seq[4];
    for (int i = 0; i < 4; i++) seq[i] = open_sequence(pool, 5);
    fill(tokens, 400, 1);
    memcpy(other, tokens, sizeof tokens);
    other[340] = other[340] + 1;
    other[345] = other[345] + 1;
    TEST_CHECK(take(seq[0], 5, tokens, 350) == 0);
    TEST_CHECK(borrow(seq[1], seq[0], tokens, 360) == 350);
    TEST_CHECK(borrow(seq[2], seq[0], other, 352) == 340); /* as far as it agrees */
    TEST_CHECK(borrow(seq[3], seq[0], other, 345) == 340); /* fewer are wanted than exist */
    TEST_CHECK(borrow(seq[3], seq[2], other, 348) == 348); /* it has some of it itself */
    TEST_CHECK(borrow(seq[3], seq[0], other, 330) == 330); /* it has all of them itself */
    other[100] = other[100] + 1; /* another block comes before */
    TEST_CHECK(borrow(seq[2], seq[0], other, 352) == 100);
    TEST_CHECK(borrow(seq[1], seq[0], tokens, 384) == 360); /* its own is longer */
    kv_sequence_rest(seq[3]);
    TEST_CHECK(borrow(seq[3], seq[1], tokens, 390) == 384); /* full ones are found, and no more */
    kv_sequence_rest(seq[0]);
    TEST_CHECK(kv_sequence_borrow(seq[1], seq[0], tokens, 390) == 384); /* it holds none */
    /* Each continues with its copy, and no copy changes another. */
    TEST_CHECK(compute(seq[1], 5, tokens, 384, 400) == 0);
    TEST_CHECK(count_lost(seq[1], 5, tokens, 400) == 0 && count_lost(seq[3], 5, tokens, 390) == 0);
    TEST_CHECK(count_lost(seq[2], 5, other, 352) == 0);
    close_all(pool, seq, 4);
}

static void test_rewind_keeps(void)
{
    int32_t tokens[300], other[300];
    kv_pool *pool = open_pool(1, 0);
    kv_sequence *seq = open_sequence(pool, 0);
    fill(tokens, 300, 1);
    fill(other, 300, 2);
    memcpy(other, tokens, 210 * sizeof *tokens);
    TEST_CHECK(take(seq, 0, tokens, 300) == 0);
    TEST_CHECK(take(seq, 0, other, 300) == 210);  /* from inside of a full block */
    TEST_CHECK(take(seq, 0, tokens, 300) == 300); /* and back: nothing was lost */
    TEST_CHECK(take(seq, 0, other, 290) == 290);
    TEST_CHECK(take(seq, 0, tokens, 250) == 250);
    TEST_CHECK(kv_sequence_adopt(seq, tokens, 0) == 0);
    close_all(pool, &seq, 1);
}

/* Hidden tokens are never found: not while held, not after release, and not in a fork;
 * those before them are found by all. */
static void check_hidden(uint32_t from, uint32_t n)
{
    int32_t tokens[400];
    kv_pool *pool = open_pool(3, 0);
    kv_sequence *seq[3];
    for (int i = 0; i < 3; i++) seq[i] = open_sequence(pool, 5);
    fill(tokens, 400, 1);
    kv_sequence_hide(seq[0], from);
    TEST_CHECK(take(seq[0], 5, tokens, n) == 0);
    TEST_CHECK(take(seq[1], 5, tokens, 400) == from / 64 * 64);
    kv_sequence_rest(seq[1]);
    TEST_CHECK(kv_sequence_fork(seq[2], seq[0]) == from);
    kv_sequence_rest(seq[2]);
    TEST_CHECK(kv_sequence_adopt(seq[0], tokens, n) == n); /* itself, it has it */
    kv_sequence_hide(seq[0], 0);
    TEST_CHECK(kv_sequence_length(seq[0]) == (n > from ? from / 64 * 64 : from));
    TEST_CHECK(kv_pool_check_invariants(pool));
    close_all(pool, seq, 3);
    /* The same if the sequence is released as it is. */
    pool = open_pool(2, 0);
    for (int i = 0; i < 2; i++) seq[i] = open_sequence(pool, 5);
    kv_sequence_hide(seq[0], from);
    TEST_CHECK(take(seq[0], 5, tokens, n) == 0);
    kv_sequence_close(&seq[0]);
    TEST_CHECK(kv_pool_check_invariants(pool));
    TEST_CHECK(kv_sequence_adopt(seq[1], tokens, 400) == from);
    TEST_CHECK(take(seq[1], 5, tokens, 400) == from);
    /* Blocks that were shared before stay shared, and those after them are hidden. */
    kv_sequence_hide(seq[1], from);
    TEST_CHECK(take(seq[1], 5, tokens, 400) == 400);
    tokens[from] = tokens[from] + 1;
    TEST_CHECK(take(seq[1], 5, tokens, n) == from);
    kv_sequence_hide(seq[1], 0);
    TEST_CHECK(kv_sequence_adopt(seq[1], tokens, n) <= from);
    TEST_CHECK(kv_pool_check_invariants(pool));
    close_all(pool, seq + 1, 1);
}

static void test_hidden(void)
{
    for (uint32_t from = 1; from < 300; from += from < 60 ? 29 : 1)
        if (from < 70 || from % 64 < 3 || from % 64 > 61)
            for (uint32_t n = from; n < 400; n += 43) check_hidden(from, n);
}

/* Equal blocks computed at the same time become one. */
static void test_equal_blocks_are_one(void)
{
    int32_t tokens[KERNEL_PAGE * 3];
    kv_pool *pool = open_pool(2, 0);
    kv_sequence *seq[2] = {open_sequence(pool, 0), open_sequence(pool, 0)};
    kv_use use;
    fill(tokens, KERNEL_PAGE * 3, 1);
    for (uint32_t at = 0; at < 2 * KERNEL_PAGE; at += BATCH)
        for (int i = 0; i < 2; i++) TEST_CHECK(compute(seq[i], 0, tokens, at, at + BATCH) == 0);
    kv_pool_measure(pool, &use);
    TEST_CHECK_THAT(use.held == 2, "%u", use.held);
    for (int i = 0; i < 2; i++) TEST_CHECK(count_lost(seq[i], 0, tokens, 2 * KERNEL_PAGE) == 0);
    close_all(pool, seq, 2);
}

/* A pool of 16 blocks, the least for this context. */
static void test_eviction_order(void)
{
    int32_t a[KERNEL_PAGE * 6], b[KERNEL_PAGE * 6], c[KERNEL_PAGE * 6];
    windows = no_windows;
    kv_pool *pool = open_pool(2, 1);
    kv_sequence *seq[2] = {open_sequence(pool, 0), open_sequence(pool, 0)};
    kv_use use;
    fill(a, KERNEL_PAGE * 6, 1);
    fill(b, KERNEL_PAGE * 6, 2);
    fill(c, KERNEL_PAGE * 6, 3);
    kv_pool_measure(pool, &use);
    TEST_CHECK(use.blocks_max == CONTEXT / KERNEL_PAGE);
    take(seq[0], 0, a, KERNEL_PAGE * 6);
    take(seq[0], 0, b, KERNEL_PAGE * 6);
    TEST_CHECK(take(seq[0], 0, a, KERNEL_PAGE) == KERNEL_PAGE); /* a's first block is reused */
    kv_sequence_rest(seq[0]);
    kv_pool_measure(pool, &use);
    TEST_CHECK(use.idle == 12 && use.held == 0);
    /* Six of 4 free and 12 idle: two last blocks of a are evicted, which was used before b. */
    take(seq[0], 0, c, KERNEL_PAGE * 6);
    TEST_CHECK(kv_sequence_adopt(seq[1], a, KERNEL_PAGE * 6) == 4 * KERNEL_PAGE);
    TEST_CHECK(kv_sequence_adopt(seq[1], b, KERNEL_PAGE * 6) == 6 * KERNEL_PAGE);
    TEST_CHECK(kv_pool_check_invariants(pool));
    close_all(pool, seq, 2);
    windows = some_windows;
}

static void test_exhaustion(void)
{
    static int32_t tokens[2][CONTEXT];
    kv_pool *pool = open_pool(2, 1);
    kv_sequence *seq[2] = {open_sequence(pool, 0), open_sequence(pool, 0)};
    for (uint32_t i = 0; i < 2; i++) fill(tokens[i], CONTEXT, i);
    TEST_CHECK(compute(seq[0], 0, tokens[0], 0, 600) == 0);
    TEST_CHECK(compute(seq[1], 0, tokens[1], 0, CONTEXT) == CERIUM_ERR_MEMORY);
    uint32_t held = kv_sequence_length(seq[1]);
    TEST_CHECK(held >= 300 && count_lost(seq[1], 0, tokens[1], held) == 0);
    uint32_t n_blocks = kv_sequence_blocks(seq[1]);
    TEST_CHECK(kv_sequence_reserve(seq[1], CONTEXT) == CERIUM_ERR_MEMORY);
    TEST_CHECK(kv_sequence_blocks(seq[1]) == n_blocks);
    /* Once the other releases its blocks, there is room for a whole context. */
    kv_sequence_rest(seq[0]);
    TEST_CHECK(take(seq[1], 0, tokens[1], CONTEXT) == held);
    /* Rewinding into a block without room for a copy goes back to its beginning. */
    tokens[1][CONTEXT - 10]++;
    uint32_t found = take(seq[1], 0, tokens[1], CONTEXT);
    TEST_CHECK(found == CONTEXT - 10 || found == CONTEXT - KERNEL_PAGE);
    close_all(pool, seq, 2);
}

/* A timeline can be resumed where its window is still cached. */
static void test_windows_bound_it(void)
{
    static int32_t tokens[2][CONTEXT];
    windows = some_windows;
    kv_pool *pool = open_pool(2, 1);
    kv_sequence *seq[2] = {open_sequence(pool, 0), open_sequence(pool, 0)};
    for (uint32_t i = 0; i < 2; i++) fill(tokens[i], CONTEXT, i);
    take(seq[0], 0, tokens[0], 500);
    kv_sequence_rest(seq[0]);
    TEST_CHECK(take(seq[1], 0, tokens[0], 500) == 500);
    kv_sequence_rest(seq[1]);
    TEST_CHECK(take(seq[1], 0, tokens[1], 500) == 0);
    TEST_CHECK(take(seq[0], 0, tokens[0], 450) <= 450);
    close_all(pool, seq, 2);
}

/* ---- random: operations in any order, checked by the tokens ---- */

/* Few different tokens, so that beginnings and whole timelines meet. */
static void random_timeline(int32_t *tokens, uint32_t n)
{
    uint32_t family = random_below(3), turn = random_below(n + 1);
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(i < turn ? family : i % 7 + family * random_below(2));
}

static void simulate(const uint32_t *with, uint32_t seed, uint64_t size)
{
    enum { SEQUENCES = 4 };
    static int32_t tokens[SEQUENCES][CONTEXT];
    uint32_t n[SEQUENCES] = {0}, n_found = 0;
    kv_sequence *seq[SEQUENCES];
    windows = with;
    random_state = seed;
    kv_pool *pool = open_pool(SEQUENCES, size);
    for (uint32_t i = 0; i < SEQUENCES; i++) seq[i] = open_sequence(pool, i % 2);
    for (int round = 0; round < 400; round++) {
        uint32_t i = random_below(SEQUENCES), what = random_below(10);
        if (what == 0) {
            kv_sequence_rest(seq[i]);
            n[i] = 0;
            continue;
        }
        if (what < 5) { /* another timeline, often with the same beginning */
            uint32_t held = n[i], keep = random_below(2) ? random_below(held + 1) : 0, all;
            if (random_below(4) == 0) keep = held;
            all = keep + random_below(CONTEXT - keep) / 2;
            random_timeline(tokens[i] + keep, all - keep);
            n[i] = kv_sequence_adopt(seq[i], tokens[i], all);
            n_found += n[i];
            TEST_CHECK(keep < held || n[i] >= held); /* a full match is never lost */
            TEST_CHECK(n[i] <= all && n[i] == kv_sequence_length(seq[i]));
        } else { /* continue */
            uint32_t more = 1 + random_below(100);
            if (more > CONTEXT - n[i]) more = CONTEXT - n[i];
            random_timeline(tokens[i] + n[i], more);
            int status = compute(seq[i], i % 2, tokens[i], n[i], n[i] + more);
            TEST_CHECK(status == 0 || status == CERIUM_ERR_MEMORY);
            n[i] = kv_sequence_length(seq[i]);
        }
        TEST_CHECK(count_lost(seq[i], i % 2, tokens[i], n[i]) == 0);
        if (round % 16 == 0) TEST_CHECK(kv_pool_check_invariants(pool));
    }
    for (uint32_t i = 0; i < SEQUENCES; i++)
        TEST_CHECK(count_lost(seq[i], i % 2, tokens[i], n[i]) == 0);
    TEST_CHECK(n_found > 1000);
    close_all(pool, seq, SEQUENCES);
}

static void test_random(void)
{
    for (uint32_t seed = 1; seed <= 12; seed++) {
        simulate(no_windows, seed, seed % 3 ? 1 : 0);
        simulate(some_windows, seed, seed % 3 ? 1 : size_of_block() * 30);
        simulate(all_windows, seed, seed % 3 ? 1 : 0);
    }
    windows = some_windows;
}

static void test_nothing_leaks(void)
{
    long before = memory_live();
    int32_t tokens[CONTEXT];
    kv_pool *pool = open_pool(1, 1);
    for (uint32_t i = 0; i < 50; i++) { /* blocks must return to the pool, or it would run out */
        kv_sequence *seq = open_sequence(pool, 0);
        fill(tokens, CONTEXT, i);
        TEST_CHECK(compute(seq, 0, tokens, 0, CONTEXT) == 0);
        kv_sequence_close(&seq);
    }
    TEST_CHECK(kv_pool_check_invariants(pool));
    kv_pool_close(&pool);
    TEST_CHECK(memory_live() == before);
}

/* Whether the system gave memory to the page that is this many bytes after a pool's first. */
static bool is_ready(const uint8_t *first, size_t at)
{
    unsigned char is_there = 0;
    const uintptr_t page = ((uintptr_t)first + at) & ~(uintptr_t)4095;
    CHECK(mincore((void *)page, 4096, &is_there) == 0);
    return is_there & 1;
}

/* The pages after those ever used have memory, but not many more. */
static void test_memory_ahead(void)
{
    static int32_t tokens[CONTEXT];
    const size_t size = (size_t)KV_POPULATE_BYTES * 4;
    windows = no_windows;
    kv_pool *pool = open_pool(2, size);
    kv_sequence *seq = open_sequence(pool, 1);
    fill(tokens, CONTEXT, 0);
    TEST_CHECK(take(seq, 1, tokens, KERNEL_PAGE) == 0);
    const uint8_t *first = kv_sequence_page(seq, 0, 0, 0).keys;
    size_t used = 0;
    if (!is_ready(first, KV_POPULATE_BYTES - 8192)) {
        TEST_SKIP("memory ahead of KV pages: this system gives none");
        kv_sequence_close(&seq);
        kv_pool_close(&pool);
        windows = some_windows;
        return;
    }
    usleep(20000);
    TEST_CHECK(!is_ready(first, KV_POPULATE_BYTES + 8192)); /* nothing is near it */
    for (uint32_t i = 1; used < KV_POPULATE_BYTES; i++) {
        fill(tokens, CONTEXT, i);
        TEST_CHECK(compute(seq, 1, tokens, kv_sequence_adopt(seq, tokens, CONTEXT), CONTEXT) == 0);
        const uint8_t *last = kv_sequence_page(seq, 0, 0, CONTEXT / KERNEL_PAGE - 1).keys;
        used = (size_t)(last - first);
    }
    const size_t end = used + KV_PREFAULT_BYTES;
    for (int i = 0; !is_ready(first, end - 8192) && i < 600000; i++)
        usleep(1000);
    usleep(20000);
    TEST_CHECK(is_ready(first, end - 8192));
    TEST_CHECK(!is_ready(first, end + 3 * (size_t)MEMORY_HUGE_PAGE));
    kv_sequence_close(&seq);
    kv_pool_close(&pool);
    windows = some_windows;
}

/* Layers whose values are their keys take half, and their neighbours do not move. */
static void test_latents(void)
{
    const kv_heads both[LAYERS] = {{1, DIM, true}, {HEADS, DIM, false}, {1, 2 * DIM, true}};
    kv_layout layout = {.type = type, .n_layers = LAYERS, .heads = both, .windows = no_windows,
                        .context_tokens = CONTEXT, .batch_tokens = BATCH, .sequences_max = 1};
    const size_t one = kernel_kv_bytes(type, DIM);
    kv_pool *pool = NULL;
    cerium_error err;
    TEST_CHECK(kv_pool_open(&pool, &layout, &err) == 0);
    TEST_CHECK(kv_token_bytes(pool) == (1 + 2 * HEADS + 2) * one / KERNEL_PAGE);
    kv_sequence *seq = open_sequence(pool, 1);
    TEST_CHECK(kv_sequence_reserve(seq, 1) == 0);
    const kv_page first = kv_sequence_page(seq, 0, 0, 0), last = kv_sequence_page(seq, 2, 0, 0);
    const kv_page beside = kv_sequence_page(seq, 1, 0, 0);
    TEST_CHECK(first.keys && !first.values && !last.values);
    TEST_CHECK((uint8_t *)beside.keys == (uint8_t *)first.keys + one);
    TEST_CHECK((uint8_t *)beside.values == (uint8_t *)beside.keys + one);
    TEST_CHECK((uint8_t *)last.keys == (uint8_t *)beside.keys + 2 * HEADS * one);
    kv_sequence_close(&seq);
    kv_pool_close(&pool);
}

int main(void)
{
    TEST_RUN(test_two_sequences);
    TEST_RUN(test_others_find_it);
    TEST_RUN(test_unfinished_block);
    TEST_RUN(test_rewind_keeps);
    TEST_RUN(test_hidden);
    TEST_RUN(test_equal_blocks_are_one);
    TEST_RUN(test_eviction_order);
    TEST_RUN(test_exhaustion);
    TEST_RUN(test_windows_bound_it);
    TEST_RUN(test_random);
    TEST_RUN(test_nothing_leaks);
    TEST_RUN(test_memory_ahead);
    TEST_RUN(test_latents);
    return unit_report("kv");
}
