/* conversation.c - prefix reuse: twenty turns of a growing conversation, an interrupt, a redirect,
 * a fork and a restart; the tokens that each reuses and computes, and the time to its first token.
 * Then the same prefix warm and after a restart, compared with a prompt without one, how long a
 * canceled request takes to stop, and many answers to one prompt.
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
    CONTEXT = 4096, RUNS = 15, LATER_US = 100000, CANCELS = 500, CANCEL_PROMPT = 256,
    CANCEL_ANSWER = 512, ANSWERS_MAX = 64, ANSWER_TRIES = 3,
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
    config.sessions_max = ANSWERS_MAX + 1;
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

/* To the end, or until it has this many tokens and is canceled. */
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

/* The session's text now, and the user's next message. */
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

/* ---- 2: a prefix compared with none ---- */

static double least(double a, double b) { return a < b ? a : b; }

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The part (0 to 1) of values [n] that are less. */
static double quantile(double *values, uint32_t n, double part)
{
    qsort(values, n, sizeof *values, by_value);
    return n ? values[(uint32_t)(part * n)] : 0;
}

static double process_ms(void);

/* Time of a first token: by the clock, and of the processor. */
typedef struct {
    double ms[RUNS], used_ms[RUNS];
} start_times;

static void time_start(start_times *t, int i, cerium_session *session, const int32_t *tokens,
                       size_t n)
{
    t->used_ms[i] = -process_ms();
    t->ms[i] = (double)ask(session, tokens, n, 1).first_token_ns / 1e6;
    t->used_ms[i] += process_ms();
}

/* A prompt of the prefix and new tokens. */
static void time_after_prefix(start_times *t, int i, cerium_session *session)
{
    fill(timeline + PREFIX, NEW);
    time_start(t, i, session, timeline, PREFIX + NEW);
}

/* The same, some time after a restart. */
static void time_after_restart(start_times *t, int i, useconds_t later_us)
{
    cerium_engine_close(&engine);
    open_engine();
    usleep(later_us);
    cerium_session *session = open_session(2);
    time_after_prefix(t, i, session);
    cerium_session_close(&session);
}

typedef enum { ALONE = 0, WARM = 1, AT_ONCE = 2, LATER = 3, STARTS = 4 } start_kind;

/* Minimum and median, and their ratios to the time without a prefix. */
static void show_starts(start_times starts[STARTS])
{
    static const char *const names[STARTS] = {"alone", "warm", "restarted", "restarted_later"};
    static const char *const titles[STARTS] = {
        "without a prefix", "the prefix in memory", "at once after a restart",
        "0.1 s after a restart"};
    double first[3];
    printf(as_json ? "]" : "\nfirst token of %d tokens after a prefix of %d, %d times each, ms\n\n"
                           "| | least | | median | | processor, median | |\n"
                           "|---|---|---|---|---|---|---|\n", NEW, PREFIX, RUNS);
    for (int i = 0; i < STARTS; i++) {
        double ms[3] = {quantile(starts[i].ms, RUNS, 0), quantile(starts[i].ms, RUNS, .5),
                        quantile(starts[i].used_ms, RUNS, .5)};
        if (i == ALONE) memcpy(first, ms, sizeof first);
        if (as_json)
            printf(",\n  \"%s_ms\": %.2f, \"%s_median_ms\": %.2f, \"%s_cpu_median_ms\": %.2f",
                   names[i], ms[0], names[i], ms[1], names[i], ms[2]);
        else
            printf("| %s | %.2f | %.1fx | %.2f | %.1fx | %.2f | %.1fx |\n", titles[i], ms[0],
                   ms[0] / first[0], ms[1], ms[1] / first[1], ms[2], ms[2] / first[2]);
    }
}

static void compare_prefix(void)
{
    static start_times starts[STARTS];
    fill(timeline, PREFIX);
    cerium_session *session = open_session(2), *plain = open_session(3);
    ask(session, timeline, PREFIX, 0);
    for (int i = 0; i < RUNS; i++) {
        fill(other, NEW);
        time_start(&starts[ALONE], i, plain, other, NEW);
        time_after_prefix(&starts[WARM], i, session);
    }
    cerium_session_close(&plain);
    cerium_session_close(&session);
    for (int i = 0; i < RUNS; i++) {
        time_after_restart(&starts[AT_ONCE], i, 0);
        time_after_restart(&starts[LATER], i, LATER_US);
    }
    show_starts(starts);
}

/* ---- 3: from cancel to stop ---- */

static const double WAITED_MS_MAX = 0.5; /* of all threads, in a cancel that was not disturbed */

/* The state of a request when it is canceled. */
typedef enum { IN_PROMPT = 0, IN_ANSWER = 1, IN_DRAFTS = 2, PLACES = 3 } cancel_place;
static const char *const places[PLACES] = {"prompt", "answer", "drafts"};

static double process_ms(void) { return (double)clock_process_ns() / 1e6; }

/* So far: the processor time of our threads except the calling one, and the time that all waited
 * for a core that others used. */
typedef struct {
    double used_ms, waited_ms;
} thread_times;

/* Processor time of a thread to this moment: the process's clock lags by the time of other threads
 * since the system's last update, up to 4 ms each. */
static double thread_used_ms(pid_t thread)
{
    const clockid_t clock = (clockid_t)(~(unsigned)thread << 3 | 6); /* as Linux names them */
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static thread_times read_threads(void)
{
    char path[300];
    thread_times sum = {0};
    unsigned long long ran, waited;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        pid_t thread = (pid_t)strtol(e->d_name, NULL, 10);
        if (thread <= 0) continue;
        if (thread != gettid()) sum.used_ms += thread_used_ms(thread);
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", e->d_name);
        FILE *f = fopen(path, "r");
        if (f && fscanf(f, "%llu %llu", &ran, &waited) == 2) sum.waited_ms += (double)waited / 1e6;
        if (f) fclose(f);
    }
    if (tasks) closedir(tasks);
    return sum;
}

/* Time of a prompt's pass in one layer, by the clock and of all threads' processors, and of the
 * prompt: the least of some. */
static void measure_layer(double *layer_ms, double *layer_used_ms, double *prompt_us)
{
    cerium_engine_stats before, after;
    *layer_ms = *layer_used_ms = *prompt_us = 1e9;
    fill(other, CANCEL_PROMPT);
    for (uint64_t i = 0; i < RUNS; i++) {
        cerium_session *session = open_session(1000 + i);
        cerium_engine_measure(engine, &before);
        double used_ms = -process_ms();
        cerium_usage u = ask(session, other, CANCEL_PROMPT, 1);
        used_ms += process_ms();
        cerium_engine_measure(engine, &after);
        cerium_session_close(&session);
        double n = (double)(after.passes - before.passes) * info.n_layers;
        *prompt_us = least(*prompt_us, (double)u.prompt_ns / 1e3);
        *layer_ms = least(*layer_ms, (double)(after.busy_ns - before.busy_ns) / 1e6 / n);
        *layer_used_ms = least(*layer_used_ms, used_ms / n);
    }
}

/* Time of one cancel: by the clock, of the processor, and waiting for a core. */
typedef struct {
    double ms, used_ms, waited_ms;
} cancel_time;

/* One more request, canceled at a random moment. */
static cancel_time cancel_one(cancel_place place, uint64_t tenant, double prompt_us)
{
    static const cerium_sampling sampling = {.ignore_end = true};
    cerium_error err;
    cerium_event event = {0};
    cerium_session *session = open_session(tenant);
    random_state = random_state * 1664525u + 1013904223u;
    double at = (random_state >> 8) / 16777216.0;
    cerium_request request = {.tokens = other,
                              .n_tokens = place == IN_PROMPT ? CANCEL_PROMPT : NEW,
                              .new_tokens_max = CANCEL_ANSWER,
                              .sampling = &sampling,
                              .class_ = CERIUM_CLASS_TURN,
                              .notify = note};
    if (place == IN_DRAFTS) { /* right ones */
        request.script = request.prediction = other;
        request.n_script = request.n_prediction = CANCEL_ANSWER;
    }
    if (cerium_session_start(session, &request, &err)) fail(&err);
    while (place != IN_PROMPT && event.kind != CERIUM_EVENT_STEP) {
        uint32_t seen = atomic_load(&bell.n_rings);
        cerium_session_poll(session, &event);
        if (event.kind == CERIUM_EVENT_NONE) thread_bell_wait(&bell, seen);
    }
    usleep((useconds_t)(prompt_us * at / (place == IN_PROMPT ? 1 : 4)));
    thread_times before = read_threads();
    uint64_t from = clock_ns();
    cerium_session_cancel(session);
    finish(session, 0);
    cancel_time t = {.ms = (double)(clock_ns() - from) / 1e6};
    thread_times after = read_threads();
    t.used_ms = after.used_ms - before.used_ms;
    t.waited_ms = after.waited_ms - before.waited_ms;
    cerium_session_close(&session);
    return t;
}

/* Three distributions: all by the clock, those in which no one kept a core from us, and processor
 * time.  The last two depend on us; the first on the machine, too. */
static void show_cancels(cancel_place place, const cancel_time *times)
{
    static double ms[CANCELS], own[CANCELS], used[CANCELS];
    uint32_t n_own = 0;
    for (uint32_t i = 0; i < CANCELS; i++) {
        ms[i] = times[i].ms;
        used[i] = times[i].used_ms;
        if (times[i].waited_ms < WAITED_MS_MAX) own[n_own++] = times[i].ms;
    }
    printf(as_json ? "%s\n    {\"in\": \"%s\", \"p50_ms\": %.3f, \"p99_ms\": %.3f, "
                     "\"undisturbed\": %u, \"undisturbed_p50_ms\": %.3f, "
                     "\"undisturbed_p99_ms\": %.3f, \"cpu_p50_ms\": %.3f, "
                     "\"cpu_p99_ms\": %.3f}"
                   : "%s| %s | %.2f | %.2f | %u | %.2f | %.2f | %.2f | %.2f |\n",
           as_json && place ? "," : "", places[place], quantile(ms, CANCELS, .5),
           quantile(ms, CANCELS, .99), n_own, quantile(own, n_own, .5), quantile(own, n_own, .99),
           quantile(used, CANCELS, .5), quantile(used, CANCELS, .99));
}

static void measure_cancel(void)
{
    static cancel_time times[PLACES][CANCELS];
    double prompt_us, layer_ms, layer_used_ms;
    measure_layer(&layer_ms, &layer_used_ms, &prompt_us);
    if (as_json)
        printf(",\n  \"layer_ms\": %.3f, \"layer_cpu_ms\": %.3f, \"cancels\": [", layer_ms,
               layer_used_ms);
    else
        printf("\na layer of a prompt's pass %.2f ms (processor time of all threads: %.2f), so a "
               "cancel may take %.2f (%.2f), p99;\nms from cancel to silence, %d times each\n\n"
               "| cancelled in | p50 | p99 | undisturbed | p50 | p99 | processor p50 | p99 |\n"
               "|---|---|---|---|---|---|---|---|\n", layer_ms, layer_used_ms, layer_ms + 1,
               layer_used_ms + info.threads, CANCELS);
    for (uint32_t i = 0; i < CANCELS * PLACES; i++)
        times[i % PLACES][i / PLACES] =
            cancel_one((cancel_place)(i % PLACES), 2000 + i, prompt_us);
    for (int place = 0; place < PLACES; place++) show_cancels((cancel_place)place, times[place]);
    if (as_json) printf("]");
}

/* ---- 4: many answers to one prompt ---- */

/* Tokens per second of n answers, the best of some tries. */
static double measure_answers(uint32_t n)
{
    cerium_session *sessions[ANSWERS_MAX];
    double best = 0;
    for (int try = 0; try < ANSWER_TRIES; try++) {
        random_state++;
        fill(other, CANCEL_PROMPT);
        for (uint32_t i = 0; i < n; i++) sessions[i] = open_session(5000);
        uint64_t begin = clock_ns();
        for (uint32_t i = 0; i < n; i++) {
            cerium_error err;
            const cerium_sampling sampling = {.ignore_end = true, .temperature = 1, .seed = i,
                                              .logprobs = true};
            cerium_request request = {.tokens = other, .n_tokens = CANCEL_PROMPT,
                                      .new_tokens_max = ANSWERED, .sampling = &sampling,
                                      .class_ = CERIUM_CLASS_TURN, .notify = note};
            if (cerium_session_start(sessions[i], &request, &err)) fail(&err);
        }
        uint64_t prompt_ns = finish(sessions[0], 0).first_token_ns;
        for (uint32_t i = 1; i < n; i++) finish(sessions[i], 0);
        double seconds = (double)(clock_ns() - begin - prompt_ns) / 1e9;
        if (n * (ANSWERED - 1) / seconds > best) best = n * (ANSWERED - 1) / seconds;
        for (uint32_t i = 0; i < n; i++) cerium_session_close(&sessions[i]);
    }
    return best;
}

static void compare_answers(void)
{
    double one = measure_answers(1), some = measure_answers(16), most = measure_answers(64);
    if (as_json)
        printf(",\n  \"answers_per_second\": {\"1\": %.1f, \"16\": %.1f, \"64\": %.1f}\n}\n", one,
               some, most);
    else
        printf("answers to one prompt: %.0f tokens/s alone, 16 of them %.0f (%.1fx), 64 %.0f "
               "(%.1fx)\n", one, some, some / one, most, most / one);
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
    compare_answers();
    cerium_engine_close(&engine);
    remove_folder(disk, 1);
    return 0;
}
