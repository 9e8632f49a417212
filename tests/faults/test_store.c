/* test_store.c - acknowledged responses survive, whatever happens to the process or its memory.
 *
 *   faults_store [KILLS]     kills: how often the writer is killed; default 20
 *
 * A child stores responses and reports over a pipe each one that store_put() accepted; kill -9
 * comes at a random moment (fixed seed); every reported response must then be found, whole, by the
 * next child, which continues to write to the same file. */
#include "store/store.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../random.h"

static int passed, failed;

#define CHECK_THAT(cond, n)                                                                        \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            printf("  FAIL %s:%d: %s at %ld: %s\n", __FILE__, __LINE__, #cond, (long)(n),          \
                   err.message);                                                                   \
            failed++;                                                                              \
        }                                                                                          \
    } while (0)

static char folder[32], path[64];
static cerium_error err;
static uint64_t bytes_max; /* of the writers' stores */

/* Row number n in full: sizes from a few bytes to some pages, all bytes from n. */
enum { BODY_BYTES_MAX = 60000, TOKENS_MAX = 4000 };

static store_response row_of(uint32_t n)
{
    static char id[32], body[BODY_BYTES_MAX];
    static int32_t tokens[TOKENS_MAX];
    size_t len = n * 2654435761u % BODY_BYTES_MAX, n_tokens = n * 40503u % TOKENS_MAX;
    snprintf(id, sizeof id, "resp_%u", n);
    for (size_t i = 0; i < len; i++) body[i] = (char)(n + i * 7);
    for (size_t i = 0; i < n_tokens; i++) tokens[i] = (int32_t)(n ^ i);
    return (store_response){.id = id, .tenant = 1, .created_at = n, .model = "m",
                            .response = {body, len}, .input = VIEW("[]"), .tokens = tokens,
                            .n_tokens = n_tokens};
}

static _Noreturn void write_rows(int acknowledged, uint32_t n)
{
    store *s = NULL;
    if (store_open(&s, path, &err)) _exit(3);
    store_bound(s, bytes_max, 0);
    for (;; n++) {
        store_response row = row_of(n);
        if (store_put(s, &row, &err)) _exit(4);
        if (write(acknowledged, &n, sizeof n) != sizeof n) _exit(5);
    }
}

static bool is_stored(store *s, uint32_t n)
{
    store_response want = row_of(n), got;
    bytes memory = {0};
    bool found = false;
    int status = store_get(s, 1, want.id, &got, &memory, &found, &err);
    bool right = status == CERIUM_OK && found && view_equal(got.response, want.response) &&
                 view_equal(got.input, want.input) && got.n_tokens == want.n_tokens &&
                 !memcmp(got.tokens, want.tokens, want.n_tokens * sizeof *want.tokens);
    bytes_free(&memory);
    return right;
}

/* Let a child write from row n on and kill it; returns how many it had acknowledged. */
static uint32_t kill_one(uint32_t n, uint32_t delay_us)
{
    int ends[2];
    if (pipe(ends)) return perror("pipe"), 0;
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        write_rows(ends[1], n);
    }
    close(ends[1]);
    struct timespec delay = {.tv_nsec = (long)delay_us * 1000};
    nanosleep(&delay, NULL);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    CHECK_THAT(WIFSIGNALED(status), status);
    uint32_t id, n_ids = 0;
    while (read(ends[0], &id, sizeof id) == sizeof id) {
        CHECK_THAT(id == n + n_ids, id);
        n_ids++;
    }
    close(ends[0]);
    return n_ids;
}

static void test_kills(long kills)
{
    uint32_t n = 0, n_empty = 0;
    for (long i = 0; i < kills && failed < 10; i++) {
        /* From the opening of the file to well into writing. */
        uint32_t n_ids = kill_one(n, random_below(60000));
        n_empty += n_ids == 0;
        store *s = NULL;
        CHECK_THAT(store_open(&s, path, &err) == CERIUM_OK, i);
        if (!s) return;
        for (uint32_t k = 0; k < n_ids; k++) CHECK_THAT(is_stored(s, n + k), n + k);
        store_close(&s);
        n += n_ids;
    }
    /* At the end all of them, not only the last ones. */
    store *s = NULL;
    CHECK_THAT(store_open(&s, path, &err) == CERIUM_OK, 0);
    for (uint32_t k = 0; s && k < n; k++) CHECK_THAT(is_stored(s, k), k);
    store_close(&s);
    CHECK_THAT(n > (uint32_t)kills, n); /* or nothing was tested */
    passed += failed == 0;
    printf("faults: %u rows acknowledged, %ld kills, %u of them before the first row\n", n, kills,
           n_empty);
}

/* Under a bound: the content is within it, and has the newest acknowledged response. */
static void test_bounded_kills(long kills)
{
    uint32_t n = 0;
    int before = failed;
    store *s = NULL;
    bytes_max = 1 << 20;
    unlink(path);
    for (long i = 0; i < kills && failed < 10; i++) {
        n += kill_one(n, 5000 + random_below(40000));
        CHECK_THAT(store_open(&s, path, &err) == CERIUM_OK, i);
        if (!s) return;
        CHECK_THAT(!n || is_stored(s, n - 1), n);
        CHECK_THAT(store_measure(s).bytes <= bytes_max, store_measure(s).bytes);
        store_close(&s);
    }
    CHECK_THAT(n > (uint32_t)kills, n);
    bytes_max = 0;
    passed += failed == before;
    printf("faults: %u rows acknowledged under a bound, %ld kills\n", n, kills);
}

/* SQLite's memory through ours, so that memory_fail_at() reaches it.  The size comes before. */
static void *sqlite_alloc(int size)
{
    char *p = memory_alloc((size_t)size + MEMORY_ALIGN);
    if (!p) return NULL;
    memcpy(p, &size, sizeof size);
    return p + MEMORY_ALIGN;
}

static int sqlite_size(void *p)
{
    int size = 0;
    if (p) memcpy(&size, (char *)p - MEMORY_ALIGN, sizeof size);
    return size;
}

static void sqlite_free(void *p)
{
    if (p) memory_free((char *)p - MEMORY_ALIGN);
}

static void *sqlite_resize(void *p, int size)
{
    void *to = sqlite_alloc(size);
    int old = sqlite_size(p);
    if (!to) return NULL;
    memcpy(to, p, (size_t)(old < size ? old : size));
    sqlite_free(p);
    return to;
}

static int sqlite_round(int size) { return (size + 7) & ~7; }
static int sqlite_start(void *unused) { return (void)unused, SQLITE_OK; }
static void sqlite_end(void *unused) { (void)unused; }

static bool see_all(void *arg, const store_response *response)
{
    (void)response;
    ++*(int *)arg;
    return true;
}

/* Everything that a server does with the store; stops at the first error. */
static int use_store(void)
{
    store *s = NULL;
    bool found = false;
    uint64_t n_expired = 0;
    int n_seen = 0;
    bytes memory = {0};
    const int64_t now = 2 * 86400;
    store_response row = row_of(3), old = {.id = "old", .tenant = 1}, got;
    row.created_at = now;
    unlink(path);
    int status = store_open(&s, path, &err);
    if (!status) status = store_put(s, &row, &err);
    if (!status) status = store_put(s, &old, &err);
    if (!status) status = store_get(s, 1, "resp_3", &got, &memory, &found, &err);
    if (!status) CHECK_THAT(found && view_equal(got.response, row.response), 0);
    if (!status) status = store_list(s, 1, 10, see_all, &n_seen, &err);
    if (!status) CHECK_THAT(n_seen == 2, n_seen);
    if (!status) store_bound(s, 0, 1);
    if (!status) status = store_expire(s, now, &n_expired, &err);
    if (!status) CHECK_THAT(n_expired == 1, n_expired);
    if (!status) store_bound(s, 4096, 0);
    if (!status) status = store_put(s, &old, &err);
    if (!status) status = store_has(s, 1, "resp_3", &found, &err);
    if (!status) CHECK_THAT(!found, 0); /* the first one was removed, for room */
    if (!status) store_bound(s, 0, 0);
    if (!status) status = store_delete(s, 1, "old", &found, &err);
    if (!status) CHECK_THAT(found, 0);
    bytes_free(&memory);
    store_close(&s);
    return status;
}

static void test_allocations(void)
{
    static const sqlite3_mem_methods ours = {sqlite_alloc, sqlite_free,  sqlite_resize, sqlite_size,
                                             sqlite_round, sqlite_start, sqlite_end,    NULL};
    sqlite3_shutdown();
    CHECK_THAT(sqlite3_config(SQLITE_CONFIG_MALLOC, &ours) == SQLITE_OK, 0);
    CHECK_THAT(sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) == SQLITE_OK, 0);
    long live = memory_live(), n = 0;
    int before = failed;
    for (bool reached = true; reached && failed < 10; n++) {
        long count = memory_count();
        memset(&err, 0, sizeof err);
        memory_fail_at(n);
        int status = use_store();
        memory_fail_at(-1);
        reached = memory_count() - count > n;
        sqlite3_shutdown();
        CHECK_THAT(memory_live() == live, n);
        /* SQLite works without some memory: then all went well. */
        CHECK_THAT(status == CERIUM_OK || (reached && status == CERIUM_ERR_MEMORY), n);
        CHECK_THAT(status == CERIUM_OK || (err.status == status && err.message[0]), n);
    }
    passed += failed == before;
    printf("faults: %ld allocations failed in turn\n", n);
}

int main(int argc, char **argv)
{
    long kills = argc > 1 ? strtol(argv[1], NULL, 10) : 20;
    /* In memory if possible: an fsync for each of some thousand closes takes long. */
    snprintf(folder, sizeof folder, "/dev/shm/store-XXXXXX");
    if (!mkdtemp(folder)) {
        snprintf(folder, sizeof folder, "/tmp/store-XXXXXX");
        if (!mkdtemp(folder)) return perror(folder), 1;
    }
    snprintf(path, sizeof path, "%s/rows.db", folder);
    test_kills(kills);
    test_bounded_kills(kills);
    test_allocations();
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command)) printf("cannot remove %s\n", folder);
    printf("store: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
