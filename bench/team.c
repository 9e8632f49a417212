/* team.c - what a synchronisation point of the compute team costs: passes of phases that do
 * nothing, or work of a known length, on a quiet machine and beside busy loops that want the same
 * processors.
 *
 *   make build/release/bench_team && build/release/bench_team [WORKERS]  */
#include "cpu/team.h"

#include <pthread.h>
#include <stdatomic.h>

enum { PHASES = 150, PASSES = 100, RUNS = 5, UNIT_NS = 1000 };

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

static void work(void *arg, uint32_t phase, uint32_t first, uint32_t end, uint32_t worker)
{
    (void)arg, (void)phase, (void)worker;
    uint64_t until = clock_ns() + (uint64_t)(end - first) * UNIT_NS;
    while (clock_ns() < until) {}
}

/* Nanoseconds a phase; the median of RUNS. */
static double measure(team *t, uint32_t units, team_fn *fn)
{
    static team_phase phases[PHASES];
    double ns[RUNS];
    for (int i = 0; i < PHASES; i++) phases[i] = (team_phase){units, 1};
    for (int r = 0; r < RUNS; r++) {
        uint64_t start = clock_ns();
        for (int p = 0; p < PASSES; p++) team_run(t, phases, PHASES, fn, NULL);
        ns[r] = (double)(clock_ns() - start) / PASSES / PHASES;
    }
    for (int i = 1; i < RUNS; i++)
        for (int j = i; j > 0 && ns[j] < ns[j - 1]; j--) {
            double swap = ns[j];
            ns[j] = ns[j - 1];
            ns[j - 1] = swap;
        }
    return ns[RUNS / 2];
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
    double ideal = 16.0 * UNIT_NS / (double)workers;
    printf("%u workers, ns a phase      16 empty units   16 units of %d ns (ideal %.0f)\n",
           (unsigned)workers, UNIT_NS, ideal);
    for (int busy = 0; busy < 2; busy++) {
        for (int i = 0; busy && i < 2; i++)
            if (pthread_create(&spinners[i], NULL, spin, &counters[i])) return 1;
        double empty = measure(t, 16, nothing), full = measure(t, 16, work);
        printf("  %-24s %14.0f %16.0f\n", when[busy], empty, full);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) pthread_join(spinners[i], NULL);
    team_close(&t);
    return 0;
}
