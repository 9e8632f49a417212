/* test_disk.c - KV on disk that is damaged, truncated, foreign, contended, or half written by a
 * killed process, and full disks: never a wrong byte, one line if something was wrong, and
 * everything else as usual.  At the end whole engines: the same logits after a restart. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "../random.h"
#include "../unit/disk_folder.h"
#include "cache/segment.h"

enum { TOKENS = 400, KILLS = 20, FLIPS = 60, BLOCK_BYTES = 6 * 64 * 4 * 2 * 2 };

static int32_t tokens[TOKENS];
static char file[200];
static uint8_t *whole; /* the good file */
static size_t whole_bytes;

static void write_whole(size_t n)
{
    empty_kept_folder();
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, whole, n) == (ssize_t)n && close(fd) == 0);
}

/* Start empty, compute, and keep a copy of the file. */
static void make_whole(void)
{
    static char paths[4][200];
    struct stat st;
    empty_kept_folder();
    kv_pool *pool = open_kept(1, 0);
    kv_sequence *seq = open_sequence(pool, 1);
    TEST_CHECK(take(seq, 1, tokens, TOKENS) == 0);
    close_all(pool, &seq, 1);
    CHECK(list_kept(paths, 4) == 1);
    memcpy(file, paths[0], sizeof file);
    int fd = open(file, O_RDONLY);
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    memory_free(whole);
    whole_bytes = (size_t)st.st_size;
    whole = memory_alloc(whole_bytes);
    CHECK(whole && read(fd, whole, whole_bytes) == st.st_size && close(fd) == 0);
}

/* Tokens that a new pool finds; found and computed ones have the right bytes (checked by take). */
static uint32_t found(void)
{
    kv_pool *pool = open_kept(1, 0);
    kv_sequence *seq = open_sequence(pool, 1);
    uint32_t n = fetch_and_take(seq, pool, 1, tokens, TOKENS);
    close_all(pool, &seq, 1);
    return n;
}

/* After the fault: n tokens at most, one line with text; then everything is there again. */
static void check_mends(const char *text, uint32_t n)
{
    uint32_t n_found = found();
    TEST_CHECK_THAT(n_found <= n, "%u found", n_found);
    TEST_CHECK_THAT(n_notices == 1 && strstr(notice_text, text), "%d lines, %s: %s", n_notices,
                    text, notice_text);
    n_found = found();
    TEST_CHECK_THAT(n_found == TOKENS && n_notices == 0, "%u %s", n_found, notice_text);
}

static void test_cut_everywhere(void)
{
    make_whole();
    size_t table = whole_bytes - 7 * BLOCK_BYTES; /* six blocks, and all after them */
    for (size_t i = 0; i <= 7; i++) {
        write_whole(table + i * BLOCK_BYTES);
        if (i < 7) check_mends("cut short", (uint32_t)i * KERNEL_PAGE);
        else TEST_CHECK(found() == TOKENS && n_notices == 0);
        if (i == 7) break;
        write_whole(table + i * BLOCK_BYTES + BLOCK_BYTES / 2);
        check_mends("cut short", (uint32_t)i * KERNEL_PAGE);
    }
    /* An empty file is from a process killed at its start: nothing was lost, nothing is
     * reported. */
    write_whole(0);
    TEST_CHECK(found() == 0 && n_notices == 0);
    TEST_CHECK(found() == TOKENS && n_notices == 0);
    for (size_t n = 1; n < SEGMENT_HEAD_BYTES; n += 9) {
        write_whole(n);
        check_mends(n < 8 ? "not a file of KV pages" : "cut short", 0);
    }
    /* In the table: entries before the cut have no pages either. */
    write_whole(SEGMENT_HEAD_BYTES + SEGMENT_RECORD_BYTES * 3 + 10);
    check_mends("cut short", 0);
}

/* Killed while writing the last record; a part of it is in the file. */
static void test_part_of_a_record(void)
{
    const size_t last = SEGMENT_HEAD_BYTES + 6 * SEGMENT_RECORD_BYTES;
    for (size_t n = 8; n < SEGMENT_RECORD_BYTES - 16; n += 40) {
        make_whole();
        memset(whole + last + n, 0, SEGMENT_RECORD_BYTES - n);
        write_whole(whole_bytes);
        TEST_CHECK_THAT(found() == 6 * KERNEL_PAGE && n_notices == 0, "%zu: %s", n, notice_text);
        TEST_CHECK(found() == TOKENS && n_notices == 0);
    }
}

static void test_flips(void)
{
    make_whole();
    size_t used[2][2] = {{0, SEGMENT_HEAD_BYTES + 7 * SEGMENT_RECORD_BYTES - 20},
                         {whole_bytes - 7 * BLOCK_BYTES, whole_bytes}};
    int n_reported = 0;
    for (int i = 0; i < FLIPS; i++) {
        bool is_asked = i / 2 % 2; /* requested, or read before */
        windows = is_asked ? some_windows : no_windows;
        make_whole();
        size_t *part = used[i % 2], at = part[0] + random_below((uint32_t)(part[1] - part[0]));
        whole[at] ^= (uint8_t)(1u << random_below(8));
        write_whole(whole_bytes);
        kept_warm_bytes = is_asked ? 0 : disk_bytes;
        uint32_t n = found();
        kept_warm_bytes = 0;
        n_reported += n_notices;
        TEST_CHECK_THAT(n_notices <= 1 && (n == TOKENS || n_notices), "%zu: %u found, %d lines", at,
                        n, n_notices);
    }
    windows = some_windows;
    TEST_CHECK_THAT(n_reported >= FLIPS * 3 / 4, "%d", n_reported); /* not those in unused bytes */
}

static void test_foreign(void)
{
    make_whole();
    kept_model++;
    TEST_CHECK(found() == 0 && n_notices == 1 && strstr(notice_text, "another model file"));
    TEST_CHECK(found() == TOKENS && n_notices == 0);
    kept_numbers++;
    TEST_CHECK(found() == 0 && n_notices == 1 && strstr(notice_text, "another version"));
    windows = no_windows;
    TEST_CHECK(found() == 0 && n_notices == 1 && strstr(notice_text, "another version"));
    windows = some_windows;
    make_whole();
    CHECK(chmod(file, 0666) == 0);
    check_mends("others may write", 0);
    /* A record of one file in another: the same place, but not the same salt. */
    make_whole();
    uint8_t record[SEGMENT_RECORD_BYTES];
    memcpy(record, whole + SEGMENT_HEAD_BYTES, sizeof record);
    make_whole();
    memcpy(whole + SEGMENT_HEAD_BYTES, record, sizeof record);
    write_whole(whole_bytes);
    check_mends("damaged", 0);
}

static void test_two_processes(void)
{
    make_whole();
    kv_pool *first = open_kept(1, 0), *second = open_kept(1, 0);
    TEST_CHECK_THAT(n_notices == 1 && strstr(notice_text, "another process"), "%s", notice_text);
    kv_sequence *seq = open_sequence(second, 1);
    TEST_CHECK(!fetch(second, 1, tokens, TOKENS) && take(seq, 1, tokens, TOKENS) == 0);
    close_all(second, &seq, 1);
    kv_pool_close(&first);
    TEST_CHECK(found() == TOKENS && n_notices == 0);
}

static void test_no_folder(void)
{
    char good[256];
    memcpy(good, kept_folder, sizeof good);
    make_whole();
    snprintf(kept_folder, sizeof kept_folder, "%s", file); /* not a folder */
    TEST_CHECK(found() == 0 && n_notices == 1 && strstr(notice_text, "not kept"));
    snprintf(kept_folder, sizeof kept_folder, "/proc/cerium");
    TEST_CHECK(found() == 0 && n_notices == 1 && strstr(notice_text, "not kept"));
    memcpy(kept_folder, good, sizeof good);
    CHECK(chmod(kept_folder, 0777) == 0);
    TEST_CHECK(found() == 0 && n_notices == 1 && strstr(notice_text, "others may write"));
    CHECK(chmod(kept_folder, 0700) == 0);
    TEST_CHECK(found() == TOKENS && n_notices == 0);
}

/* With a limit on file sizes: in the middle of the file, writing stops. */
static void test_full_disk(void)
{
    struct rlimit was, limit;
    make_whole();
    CHECK(getrlimit(RLIMIT_FSIZE, &was) == 0);
    for (int i = 0; i < 8; i++) {
        empty_kept_folder();
        limit = was;
        kv_pool *pool = open_kept(1, 0);
        kv_sequence *seq = open_sequence(pool, 1);
        TEST_CHECK(take(seq, 1, tokens, 10) == 0);
        kv_use use;
        if (i) { /* the file is there, and can have i - 1 blocks */
            TEST_CHECK(take(seq, 1, tokens, KERNEL_PAGE) == 10);
            do {
                kv_pool_measure(pool, &use);
                usleep(100);
            } while (use.written < 1);
        }
        limit.rlim_cur = i ? whole_bytes - (size_t)(8 - i) * BLOCK_BYTES + 100 : 1000;
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        TEST_CHECK(take(seq, 1, tokens, TOKENS) == (i ? KERNEL_PAGE : 10));
        TEST_CHECK(take(seq, 1, tokens, TOKENS - 1) == TOKENS - 1);
        do {
            kv_pool_measure(pool, &use);
            usleep(100);
        } while (use.waiting);
        TEST_CHECK(use.gave_up);
        close_all(pool, &seq, 1);
        TEST_CHECK_THAT(n_notices == 1 && strstr(notice_text, "no more KV is kept"), "%d: %d %s", i,
                        n_notices, notice_text);
        CHECK(setrlimit(RLIMIT_FSIZE, &was) == 0);
        uint32_t n = found();
        uint32_t n_written = i > 1 ? (uint32_t)i - 1 : (uint32_t)i;
        TEST_CHECK_THAT(n_notices == 0 && n >= n_written * KERNEL_PAGE, "%d: %u %s", i, n,
                        notice_text);
    }
}

/* The files are removed behind the pool's back. */
static void test_files_vanish(void)
{
    make_whole();
    kv_pool *pool = open_kept(1, 0);
    kv_sequence *seq = open_sequence(pool, 1);
    unlink(file);
    TEST_CHECK(fetch_and_take(seq, pool, 1, tokens, TOKENS) == 0);
    TEST_CHECK(n_notices == 1);
    kv_use use;
    kv_pool_measure(pool, &use);
    TEST_CHECK(use.damaged == 1 && use.hits == 1 && use.loaded == 0);
    close_all(pool, &seq, 1);
    found();
    TEST_CHECK(found() == TOKENS && n_notices == 0);
}

static void write_for_ever(void)
{
    kv_pool *pool = open_kept(1, 0);
    kv_sequence *seq = open_sequence(pool, 1);
    int32_t own[CONTEXT];
    for (uint32_t k = 0;; k++) {
        take(seq, 1, tokens, TOKENS);
        fill(own, CONTEXT, 5 + k);
        take(seq, 1, own, CONTEXT);
    }
}

/* Killed at any moment of writing. */
static void test_killed(void) { kill_writers(write_for_ever, found, KILLS, 1500); }

/* ---- whole engines ---- */

enum { LOGITS_MAX = 4096, LONG = 200 };

typedef struct {
    float logits[LOGITS_MAX];
    size_t n_logits;
    uint32_t reused;
} answer;

/* Logits after a prompt, as a call or as a request. */
static void ask(cerium_session *s, const int32_t *prompt, uint32_t n, bool as_request, answer *out)
{
    cerium_error err;
    cerium_sync_result result = {0};
    if (as_request) {
        cerium_request q = {.tokens = prompt, .n_tokens = n, .class_ = CERIUM_CLASS_TURN};
        cerium_event event = {0};
        cerium_usage usage;
        TEST_CHECK(cerium_session_start(s, &q, &err) == 0);
        while (event.kind != CERIUM_EVENT_DONE) {
            cerium_session_poll(s, &event);
            usleep(100);
        }
        TEST_CHECK(event.status == 0);
        cerium_session_usage(s, &usage);
        out->reused = usage.reused_tokens;
    } else {
        TEST_CHECK(cerium_session_sync(s, prompt, n, &result, &err) == 0);
        out->reused = result.tokens_reused;
    }
    const float *logits = cerium_session_logits(s, &out->n_logits);
    CHECK(logits && out->n_logits <= LOGITS_MAX);
    memcpy(out->logits, logits, out->n_logits * sizeof *logits);
}

static cerium_engine *open_engine(const char *model, const char *disk)
{
    cerium_engine_config config;
    cerium_engine *engine = NULL;
    cerium_error err = {0};
    cerium_engine_config_defaults(&config);
    config.model_path = model;
    config.threads = 2;
    config.batch_tokens_max = 32;
    config.kv_disk = disk;
    config.notice = take_notice;
    n_notices = 0;
    TEST_CHECK_THAT(cerium_engine_open(&engine, &config, &err) == 0, "%s", err.message);
    return engine;
}

/* A prompt after a restart, and prompts that diverge from it: the bits of an engine that
 * keeps nothing. */
static void check_model(const char *model)
{
    static answer want, got;
    int32_t prompt[LONG], other[LONG];
    cerium_session_config config = {.tenant = 9};
    cerium_session *s = NULL;
    cerium_error err;
    uint32_t n_reused = 0;
    for (int i = 0; i < LONG; i++) prompt[i] = (i * 37 + 11) % 250;
    cerium_engine *plain = open_engine(model, "off"), *engine = open_engine(model, kept_root);
    TEST_CHECK(cerium_session_open(&s, engine, &config, &err) == 0);
    ask(s, prompt, LONG, false, &want);
    TEST_CHECK(want.reused == 0);
    cerium_session_close(&s);
    for (int i = 0; i < 10; i++) {
        int fork_at = i == 0 ? LONG : LONG - i * 21;
        memcpy(other, prompt, sizeof other);
        for (int k = fork_at; k < LONG; k++) other[k] = 100 + k % 7;
        cerium_engine_close(&engine); /* starts again */
        engine = open_engine(model, kept_root);
        TEST_CHECK_THAT(n_notices == 0, "%s", notice_text);
        TEST_CHECK(cerium_session_open(&s, plain, NULL, &err) == 0);
        ask(s, other, LONG, false, &want);
        cerium_session_close(&s);
        TEST_CHECK(cerium_session_open(&s, engine, &config, &err) == 0);
        ask(s, other, LONG, i % 2, &got);
        cerium_session_close(&s);
        n_reused += got.reused;
        TEST_CHECK(i || got.reused == LONG - 1);
        TEST_CHECK(got.n_logits == want.n_logits &&
                   !memcmp(got.logits, want.logits, want.n_logits * sizeof *want.logits));
    }
    TEST_CHECK_THAT(n_reused > LONG * 4, "%u", n_reused);
    cerium_engine_close(&engine);
    cerium_engine_close(&plain);
}

static void test_engines(void)
{
    check_model("tests/golden/fixtures/gpt-oss-mxfp4.gguf");
    check_model("tests/golden/fixtures/qwen2-q4_0.gguf");
    check_model("tests/golden/fixtures/deepseek2.gguf"); /* latents */
}

int main(void)
{
    make_kept_folder();
    fill(tokens, TOKENS, 1);
    TEST_RUN(test_cut_everywhere);
    TEST_RUN(test_part_of_a_record);
    TEST_RUN(test_flips);
    TEST_RUN(test_foreign);
    TEST_RUN(test_two_processes);
    TEST_RUN(test_no_folder);
    TEST_RUN(test_full_disk);
    TEST_RUN(test_files_vanish);
    TEST_RUN(test_killed);
    TEST_RUN(test_engines);
    memory_free(whole);
    remove_kept_folder();
    return unit_report("disk");
}
