/* requests.c - the scheduler's cost and gain: one stream against a loop of steps, parallel streams,
 * and a cached prompt against a computed one.
 *
 *   make build/release/bench_requests && build/release/bench_requests MODEL.gguf [RUNS] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "cerium.h"

enum { STREAMS_MAX = 16, NEW = 96, PROMPT = 512, RUNS_MAX = 64 };

static cerium_engine *engine;
static cerium_engine_info info;
static int32_t prompt[PROMPT];
static thread_bell bell; /* rung by notes */

static double now(void) { return (double)clock_ns() / 1e9; }

static void fail(const cerium_error *err)
{
    fprintf(stderr, "bench_requests: %s\n", err->message);
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

static cerium_session *open_session(uint64_t tenant)
{
    cerium_error err;
    cerium_session *session;
    cerium_session_config config = {.tenant = tenant};
    if (cerium_session_open(&session, engine, &config, &err)) fail(&err);
    return session;
}

static void note(void *user)
{
    (void)user;
    thread_bell_ring(&bell);
}

static void start(cerium_session *session, size_t n_tokens, uint32_t n_new)
{
    static const cerium_sampling sampling = {.ignore_end = true, .step_tokens_max = 1};
    cerium_error err;
    cerium_request request = {.tokens = prompt, .n_tokens = n_tokens, .new_tokens_max = n_new,
                              .sampling = &sampling, .notify = note};
    if (cerium_session_start(session, &request, &err)) fail(&err);
}

/* Seconds until all are done, asleep between notifications. */
static double finish(cerium_session **sessions, int n)
{
    double begin = now();
    bool done[STREAMS_MAX] = {false};
    for (int n_done = 0; n_done < n;) {
        uint32_t seen = atomic_load(&bell.n_rings);
        for (int i = 0; i < n; i++) {
            cerium_event event;
            if (done[i]) continue;
            do cerium_session_poll(sessions[i], &event);
            while (event.kind == CERIUM_EVENT_STEP);
            done[i] = event.kind == CERIUM_EVENT_DONE;
            n_done += done[i];
        }
        if (n_done < n) thread_bell_wait(&bell, seen);
    }
    return now() - begin;
}

/* Tokens per second of NEW steps after a prompt of one token. */
static double steps(cerium_session *session)
{
    static const cerium_sampling sampling = {.ignore_end = true, .step_tokens_max = 1};
    cerium_error err;
    cerium_step step;
    double begin = now();
    if (cerium_session_sync(session, prompt, 1, NULL, &err)) fail(&err);
    for (int i = 0; i < NEW; i++)
        if (cerium_session_step(session, &sampling, &step, &err)) fail(&err);
    return NEW / (now() - begin);
}

static double streams(cerium_session **sessions, int n)
{
    double begin = now();
    for (int i = 0; i < n; i++) start(sessions[i], 1, NEW);
    finish(sessions, n);
    return n * NEW / (now() - begin);
}

static void measure_streams(int runs)
{
    cerium_session *sessions[STREAMS_MAX];
    double by_hand[RUNS_MAX], started[RUNS_MAX], one = 0;
    for (int i = 0; i < STREAMS_MAX; i++) sessions[i] = open_session(1);
    steps(sessions[0]);
    streams(sessions, 1);
    for (int run = 0; run < runs; run++) { /* in turn, so that drift affects both */
        by_hand[run] = steps(sessions[0]);
        started[run] = streams(sessions, 1);
    }
    one = median(started, runs);
    printf("steps            %9.1f tokens/s\n", median(by_hand, runs));
    printf("one request      %9.1f tokens/s, %.1f %% of steps\n", one,
           100 * one / median(by_hand, runs));
    for (int n = 2; n <= STREAMS_MAX; n *= 2) {
        for (int run = 0; run < runs; run++) started[run] = streams(sessions, n);
        double all = median(started, runs);
        printf("%2d requests      %9.1f tokens/s in all, %.2f times one\n", n, all, all / one);
    }
    for (int i = 0; i < STREAMS_MAX; i++) cerium_session_close(&sessions[i]);
}

static double first_token(uint64_t tenant, size_t n)
{
    cerium_session *session = open_session(tenant);
    cerium_usage usage;
    start(session, n, 1);
    finish(&session, 1);
    cerium_session_usage(session, &usage);
    cerium_session_close(&session);
    return (double)usage.first_token_ns / 1e6;
}

static void measure_prefix(int runs)
{
    size_t n = PROMPT < info.context_tokens_max ? PROMPT : info.context_tokens_max - 1;
    double cold[RUNS_MAX], found[RUNS_MAX], opened[RUNS_MAX];
    for (int run = 0; run < runs; run++) {
        uint64_t tenant = 100 + (uint64_t)run;
        cold[run] = first_token(tenant, n);
        found[run] = first_token(tenant, n);
        double begin = now();
        cerium_session *session = open_session(tenant);
        opened[run] = (now() - begin) * 1e6;
        cerium_session_close(&session);
    }
    printf("first token of %zu: computed %.2f ms, found %.2f ms; a session opens in %.1f us\n", n,
           median(cold, runs), median(found, runs), median(opened, runs));
}

int main(int argc, char **argv)
{
    cerium_error err;
    cerium_engine_config config;
    int runs = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 5;
    if (argc < 2 || runs < 1 || runs > RUNS_MAX) {
        fprintf(stderr, "usage: bench_requests MODEL.gguf [RUNS]\n");
        return 2;
    }
    cerium_engine_config_defaults(&config);
    config.model_path = argv[1];
    config.sessions_max = STREAMS_MAX + 1;
    config.context_tokens_max = 1024;
    if (cerium_engine_open(&engine, &config, &err)) fail(&err);
    cerium_engine_describe(engine, &info);
    for (uint32_t i = 0; i < PROMPT; i++)
        prompt[i] = (int32_t)(i * 2654435761u % info.n_vocab);
    measure_streams(runs);
    measure_prefix(runs);
    cerium_engine_close(&engine);
    return 0;
}
