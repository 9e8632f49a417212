/* test_usage.c - no acknowledged request is lost or counted twice, whichever process is killed.
 *
 *   faults_usage [KILLS]     kills: how often; default 20
 *
 * Two children meter requests into one store, each with an accounts thread of its own, and report
 * over a pipe how many they acknowledged.  kill -9 comes to one of them at a random moment (fixed
 * seed), and another takes its place; the survivor takes over the rest of the dead one.  In the end
 * the database must have all acknowledged requests, and for each kill at most one more: one that
 * was in the journal and not yet reported. */
#include "server/accounts_sync.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "server/log.h"
#include "store/metered.h"

#include "../random.h"

enum { CHILDREN = 2, TENANT = 2 };

static char folder[32], path[64], live_path[64];
static cerium_error err;
static int failed;

static void fail(const char *what, long n)
{
    printf("  FAIL %s at %ld: %s\n", what, n, err.message);
    failed++;
}

static void ignore(void *user) { (void)user; }

static _Noreturn void meter(int acknowledged)
{
    live *l = NULL;
    accounts_sync *k = NULL;
    if (live_open(&l, live_path, &err) || accounts_sync_open(&k, path, l, &err) ||
        accounts_sync_start(k, ignore, NULL, &err))
        _exit(3);
    const live_record r = {.tenant = TENANT, .day = 1, .requests = 1, .input_tokens = 3,
                           .output_tokens = 2, .nanodollars = 7, .model = "m"};
    for (char one = 1;;) {
        if (!live_reserve(l)) {
            struct timespec wait = {.tv_nsec = 1000000};
            nanosleep(&wait, NULL);
            continue;
        }
        live_add(l, &r);
        if (write(acknowledged, &one, 1) != 1) _exit(5);
    }
}

typedef struct {
    pid_t pid;
    int pipe;
} child;

static child start(void)
{
    int ends[2];
    child c = {-1, -1};
    if (pipe(ends)) return c;
    c.pid = fork();
    if (c.pid == 0) {
        close(ends[0]);
        meter(ends[1]);
    }
    close(ends[1]);
    c.pipe = ends[0];
    return c;
}

/* Kills it; returns how many it had acknowledged. */
static uint64_t end(child *c)
{
    char data[4096];
    uint64_t n = 0;
    int status = 0;
    kill(c->pid, SIGKILL);
    waitpid(c->pid, &status, 0);
    if (!WIFSIGNALED(status)) fail("a child ended by itself", status);
    for (ssize_t got; (got = read(c->pipe, data, sizeof data)) > 0;) n += (uint64_t)got;
    close(c->pipe);
    return n;
}

/* The pipe must not block a child. */
static uint64_t listen_to(const child *c, uint32_t ms)
{
    char data[4096];
    uint64_t n = 0;
    struct timespec now, until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)ms * 1000000;
    do {
        ssize_t got = read(c->pipe, data, sizeof data);
        if (got <= 0) break;
        n += (uint64_t)got;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - until.tv_sec) * 1000000000L + now.tv_nsec - until.tv_nsec < 0);
    return n;
}

static bool take_row(void *arg, const store_usage *row)
{
    *(store_usage *)arg = *row;
    return true;
}

/* Collects what all left, as the next server would. */
static store_usage total(void)
{
    store_usage row = {.requests = 0};
    live *l = NULL;
    accounts_sync *k = NULL;
    store *s = NULL;
    usage_query all = {.last_day = 10};
    if (live_open(&l, live_path, &err) || accounts_sync_open(&k, path, l, &err)) fail("opening", 0);
    accounts_sync_close(&k);
    live_close(&l);
    if (store_open(&s, path, &err) || store_usage_read(s, &all, take_row, &row, &err))
        fail("reading", 0);
    store_close(&s);
    return row;
}

int main(int argc, char **argv)
{
    uint64_t kills = 20, n = 0, n_kills = 0;
    child children[CHILDREN];
    if (argc > 1 && !parse_u64(view_of(argv[1]), &kills)) return 2;
    snprintf(folder, sizeof folder, "/tmp/cerium-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/store.db", folder);
    snprintf(live_path, sizeof live_path, "%s/store.db-live", folder);
    log_open(LOG_ERROR);
    total(); /* creates the tables: metering is killed, not the creation of a file */
    for (int i = 0; i < CHILDREN; i++) children[i] = start();
    for (; n_kills < kills && !failed; n_kills++) {
        int victim = (int)random_below(CHILDREN);
        n += listen_to(&children[victim], random_below(400));
        n += end(&children[victim]);
        children[victim] = start();
    }
    for (int i = 0; i < CHILDREN; i++, n_kills++) n += end(&children[i]);
    store_usage row = total();
    if (row.requests < n || row.requests > n + n_kills) fail("requests", (long)row.requests);
    if (row.input_tokens != 3 * row.requests || row.output_tokens != 2 * row.requests ||
        row.nanodollars != 7 * row.requests)
        fail("sums", (long)row.input_tokens);
    if (n < 100 * kills) fail("too few to test anything", (long)n);
    printf("faults: %llu requests acknowledged, %llu in the database, %llu kills\n",
           (unsigned long long)n, (unsigned long long)row.requests, (unsigned long long)n_kills);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command)) failed++;
    printf("faults_usage: %d passed, %d failed\n", !failed, failed);
    return failed != 0;
}
