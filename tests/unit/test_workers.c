/* test_workers.c - jobs are run in turn, done on the thread that polls, and can be dropped at any
 * time.  A gate holds a lane where the order must be known: nothing here depends on time. */
#include "server/workers.h"

#include <pthread.h>

#include "base/limits.h"
#include "base/memory.h"

#include "unit.h"

/* Notifications of the workers: counts wakes. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int n_wakes;
} bell;

static bell rung = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

static void ring(void *user)
{
    bell *b = user;
    pthread_mutex_lock(&b->lock);
    b->n_wakes++;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

static void await_ring(void)
{
    pthread_mutex_lock(&rung.lock);
    while (!rung.n_wakes) pthread_cond_wait(&rung.changed, &rung.lock);
    rung.n_wakes--;
    pthread_mutex_unlock(&rung.lock);
}

/* ---- observed jobs ---- */

typedef struct {
    job job; /* first */
    int number;
    int n_runs, n_done, n_released;
    int rounds;      /* runs that it needs */
    bool resubmits;  /* once, in done() */
    bool saw_unwanted;
    bool is_owned;   /* freed by its release */
} watched;

static workers *pool;
static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t seen_changed = PTHREAD_COND_INITIALIZER;
static int ran[8192], n_ran, done[8192], n_done, n_released;

static void forget_seen(void) { n_ran = n_done = n_released = 0; }

static bool run_watched(job *j)
{
    watched *w = (watched *)j;
    pthread_mutex_lock(&seen_lock);
    ran[n_ran++] = w->number;
    pthread_mutex_unlock(&seen_lock);
    return ++w->n_runs < w->rounds;
}

static void done_watched(job *j)
{
    watched *w = (watched *)j;
    w->n_done++;
    done[n_done++] = w->number;
    if (!w->resubmits) return;
    w->resubmits = false;
    TEST_CHECK(workers_submit(pool, j) == CERIUM_OK);
}

static void release_watched(job *j)
{
    watched *w = (watched *)j;
    w->n_released++;
    pthread_mutex_lock(&seen_lock);
    n_released++;
    pthread_cond_signal(&seen_changed);
    pthread_mutex_unlock(&seen_lock);
    if (w->is_owned) memory_free(w);
}

static watched job_of(int number, uint64_t client, workers_lane lane)
{
    return (watched){.job = {.run = run_watched, .done = done_watched, .release = release_watched,
                             .client = client, .lane = lane},
                     .number = number, .rounds = 1};
}

/* A job that occupies its lane until it is let through. */
typedef struct {
    watched w; /* first */
    bool is_open, is_in;
} gate;

static bool run_gate(job *j)
{
    gate *g = (gate *)j;
    pthread_mutex_lock(&seen_lock);
    g->is_in = true;
    pthread_cond_broadcast(&seen_changed);
    while (!g->is_open) pthread_cond_wait(&seen_changed, &seen_lock);
    g->w.saw_unwanted = !job_is_wanted(j);
    pthread_mutex_unlock(&seen_lock);
    g->w.n_runs++;
    return false;
}

/* Occupies a lane: returns once it runs. */
static void gate_shut(gate *g, uint64_t client, workers_lane lane)
{
    *g = (gate){.w = job_of(-1, client, lane)};
    g->w.job.run = run_gate;
    TEST_CHECK(workers_submit(pool, &g->w.job) == CERIUM_OK);
    pthread_mutex_lock(&seen_lock);
    while (!g->is_in) pthread_cond_wait(&seen_changed, &seen_lock);
    pthread_mutex_unlock(&seen_lock);
}

static void gate_let_through(gate *g)
{
    pthread_mutex_lock(&seen_lock);
    g->is_open = true;
    pthread_cond_broadcast(&seen_changed);
    pthread_mutex_unlock(&seen_lock);
}

static void poll_until(const int *count, int n)
{
    while (*count < n) {
        await_ring();
        while (workers_poll(pool)) {
        }
    }
}

static void submit(watched *w) { TEST_CHECK(workers_submit(pool, &w->job) == CERIUM_OK); }

static bool same(const int *got, int n_got, const int *want, int n_want)
{
    for (int i = 0; i < n_got && n_got == n_want; i++)
        if (got[i] != want[i]) return false;
    return n_got == n_want;
}
#define ARE(list, n, ...)                                                                          \
    same(list, n, (const int[]){__VA_ARGS__}, (int)ARRAY_LEN(((const int[]){__VA_ARGS__})))

static void open_pool(void)
{
    cerium_error err;
    forget_seen();
    rung.n_wakes = 0;
    TEST_CHECK(workers_open(&pool, ring, &rung, &err) == CERIUM_OK);
}

/* ---- the tests ---- */

static void test_order(void)
{
    open_pool();
    gate g;
    watched jobs[5];
    gate_shut(&g, 9, WORKERS_SMALL);
    for (int i = 0; i < 5; i++) {
        jobs[i] = job_of(i, 1, WORKERS_SMALL);
        submit(&jobs[i]);
    }
    gate_let_through(&g);
    poll_until(&n_done, 6);
    TEST_CHECK(ARE(ran, n_ran, 0, 1, 2, 3, 4) && ARE(done, n_done, -1, 0, 1, 2, 3, 4));
    TEST_CHECK(!workers_poll(pool));
    workers_close(&pool);
    TEST_CHECK(!pool);
}

/* Clients take turns; each client's jobs stay in order. */
static void test_turns(void)
{
    open_pool();
    gate g;
    static const uint64_t clients[] = {1, 1, 1, 2, 3, 2, 1};
    watched jobs[ARRAY_LEN(clients)];
    gate_shut(&g, 9, WORKERS_LARGE);
    for (int i = 0; i < (int)ARRAY_LEN(clients); i++) {
        jobs[i] = job_of(i, clients[i], WORKERS_LARGE);
        submit(&jobs[i]);
    }
    gate_let_through(&g);
    poll_until(&n_done, 8);
    TEST_CHECK(ARE(ran, n_ran, 0, 3, 4, 1, 5, 2, 6));
    workers_close(&pool);
}

/* Between the rounds of a job, other clients get a turn, but no other job of its own client. */
static void test_rounds(void)
{
    open_pool();
    gate g;
    watched a = job_of(1, 1, WORKERS_COMPILE), after = job_of(2, 1, WORKERS_COMPILE);
    watched b = job_of(3, 2, WORKERS_COMPILE), alone = job_of(4, 1, WORKERS_STORE);
    a.rounds = 3;
    alone.rounds = 4;
    gate_shut(&g, 9, WORKERS_COMPILE);
    submit(&a);
    submit(&after);
    submit(&b);
    gate_let_through(&g);
    poll_until(&n_done, 4);
    TEST_CHECK(ARE(ran, n_ran, 1, 3, 1, 1, 2) && a.n_done == 1);
    submit(&alone);
    poll_until(&n_done, 5);
    TEST_CHECK(alone.n_runs == 4 && alone.n_done == 1);
    workers_close(&pool);
}

/* A busy lane does not delay another. */
static void test_lanes(void)
{
    open_pool();
    gate gates[WORKERS_LANES];
    watched after[WORKERS_LANES];
    for (int i = 1; i < WORKERS_LANES; i++) {
        gate_shut(&gates[i], 1, (workers_lane)i);
        after[i] = job_of(i, 1, (workers_lane)i);
        submit(&after[i]);
    }
    watched small = job_of(10, 1, WORKERS_SMALL);
    submit(&small);
    poll_until(&n_done, 1);
    TEST_CHECK(ARE(done, n_done, 10) && ARE(ran, n_ran, 10));
    for (int i = 1; i < WORKERS_LANES; i++) gate_let_through(&gates[i]);
    poll_until(&n_done, 1 + 2 * (WORKERS_LANES - 1));
    workers_close(&pool);
}

/* Dropped while it waits, runs, and is done: released once, never done. */
static void test_drop(void)
{
    open_pool();
    gate g;
    watched jobs[4];
    gate_shut(&g, 1, WORKERS_SMALL);
    for (int i = 0; i < 4; i++) {
        jobs[i] = job_of(i, i == 3 ? 2 : 1, WORKERS_SMALL);
        submit(&jobs[i]);
    }
    static const int order[] = {1, 0}; /* in the middle, and the first */
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        job *j = &jobs[order[i]].job;
        workers_drop(pool, &j);
        TEST_CHECK(!j && jobs[order[i]].n_released == 1);
    }
    job *running = &g.w.job;
    workers_drop(pool, &running);
    TEST_CHECK(!running && !g.w.n_released);
    workers_drop(pool, &running); /* none */
    gate_let_through(&g);
    poll_until(&n_done, 2);
    TEST_CHECK(ARE(done, n_done, 2, 3) && ARE(ran, n_ran, 2, 3));
    TEST_CHECK(g.w.n_released == 1 && !g.w.n_done && g.w.saw_unwanted);

    watched first = job_of(5, 1, WORKERS_LARGE), last = job_of(6, 1, WORKERS_LARGE);
    submit(&first);
    submit(&last);
    gate both;
    gate_shut(&both, 1, WORKERS_LARGE); /* after them: so both are done, and not polled */
    job *j = &last.job;
    workers_drop(pool, &j);
    TEST_CHECK(last.n_released == 1);
    j = &first.job;
    workers_drop(pool, &j);
    TEST_CHECK(first.n_released == 1 && !first.n_done && !last.n_done);
    gate_let_through(&both);
    poll_until(&n_done, 3);
    workers_close(&pool);
}

/* done() of one drops the next, and submits its own again. */
static watched *to_drop;

static void done_and_drop(job *j)
{
    done_watched(j);
    job *other = &to_drop->job;
    workers_drop(pool, &other);
}

static void test_drop_within(void)
{
    open_pool();
    gate g;
    watched a = job_of(1, 1, WORKERS_STORE), b = job_of(2, 1, WORKERS_STORE);
    a.job.done = done_and_drop;
    to_drop = &b;
    submit(&a);
    submit(&b);
    gate_shut(&g, 1, WORKERS_STORE); /* both are done */
    while (workers_poll(pool)) {
    }
    TEST_CHECK(ARE(done, n_done, 1) && b.n_released == 1);
    gate_let_through(&g);
    poll_until(&n_done, 2);
    watched c = job_of(3, 1, WORKERS_STORE);
    c.resubmits = true;
    submit(&c);
    poll_until(&n_done, 4);
    TEST_CHECK(c.n_runs == 2 && c.n_done == 2);
    workers_close(&pool);
}

static void test_withdraw(void)
{
    open_pool();
    gate g;
    watched waits = job_of(1, 1, WORKERS_SMALL), rest = job_of(2, 1, WORKERS_SMALL);
    gate_shut(&g, 1, WORKERS_SMALL);
    submit(&waits);
    submit(&rest);
    TEST_CHECK(workers_withdraw(pool, &waits.job) && !workers_withdraw(pool, &g.w.job));
    gate_let_through(&g);
    poll_until(&n_done, 2);
    TEST_CHECK(ARE(done, n_done, -1, 2) && g.w.saw_unwanted && !waits.n_runs);
    TEST_CHECK(!waits.n_released && !g.w.n_released);
    submit(&waits); /* the caller owns it again, and wants it */
    poll_until(&n_done, 3);
    TEST_CHECK(waits.n_runs == 1 && job_is_wanted(&waits.job));
    workers_close(&pool);
}

/* A client has a share of a lane, and the lane a bound; mandatory jobs are always accepted. */
static void test_full(void)
{
    open_pool();
    gate g;
    enum { N = SERVER_JOBS_MAX + 2 };
    watched *jobs = memory_zalloc(N, sizeof *jobs);
    int taken = 0;
    gate_shut(&g, 1, WORKERS_LARGE);
    for (int i = 0; i < N; i++) {
        jobs[i] = job_of(i, 2, WORKERS_LARGE);
        if (workers_submit(pool, &jobs[i].job)) break;
        taken++;
    }
    TEST_CHECK_THAT(taken == SERVER_CLIENT_JOBS_MAX, "%d", taken);
    for (uint64_t client = 3; taken < N; client++) {
        int before = taken;
        for (; taken < N; taken++) {
            jobs[taken] = job_of(taken, client, WORKERS_LARGE);
            if (workers_submit(pool, &jobs[taken].job)) break;
        }
        if (taken == before) break;
    }
    TEST_CHECK_THAT(taken == SERVER_JOBS_MAX, "%d", taken);
    workers_submit_always(pool, &jobs[taken++].job);
    watched other = job_of(0, 2, WORKERS_SMALL);
    submit(&other); /* the bound is the lane's */
    gate_let_through(&g);
    poll_until(&n_done, taken + 2);
    workers_close(&pool);
    memory_free(jobs);
}

/* A poll is bounded, however many jobs are done. */
static void test_poll_is_bounded(void)
{
    open_pool();
    gate g;
    watched jobs[200];
    for (int i = 0; i < 200; i++) {
        jobs[i] = job_of(i, 1, WORKERS_SMALL);
        submit(&jobs[i]);
    }
    gate_shut(&g, 1, WORKERS_SMALL);
    rung.n_wakes = 0;
    TEST_CHECK(workers_poll(pool) && n_done > 0 && n_done < 200);
    TEST_CHECK(rung.n_wakes == 1); /* there are more: another poll is requested */
    while (workers_poll(pool)) {
    }
    TEST_CHECK(n_done == 200);
    gate_let_through(&g);
    poll_until(&n_done, 201);
    workers_close(&pool);
}

/* Closing waits for running jobs, even if they were dropped. */
static void *open_gate_later(void *arg)
{
    gate_let_through(arg);
    return NULL;
}

static void test_close(void)
{
    open_pool();
    gate g;
    pthread_t helper;
    watched *owned = memory_zalloc(1, sizeof *owned);
    long live = memory_live();
    gate_shut(&g, 1, WORKERS_STORE);
    *owned = job_of(1, 1, WORKERS_STORE);
    owned->is_owned = true;
    job *j = &owned->job, *running = &g.w.job;
    TEST_CHECK(workers_submit(pool, j) == CERIUM_OK);
    workers_drop(pool, &j);
    TEST_CHECK(memory_live() == live - 1);
    workers_drop(pool, &running);
    TEST_CHECK(!pthread_create(&helper, NULL, open_gate_later, &g));
    workers_close(&pool);
    TEST_CHECK(g.w.n_released == 1 && g.w.n_runs == 1 && !g.w.n_done);
    pthread_join(helper, NULL);
}

/* Waiting jobs, and finished jobs that were not polled, are released. */
static void test_close_with_jobs(void)
{
    open_pool();
    gate g;
    pthread_t helper;
    watched first = job_of(1, 1, WORKERS_SMALL), waits[3];
    submit(&first);
    gate_shut(&g, 2, WORKERS_SMALL);
    for (int i = 0; i < 3; i++) {
        waits[i] = job_of(2 + i, (uint64_t)i, WORKERS_SMALL);
        submit(&waits[i]);
    }
    TEST_CHECK(!pthread_create(&helper, NULL, open_gate_later, &g));
    workers_close(&pool);
    pthread_join(helper, NULL);
    TEST_CHECK(first.n_released == 1 && first.n_runs == 1 && g.w.n_released == 1 && !n_done);
    for (int i = 0; i < 3; i++) TEST_CHECK(waits[i].n_released == 1 && waits[i].n_runs <= 1);
}

static void free_number(void *thing)
{
    TEST_CHECK(*(int *)thing == 5);
    memory_free(thing);
}

/* Objects are freed, whether a thread gets to it or not, and without memory for the job. */
static void test_bury(void)
{
    long before = memory_live();
    for (int round = 0; round < 3; round++) {
        open_pool();
        gate g;
        long with_pool = memory_live();
        int *thing = memory_alloc(sizeof *thing);
        *thing = 5;
        if (round == 1) gate_shut(&g, 1, WORKERS_LARGE);
        if (round == 2) memory_fail_at(0);
        workers_bury(pool, free_number, thing);
        memory_fail_at(-1);
        workers_bury(pool, free_number, NULL);
        if (round == 0) {
            gate_shut(&g, 2, WORKERS_LARGE); /* runs after it, so it is over */
            TEST_CHECK(memory_live() == with_pool && !workers_poll(pool));
        }
        pthread_t helper;
        if (round < 2) TEST_CHECK(!pthread_create(&helper, NULL, open_gate_later, &g));
        workers_close(&pool);
        if (round < 2) pthread_join(helper, NULL);
        TEST_CHECK(memory_live() == before);
    }
}

static void test_open_without_memory(void)
{
    long before = memory_live();
    for (long n = 0;; n++) {
        cerium_error err;
        workers *w = NULL;
        memory_fail_at(n);
        int status = workers_open(&w, ring, &rung, &err);
        memory_fail_at(-1);
        workers_close(&w);
        TEST_CHECK(memory_live() == before);
        if (!status) break;
        TEST_CHECK(status == CERIUM_ERR_MEMORY);
    }
}

/* Many jobs of many clients, dropped and withdrawn at any moment: each ends once, in one way. */
static void test_crowd(void)
{
    enum { N = 400 };
    static watched jobs[N];
    static bool is_gone[N];
    open_pool();
    uint32_t seed = 1;
    const int rounds = UNIT_TIMES(50, 5);
    for (int round = 0; round < rounds; round++) {
        int n_withdrawn = 0, n_dropped = 0;
        forget_seen();
        memset(is_gone, 0, sizeof is_gone);
        for (int i = 0; i < N; i++) {
            seed = seed * 1664525 + 1013904223;
            jobs[i] = job_of(i, seed >> 8 & 7, (workers_lane)(seed >> 16 & 3));
            jobs[i].rounds = 1 + (int)(seed >> 20 & 1);
            submit(&jobs[i]);
            int other = (int)(seed >> 12) % (i + 1);
            job *j = &jobs[other].job;
            if (jobs[other].n_done || is_gone[other]) continue;
            if (seed >> 30 == 0) {
                is_gone[other] = true;
                n_dropped++;
                workers_drop(pool, &j);
            } else if (seed >> 30 == 1 && workers_withdraw(pool, j)) {
                is_gone[other] = true;
                n_withdrawn++;
            }
            if (i % 16 == 0) workers_poll(pool);
        }
        while (n_done < N - n_withdrawn - n_dropped) workers_poll(pool);
        pthread_mutex_lock(&seen_lock);
        while (n_released < n_dropped) pthread_cond_wait(&seen_changed, &seen_lock);
        pthread_mutex_unlock(&seen_lock);
        TEST_CHECK(n_done == N - n_withdrawn - n_dropped && n_released == n_dropped);
    }
    workers_close(&pool);
}

int main(void)
{
    TEST_RUN(test_order);
    TEST_RUN(test_turns);
    TEST_RUN(test_rounds);
    TEST_RUN(test_lanes);
    TEST_RUN(test_drop);
    TEST_RUN(test_drop_within);
    TEST_RUN(test_withdraw);
    TEST_RUN(test_full);
    TEST_RUN(test_poll_is_bounded);
    TEST_RUN(test_close);
    TEST_RUN(test_close_with_jobs);
    TEST_RUN(test_bury);
    TEST_RUN(test_open_without_memory);
    TEST_RUN(test_crowd);
    return unit_report("workers");
}
