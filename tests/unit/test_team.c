/* test_team.c - every unit of every phase runs exactly once, and never before the phase before it
 * is done; also with more workers than processors, and with passes in quick succession. */
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "cpu/team.h"
#include "unit.h"

enum { PHASES = 40, UNITS = 257 };

typedef struct {
    _Atomic uint32_t ran[PHASES][UNITS];
    _Atomic uint32_t done[PHASES];
    team_phase phases[PHASES];
    _Atomic uint32_t n_early, n_workers_bad, who; /* a bit per worker that did something */
    uint32_t n_workers;
} record;

static void run_units(void *arg, uint32_t phase, uint32_t first, uint32_t end, uint32_t worker)
{
    record *r = arg;
    if (worker >= r->n_workers) atomic_fetch_add(&r->n_workers_bad, 1);
    if (phase > 0 && atomic_load(&r->done[phase - 1]) != r->phases[phase - 1].n_units)
        atomic_fetch_add(&r->n_early, 1);
    atomic_fetch_or(&r->who, 1u << worker);
    for (uint32_t u = first; u < end; u++) atomic_fetch_add(&r->ran[phase][u], 1);
    atomic_fetch_add(&r->done[phase], end - first);
}

static void check_passes(uint32_t n_workers, int n_passes)
{
    static record r;
    team *t = NULL;
    cerium_error err;
    TEST_CHECK(team_open(&t, n_workers, &err) == 0);
    if (!t) return;
    for (int pass = 0; pass < n_passes; pass++) {
        memset(&r, 0, sizeof r);
        r.n_workers = n_workers;
        for (uint32_t p = 0; p < PHASES; p++)
            r.phases[p] = (team_phase){.n_units = (p * 31 + (uint32_t)pass * 7) % UNITS,
                                       .chunk = 1 + p % 5};
        team_run(t, r.phases, PHASES, run_units, &r);
        uint32_t wrong = 0;
        for (uint32_t p = 0; p < PHASES; p++)
            for (uint32_t u = 0; u < UNITS; u++)
                wrong += atomic_load(&r.ran[p][u]) != (u < r.phases[p].n_units);
        TEST_CHECK_THAT(wrong == 0, "%u units in pass %d", wrong, pass);
        TEST_CHECK(atomic_load(&r.n_early) == 0 && atomic_load(&r.n_workers_bad) == 0);
    }
    team_close(&t);
    TEST_CHECK(t == NULL);
}

static void test_one_worker(void) { check_passes(1, 20); }
static void test_two_workers(void) { check_passes(2, 500); }
static void test_more_workers_than_processors(void) { check_passes(9, 60); }

/* A pass that wakes sleepers: workers fall asleep between passes that are far apart. */
static void test_sleep_and_wake(void)
{
    static record r;
    team *t = NULL;
    cerium_error err;
    TEST_CHECK(team_open(&t, 3, &err) == 0);
    for (int pass = 0; t && pass < 20; pass++) {
        memset(&r, 0, sizeof r);
        r.n_workers = 3;
        r.phases[0] = (team_phase){200, 1};
        uint64_t until = clock_ns() + 5000000;
        while (clock_ns() < until) {}
        team_run(t, r.phases, 1, run_units, &r);
        TEST_CHECK(atomic_load(&r.done[0]) == 200);
    }
    team_close(&t);
}

/* Any number of workers, changed before every pass: at most that many take part (except one
 * removed just after it joined), and every unit still runs once. */
static void test_changing_numbers(void)
{
    static record r;
    team *t = NULL;
    cerium_error err;
    uint32_t n_wrong = 0, n_over = 0, random = 1;
    TEST_CHECK(team_open(&t, 5, &err) == 0);
    for (int pass = 0; t && pass < 600; pass++) {
        memset(&r, 0, sizeof r);
        r.n_workers = 5;
        for (uint32_t p = 0; p < PHASES; p++) r.phases[p] = (team_phase){64, 1};
        random = random * 1664525 + 1013904223;
        uint32_t n = team_tuner(t)->n = 1 + (random >> 16) % 5;
        team_run(t, r.phases, PHASES, run_units, &r);
        for (uint32_t p = 0; p < PHASES; p++)
            for (uint32_t u = 0; u < 64; u++) n_wrong += atomic_load(&r.ran[p][u]) != 1;
        n_wrong += atomic_load(&r.n_early) + atomic_load(&r.n_workers_bad);
        n_over += (uint32_t)__builtin_popcount(atomic_load(&r.who)) > n;
    }
    TEST_CHECK_THAT(n_wrong == 0, "%u", n_wrong);
    TEST_CHECK_THAT(n_over < 10, "%u", n_over);
    team_close(&t);
}

/* As if the system suspended one worker in the middle of a unit: all others, the caller too, have
 * nothing left to do and wait for it. */
static void run_held(void *arg, uint32_t phase, uint32_t first, uint32_t end, uint32_t worker)
{
    static _Atomic bool is_held;
    struct timespec held = {0, 200 * 1000 * 1000};
    (void)arg, (void)phase, (void)first, (void)end;
    if (worker > 0 && !atomic_exchange(&is_held, true)) nanosleep(&held, NULL);
    while (!atomic_load(&is_held)) {}
}

/* Then the caller sleeps, and knows for whom; that is the reason to try fewer workers. */
static void test_late_worker(void)
{
    static record r = {.n_workers = 4};
    const team_phase phase = {64, 1};
    team *t = NULL;
    cerium_error err;
    TEST_CHECK(team_open(&t, 4, &err) == 0);
    if (!t) return;
    const worker_tuner *m = team_tuner(t);
    team_run(t, &phase, 1, run_units, &r); /* the first pass of a kind does not count */
    TEST_CHECK(m->n == 4 && m->n_passes == 0);
    team_run(t, &phase, 1, run_held, NULL);
    TEST_CHECK_THAT(m->n_passes == 1 && m->ns >= m->sleep_ns, "%u passes", m->n_passes);
    TEST_CHECK_THAT(m->sleep_ns > 0, "%llu ns", (unsigned long long)m->sleep_ns);
    TEST_CHECK_THAT(m->n_steady < 4, "%u", m->n_steady); /* fewer, if others were late too */
    team_close(&t);
}

/* No worker spins when there is nothing to do: processor time of a second without passes. */
static void test_idle(void)
{
    static record r;
    team *t = NULL;
    cerium_error err;
    struct timespec second = {1, 0}, used[2];
    TEST_CHECK(team_open(&t, 4, &err) == 0);
    for (int pass = 0; t && pass < 100; pass++) { /* brisk: workers then end in a spin */
        memset(&r, 0, sizeof r);
        r.n_workers = 4;
        r.phases[0] = (team_phase){200, 1};
        team_run(t, r.phases, 1, run_units, &r);
    }
    double ms = 1000;
    /* On a busy machine it takes a while until all of them had their last turn. */
    for (int second_of = 0; second_of < 60 && ms >= 5; second_of++) {
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used[0]);
        nanosleep(&second, NULL);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used[1]);
        ms = (double)(used[1].tv_sec - used[0].tv_sec) * 1e3 +
             (double)(used[1].tv_nsec - used[0].tv_nsec) / 1e6;
    }
    TEST_CHECK_THAT(ms < 5, "%.3f ms of processor time in an idle second", ms);
    team_close(&t);
}

int main(void)
{
    TEST_RUN(test_one_worker);
    TEST_RUN(test_two_workers);
    TEST_RUN(test_more_workers_than_processors);
    TEST_RUN(test_sleep_and_wake);
    TEST_RUN(test_changing_numbers);
    TEST_RUN(test_late_worker);
    TEST_RUN(test_idle);
    return unit_report("team");
}
