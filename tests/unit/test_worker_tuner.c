/* test_worker_tuner.c - how many workers the team uses, on a simulated machine: the time of
 * passes with each number is known, and the cheapest must be found and kept. */
#include "cpu/worker_tuner.h"
#include "unit.h"

/* Passes of a quarter of a millisecond with all workers; every sixth is delayed. */
typedef struct {
    double cost_ns[17];  /* by workers */
    uint64_t held_ns;    /* extra time of every sixth */
    uint64_t n_passes, n_with[17];
} machine;

static void play(machine *of, worker_tuner *m, uint64_t kind, uint64_t ns)
{
    for (uint64_t t = 0; t < ns;) {
        uint64_t cost = (uint64_t)of->cost_ns[m->n];
        uint64_t took = cost + (++of->n_passes % 6 == 0 ? of->held_ns : 0);
        of->n_with[m->n]++;
        worker_tuner_learn(m, kind, took, 0, worker_tuner_is_trying(m) ? cost : 0);
        t += took;
    }
}

static void test_quiet(void)
{
    machine quiet = {.cost_ns = {[1] = 1, [2] = 250000}};
    worker_tuner m = worker_tuner_of(2);
    play(&quiet, &m, 7, 20000000000);
    TEST_CHECK(m.n == 2 && quiet.n_with[1] == 0); /* not even tried, though it would be cheaper */
}

static void test_one_worker(void)
{
    machine busy = {.cost_ns = {[1] = 250000}, .held_ns = 3000000};
    worker_tuner m = worker_tuner_of(1);
    play(&busy, &m, 7, 5000000000);
    TEST_CHECK(m.n == 1 && busy.n_with[1] == busy.n_passes);
}

static void test_fewer_are_cheaper(void)
{
    machine busy = {.cost_ns = {[1] = 300000, [2] = 700000}, .held_ns = 3000000};
    worker_tuner m = worker_tuner_of(2);
    play(&busy, &m, 7, 1000000000);
    TEST_CHECK(m.n == 1);
    busy.n_with[1] = busy.n_with[2] = 0;
    play(&busy, &m, 7, 60000000000);
    TEST_CHECK_THAT(busy.n_with[2] * 20 < busy.n_with[1], "%lu with two, %lu with one",
                    (unsigned long)busy.n_with[2], (unsigned long)busy.n_with[1]);
    /* The other load is gone. */
    busy.cost_ns[2] = 160000, busy.held_ns = 0;
    play(&busy, &m, 7, TUNER_REST_NS_MAX + 2 * TUNER_REST_NS);
    TEST_CHECK(m.n == 2);
}

/* All passes take the same time, half of it asleep: that is a reason to try. */
static void test_all_are_held(void)
{
    machine busy = {.cost_ns = {[1] = 300000, [2] = 250000}};
    worker_tuner m = worker_tuner_of(2);
    play(&busy, &m, 7, 1000000000);
    TEST_CHECK(m.n == 2 && busy.n_with[1] == 0);
    for (int i = 0; i < 100000 && m.n == 2; i++)
        worker_tuner_learn(&m, 7, 250000, m.n == 2 ? 125000 : 0, 250000);
    TEST_CHECK(m.n == 1);
}

static void test_all_are_cheaper(void)
{
    machine busy = {.cost_ns = {[1] = 300000, [2] = 290000}, .held_ns = 3000000};
    worker_tuner m = worker_tuner_of(2);
    play(&busy, &m, 7, 2000000000);
    busy.n_with[1] = busy.n_with[2] = 0;
    play(&busy, &m, 7, 60000000000);
    TEST_CHECK_THAT(busy.n_with[1] * 20 < busy.n_with[2], "%lu with one, %lu with two",
                    (unsigned long)busy.n_with[1], (unsigned long)busy.n_with[2]);
}

/* Sixteen workers, of which the cheapest number is nine: steps of a quarter come near it. */
static void test_many_workers(void)
{
    machine busy = {.held_ns = 3000000};
    for (int n = 1; n <= 16; n++) busy.cost_ns[n] = 250000 + 30000 * (n > 9 ? n - 9 : 9 - n);
    worker_tuner m = worker_tuner_of(16);
    play(&busy, &m, 7, 4000000000);
    TEST_CHECK_THAT(m.n >= 7 && m.n <= 12, "%u workers", (unsigned)m.n);
}

/* Three of sixteen are late again and again: the trial is without them. */
static void test_late_workers(void)
{
    machine busy = {.held_ns = 3000000};
    for (int n = 1; n <= 16; n++) busy.cost_ns[n] = n > 13 ? 900000 : 4000000 / n;
    worker_tuner m = worker_tuner_of(16);
    worker_tuner_see_steady(&m, 13);
    play(&busy, &m, 7, 1000000000);
    TEST_CHECK_THAT(m.n == 13, "%u workers", (unsigned)m.n);
}

/* Passes of another kind say nothing about a trial: it ends without a verdict. */
static void test_other_passes(void)
{
    machine busy = {.cost_ns = {[1] = 300000, [2] = 700000}, .held_ns = 3000000};
    worker_tuner m = worker_tuner_of(2);
    while (!worker_tuner_is_trying(&m)) play(&busy, &m, 7, 1000000);
    play(&busy, &m, 7, 2 * TUNER_WINDOW_NS);
    worker_tuner_learn(&m, 8, 250000, 0, 250000);
    TEST_CHECK(!worker_tuner_is_trying(&m) && m.n == 2);
    for (uint64_t kind = 0; kind < 100000; kind++) worker_tuner_learn(&m, kind, 250000, 0, 250000);
    TEST_CHECK(m.n == 2);
}

int main(void)
{
    TEST_RUN(test_quiet);
    TEST_RUN(test_one_worker);
    TEST_RUN(test_fewer_are_cheaper);
    TEST_RUN(test_all_are_held);
    TEST_RUN(test_all_are_cheaper);
    TEST_RUN(test_many_workers);
    TEST_RUN(test_late_workers);
    TEST_RUN(test_other_passes);
    return unit_report("worker_tuner");
}
