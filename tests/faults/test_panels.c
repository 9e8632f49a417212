/* test_panels.c - whole engines with files of repacked weights that are missing, damaged,
 * replaced, half written or contended: always the same bits, one line if something was wrong,
 * and a good file afterwards. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "../unit/unit.h"

enum { LOGITS_MAX = 4096, PROCESSES = 4, KILLS = 12 };

static const char fixture[] = "tests/golden/fixtures/gpt-oss-mxfp4.gguf";
static char folder[64], cache[80], model[80], kept[200];
static float wanted[LOGITS_MAX]; /* of an engine that repacked into memory */
static size_t n_logits;
static int n_notices;
static char notice_text[600];
static const int32_t tokens[] = {5, 17, 29, 3, 250, 101, 77, 8};

static void take_notice(void *user, const char *line)
{
    (void)user;
    n_notices++;
    snprintf(notice_text, sizeof notice_text, "%s", line);
}

static int open_engine(cerium_engine **engine, const char *place, cerium_error *err)
{
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = model;
    config.cache = place;
    config.threads = 2;
    config.context_tokens_max = 128;
    config.notice = take_notice;
    n_notices = 0;
    notice_text[0] = 0;
    return cerium_engine_open(engine, &config, err);
}

/* Whether an engine's logits have the wanted bits. */
static bool good_bits(cerium_engine *engine)
{
    cerium_session *session = NULL;
    cerium_error err;
    size_t n = 0;
    bool good = !cerium_session_open(&session, engine, NULL, &err) &&
                !cerium_session_sync(session, tokens, ARRAY_LEN(tokens), NULL, &err);
    const float *logits = good ? cerium_session_logits(session, &n) : NULL;
    if (good && n_logits == 0 && n <= LOGITS_MAX) {
        n_logits = n;
        memcpy(wanted, logits, n * sizeof *logits);
    }
    good = good && n == n_logits && memcmp(logits, wanted, n * sizeof *logits) == 0;
    cerium_session_close(&session);
    return good;
}

/* Open with or without the kept file; whether it was mapped, and the bits were right. */
typedef struct {
    bool opened, mapped, good;
} outcome;

static outcome try(const char *place)
{
    cerium_engine *engine = NULL;
    cerium_engine_info info;
    cerium_error err;
    outcome o = {0};
    if (open_engine(&engine, place, &err)) {
        printf("  %s\n", err.message);
        return o;
    }
    cerium_engine_describe(engine, &info);
    o = (outcome){.opened = true, .mapped = info.cache_path[0] != 0, .good = good_bits(engine)};
    if (o.mapped) snprintf(kept, sizeof kept, "%s", info.cache_path);
    cerium_engine_close(&engine);
    return o;
}

/* Opening reports nothing if want is NULL, otherwise one line with it; then the file is good. */
static bool opens(const char *want)
{
    outcome o = try(cache);
    bool got = want ? n_notices == 1 && strstr(notice_text, want) : n_notices == 0;
    if (!got) printf("  %d notices: %s\n", n_notices, notice_text);
    if (!o.mapped || !o.good || !got) return false;
    o = try(cache);
    return o.mapped && o.good && n_notices == 0;
}

static void damage(off_t at, const char *text)
{
    CHECK(chmod(kept, 0600) == 0);
    int fd = open(kept, O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, text, strlen(text), at) == (ssize_t)strlen(text));
    close(fd);
}

static void copy_model(void)
{
    char buffer[65536];
    FILE *from = fopen(fixture, "rb"), *to = fopen(model, "wb");
    CHECK(from && to);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, from));)
        CHECK(fwrite(buffer, 1, n, to) == n);
    CHECK(fclose(from) == 0 && fclose(to) == 0);
}

static void test_made_and_mapped(void)
{
    outcome o = try("off");
    TEST_CHECK(o.opened && !o.mapped && o.good && n_notices == 0);
    TEST_CHECK(access(cache, F_OK)); /* no file was made */
    TEST_CHECK(opens(NULL));
    o = try(NULL); /* small models are kept only if a folder is named */
    TEST_CHECK(o.opened && !o.mapped && o.good && n_notices == 0);
    setenv("CERIUM_CACHE", cache, 1);
    o = try(NULL);
    TEST_CHECK(o.mapped && o.good);
    setenv("CERIUM_CACHE", "off", 1);
    o = try(NULL);
    TEST_CHECK(o.opened && !o.mapped && o.good);
    unsetenv("CERIUM_CACHE");
}

static void test_broken(void)
{
    struct stat st;
    CHECK(stat(kept, &st) == 0);
    damage(0, "x");
    TEST_CHECK(opens("not a file of panels; made anew"));
    damage(8, "\x63");
    TEST_CHECK(opens("another version; made anew"));
    damage(50, "xyz");
    TEST_CHECK(opens("damaged; made anew"));
    damage(st.st_size - 4096 * 5, "xyz");
    TEST_CHECK(opens("damaged; made anew"));
    CHECK(chmod(kept, 0600) == 0 && truncate(kept, st.st_size / 2) == 0);
    TEST_CHECK(opens("cut short; made anew"));
    CHECK(unlink(kept) == 0);
    TEST_CHECK(opens(NULL));
    /* The model has changed now, if only by its modification time. */
    CHECK(utimensat(AT_FDCWD, model, (struct timespec[2]){{1, 0}, {1, 0}}, 0) == 0);
    TEST_CHECK(opens("made from another model file; made anew"));
}

static void test_cannot_be_kept(void)
{
    outcome o = try(model); /* not a folder */
    TEST_CHECK(o.opened && !o.mapped && o.good && n_notices == 1);
    TEST_CHECK_THAT(strstr(notice_text, "not kept"), "%s", notice_text);
    o = try("/proc/cerium");
    TEST_CHECK(o.opened && !o.mapped && o.good && n_notices == 1);
    damage(50, "xyz");
    char busy[210];
    snprintf(busy, sizeof busy, "%s.new", kept);
    CHECK(mkdir(busy, 0700) == 0);
    o = try(cache);
    TEST_CHECK(o.opened && !o.mapped && o.good && n_notices == 1);
    CHECK(rmdir(busy) == 0);
    TEST_CHECK(opens("damaged; made anew"));
}

/* An engine keeps its weights when the file behind them is replaced, and when it is removed. */
static void test_replaced(void)
{
    cerium_engine *engine = NULL;
    cerium_error err;
    CHECK(open_engine(&engine, cache, &err) == 0);
    CHECK(utimensat(AT_FDCWD, model, (struct timespec[2]){{2, 0}, {2, 0}}, 0) == 0);
    TEST_CHECK(opens("another model file"));
    TEST_CHECK(good_bits(engine));
    CHECK(unlink(kept) == 0);
    TEST_CHECK(good_bits(engine));
    cerium_engine_close(&engine);
}

static pid_t start_child(void)
{
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid) return pid;
    outcome o = try(cache);
    _exit(o.good ? 0 : 1);
}

/* Several processes make the same file at once: each has the bits, and one file is left. */
static void test_together(void)
{
    pid_t pids[PROCESSES];
    char new_path[210];
    int status;
    unlink(kept);
    for (int i = 0; i < PROCESSES; i++) pids[i] = start_child();
    for (int i = 0; i < PROCESSES; i++)
        TEST_CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
    snprintf(new_path, sizeof new_path, "%s.new", kept);
    TEST_CHECK(access(new_path, F_OK) && access(kept, R_OK) == 0);
    TEST_CHECK(opens(NULL));
}

/* Killed at any moment of making it: either no file is left, or a whole one. */
static void test_killed(void)
{
    int status;
    for (int i = 0; i < KILLS; i++) {
        unlink(kept);
        pid_t pid = start_child();
        usleep((useconds_t)(i * 2500));
        kill(pid, SIGKILL);
        CHECK(waitpid(pid, &status, 0) == pid);
        TEST_CHECK(opens(NULL));
    }
}

/* Every allocation fails in turn, while the file is made and while it is mapped. */
static void test_allocation(void)
{
    long live = memory_live();
    for (int mapped = 0; mapped < 2; mapped++) {
        int n_failed = 0;
        for (long n = 0, n_all = 1; n < n_all; n++) {
            cerium_engine *engine = NULL;
            cerium_error err = {0};
            if (!mapped) unlink(kept);
            long before = memory_count();
            memory_fail_at(n);
            int status = open_engine(&engine, cache, &err);
            memory_fail_at(-1);
            if (status == 0) n_all = memory_count() - before;
            else n_all = n + 2;
            n_failed += status != 0;
            TEST_CHECK_THAT(status == 0 || (status == CERIUM_ERR_MEMORY && err.message[0]),
                            "allocation %ld: %d", n, status);
            TEST_CHECK(status || good_bits(engine));
            cerium_engine_close(&engine);
            TEST_CHECK(memory_live() == live);
        }
        TEST_CHECK_THAT(n_failed > 20, "%d", n_failed);
        TEST_CHECK(try(cache).good);
    }
}

int main(void)
{
    snprintf(folder, sizeof folder, "/tmp/cerium-kept-XXXXXX");
    CHECK(mkdtemp(folder));
    snprintf(cache, sizeof cache, "%s/a/b", folder);
    snprintf(model, sizeof model, "%s/m.gguf", folder);
    copy_model();
    TEST_RUN(test_made_and_mapped);
    TEST_RUN(test_broken);
    TEST_RUN(test_cannot_be_kept);
    TEST_RUN(test_replaced);
    TEST_RUN(test_together);
    TEST_RUN(test_killed);
    TEST_RUN(test_allocation);
    unlink(kept);
    unlink(model);
    rmdir(cache);
    *strrchr(cache, '/') = 0;
    rmdir(cache);
    CHECK(rmdir(folder) == 0);
    return unit_report("panels");
}
