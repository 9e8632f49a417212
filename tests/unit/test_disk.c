/* test_disk.c - KV on disk: a pool finds the data of the one before, for the right tenants, with
 * the right bytes; files stay within their bounds, and reused data stays in them. */
#include "../random.h"
#include "disk_folder.h"

/* What two tenants leave, and how much of it a new pool finds. */
static void check_restart(const uint32_t *with)
{
    int32_t tokens[400], other[400];
    windows = with;
    empty_kept_folder();
    kv_pool *pool = open_kept(4, 0);
    kv_sequence *seq[2] = {open_sequence(pool, 5), open_sequence(pool, 7)};
    fill(tokens, 400, 1);
    fill(other, 400, 2);
    memcpy(other, tokens, 200 * sizeof *tokens);
    TEST_CHECK(!fetch(pool, 5, tokens, 400));
    TEST_CHECK(fetch_and_take(seq[0], pool, 5, tokens, 330) == 0);
    TEST_CHECK(fetch_and_take(seq[1], pool, 7, other, 300) == 0);
    close_all(pool, seq, 2);

    pool = open_kept(4, 0);
    TEST_CHECK_THAT(n_notices == 0, "%s", notice_text);
    for (int i = 0; i < 2; i++) seq[i] = open_sequence(pool, i ? 7 : 5);
    TEST_CHECK(fetch(pool, 5, tokens, 400) && n_loaded == 1);
    TEST_CHECK(kv_pool_check_invariants(pool));
    TEST_CHECK(!fetch(pool, 5, tokens, 400)); /* it is in memory now */
    TEST_CHECK(take(seq[0], 5, tokens, 400) == 330); /* to the last token */
    TEST_CHECK(fetch_and_take(seq[1], pool, 7, tokens, 300) == 200); /* within a block */
    TEST_CHECK(!fetch(pool, 6, tokens, 400)); /* a tenant without data */
    kv_use use;
    kv_pool_measure(pool, &use);
    TEST_CHECK_THAT(use.disk_blocks >= 6 + 5 && use.loaded == 6 + 4, "%u %llu", use.disk_blocks,
                    (unsigned long long)use.loaded);
    TEST_CHECK(use.lookups == 4 && use.hits == 2 && use.evicted == 0 && use.damaged == 0);
    wait_for_writer(pool, &use);
    TEST_CHECK(use.disk_bytes == sum_kept() && use.disk_bytes > 0 && !use.gave_up);
    TEST_CHECK(use.disk_bytes_max == disk_bytes);
    close_all(pool, seq, 2);
    windows = some_windows;
}

static void test_restart(void)
{
    check_restart(no_windows);
    check_restart(some_windows);
    check_restart(all_windows);
}

/* Waits until it has read this many blocks, and a moment longer: it must read no more. */
static void wait_for_reader(kv_pool *pool, uint64_t n)
{
    kv_use use;
    int tries = 0;
    do {
        usleep(1000);
        kv_pool_measure(pool, &use);
    } while (use.loaded < n && ++tries < 600000);
    usleep(5000);
    kv_pool_measure(pool, &use);
    TEST_CHECK_THAT(use.loaded == n && use.lookups == 0, "%llu of %llu",
                    (unsigned long long)use.loaded, (unsigned long long)n);
    TEST_CHECK(kv_pool_check_invariants(pool));
}

/* Data of two tenants is read before they come, the newest first if not all of it fits. */
static void test_unasked(void)
{
    int32_t tokens[400], other[400];
    kv_use use;
    windows = no_windows;
    empty_kept_folder();
    fill(tokens, 400, 1);
    fill(other, 400, 2);
    kv_pool *pool = open_kept(4, 0);
    kv_sequence *seq[2] = {open_sequence(pool, 5), open_sequence(pool, 7)};
    take(seq[0], 5, tokens, 330);
    kv_sequence_rest(seq[0]);
    wait_for_writer(pool, &use);
    take(seq[1], 7, other, 300);
    close_all(pool, seq, 2);

    kept_warm_bytes = disk_bytes;
    pool = open_kept(4, 0);
    for (int i = 0; i < 2; i++) seq[i] = open_sequence(pool, i ? 7 : 5);
    wait_for_reader(pool, 6 + 5);
    TEST_CHECK(kv_sequence_adopt(seq[0], other, 300) == 0); /* that is the other tenant's */
    TEST_CHECK(!fetch(pool, 5, tokens, 400) && take(seq[0], 5, tokens, 400) == 330);
    kv_sequence_rest(seq[0]);
    wait_for_writer(pool, &use);
    TEST_CHECK(take(seq[1], 7, other, 400) == 300);
    close_all(pool, seq, 2);

    kept_warm_bytes = 3 * size_of_block();
    pool = open_kept(4, 0);
    for (int i = 0; i < 2; i++) seq[i] = open_sequence(pool, i ? 7 : 5);
    wait_for_reader(pool, 3);
    kept_warm_bytes = 0;
    TEST_CHECK(kv_sequence_adopt(seq[0], tokens, 400) == 0);
    TEST_CHECK(kv_sequence_adopt(seq[1], other, 400) == 3 * KERNEL_PAGE);
    TEST_CHECK(fetch_and_take(seq[1], pool, 7, other, 400) == 400);
    close_all(pool, seq, 2);
    windows = some_windows;
}

/* Half of the places stay free, however much there is to read; with windows, all of them. */
static void test_unasked_leaves_room(void)
{
    static int32_t tokens[CONTEXT];
    fill(tokens, CONTEXT, 1);
    for (int i = 0; i < 2; i++) {
        windows = i ? some_windows : no_windows;
        empty_kept_folder();
        kv_pool *pool = open_kept(1, 1);
        kv_sequence *seq = open_sequence(pool, 1);
        take(seq, 1, tokens, CONTEXT);
        close_all(pool, &seq, 1);
        kept_warm_bytes = disk_bytes;
        pool = open_kept(1, 1);
        kept_warm_bytes = 0;
        seq = open_sequence(pool, 1);
        wait_for_reader(pool, i ? 0 : CONTEXT / KERNEL_PAGE / 2);
        TEST_CHECK(fetch_and_take(seq, pool, 1, tokens, CONTEXT) == CONTEXT);
        close_all(pool, &seq, 1);
    }
}

/* A third start finds the data of the first two, still in one file. */
static void test_goes_on_with_a_file(void)
{
    static char paths[8][200];
    int32_t tokens[CONTEXT];
    empty_kept_folder();
    fill(tokens, CONTEXT, 3);
    for (uint32_t i = 1; i <= 4; i++) {
        kv_pool *pool = open_kept(1, 0);
        kv_sequence *seq = open_sequence(pool, 1);
        TEST_CHECK(fetch_and_take(seq, pool, 1, tokens, 200 * i) == 200 * (i - 1));
        close_all(pool, &seq, 1);
        TEST_CHECK(n_notices == 0 && list_kept(paths, 8) == 1);
    }
}

/* Data evicted from memory is found on disk. */
static void test_more_than_memory(void)
{
    static int32_t tokens[12][CONTEXT];
    windows = no_windows;
    empty_kept_folder();
    kv_pool *pool = open_kept(1, 1); /* one context */
    kv_sequence *seq = open_sequence(pool, 1);
    for (uint32_t i = 0; i < 12; i++) {
        fill(tokens[i], CONTEXT, i);
        TEST_CHECK(fetch_and_take(seq, pool, 1, tokens[i], 700) == 0);
        kv_use use;
        wait_for_writer(pool, &use);
    }
    for (uint32_t i = 0; i < 12; i++)
        TEST_CHECK(fetch_and_take(seq, pool, 1, tokens[i], 900) >= 640);
    close_all(pool, &seq, 1);
    windows = some_windows;
}

/* A fetch of a whole context, while others hold nearly all pages, loads what fits. */
static void test_no_room_to_load(void)
{
    static int32_t tokens[CONTEXT], other[CONTEXT];
    windows = no_windows;
    empty_kept_folder();
    fill(tokens, CONTEXT, 1);
    fill(other, CONTEXT, 2);
    kv_pool *pool = open_kept(2, 1);
    kv_sequence *seq[2] = {open_sequence(pool, 1), open_sequence(pool, 1)};
    take(seq[0], 1, tokens, CONTEXT);
    close_all(pool, seq, 2);
    pool = open_kept(2, 1);
    for (int i = 0; i < 2; i++) seq[i] = open_sequence(pool, 1);
    take(seq[0], 1, other, CONTEXT - 3 * KERNEL_PAGE);
    TEST_CHECK(fetch(pool, 1, tokens, CONTEXT) && kv_pool_check_invariants(pool));
    TEST_CHECK(kv_sequence_adopt(seq[1], tokens, CONTEXT) == 3 * KERNEL_PAGE);
    TEST_CHECK(count_lost(seq[1], 1, tokens, 3 * KERNEL_PAGE) == 0);
    close_all(pool, seq, 2);
    windows = some_windows;
}

/* Files are bounded, and a reused beginning outlives unused ones. */
static void test_recycles(void)
{
    static char paths[64][200];
    static int32_t hot[CONTEXT], tokens[CONTEXT];
    empty_kept_folder();
    windows = no_windows;
    disk_bytes = UINT64_C(110) << 20;
    kv_pool *pool = open_kept(1, 0);
    kv_sequence *seq = open_sequence(pool, 1);
    kv_use use;
    fill(hot, CONTEXT, 1);
    take(seq, 1, hot, 640);
    wait_for_writer(pool, &use);
    uint32_t n = 0;
    do {
        fill(tokens, CONTEXT, 2 + n);
        TEST_CHECK(take(seq, 1, tokens, CONTEXT) == 0);
        wait_for_writer(pool, &use);
        if (n % 8) continue;
        TEST_CHECK(fetch_and_take(seq, pool, 1, hot, 640) == 640);
        wait_for_writer(pool, &use); /* it counts a use only while the block is in memory */
    } while (use.written < 4096 * 6 && ++n < 8192);
    TEST_CHECK(use.written >= 4096 * 6);
    TEST_CHECK(use.evicted > 0 && use.evicted + use.disk_blocks <= use.written);
    TEST_CHECK(use.disk_bytes == sum_kept() && use.disk_bytes <= disk_bytes);
    close_all(pool, &seq, 1);
    TEST_CHECK_THAT(n_notices == 0, "%s", notice_text);
    uint64_t bytes_there = 0;
    int n_files = list_kept(paths, 64);
    for (int i = 0; i < n_files; i++) {
        struct stat st;
        CHECK(stat(paths[i], &st) == 0);
        bytes_there += (uint64_t)st.st_size;
    }
    TEST_CHECK_THAT(n_files >= 3 && bytes_there <= disk_bytes, "%d files, %llu bytes", n_files,
                    (unsigned long long)bytes_there);
    pool = open_kept(1, 0);
    seq = open_sequence(pool, 1);
    TEST_CHECK(fetch_and_take(seq, pool, 1, hot, 640) == 640);
    fill(tokens, CONTEXT, 2);
    TEST_CHECK(fetch_and_take(seq, pool, 1, tokens, 640) == 0); /* the first of those */
    close_all(pool, &seq, 1);
    disk_bytes = UINT64_C(1) << 30;
    windows = some_windows;
}

/* A file with a segment's name that is not ours is reported, and stays. */
static void test_files_of_others(void)
{
    static int32_t tokens[CONTEXT];
    char mine[320], name[320];
    struct stat st;
    empty_kept_folder();
    kv_pool *pool = open_kept(1, 0);
    close_all(pool, NULL, 0);
    snprintf(mine, sizeof mine, "%s/mine", kept_folder);
    FILE *f = fopen(mine, "w");
    CHECK(f && fputs("precious\n", f) >= 0 && !fclose(f));
    snprintf(name, sizeof name, "%s/0000000000000077.kv", kept_folder);
    CHECK(link(mine, name) == 0);
    snprintf(name, sizeof name, "%s/0000000000000078.kv", kept_folder);
    CHECK(symlink("mine", name) == 0);
    pool = open_kept(1, 0);
    TEST_CHECK_THAT(n_notices == 1 && strstr(notice_text, "2 of 2 files"), "%s", notice_text);
    kv_sequence *seq = open_sequence(pool, 1);
    kv_use use;
    fill(tokens, CONTEXT, 1);
    take(seq, 1, tokens, 640);
    wait_for_writer(pool, &use);
    TEST_CHECK(use.written > 0);
    close_all(pool, &seq, 1);
    TEST_CHECK(lstat(name, &st) == 0 && S_ISLNK(st.st_mode));
    TEST_CHECK(stat(mine, &st) == 0 && st.st_nlink == 2 && st.st_size == 9);
    empty_kept_folder();
}

/* Any order of prompts, forks and restarts: never a wrong byte. */
static void check_random(const uint32_t *with, uint32_t seed)
{
    static int32_t tokens[3][CONTEXT];
    uint32_t n[3] = {0}, n_found = 0;
    windows = with;
    random_state = seed;
    empty_kept_folder();
    for (int start = 0; start < 6; start++) {
        kept_warm_bytes = start % 2 ? disk_bytes : 0;
        kv_pool *pool = open_kept(3, seed % 2 ? 1 : 0);
        kv_sequence *seq[3];
        for (uint32_t i = 0; i < 3; i++) seq[i] = open_sequence(pool, i % 2);
        for (int round = 0; round < 40; round++) {
            /* After a restart, sequences continue from where they were: that data must be found. */
            uint32_t i = random_below(3), keep = round == 0 ? n[i] : random_below(n[i] + 1);
            uint32_t all = keep + random_below(CONTEXT - keep) / 2 + 1;
            for (uint32_t k = keep; k < all; k++)
                tokens[i][k] = (int32_t)(random_below(4) ? k % 5 : random_below(2));
            n[i] = all > CONTEXT ? CONTEXT : all;
            fetch(pool, i % 2, tokens[i], n[i]);
            uint32_t found = kv_sequence_adopt(seq[i], tokens[i], n[i]);
            TEST_CHECK(count_lost(seq[i], i % 2, tokens[i], found) == 0);
            if (round == 0) n_found += found;
            if (compute(seq[i], i % 2, tokens[i], found, n[i])) n[i] = kv_sequence_length(seq[i]);
            TEST_CHECK(count_lost(seq[i], i % 2, tokens[i], n[i]) == 0);
            if (round % 8 == 0) TEST_CHECK(kv_pool_check_invariants(pool));
        }
        close_all(pool, seq, 3);
        TEST_CHECK_THAT(n_notices == 0, "%s", notice_text);
    }
    kept_warm_bytes = 0;
    TEST_CHECK_THAT(n_found > 1000, "%u", n_found);
    windows = some_windows;
}

static void test_random(void)
{
    for (uint32_t seed = 1; seed <= 4; seed++) {
        check_random(no_windows, seed);
        check_random(some_windows, seed);
        check_random(all_windows, seed);
    }
}

static void test_allocation(void)
{
    const int n_failed = count_failures(open_pool);
    TEST_CHECK_THAT(n_failed >= 6, "%d", n_failed);
    disk_bytes = 1 << 20;
    kv_pool *pool = open_pool(1, 1);
    TEST_CHECK(keep_pool(pool) == CERIUM_ERR_ARGUMENT);
    kv_pool_close(&pool);
    disk_bytes = UINT64_C(1) << 30;
}

int main(void)
{
    make_kept_folder();
    TEST_RUN(test_restart);
    TEST_RUN(test_unasked);
    TEST_RUN(test_unasked_leaves_room);
    TEST_RUN(test_goes_on_with_a_file);
    TEST_RUN(test_more_than_memory);
    TEST_RUN(test_no_room_to_load);
    TEST_RUN(test_recycles);
    TEST_RUN(test_files_of_others);
    TEST_RUN(test_random);
    TEST_RUN(test_allocation);
    remove_kept_folder();
    return unit_report("disk");
}
