/* test_disk_states.c - states on disk that are damaged, cut short, foreign, half written by a
 * killed process, or gone, and full disks: never a wrong state, one line if something was wrong, at
 * most the cached part is lost, and the next start finds everything again. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "../random.h"
#include "../unit/disk_states.h"
#include "cache/state_file.h"

enum { TOKENS = 400, FIRST = 130, SECOND = 257, KILLS = 16, FLIPS = 80 };

static int32_t tokens[TOKENS];
static const uint32_t keeps[] = {FIRST, SECOND};
static char file[200]; /* of the last state, after all tokens */
static uint8_t *whole; /* its bytes */
static size_t whole_bytes;

static void read_whole(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    memory_free(whole);
    whole_bytes = (size_t)st.st_size;
    whole = memory_alloc(whole_bytes);
    CHECK(whole && read(fd, whole, whole_bytes) == st.st_size && close(fd) == 0);
}

static void write_whole(size_t n)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, whole, n) == (ssize_t)n && close(fd) == 0);
}

/* Start empty, compute, and look for the file of the last state. */
static void make_whole(void)
{
    static char paths[8][200];
    empty_kept_folder();
    leave(1, tokens, TOKENS, keeps, ARRAY_LEN(keeps));
    int n = list_kept(paths, 8), last = -1;
    for (int i = 0; i < n; i++)
        if (strstr(paths[i], ".state") && (last < 0 || strcmp(paths[i], paths[last]) > 0)) last = i;
    CHECK(n == 4 && last >= 0);
    memcpy(file, paths[last], sizeof file);
    read_whole(file);
}

/* A new pool finds the first n tokens, and computes the rest: what it found is right. */
static void check_found(uint32_t n, int notices, const char *text)
{
    kv_pool *pool = open_kept_states(2, 0);
    kv_sequence *seq = open_sequence(pool, 1);
    uint32_t found = find_all(seq, pool, 1, tokens, TOKENS);
    TEST_CHECK_THAT(found == n && n_notices == notices && strstr(notice_text, text),
                    "%u found, not %u; %d lines: %s", found, n, n_notices, notice_text);
    TEST_CHECK(compute_all(seq, 1, tokens, found, TOKENS, keeps, ARRAY_LEN(keeps)) == 0);
    close_all(pool, &seq, 1);
}

/* After a fault of the last state the one before it is found; then all is as it was. */
static void check_mends(const char *text)
{
    check_found(SECOND, 1, text);
    check_found(TOKENS, 0, "");
}

static void test_cut_everywhere(void)
{
    make_whole();
    for (size_t n = 1; n < whole_bytes; n += n < STATE_FILE_HEAD_BYTES ? 37 : 9973) {
        make_whole();
        write_whole(n);
        check_mends(n < 8 ? "not a file of a state" : "cut short");
    }
    make_whole();
    write_whole(whole_bytes - 1);
    check_mends("cut short");
    /* Its writer was killed: nothing is reported. */
    for (int i = 0; i < 2; i++) {
        make_whole();
        memset(whole, 0, STATE_FILE_HEAD_BYTES);
        write_whole(i ? whole_bytes : 0);
        check_found(SECOND, 0, "");
        check_found(TOKENS, 0, "");
    }
}

/* Cut short behind the back of a running pool, or gone. */
static void test_files_change(void)
{
    for (int i = 0; i < 2; i++) {
        make_whole();
        kv_pool *pool = open_kept_states(2, 0);
        kv_sequence *seq = open_sequence(pool, 1);
        if (i) unlink(file);
        else write_whole(whole_bytes / 2);
        TEST_CHECK(find_all(seq, pool, 1, tokens, TOKENS) == SECOND);
        TEST_CHECK_THAT(n_notices == 1 && strstr(notice_text, "damaged or cut"), "%s",
                        notice_text);
        kv_use use;
        kv_pool_measure(pool, &use);
        TEST_CHECK(use.states_damaged == 1 && use.states_loaded == 1 && use.damaged == 0);
        close_all(pool, &seq, 1);
        check_found(SECOND, 0, "");
        check_found(TOKENS, 0, "");
    }
}

static void test_flips(void)
{
    int n_reported = 0;
    for (int i = 0; i < FLIPS; i++) {
        make_whole();
        size_t at = i % 2 ? random_below(368) : random_below((uint32_t)whole_bytes);
        whole[at] ^= (uint8_t)(1u << random_below(8));
        write_whole(whole_bytes);
        const bool is_unused = at >= 368 && at < STATE_FILE_HEAD_BYTES;
        check_found(is_unused ? TOKENS : SECOND, !is_unused, "");
        n_reported += n_notices;
        check_found(TOKENS, 0, "");
    }
    TEST_CHECK_THAT(n_reported > FLIPS * 9 / 10, "%d", n_reported);
}

/* Pages before a state are damaged: what is before them is found, and after they were computed
 * again the states behind them, too. */
static void test_damaged_pages(void)
{
    static char paths[8][200];
    make_whole();
    int n = list_kept(paths, 8), at = 0;
    while (at < n && strstr(paths[at], ".state")) at++;
    CHECK(at < n);
    memcpy(file, paths[at], sizeof file);
    read_whole(file);
    const size_t block_bytes = (size_t)size_of_block();
    whole[whole_bytes - 4 * block_bytes + 77] ^= 1; /* of seven blocks, the fourth */
    write_whole(whole_bytes);
    check_found(FIRST, 1, "damaged or cut");
    check_found(TOKENS, 0, "");
}

static void test_foreign(void)
{
    make_whole();
    kept_model++;
    check_found(0, 1, "4 of 4 files: made from another model file");
    check_found(TOKENS, 0, "");
    kept_numbers++;
    check_found(0, 1, "made by another version");
    state_bytes += 64;
    check_found(0, 1, "made by another version");
    state_bytes -= 64;
    make_whole();
    CHECK(chmod(file, 0666) == 0);
    check_mends("1 of 4 files: others may write");
    /* A state of another folder, in its place. */
    make_whole();
    uint8_t *other = memory_alloc(whole_bytes);
    CHECK(other);
    memcpy(other, whole, whole_bytes);
    make_whole();
    memcpy(whole, other, whole_bytes);
    memory_free(other);
    write_whole(whole_bytes);
    check_mends("belongs to other files");
    /* One of a different number. */
    make_whole();
    unlink(file);
    file[strlen(file) - 7] = 'a';
    write_whole(whole_bytes);
    check_mends("damaged");
}

/* With a limit on file sizes below that of a state: one line, and what was written before is
 * found. */
static void test_full_disk(void)
{
    struct rlimit was, limit;
    kv_use use;
    const uint32_t usual = state_bytes;
    state_bytes = 8 << 20; /* larger than the file with the pages */
    CHECK(getrlimit(RLIMIT_FSIZE, &was) == 0);
    for (size_t i = 0; i < 4; i++) {
        empty_kept_folder();
        leave(1, tokens, SECOND, keeps, 1);
        kv_pool *pool = open_kept_states(2, 0);
        kv_sequence *seq = open_sequence(pool, 1);
        TEST_CHECK(find_all(seq, pool, 1, tokens, SECOND) == SECOND);
        limit = was;
        limit.rlim_cur = STATE_FILE_HEAD_BYTES + state_bytes - 1 - i * (state_bytes / 4);
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        TEST_CHECK(compute_all(seq, 1, tokens, SECOND, TOKENS, NULL, 0) == 0);
        kv_sequence_mark(seq);
        wait_for_writer(pool, &use);
        TEST_CHECK(use.gave_up && is_right(seq, 1, tokens));
        close_all(pool, &seq, 1);
        TEST_CHECK_THAT(n_notices == 1 && strstr(notice_text, "no more KV is kept"), "%d %s",
                        n_notices, notice_text);
        CHECK(setrlimit(RLIMIT_FSIZE, &was) == 0);
        check_found(SECOND, 0, "");
        check_found(TOKENS, 0, "");
    }
    state_bytes = usual;
}

static void write_for_ever(void)
{
    kv_pool *pool = open_kept_states(1, 0);
    kv_sequence *seq = open_sequence(pool, 1);
    int32_t own[CONTEXT];
    for (uint32_t k = 0;; k++) {
        uint32_t n = find_all(seq, pool, 1, tokens, TOKENS);
        compute_all(seq, 1, tokens, n, TOKENS, keeps, ARRAY_LEN(keeps));
        fill(own, CONTEXT, 5 + k);
        n = find_all(seq, pool, 1, own, CONTEXT);
        compute_all(seq, 1, own, n, CONTEXT, keeps, ARRAY_LEN(keeps));
    }
}

static uint32_t found(void) { return find_anew(1, tokens, TOKENS); }

/* Killed at any moment of writing. */
static void test_killed(void) { kill_writers(write_for_ever, found, KILLS, 3000); }

int main(void)
{
    windows = no_windows;
    state_bytes = 2 * STATE_FILE_PIECE_BYTES + 640;
    make_kept_folder();
    fill(tokens, TOKENS, 1);
    TEST_RUN(test_cut_everywhere);
    TEST_RUN(test_files_change);
    TEST_RUN(test_flips);
    TEST_RUN(test_damaged_pages);
    TEST_RUN(test_foreign);
    TEST_RUN(test_full_disk);
    TEST_RUN(test_killed);
    memory_free(whole);
    remove_kept_folder();
    return unit_report("disk_states");
}
