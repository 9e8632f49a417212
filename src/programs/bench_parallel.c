/* bench_parallel.c - sessions whose requests run at once. */
#include "programs/bench_parallel.h"

#include <time.h>

enum { PROMPT_TOKENS = 4, LOOK_NS = 5000000 };

static int start(cerium_session *session, uint32_t number, uint32_t n_tokens, cerium_error *err)
{
    static const cerium_sampling sampling = {.ignore_end = true, .step_tokens_max = 1};
    int32_t prompt[PROMPT_TOKENS];
    for (uint32_t i = 0; i < PROMPT_TOKENS; i++) prompt[i] = (int32_t)(3 + number + i);
    const cerium_request request = {.tokens = prompt, .n_tokens = PROMPT_TOKENS,
                                    .new_tokens_max = n_tokens, .sampling = &sampling};
    return cerium_session_start(session, &request, err);
}

/* Polls seldom: a thread that wakes for each token takes time from the compute threads. */
static int finish(cerium_session *session, cerium_error *err)
{
    static const struct timespec pause = {.tv_nsec = LOOK_NS};
    cerium_event event;
    for (;;) {
        cerium_session_poll(session, &event);
        if (event.kind == CERIUM_EVENT_DONE) break;
        if (event.kind == CERIUM_EVENT_NONE) nanosleep(&pause, NULL);
    }
    if (event.status) return error_set(err, event.status, "a parallel continuation failed");
    return CERIUM_OK;
}

static int run(cerium_session **sessions, uint32_t n_sessions, uint32_t n_tokens,
               double *tokens_per_s, cerium_error *err)
{
    uint64_t first_ns = UINT64_MAX, last_ns = 0, n = 0;
    for (uint32_t i = 0; i < n_sessions; i++)
        RETURN_IF(start(sessions[i], i, n_tokens, err));
    for (uint32_t i = 0; i < n_sessions; i++) {
        cerium_usage usage;
        RETURN_IF(finish(sessions[i], err));
        cerium_session_usage(sessions[i], &usage);
        if (usage.first_token_ns < first_ns) first_ns = usage.first_token_ns;
        if (usage.duration_ns > last_ns) last_ns = usage.duration_ns;
        n += usage.new_tokens - 1;
    }
    *tokens_per_s = last_ns > first_ns ? (double)n * 1e9 / (double)(last_ns - first_ns) : 0;
    return CERIUM_OK;
}

int bench_parallel(cerium_engine *engine, uint32_t n_sessions, uint32_t n_tokens,
                   double *tokens_per_s, cerium_error *err)
{
    static const cerium_session_config plain = {.no_speculation = true};
    cerium_session *sessions[BENCH_PARALLEL_MAX] = {0};
    int status = CERIUM_OK;
    CHECK(n_sessions <= BENCH_PARALLEL_MAX);
    for (uint32_t i = 0; i < n_sessions && !status; i++)
        status = cerium_session_open(&sessions[i], engine, &plain, err);
    if (!status) status = run(sessions, n_sessions, n_tokens, tokens_per_s, err);
    for (uint32_t i = 0; i < n_sessions; i++) cerium_session_close(&sessions[i]);
    return status;
}
