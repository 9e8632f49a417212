/* team.c - the cost of a synchronisation point of the compute team: passes of phases that do
 * nothing, or work of a known length, on a quiet machine and beside busy loops that want the same
 * processors.
 *
 *   make build/release/bench_team && build/release/bench_team [WORKERS]  */
#include "cpu/team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { PHASES = 40, RUNS = 2000, UNIT_NS = 1000 };

static _Atomic bool stop;

static void *spin(void *arg)
{
    volatile uint64_t *n = arg;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) ++*n;
    return NULL;
}

static void nothing(void *arg, uint32_t phase, uint32_t first, uint32_t end, uint32_t worker)
{
    (void)arg, (void)phase, (void)first, (void)end, (void)worker;
}

static uint32_t unit_turns; /* iterations of a unit's loop: work, not elapsed time */

static void turn(uint32_t n)
{
    volatile uint32_t left = n;
    while (left) left--;
}

static void work(void *arg, uint32_t phase, uint32_t first, uint32_t end, uint32_t worker)
{
    (void)arg, (void)phase, (void)worker;
    for (uint32_t i = first; i < end; i++) turn(unit_turns);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The length of the loop, by the quickest of many. */
static void calibrate(void)
{
    enum { TURNS = 20000 };
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 200; i++) {
        uint64_t start = clock_ns();
        turn(TURNS);
        if (clock_ns() - start < least) least = clock_ns() - start;
    }
    unit_turns = (uint32_t)((uint64_t)TURNS * UNIT_NS / least);
}

/* Nanoseconds per phase: the minimum of many short passes, and the mean, which includes all that
 * the system did meanwhile. */
static void measure(team *t, uint32_t units, team_fn *fn, double *least, double *mean)
{
    static team_phase phases[PHASES];
    static double ns[RUNS];
    *mean = 0;
    for (int i = 0; i < PHASES; i++) phases[i] = (team_phase){units, 1};
    for (int r = 0; r < RUNS; r++) {
        uint64_t start = clock_ns();
        team_run(t, phases, PHASES, fn, NULL);
        ns[r] = (double)(clock_ns() - start) / PHASES;
        *mean += ns[r] / RUNS;
    }
    qsort(ns, RUNS, sizeof *ns, by_value);
    *least = ns[0];
}

int main(int argc, char **argv)
{
    uint64_t workers = 2, counters[2] = {0};
    team *t = NULL;
    cerium_error err;
    pthread_t spinners[2];
    if (argc > 1 && (!parse_u64(view_of(argv[1]), &workers) || workers < 1 || workers > 256)) {
        fprintf(stderr, "usage: bench_team [WORKERS]\n");
        return 2;
    }
    if (team_open(&t, (uint32_t)workers, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    static const char *const when[] = {"quiet", "beside two busy loops"};
    calibrate();
    printf("%u workers, ns a phase       16 empty units      16 units of %d ns (ideal %.0f)\n",
           (unsigned)workers, UNIT_NS, 16.0 * UNIT_NS / (double)workers);
    printf("                              least     mean        least     mean\n");
    for (int busy = 0; busy < 2; busy++) {
        double least[2], mean[2];
        for (int i = 0; busy && i < 2; i++)
            if (pthread_create(&spinners[i], NULL, spin, &counters[i])) return 1;
        measure(t, 16, nothing, &least[0], &mean[0]);
        measure(t, 16, work, &least[1], &mean[1]);
        printf("  %-24s %8.0f %8.0f     %8.0f %8.0f\n", when[busy], least[0], mean[0], least[1],
               mean[1]);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) pthread_join(spinners[i], NULL);
    team_close(&t);
    return 0;
}
