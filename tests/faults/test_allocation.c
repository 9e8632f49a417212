/* test_allocation.c - every allocation fails once: opening a model and a session, and working with
 * them, returns an error, leaks nothing, and succeeds when memory is there again. */
#include <stdio.h>

#include "base/memory.h"

static int passed, failed;

#define CHECK_THAT(cond, n)                                                                        \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            printf("  FAIL %s:%d: %s at allocation %ld\n", __FILE__, __LINE__, #cond, (long)(n));  \
            failed++;                                                                              \
        }                                                                                          \
    } while (0)

static const char model[] = "tests/golden/fixtures/gpt-oss-mxfp4.gguf";

/* Everything that a user does with a model; the first error ends it. */
static int use_model(long *made, cerium_error *err)
{
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
    cerium_session_config scoring = {.score_tokens_max = 4};
    int status = cerium_engine_open(&engine, &config, err);
    if (!status) status = cerium_session_open(&session, engine, &scoring, err);
    if (!status) status = cerium_tokenize(engine, "int main(void)", 14, 0, tokens, 64, &n, err);
    long before = memory_count();
    if (!status) status = cerium_session_sync(session, tokens, n, NULL, err);
    for (int i = 0; i < 20 && !status; i++) {
        cerium_sampling sampling = {.temperature = 1, .top_p = 0.9f, .ignore_end = true,
                                    .logprobs = true};
        status = cerium_session_step(session, &sampling, &step, err);
    }
    *made = memory_count() - before;
    cerium_session_close(&session);
    cerium_engine_close(&engine);
    return status;
}

int main(void)
{
    long live = memory_live(), made = 0, n = 0;
    cerium_error err;
    for (;; n++) {
        memory_fail_at(n);
        int status = use_model(&made, &err);
        memory_fail_at(-1);
        CHECK_THAT(memory_live() == live, n);
        if (status == CERIUM_OK) break;
        CHECK_THAT(status == CERIUM_ERR_MEMORY, n);
        CHECK_THAT(err.status == status && err.message[0], n);
        if (n > 100000 || failed > 10) break;
    }
    passed += failed == 0;
    /* After opening, a whole answer takes no memory at all. */
    if (made == 0) {
        passed++;
    } else {
        failed++;
        printf("  FAIL %ld allocations while generating\n", made);
    }
    printf("faults: %ld allocations failed in turn\n", n);
    printf("allocation: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
