/* token_latency.c - inter-token latency, by steps and by a request: minimum, median and 99th
 * percentile, scheduling events during the run, and the share of the speed that is left beside busy
 * loops on the same processors.
 *
 *   make build/release/bench_token_latency
 *   build/release/bench_token_latency MODEL.gguf [THREADS [LOOPS [ROUNDS]]]
 *
 * Windows of a tenth of a second take turns, so that drift in the machine's speed affects all of
 * them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread.h"
#include "cerium.h"

enum { GAPS_MAX = 1 << 20, LOOPS_MAX = 64, CONTEXT = 250, WARM = 4, TOKENS_MIN = 24 };
static const double WINDOW_S = 0.1;

typedef struct {
    const char *name;
    double *gaps;        /* [GAPS_MAX] seconds */
    size_t n;
    double seconds, cpu_seconds;
    long faults, switches, preempted;
} series;

static cerium_session *session;
static const cerium_sampling sampling = {.ignore_end = true, .step_tokens_max = 1};
static pid_t loops[LOOPS_MAX];
static int n_loops = 2;
static thread_bell bell; /* rung by notifications */

static double now(void) { return (double)clock_ns() / 1e9; }

static void fail(const char *message)
{
    fprintf(stderr, "bench_token_latency: %s\n", message);
    exit(1);
}

/* Processes, so that their time is not counted as ours. */
static void start_loops(void)
{
    for (int i = 0; i < n_loops; i++) {
        loops[i] = fork();
        if (loops[i] < 0) fail("no process");
        if (loops[i] > 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        raise(SIGSTOP);
        for (;;) {}
    }
}

static void signal_loops(int signal)
{
    for (int i = 0; i < n_loops; i++) kill(loops[i], signal);
}

static void keep(series *s, double gap)
{
    if (s->n < GAPS_MAX) s->gaps[s->n++] = gap;
    s->seconds += gap;
}

static void count(series *s, int sign)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    s->cpu_seconds += sign * ((double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                              (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6);
    s->faults += sign * (use.ru_minflt + use.ru_majflt);
    s->switches += sign * use.ru_nvcsw;
    s->preempted += sign * use.ru_nivcsw;
}

/* Returns how many. */
static uint32_t steps(series *s)
{
    static const int32_t first = 1;
    cerium_error err;
    cerium_step step;
    double end = now() + WINDOW_S, last = 0;
    if (cerium_session_sync(session, &first, 1, NULL, &err)) fail(err.message);
    int i = 0;
    for (; i < CONTEXT - 2 && (i < TOKENS_MIN || last < end); i++) {
        if (cerium_session_step(session, &sampling, &step, &err)) fail(err.message);
        double at = now();
        if (i == WARM) count(s, -1);
        if (i > WARM) keep(s, at - last);
        last = at;
    }
    count(s, 1);
    return (uint32_t)i;
}

static void note(void *unused)
{
    (void)unused;
    thread_bell_ring(&bell);
}

/* n tokens; the gaps are those at the scheduler, as the reader may find several events at once. */
static void request(series *s, uint32_t n)
{
    static const int32_t first = 1;
    cerium_error err;
    cerium_event event = {0};
    cerium_request wanted = {.tokens = &first, .n_tokens = 1, .new_tokens_max = n,
                             .sampling = &sampling, .notify = note};
    int i = 0;
    if (cerium_session_start(session, &wanted, &err)) fail(err.message);
    while (event.kind != CERIUM_EVENT_DONE) {
        uint32_t seen = atomic_load(&bell.n_rings);
        cerium_session_poll(session, &event);
        if (event.kind == CERIUM_EVENT_STEP) {
            if (i == WARM) count(s, -1);
            if (i++ > WARM) keep(s, (double)event.step.duration_ns / 1e9);
        }
        if (event.kind == CERIUM_EVENT_NONE) thread_bell_wait(&bell, seen);
    }
    count(s, 1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void put(series *s, const series *alone)
{
    double n = (double)s->n, speed = n / s->seconds, of = (double)alone->n / alone->seconds;
    qsort(s->gaps, s->n, sizeof *s->gaps, by_value);
    printf("%-20s %9.1f %9.1f %9.1f %10.1f", s->name, 1e6 * s->gaps[0], 1e6 * s->gaps[s->n / 2],
           1e6 * s->gaps[s->n * 99 / 100], speed);
    printf(" %8.1f  %6.3f  %6.3f  %6.3f  %6.1f\n", 1e6 * s->cpu_seconds / n,
           (double)s->faults / n, (double)s->switches / n, (double)s->preempted / n,
           100 * speed / of);
}

int main(int argc, char **argv)
{
    cerium_error err;
    cerium_engine *engine;
    cerium_engine_config config;
    int rounds = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 10;
    series all[] = {{.name = "steps"}, {.name = "request"}, {.name = "steps, beside"},
                    {.name = "request, beside"}};
    if (argc > 3) n_loops = (int)strtol(argv[3], NULL, 10);
    if (argc < 2 || n_loops < 0 || n_loops > LOOPS_MAX || rounds < 1) {
        fprintf(stderr, "usage: bench_token_latency MODEL.gguf [THREADS [LOOPS [ROUNDS]]]\n");
        return 2;
    }
    for (int i = 0; i < 4; i++)
        if (!(all[i].gaps = memory_zalloc(GAPS_MAX, sizeof(double)))) fail("no memory");
    start_loops();
    cerium_engine_config_defaults(&config);
    config.model_path = argv[1];
    config.threads = argc > 2 ? (uint32_t)strtol(argv[2], NULL, 10) : 0;
    config.context_tokens_max = CONTEXT;
    if (cerium_engine_open(&engine, &config, &err)) fail(err.message);
    if (cerium_session_open(&session, engine, NULL, &err)) fail(err.message);
    for (int round = 0; round < rounds; round++)
        for (int busy = 0; busy < (n_loops ? 2 : 1); busy++) {
            signal_loops(busy ? SIGCONT : SIGSTOP);
            request(&all[2 * busy + 1], steps(&all[2 * busy]));
        }
    printf("gap, us                  least    median      99 %%   tokens/s  cpu, us  "
           "faults  sleeps  preempted  %% kept\n");
    for (int i = 0; i < (n_loops ? 4 : 2); i++) put(&all[i], &all[i % 2]);
    signal_loops(SIGKILL);
    cerium_session_close(&session);
    cerium_engine_close(&engine);
    return 0;
}
