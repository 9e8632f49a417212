/* test_allocation.c - every allocation fails in turn: opening a model and a session, and working
 * with them, returns an error, leaks nothing, and succeeds when memory is there again. */
#include <stdio.h>

#include "faults.h"

static const char *model, *drafter; /* for this round */

/* A whole request: memory is allocated at the start, none later. */
static int use_request(cerium_session *session, const int32_t *tokens, size_t n, cerium_error *err)
{
    const char *stops[] = {"not in the answer"};
    cerium_sampling sampling = {.temperature = 1, .ignore_end = true, .logprobs = true,
                                .stops = stops, .n_stops = 1};
    cerium_request request = {.tokens = tokens, .n_tokens = n, .new_tokens_max = 10,
                              .sampling = &sampling, .top_logprobs = 2, .prediction = tokens,
                              .n_prediction = n};
    cerium_event event = {.kind = CERIUM_EVENT_NONE};
    for (int i = 0; i < 2; i++) { /* the second in place of the first */
        int status = cerium_session_start(session, &request, err);
        if (status) return status;
        long before = memory_count();
        do cerium_session_poll(session, &event);
        while (event.kind != CERIUM_EVENT_DONE);
        CHECK_THAT(event.status == CERIUM_OK, event.status);
        CHECK_THAT(memory_count() == before, memory_count() - before);
    }
    return CERIUM_OK;
}

/* Everything that a user does with a model; stops at the first error. */
static int use_model(long *made, cerium_error *err)
{
    static unsigned char image[1 << 20];
    cerium_engine *engine = NULL;
    cerium_session *session = NULL;
    cerium_step step;
    int32_t tokens[64];
    size_t n = 0;
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = model;
    config.threads = 2;
    config.context_tokens_max = 256;
    config.draft_model = drafter;
    cerium_session_config scoring = {.score_tokens_max = 4};
    int status = cerium_engine_open(&engine, &config, err);
    if (!status) status = cerium_session_open(&session, engine, &scoring, err);
    if (!status) status = cerium_tokenize(engine, "int main(void)", 14, 0, tokens, 64, &n, err);
    long before = memory_count();
    if (!status) status = cerium_session_sync(session, tokens, n, NULL, err);
    for (int i = 0; i < 20 && !status; i++) {
        cerium_sampling sampling = {.temperature = 1, .top_p = 0.9f, .ignore_end = true,
                                    .logprobs = true, .step_tokens_max = 8}; /* 20 steps fit */
        status = cerium_session_step(session, &sampling, &step, err);
    }
    *made = memory_count() - before;
    if (!status) status = use_request(session, tokens, n, err);
    if (!status) status = cerium_session_save(session, image, sizeof image, &n, err);
    if (!status) status = cerium_session_load(session, image, n, NULL, err);
    cerium_session_close(&session);
    cerium_engine_close(&engine);
    return status;
}

/* Returns the number of allocations that failed in turn. */
static long check_model(const char *path)
{
    long live = memory_live(), before = memory_count(), made = 0, n_failed = 0;
    cerium_error err;
    model = path;
    CHECK_THAT(use_model(&made, &err) == CERIUM_OK, -1);
    long n_all = memory_count() - before;
    for (long n = 0; n <= n_all && failed <= 10; n++) {
        memory_fail_at(n);
        int status = use_model(&made, &err);
        memory_fail_at(-1);
        CHECK_THAT(memory_live() == live, n);
        if (status == CERIUM_OK) continue; /* PCRE2 works without compiled code */
        n_failed++;
        if (status != CERIUM_ERR_MEMORY) printf("  %s: %d: %s\n", path, status, err.message);
        CHECK_THAT(n < n_all && status == CERIUM_ERR_MEMORY, n);
        CHECK_THAT(err.status == status && err.message[0], n);
    }
    CHECK_THAT(n_failed > n_all * 3 / 4, n_failed);
    passed += failed == 0;
    /* After opening, a whole answer takes no memory at all. */
    if (made == 0) {
        passed++;
    } else {
        failed++;
        printf("  FAIL %ld allocations while generating\n", made);
    }
    return n_failed;
}

int main(void)
{
    long n_failed = check_model("tests/golden/fixtures/gpt-oss-mxfp4.gguf");
    n_failed += check_model("tests/golden/fixtures/deepseek2-yarn.gguf"); /* panels turned over */
    n_failed += check_model("tests/golden/fixtures/mtp-qwen35.gguf");     /* a head that drafts */
    n_failed += check_model("tests/golden/fixtures/granitehybrid.gguf");  /* states */
    n_failed += check_model("tests/golden/fixtures/qwen35-turned.gguf");  /* turned weights */
    drafter = "tests/golden/fixtures/eagle3-planted.gguf"; /* and a head in a file of its own */
    n_failed += check_model("tests/golden/fixtures/mtp-planted-state.gguf");
    drafter = "tests/golden/fixtures/dflash-planted.gguf"; /* or one that says blocks */
    n_failed += check_model("tests/golden/fixtures/mtp-planted-state.gguf");
    printf("faults: %ld allocations failed in turn\n", n_failed);
    printf("allocation: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
