/* requests.h - for tests of requests: a job is a request and its results, from a started request
 * or, to compare, from a session that runs alone. */
#ifndef TESTS_GOLDEN_REQUESTS_H
#define TESTS_GOLDEN_REQUESTS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "cerium.h"

#include "../unit/unit.h"



enum {
    PROMPT_MAX = 1200,
    NEW_MAX = 160,
    TEXT_MAX = 1 << 14,
    JOBS_MAX = 64,
    CONTEXT_MAX = 1024,
};

static uint32_t n_threads = 2;
static cerium_engine *engine;
static cerium_engine_info info;
static uint64_t fresh_tenant = 1000;

/* The request and its results. */
typedef struct {
    cerium_session *session;
    int32_t prompt[PROMPT_MAX];
    uint32_t n_prompt, n_new;
    cerium_sampling sampling;
    cerium_class class_;
    uint32_t top;
    const int32_t *script, *prediction;
    size_t n_script, n_prediction;
    bool notes_prompt;

    int32_t tokens[NEW_MAX];
    float logprobs[NEW_MAX];
    uint32_t n_tokens;
    char text[TEXT_MAX];
    size_t text_len;
    cerium_stop stop;
    int status;
    bool done;
    uint32_t n_notified;
    _Atomic uint32_t notified; /* from here on: see run_alone() */
    _Atomic uint32_t nth_noted; /* whose first event came earlier has a lower one */
} job;

static _Atomic uint32_t n_noted;
static uint32_t random_state;

static inline uint32_t next_random(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

/* Passed to the next engine: observes its passes. */
static void (*observe_passes)(void *user, const cerium_observation *seen);

static inline void open_engine(const char *model, uint32_t sessions, uint32_t batch,
                               uint64_t kv_bytes)
{
    cerium_engine_config config;
    cerium_error err;
    cerium_engine_config_defaults(&config);
    config.model_path = model;
    config.threads = n_threads;
    config.sessions_max = sessions;
    config.batch_tokens_max = batch;
    config.kv_bytes_max = kv_bytes;
    config.context_tokens_max = CONTEXT_MAX;
    config.observe = observe_passes;
    config.head = "full"; /* logits are compared, all of them */
    config.speculation = "always"; /* at any cost here: the same on every machine */
    TEST_CHECK_THAT(cerium_engine_open(&engine, &config, &err) == 0, "%s", err.message);
    cerium_engine_describe(engine, &info);
}

static inline cerium_session *open_session(uint64_t tenant)
{
    cerium_session *session = NULL;
    cerium_error err;
    cerium_session_config config = {.tenant = tenant};
    TEST_CHECK_THAT(cerium_session_open(&session, engine, &config, &err) == 0, "%s", err.message);
    return session;
}

/* A prompt that shares its beginning with others of the same family. */
static inline void make_prompt(job *j, uint32_t n, uint32_t n_shared, uint32_t family, uint32_t own)
{
    j->n_prompt = n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t seed = i < n_shared ? family : own;
        j->prompt[i] = (int32_t)((i * 2654435761u + seed * 40503u + i * seed) % 100003 %
                                 info.n_vocab);
    }
}

static inline void note(void *user)
{
    job *j = user;
    if (j->notified++ == 0) j->nth_noted = ++n_noted;
}

static inline int start(job *j)
{
    cerium_error err;
    j->n_tokens = j->n_notified = 0;
    j->notified = 0;
    j->text_len = 0;
    j->stop = CERIUM_STOP_NONE;
    j->done = false;
    cerium_request request = {.tokens = j->prompt,
                              .n_tokens = j->n_prompt,
                              .new_tokens_max = j->n_new,
                              .sampling = &j->sampling,
                              .class_ = j->class_,
                              .top_logprobs = j->top,
                              .script = j->script,
                              .n_script = j->n_script,
                              .prediction = j->prediction,
                              .n_prediction = j->n_prediction,
                              .notify = note,
                              .user = j,
                              .notify_prompt = j->notes_prompt};
    int status = cerium_session_start(j->session, &request, &err);
    TEST_CHECK_THAT(status == 0, "%s", err.message);
    if (status) j->done = true;
    return status;
}

/* Take one event.  False: there is none. */
static inline bool poll_one(job *j)
{
    cerium_event event;
    cerium_session_poll(j->session, &event);
    if (event.kind == CERIUM_EVENT_STEP) {
        TEST_CHECK(event.step.n_tokens == 1 && j->n_tokens < NEW_MAX);
        TEST_CHECK(event.n_top == j->top);
        if (j->top) TEST_CHECK(event.top[0].logprob >= event.step.logprobs[0]);
        j->tokens[j->n_tokens % NEW_MAX] = event.step.tokens[0];
        j->logprobs[j->n_tokens++ % NEW_MAX] = event.step.logprobs[0];
        TEST_CHECK(j->text_len + event.step.text_len < TEXT_MAX);
        memcpy(j->text + j->text_len, event.step.text, event.step.text_len);
        j->text_len += event.step.text_len;
        j->stop = event.step.stop;
    } else if (event.kind == CERIUM_EVENT_DONE) {
        j->done = true;
        j->status = event.status;
        TEST_CHECK(event.status || event.stop == j->stop || j->n_tokens == 0);
    }
    return event.kind != CERIUM_EVENT_NONE;
}

static inline void wait_briefly(void)
{
    struct timespec t = {0, 100000};
    nanosleep(&t, NULL);
}

/* Poll when notified, until all are done. */
static inline void finish(job **jobs, uint32_t n)
{
    for (uint32_t n_done = 0; n_done < n;) {
        n_done = 0;
        bool moved = false;
        for (uint32_t i = 0; i < n; i++) {
            job *j = jobs[i];
            if (!j->done && j->notified != j->n_notified) {
                j->n_notified = j->notified;
                while (!j->done && poll_one(j)) moved = true;
            }
            n_done += j->done;
        }
        if (!moved && n_done < n) wait_briefly();
    }
}

static inline void run(job *j)
{
    if (start(j) == 0) finish(&j, 1);
}

/* The same by sync and step, in a session that shares nothing.  logits: [n_vocab] the last ones. */
static inline void run_alone(const job *asked, job *j, float *logits)
{
    cerium_error err;
    cerium_step step = {0};
    size_t n;
    const cerium_session_config plain = {.tenant = ++fresh_tenant, .no_speculation = true};
    memcpy(j, asked, offsetof(job, notified)); /* a late notify may still count in asked */
    TEST_CHECK(cerium_session_open(&j->session, engine, &plain, &err) == 0);
    j->n_tokens = 0;
    j->text_len = 0;
    TEST_CHECK(cerium_session_sync(j->session, j->prompt, j->n_prompt, NULL, &err) == 0);
    while (j->n_tokens < j->n_new && step.stop == CERIUM_STOP_NONE) {
        TEST_CHECK(cerium_session_step(j->session, &j->sampling, &step, &err) == 0);
        j->tokens[j->n_tokens] = step.tokens[0];
        j->logprobs[j->n_tokens++] = step.logprobs[0];
        memcpy(j->text + j->text_len, step.text, step.text_len);
        j->text_len += step.text_len;
    }
    j->stop = step.stop;
    const float *have = cerium_session_logits(j->session, &n);
    TEST_CHECK(have != NULL);
    if (logits && have) memcpy(logits, have, n * sizeof *logits);
    cerium_session_close(&j->session);
}

/* What differs, in a line: the one that says why after a run that nobody can repeat. */
static inline void print_difference(const job *j, const job *alone, const float *logits)
{
    size_t n_vocab;
    uint32_t at = 0, n_rows = 0, last = 0;
    const float *have = cerium_session_logits(j->session, &n_vocab);
    while (at < j->n_tokens && at < alone->n_tokens && j->tokens[at] == alone->tokens[at]) at++;
    for (uint32_t i = 0; have && i < n_vocab; i++)
        if (memcmp(&have[i], &logits[i], sizeof *have)) n_rows++, last = i;
    cerium_usage usage;
    cerium_session_usage(j->session, &usage);
    printf("  prompt %u, tokens %u and %u, the same %u: then %d (%a) and %d (%a); %u logits, the "
           "last %u: %a and %a; temperature %g, reused %u, drafted %u, accepted %u, given %zu\n",
           j->n_prompt, j->n_tokens, alone->n_tokens, at, j->tokens[at], j->logprobs[at],
           alone->tokens[at], alone->logprobs[at], n_rows, last, have ? have[last] : 0,
           logits[last], j->sampling.temperature, (uint32_t)usage.reused_tokens,
           (uint32_t)usage.drafted_tokens, (uint32_t)usage.accepted_tokens, j->n_prediction);
}

static inline void check_same(const job *j, const job *alone, const float *logits)
{
    size_t n, n_vocab;
    const int failed = unit_test_failed;
    TEST_CHECK_THAT(j->status == 0, "%d", j->status);
    TEST_CHECK_THAT(j->n_tokens == alone->n_tokens, "%u %u", j->n_tokens, alone->n_tokens);
    TEST_CHECK(!memcmp(j->tokens, alone->tokens, alone->n_tokens * sizeof *j->tokens));
    TEST_CHECK(!memcmp(j->logprobs, alone->logprobs, alone->n_tokens * sizeof *j->logprobs));
    TEST_CHECK(j->stop == alone->stop);
    /* Steps hold back the possible beginning of a stop string or a character; a request that ends
     * releases it. */
    TEST_CHECK(j->text_len >= alone->text_len && !memcmp(j->text, alone->text, alone->text_len));
    const int32_t *timeline = cerium_session_tokens(j->session, &n);
    TEST_CHECK(n == j->n_prompt + j->n_tokens);
    TEST_CHECK(!memcmp(timeline, j->prompt, j->n_prompt * sizeof *timeline));
    TEST_CHECK(!memcmp(timeline + j->n_prompt, j->tokens, j->n_tokens * sizeof *timeline));
    const float *have = cerium_session_logits(j->session, &n_vocab);
    TEST_CHECK(have && !memcmp(have, logits, n_vocab * sizeof *have));
    if (unit_test_failed > failed) print_difference(j, alone, logits);
}

#endif
