/* test_models.c - every allocation fails in turn while a model's vocabulary is read, while it is
 * added to a server's list, and while it is loaded beside another: an error, nothing is lost, and
 * the other model still answers. */
#include <stdio.h>

#include "faults.h"
#include "server/model_list.h"

static const char first_path[] = "tests/golden/fixtures/qwen2-q8_0.gguf";
static const char other_path[] = "tests/golden/fixtures/llama.gguf";
static cerium_engine *first;
static cerium_engine_config config;

/* Read, take into a list of two names, load beside the first, and answer. */
static int use_model(cerium_error *err)
{
    static server s;
    const char *const names[] = {"other", "another"};
    const server_model of = {.path = other_path, .names = names, .n_names = 2};
    served_model *m = NULL;
    cerium_engine *engine = NULL;
    s = (server){.config = {.engine_config = &config, .confidence_min = -1}};
    int status = models_read(&s, &of, &m, err);
    if (status) return status;
    if (models_add(&s, m)) {
        models_free(&m);
        return error_set(err, CERIUM_ERR_CAPACITY, "it was not taken");
    }
    CHECK_THAT(models_choose(&s, "another:latest", MODEL_TALKS) == m, 0);
    CHECK_THAT(models_n(&s) == 1 && m->own_bytes > 0, 0);
    cerium_engine_config beside = models_engine_config(m);
    beside.threads_of = first;
    status = cerium_engine_open(&engine, &beside, err);
    cerium_engine_close(&engine);
    models_close(&s);
    CHECK_THAT(models_n(&s) == 0, 0);
    return status;
}

static int ask_first(cerium_error *err)
{
    cerium_session *session = NULL;
    cerium_step step;
    const int32_t tokens[] = {1, 2, 3};
    int status = cerium_session_open(&session, first, NULL, err);
    if (!status) status = cerium_session_sync(session, tokens, 3, NULL, err);
    if (!status) status = cerium_session_step(session, NULL, &step, err);
    cerium_session_close(&session);
    return status;
}

int main(void)
{
    cerium_error err = {0};
    cerium_engine_config_defaults(&config);
    config.cache = "off";
    config.threads = 2;
    config.model_path = first_path;
    if (cerium_engine_open(&first, &config, &err)) {
        printf("  FAIL %s\n", err.message);
        return 1;
    }
    CHECK_THAT(ask_first(&err) == CERIUM_OK, 0);
    const long alive = memory_live(), before = memory_count();
    CHECK_THAT(use_model(&err) == CERIUM_OK, 0);
    const long n_all = memory_count() - before;
    long n_failed = 0;
    for (long n = 0; n <= n_all && failed <= 10; n++) {
        memory_fail_at(n);
        int status = use_model(&err);
        memory_fail_at(-1);
        CHECK_THAT(memory_live() == alive, n);
        CHECK_THAT(!status || (err.message[0] && !strchr(err.message, '\n')), n);
        n_failed += status != CERIUM_OK;
        if (n % 16 == 0) CHECK_THAT(ask_first(&err) == CERIUM_OK, n);
    }
    CHECK_THAT(n_failed > 10, n_failed);
    passed += failed == 0;
    printf("models: %ld allocations failed in turn\n", n_failed);
    cerium_engine_close(&first);
    printf("models under failing allocations: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
