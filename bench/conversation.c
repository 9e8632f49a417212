/* conversation.c - nothing is computed twice: twenty turns of a growing conversation, an interrupt,
 * a redirect, a fork and a restart; the tokens that each reuses and computes, and the time to its
 * first token.  Then the same prefix warm and after a restart beside a prompt without one, and how
 * long a cancelled request takes to fall silent.
 *
 *   make build/release/bench_conversation
 *   build/release/bench_conversation MODEL.gguf [--json] */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "cerium.h"

enum {
    TURNS = 20, BEGIN = 512, SAID = 80, ANSWERED = 64, CUT_AFTER = 10, NEW = 20, PREFIX = 4000,
    CONTEXT = 4096, RUNS = 9, RESTARTS = 5, CANCELS = 100, CANCEL_PROMPT = 256,
};

static cerium_engine *engine;
static cerium_engine_info info;
static thread_bell bell;
static const char *model;
static char disk[64];
static bool as_json, is_first = true;
static int32_t timeline[CONTEXT], other[CONTEXT];
static size_t n_timeline;

static void fail(const cerium_error *err)
{
    fprintf(stderr, "bench_conversation: %s\n", err->message);
    exit(1);
}

static void show_notice(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "bench_conversation: %s\n", line);
}

static void open_engine(void)
{
    cerium_error err;
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = model;
    config.context_tokens_max = CONTEXT;
    config.sessions_max = 4;
    config.kv_disk = disk;
    config.notice = show_notice;
    if (cerium_engine_open(&engine, &config, &err)) fail(&err);
    cerium_engine_describe(engine, &info);
}

static cerium_session *open_session(uint64_t tenant)
{
    cerium_error err;
    cerium_session *session;
    cerium_session_config config = {.tenant = tenant};
    if (cerium_session_open(&session, engine, &config, &err)) fail(&err);
    return session;
}

static uint32_t random_state = 1;

static void fill(int32_t *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        random_state = random_state * 1664525u + 1013904223u;
        tokens[i] = (int32_t)((random_state >> 8) % (info.n_vocab - 1));
    }
}

static void note(void *user)
{
    (void)user;
    thread_bell_ring(&bell);
}

static void start(cerium_session *session, const int32_t *tokens, size_t n, uint32_t n_new)
{
    static const cerium_sampling sampling = {.ignore_end = true};
    cerium_error err;
    cerium_request request = {.tokens = tokens, .n_tokens = n, .new_tokens_max = n_new,
                              .sampling = &sampling, .class_ = CERIUM_CLASS_TURN, .notify = note};
    if (cerium_session_start(session, &request, &err)) fail(&err);
}

/* To the end, or until it said as many tokens and is cancelled. */
static cerium_usage finish(cerium_session *session, uint32_t cut_after)
{
    cerium_event event = {0};
    cerium_usage usage;
    uint32_t n = 0;
    while (event.kind != CERIUM_EVENT_DONE) {
        uint32_t seen = atomic_load(&bell.n_rings);
        cerium_session_poll(session, &event);
        if (event.kind == CERIUM_EVENT_NONE) thread_bell_wait(&bell, seen);
        if (event.kind == CERIUM_EVENT_STEP && ++n == cut_after) cerium_session_cancel(session);
    }
    cerium_session_usage(session, &usage);
    return usage;
}

static cerium_usage ask(cerium_session *session, const int32_t *tokens, size_t n, uint32_t n_new)
{
    start(session, tokens, n, n_new);
    return finish(session, 0);
}

/* ---- 1: the conversation ---- */

static void show(const char *what, const cerium_usage *u)
{
    if (as_json)
        printf("%s{\"what\": \"%s\", \"prompt\": %u, \"reused\": %u, \"computed\": %u, "
               "\"first_token_ms\": %.2f}", is_first ? "" : ",\n    ", what, u->prompt_tokens,
               u->reused_tokens, u->computed_tokens, (double)u->first_token_ns / 1e6);
    else
        printf("%-12s %6u %8u %9u %12.1f\n", what, u->prompt_tokens, u->reused_tokens,
               u->computed_tokens, (double)u->first_token_ns / 1e6);
    is_first = false;
    fflush(stdout);
}

/* What the session holds now, and what the user says next. */
static void go_on(cerium_session *session, size_t n_said)
{
    size_t n;
    const int32_t *tokens = cerium_session_tokens(session, &n);
    memcpy(timeline, tokens, n * sizeof *tokens);
    fill(timeline + n, n_said);
    n_timeline = n + n_said;
}

static void converse(void)
{
    cerium_session *session = open_session(1);
    cerium_usage usage;
    char what[32];
    fill(timeline, BEGIN);
    n_timeline = BEGIN;
    if (!as_json)
        printf("%-12s %6s %8s %9s %12s\n", "", "prompt", "reused", "computed", "first, ms");
    for (int turn = 1; turn <= TURNS; turn++) {
        usage = ask(session, timeline, n_timeline, ANSWERED);
        snprintf(what, sizeof what, "turn %d", turn);
        show(what, &usage);
        go_on(session, SAID);
    }
    start(session, timeline, n_timeline, ANSWERED);
    usage = finish(session, CUT_AFTER);
    show("interrupted", &usage);
    go_on(session, NEW);
    usage = ask(session, timeline, n_timeline, ANSWERED);
    show("redirected", &usage);
    go_on(session, NEW);
    cerium_session *fork = open_session(1);
    size_t n = n_timeline / 2;
    memcpy(other, timeline, n * sizeof *other);
    fill(other + n, NEW);
    usage = ask(fork, other, n + NEW, ANSWERED);
    show("fork", &usage);
    cerium_session_close(&fork);
    cerium_session_close(&session);
    cerium_engine_close(&engine);
    open_engine();
    session = open_session(1);
    usage = ask(session, timeline, n_timeline, ANSWERED);
    show("restarted", &usage);
    cerium_session_close(&session);
}

/* ---- 2: a prefix beside none ---- */

static double least(double a, double b) { return a < b ? a : b; }

/* A prompt of the prefix and tokens that nobody asked for yet. */
static double after_prefix(cerium_session *session)
{
    fill(timeline + PREFIX, NEW);
    cerium_usage u = ask(session, timeline, PREFIX + NEW, 1);
    return (double)u.first_token_ns / 1e6;
}

static void compare_prefix(void)
{
    double alone = 1e9, warm = 1e9, restarted = 1e9;
    fill(timeline, PREFIX);
    cerium_session *session = open_session(2), *plain = open_session(3);
    ask(session, timeline, PREFIX, 0);
    for (int i = 0; i < RUNS; i++) {
        fill(other, NEW);
        cerium_usage u = ask(plain, other, NEW, 1);
        alone = least(alone, (double)u.first_token_ns / 1e6);
        warm = least(warm, after_prefix(session));
    }
    cerium_session_close(&plain);
    cerium_session_close(&session);
    for (int i = 0; i < RESTARTS; i++) {
        cerium_engine_close(&engine);
        open_engine();
        session = open_session(2);
        restarted = least(restarted, after_prefix(session));
        cerium_session_close(&session);
    }
    if (as_json)
        printf("],\n  \"alone_ms\": %.2f, \"warm_ms\": %.2f, \"restarted_ms\": %.2f", alone, warm,
               restarted);
    else
        printf("\n%d tokens alone %.1f ms; after a prefix of %d tokens %.1f ms (%.2fx), after a "
               "restart %.1f ms (%.2fx)\n", NEW, alone, PREFIX, warm, warm / alone, restarted,
               restarted / alone);
}

/* ---- 3: from cancel to silence ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void measure_cancel(void)
{
    static double ms[CANCELS];
    cerium_engine_stats before, after;
    fill(other, CANCEL_PROMPT);
    cerium_session *session = open_session(1000);
    cerium_engine_measure(engine, &before);
    cerium_usage u = ask(session, other, CANCEL_PROMPT, 1);
    cerium_engine_measure(engine, &after);
    double prompt_us = (double)u.prompt_ns / 1e3;
    double layer_ms = (double)(after.busy_ns - before.busy_ns) / 1e6 /
                      (double)(after.passes - before.passes) / info.n_layers;
    cerium_session_close(&session);
    for (int i = 0; i < CANCELS; i++) {
        session = open_session(2000 + (uint64_t)i);
        start(session, other, CANCEL_PROMPT, 8);
        usleep((useconds_t)(prompt_us * (i + 1) / (CANCELS + 1)));
        uint64_t from = clock_ns();
        cerium_session_cancel(session);
        finish(session, 0);
        ms[i] = (double)(clock_ns() - from) / 1e6;
        cerium_session_close(&session);
    }
    qsort(ms, CANCELS, sizeof *ms, by_value);
    double p50 = ms[CANCELS / 2], p99 = ms[CANCELS * 99 / 100];
    if (as_json)
        printf(",\n  \"layer_ms\": %.3f, \"cancel_p50_ms\": %.3f, \"cancel_p99_ms\": %.3f\n}\n",
               layer_ms, p50, p99);
    else
        printf("a layer of a prompt's pass %.2f ms; from cancel to silence %.2f ms, p99 %.2f ms\n",
               layer_ms, p50, p99);
}

static void remove_folder(const char *path, int depth)
{
    char name[512];
    DIR *folder = opendir(path);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        if (e->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%.200s/%.250s", path, e->d_name);
        if (depth && e->d_type == DT_DIR) remove_folder(name, depth - 1);
        else unlink(name);
    }
    if (folder) closedir(folder);
    rmdir(path);
}

int main(int argc, char **argv)
{
    if (argc < 2 || (argc == 3 && strcmp(argv[2], "--json")) || argc > 3) {
        fprintf(stderr, "usage: bench_conversation MODEL.gguf [--json]\n");
        return 2;
    }
    const char *parent = getenv("TMPDIR");
    snprintf(disk, sizeof disk, "%.40s/cerium-bench-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(disk)) return perror(disk), 1;
    model = argv[1];
    as_json = argc == 3;
    open_engine();
    if (as_json)
        printf("{\n  \"model\": \"%s\", \"cpu\": \"%s\", \"threads\": %u, \"prefix\": %d, "
               "\"new\": %d,\n  \"turns\": [", info.name, info.cpu, info.threads, PREFIX, NEW);
    else
        printf("%s, %s, %u threads\n\n", info.name, info.cpu, info.threads);
    converse();
    compare_prefix();
    measure_cancel();
    cerium_engine_close(&engine);
    remove_folder(disk, 1);
    return 0;
}
