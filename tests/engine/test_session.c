/* test_session.c - what a caller of cerium.h may rely on: canceling from another thread, continuing
 * after it, rewinding, stop strings, limits, scores, and errors that change nothing. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cerium.h"

#include "../unit/unit.h"

enum { LONG = 1500 };

static cerium_engine *engine;
static cerium_engine_info info;

static int32_t token_at(size_t i) { return (int32_t)(i * 2654435761u % 100003 % info.n_vocab); }

static void fill(int32_t *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++) tokens[i] = token_at(i);
}

/* Each is a tenant of its own, so that it finds only tokens that it computed itself. */
static cerium_session *open_session(uint32_t context, uint32_t score)
{
    static uint64_t tenant;
    cerium_session *session = NULL;
    cerium_error err;
    cerium_session_config config = {
        .context_tokens_max = context, .score_tokens_max = score, .tenant = ++tenant};
    TEST_CHECK_THAT(cerium_session_open(&session, engine, &config, &err) == 0, "%s", err.message);
    return session;
}

typedef struct {
    cerium_session *session;
    long delay_ns;
} hurry;

static void *cancel_soon(void *arg)
{
    hurry *h = arg;
    struct timespec t = {h->delay_ns / 1000000000, h->delay_ns % 1000000000};
    nanosleep(&t, NULL);
    cerium_session_cancel(h->session);
    return NULL;
}

/* A long prompt is interrupted by another thread again and again; in the end the logits are those
 * of an undisturbed prompt. */
static void test_cancel_and_go_on(void)
{
    static int32_t tokens[LONG];
    fill(tokens, LONG);
    cerium_session *calm = open_session(0, 0), *hurried = open_session(0, 0);
    cerium_error err;
    size_t n_vocab, n;
    TEST_CHECK(cerium_session_sync(calm, tokens, LONG, NULL, &err) == 0);
    int n_canceled = 0, status = CERIUM_ERR_CANCELED;
    hurry h = {hurried, 1000000};
    for (int round = 0; round < 200 && (status || !n_canceled); round++) {
        pthread_t thread;
        if (!status) { /* the other thread got no core in time: start again */
            cerium_session_close(&hurried);
            h = (hurry){hurried = open_session(0, 0), 1000000};
        }
        TEST_CHECK(pthread_create(&thread, NULL, cancel_soon, &h) == 0);
        status = cerium_session_sync(hurried, tokens, LONG, NULL, &err);
        pthread_join(thread, NULL);
        n_canceled += status == CERIUM_ERR_CANCELED;
        h.delay_ns += h.delay_ns / 2; /* in the end a pass fits, in any build */
        const int32_t *have = cerium_session_tokens(hurried, &n);
        TEST_CHECK(n <= LONG && memcmp(have, tokens, n * sizeof *tokens) == 0);
    }
    TEST_CHECK(status == 0 && n_canceled > 0);
    /* A cancel that came after the last pass belongs to the next call. */
    status = cerium_session_sync(hurried, tokens, LONG - 1, NULL, &err);
    status = cerium_session_sync(hurried, tokens, LONG, NULL, &err);
    TEST_CHECK(status == 0);
    const float *a = cerium_session_logits(calm, &n_vocab);
    const float *b = cerium_session_logits(hurried, NULL);
    TEST_CHECK(a && b && memcmp(a, b, n_vocab * sizeof *a) == 0);
    cerium_session_close(&calm);
    cerium_session_close(&hurried);
}

static void test_cancel_before_a_call(void)
{
    int32_t tokens[10];
    cerium_error err;
    cerium_step step;
    fill(tokens, 10);
    cerium_session *session = open_session(0, 0);
    cerium_session_cancel(session);
    TEST_CHECK(cerium_session_sync(session, tokens, 10, NULL, &err) == CERIUM_ERR_CANCELED);
    TEST_CHECK(cerium_session_sync(session, tokens, 10, NULL, &err) == 0);
    cerium_session_cancel(session);
    TEST_CHECK(cerium_session_step(session, NULL, &step, &err) == CERIUM_ERR_CANCELED);
    TEST_CHECK(cerium_session_step(session, NULL, &step, &err) == 0);
    cerium_session_close(&session);
}

static void test_reuse_is_counted(void)
{
    int32_t tokens[200];
    cerium_error err;
    cerium_sync_result result;
    fill(tokens, 200);
    cerium_session *session = open_session(0, 0);
    TEST_CHECK(cerium_session_sync(session, tokens, 150, &result, &err) == 0);
    TEST_CHECK(result.tokens_reused == 0 && result.tokens_computed == 150);
    TEST_CHECK(cerium_session_sync(session, tokens, 200, &result, &err) == 0);
    TEST_CHECK(result.tokens_reused == 150 && result.tokens_computed == 50);
    TEST_CHECK(cerium_session_sync(session, tokens, 200, &result, &err) == 0);
    TEST_CHECK(result.tokens_reused == 200 && result.tokens_computed == 0);
    tokens[180] = (tokens[180] + 1) % (int32_t)info.n_vocab;
    TEST_CHECK(cerium_session_sync(session, tokens, 200, &result, &err) == 0);
    /* No state is kept in the middle of a text: the last is where a message begins. */
    const bool has_states =
        !strcmp(info.architecture, "qwen35moe") || !strcmp(info.architecture, "granitehybrid");
    uint32_t known = has_states ? 170 : 180;
    TEST_CHECK_THAT(result.tokens_reused == known && result.tokens_computed == 200 - known, "%u",
                    (uint32_t)result.tokens_reused);
    cerium_session_close(&session);
}

/* Forks at many places, in the middle of pages and at their ends: each continues on its own and has
 * the logits of a session that was alone, and its origin continues undisturbed. */
static void test_fork(void)
{
    enum { PLACES = 12, MORE = 70 };
    static int32_t tokens[LONG], own[LONG];
    static const uint32_t places[PLACES] = {1, 2, 63, 64, 65, 100, 127, 128, 129, 200, 255, 256};
    cerium_error err;
    cerium_sync_result result;
    size_t n_vocab, n;
    fill(tokens, LONG);
    cerium_session *trunk = open_session(0, 0);
    for (int i = 0; i < PLACES; i++) {
        cerium_session *fork = NULL, *alone = open_session(0, 0);
        TEST_CHECK(cerium_session_sync(trunk, tokens, places[i], NULL, &err) == 0);
        TEST_CHECK(cerium_session_fork(&fork, trunk, &err) == 0);
        const float *a = cerium_session_logits(trunk, &n_vocab);
        const float *b = cerium_session_logits(fork, &n_vocab);
        TEST_CHECK(a && b && a != b && !memcmp(a, b, n_vocab * sizeof *a));
        cerium_session_tokens(fork, &n);
        TEST_CHECK(n == places[i]);
        memcpy(own, tokens, sizeof own);
        for (uint32_t k = 0; k < MORE; k++) own[places[i] + k] = token_at(k * 31 + (uint32_t)i);
        TEST_CHECK(cerium_session_sync(fork, own, places[i] + MORE, &result, &err) == 0);
        TEST_CHECK(result.tokens_reused == places[i]);
        TEST_CHECK(cerium_session_sync(alone, own, places[i] + MORE, NULL, &err) == 0);
        TEST_CHECK(!memcmp(cerium_session_logits(fork, NULL), cerium_session_logits(alone, NULL),
                           n_vocab * sizeof *a));
        /* The trunk continues where it was. */
        TEST_CHECK(cerium_session_sync(trunk, tokens, places[i] + 3, &result, &err) == 0);
        TEST_CHECK(result.tokens_reused >= places[i]); /* more, where it was before */
        cerium_session_close(&alone);
        alone = open_session(0, 0);
        TEST_CHECK(cerium_session_sync(alone, tokens, places[i] + 3, NULL, &err) == 0);
        TEST_CHECK(!memcmp(cerium_session_logits(trunk, NULL), cerium_session_logits(alone, NULL),
                           n_vocab * sizeof *a));
        cerium_session_close(&alone);
        cerium_session_close(&fork);
    }
    cerium_session_close(&trunk);
    TEST_CHECK(cerium_session_fork(&trunk, NULL, &err) == CERIUM_ERR_ARGUMENT);
}

/* Same seed, same tokens; the draw of a position does not depend on how it was reached. */
static void test_seed(void)
{
    int32_t tokens[12 + 40], first[40];
    cerium_error err;
    cerium_step step;
    cerium_sampling sampling = {.temperature = 1.2f, .seed = 7, .ignore_end = true,
                                .step_tokens_max = 1};
    fill(tokens, 12);
    cerium_session *session = open_session(0, 0);
    TEST_CHECK(cerium_session_sync(session, tokens, 12, NULL, &err) == 0);
    for (int i = 0; i < 40; i++) {
        TEST_CHECK(cerium_session_step(session, &sampling, &step, &err) == 0);
        tokens[12 + i] = first[i] = step.tokens[0];
    }
    TEST_CHECK(cerium_session_sync(session, tokens, 12 + 20, NULL, &err) == 0);
    for (int i = 20; i < 40; i++) {
        TEST_CHECK(cerium_session_step(session, &sampling, &step, &err) == 0);
        TEST_CHECK(step.tokens[0] == first[i]);
    }
    int n_same = 0;
    sampling.seed = 8;
    TEST_CHECK(cerium_session_sync(session, tokens, 12, NULL, &err) == 0);
    for (int i = 0; i < 40; i++) {
        TEST_CHECK(cerium_session_step(session, &sampling, &step, &err) == 0);
        n_same += step.tokens[0] == first[i];
    }
    TEST_CHECK_THAT(n_same < 40, "%d of 40", n_same);
    cerium_session_close(&session);
}

static void test_stop_string(void)
{
    int32_t tokens[5];
    cerium_error err;
    cerium_step step = {0};
    char all[512], shown[512];
    size_t n_all = 0, n_shown = 0;
    fill(tokens, 5);
    cerium_session *session = open_session(0, 0);
    cerium_sampling sampling = {.temperature = 1, .seed = 3, .ignore_end = true,
                                .step_tokens_max = 1};
    TEST_CHECK(cerium_session_sync(session, tokens, 5, NULL, &err) == 0);
    for (int i = 0; i < 100; i++) {
        TEST_CHECK(cerium_session_step(session, &sampling, &step, &err) == 0);
        if (n_all + step.text_len < sizeof all) memcpy(all + n_all, step.text, step.text_len);
        n_all += step.text_len;
    }
    TEST_CHECK(n_all >= 40 && n_all < sizeof all);
    /* The same draws, stopped before bytes that are known to come. */
    char stop[4] = {all[30], all[31], all[32], 0};
    const char *stops[] = {"not in the text at all", stop};
    sampling.stops = stops;
    sampling.n_stops = 2;
    TEST_CHECK(cerium_session_sync(session, tokens, 5, NULL, &err) == 0);
    step.stop = CERIUM_STOP_NONE;
    for (int i = 0; i < 100 && step.stop == CERIUM_STOP_NONE; i++) {
        TEST_CHECK(cerium_session_step(session, &sampling, &step, &err) == 0);
        memcpy(shown + n_shown, step.text, step.text_len);
        n_shown += step.text_len;
    }
    bool whole = !memchr(all, 0, 33); /* a stop string cannot hold a NUL */
    if (whole) {
        TEST_CHECK(step.stop == CERIUM_STOP_TEXT);
        TEST_CHECK(n_shown <= 30 && memcmp(shown, all, n_shown) == 0);
    }
    cerium_session_close(&session);
}

static void test_limits_and_errors(void)
{
    int32_t tokens[40];
    cerium_error err;
    cerium_step step = {0};
    fill(tokens, 40);
    cerium_session *session = open_session(32, 0);
    TEST_CHECK(cerium_session_step(session, NULL, &step, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(cerium_session_sync(session, tokens, 0, NULL, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(cerium_session_sync(session, tokens, 33, NULL, &err) == CERIUM_ERR_CAPACITY);
    TEST_CHECK(cerium_session_logits(session, NULL) == NULL);
    tokens[3] = (int32_t)info.n_vocab;
    TEST_CHECK(cerium_session_sync(session, tokens, 10, NULL, &err) == CERIUM_ERR_ARGUMENT);
    tokens[3] = -1;
    TEST_CHECK(cerium_session_sync(session, tokens, 10, NULL, &err) == CERIUM_ERR_ARGUMENT);
    tokens[3] = 1;
    TEST_CHECK(cerium_session_sync(session, tokens, 30, NULL, &err) == 0);
    cerium_sampling sampling = {.ignore_end = true, .top_p = 2};
    TEST_CHECK(cerium_session_step(session, &sampling, &step, &err) == CERIUM_ERR_ARGUMENT);
    sampling.top_p = 1;
    TEST_CHECK(cerium_session_step(session, &sampling, &step, &err) == 0);
    TEST_CHECK(step.stop == CERIUM_STOP_NONE);
    TEST_CHECK(cerium_session_step(session, &sampling, &step, &err) == 0);
    TEST_CHECK(step.stop == CERIUM_STOP_LIMIT);
    TEST_CHECK(cerium_session_step(session, &sampling, &step, &err) == CERIUM_ERR_CAPACITY);
    cerium_session *more[8] = {NULL}, *too_many = NULL;
    for (int i = 0; i < 7; i++) more[i] = open_session(8, 0);
    TEST_CHECK(cerium_session_open(&too_many, engine, NULL, &err) == CERIUM_ERR_CAPACITY);
    TEST_CHECK(too_many == NULL && err.message[0]);
    for (int i = 0; i < 7; i++) cerium_session_close(&more[i]);
    cerium_session_close(&session);
    cerium_session_close(&session);
    cerium_session_close(NULL);
    TEST_CHECK(session == NULL);
}

/* Scores are the log-probabilities that steps report for the same tokens. */
static void test_scores(void)
{
    int32_t tokens[60];
    float scores[60];
    cerium_error err;
    cerium_step step;
    cerium_sampling sampling = {.temperature = 1, .seed = 1, .ignore_end = true, .logprobs = true};
    fill(tokens, 20);
    cerium_session *session = open_session(0, 7);
    float reported[60] = {0};
    TEST_CHECK(cerium_session_sync(session, tokens, 20, NULL, &err) == 0);
    for (int i = 20; i < 60; i++) {
        cerium_logprob top[3];
        TEST_CHECK(cerium_session_step(session, &sampling, &step, &err) == 0);
        tokens[i] = step.tokens[0];
        reported[i] = step.logprobs[0];
        TEST_CHECK(cerium_session_top(session, top, 3) == 3);
        TEST_CHECK(top[0].logprob >= top[1].logprob && top[0].logprob >= reported[i]);
    }
    TEST_CHECK(cerium_session_score(session, tokens, 60, scores, &err) == 0);
    TEST_CHECK(scores[0] == 0);
    TEST_CHECK(memcmp(scores + 20, reported + 20, 40 * sizeof *scores) == 0);
    cerium_session *plain = open_session(0, 0);
    TEST_CHECK(cerium_session_score(plain, tokens, 60, scores, &err) == CERIUM_ERR_ARGUMENT);
    cerium_session_close(&plain);
    cerium_session_close(&session);
}

static void test_model(const char *path)
{
    cerium_error err;
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = path;
    config.threads = 2;
    config.batch_tokens_max = 64;
    TEST_CHECK_THAT(cerium_engine_open(&engine, &config, &err) == 0, "%s", err.message);
    if (!engine) return;
    cerium_engine_describe(engine, &info);
    TEST_RUN(test_cancel_and_go_on);
    TEST_RUN(test_cancel_before_a_call);
    TEST_RUN(test_reuse_is_counted);
    TEST_RUN(test_fork);
    TEST_RUN(test_seed);
    TEST_RUN(test_stop_string);
    TEST_RUN(test_limits_and_errors);
    TEST_RUN(test_scores);
    cerium_engine_close(&engine);
}

int main(void)
{
    test_model("tests/golden/fixtures/gpt-oss.gguf");
    test_model("tests/golden/fixtures/qwen35moe.gguf"); /* states beside pages */
    test_model("tests/golden/fixtures/granitehybrid.gguf"); /* of Mamba-2 */
    test_model("tests/golden/fixtures/deepseek2.gguf"); /* latents */
    return unit_report("session");
}
