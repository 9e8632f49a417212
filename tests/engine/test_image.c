/* test_image.c - sessions that are saved to memory and loaded from it: the same tokens, logits and
 * continuation in another engine, without recomputing saved tokens; and damaged images. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "cerium.h"

#include "../unit/unit.h"

enum { PROMPT = 200, FULL = 192, STEPS = 12, IMAGE_MAX = 4 << 20, HEAD = 48, AT_HASHED = 16 };

static const char *const models[] = {"tests/golden/fixtures/gpt-oss.gguf", /* has windows */
                                     "tests/golden/fixtures/qwen2-q4_0.gguf"};
static uint8_t image[IMAGE_MAX], again[IMAGE_MAX + 1];
static size_t image_len;

static cerium_engine *open_engine(const char *path, const char *kv_type, uint32_t context)
{
    cerium_engine *engine = NULL;
    cerium_error err;
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = path;
    config.threads = 1;
    config.kv_type = kv_type;
    config.context_tokens_max = context;
    config.kv_bytes_max = context ? 1 : 0; /* the size of one context */
    TEST_CHECK_THAT(cerium_engine_open(&engine, &config, &err) == 0, "%s", err.message);
    return engine;
}

static cerium_session *open_session(cerium_engine *engine)
{
    cerium_session *session = NULL;
    TEST_CHECK(cerium_session_open(&session, engine, NULL, NULL) == 0);
    return session;
}

static void fill(const cerium_engine *engine, int32_t *tokens, size_t n)
{
    cerium_engine_info info;
    cerium_engine_describe(engine, &info);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(i * 2654435761u % 100003 % info.n_vocab);
}

static void steps(cerium_session *session, int32_t *out)
{
    const cerium_sampling one = {.step_tokens_max = 1, .ignore_end = true};
    cerium_step step;
    for (int i = 0; i < STEPS; i++) {
        TEST_CHECK(cerium_session_step(session, &one, &step, NULL) == 0);
        out[i] = step.tokens[0];
    }
}

static float *logits_of(const cerium_session *session, size_t *n)
{
    const float *logits = cerium_session_logits(session, n);
    float *copy = memory_alloc(*n * sizeof *copy);
    TEST_CHECK(logits && copy);
    if (logits && copy) memcpy(copy, logits, *n * sizeof *copy);
    return copy;
}

/* Save in one engine, load in another: the output that the first would have had. */
static void check_model(const char *path)
{
    int32_t prompt[PROMPT], want[STEPS], got[STEPS];
    size_t n_vocab, n_again, n;
    cerium_error err;
    cerium_sync_result result;
    cerium_engine *engine = open_engine(path, "i8", 0);
    cerium_session *session = open_session(engine);
    fill(engine, prompt, PROMPT);
    TEST_CHECK(cerium_session_save(session, image, IMAGE_MAX, &image_len, &err) ==
               CERIUM_ERR_ARGUMENT);
    TEST_CHECK(cerium_session_sync(session, prompt, PROMPT, NULL, NULL) == 0);
    TEST_CHECK(cerium_session_save(session, NULL, 0, &image_len, &err) == CERIUM_ERR_CAPACITY);
    TEST_CHECK(cerium_session_save(session, image, image_len - 1, &n, &err) ==
               CERIUM_ERR_CAPACITY);
    TEST_CHECK(n == image_len && n <= IMAGE_MAX);
    TEST_CHECK_THAT(cerium_session_save(session, image, IMAGE_MAX, &n, &err) == 0, "%s",
                    err.message);
    TEST_CHECK(cerium_session_save(session, again, IMAGE_MAX, &n_again, &err) == 0);
    TEST_CHECK(n == image_len && n_again == n && !memcmp(image, again, n));
    float *logits = logits_of(session, &n_vocab);
    steps(session, want);
    cerium_session_close(&session);
    cerium_engine_close(&engine);

    engine = open_engine(path, "i8", 0);
    session = open_session(engine);
    memcpy(again + 1, image, image_len); /* at any address */
    TEST_CHECK_THAT(cerium_session_load(session, again + 1, image_len, &result, &err) == 0, "%s",
                    err.message);
    TEST_CHECK_THAT(result.tokens_reused == FULL && result.tokens_computed == PROMPT - FULL,
                    "%u and %u", result.tokens_reused, result.tokens_computed);
    const int32_t *tokens = cerium_session_tokens(session, &n);
    TEST_CHECK(n == PROMPT && !memcmp(tokens, prompt, sizeof prompt));
    float *loaded = logits_of(session, &n);
    TEST_CHECK(n == n_vocab && !memcmp(loaded, logits, n * sizeof *loaded));
    steps(session, got);
    TEST_CHECK(!memcmp(got, want, sizeof got));
    TEST_CHECK(cerium_session_save(session, again, IMAGE_MAX, &n_again, &err) == 0);
    TEST_CHECK(n_again > image_len); /* the steps' tokens, and the block that they filled */
    cerium_session_close(&session);
    cerium_engine_close(&engine);
    memory_free(logits);
    memory_free(loaded);
}

static void test_models(void)
{
    check_model("tests/golden/fixtures/deepseek2.gguf"); /* latents */
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) check_model(models[i]);
}

/* With the image of models[1] from the test before. */
static void refuse(cerium_session *session, const void *bad, size_t len, int status,
                   const char *says)
{
    cerium_error err = {0};
    size_t n;
    int got = cerium_session_load(session, bad, len, NULL, &err);
    TEST_CHECK_THAT(got == status && strstr(err.message, says), "%d: %s", got, err.message);
    (void)cerium_session_tokens(session, &n);
    TEST_CHECK(n == 3);
}

static void test_errors(void)
{
    const int32_t before[] = {1, 2, 3};
    cerium_engine *engine = open_engine(models[1], "i8", 0);
    cerium_session *session = open_session(engine);
    TEST_CHECK(cerium_session_sync(session, before, 3, NULL, NULL) == 0);
    for (size_t len = 0; len < image_len; len += len < 2000 ? 1 : 997)
        refuse(session, image, len, CERIUM_ERR_FORMAT, "image");
    for (size_t at = 0; at < image_len; at += at < HEAD ? 1 : 991) {
        memcpy(again, image, image_len);
        again[at] ^= 1;
        refuse(session, again, image_len, CERIUM_ERR_FORMAT, "image");
    }
    memset(again, 0, sizeof again);
    refuse(session, again, sizeof again, CERIUM_ERR_FORMAT, "no image");
    TEST_CHECK(cerium_session_load(session, image, image_len, NULL, NULL) == 0);
    /* A note is for its session alone. */
    const cerium_resume noted = {.note = before, .n_note = 3};
    size_t n;
    cerium_error err;
    TEST_CHECK(cerium_session_resume(session, before, 3, &noted, NULL, NULL) == 0);
    TEST_CHECK(cerium_session_save(session, again, IMAGE_MAX, &n, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(strstr(err.message, "a note") != NULL);
    cerium_session_close(&session);
    cerium_engine_close(&engine);
}

static void refuse_in(const char *path, const char *kv_type, uint32_t context, int status,
                      const char *says)
{
    const int32_t before[] = {1, 2, 3};
    cerium_engine *engine = open_engine(path, kv_type, context);
    cerium_session *session = open_session(engine);
    TEST_CHECK(cerium_session_sync(session, before, 3, NULL, NULL) == 0);
    refuse(session, image, image_len, status, says);
    cerium_session_close(&session);
    cerium_engine_close(&engine);
}

static void test_others(void)
{
    refuse_in(models[0], "i8", 0, CERIUM_ERR_FORMAT, "another model");
    refuse_in(models[1], "f16", 0, CERIUM_ERR_FORMAT, "another type");
    refuse_in(models[1], "i8", PROMPT - 1, CERIUM_ERR_CAPACITY, "do not fit");
}

/* A wrong head with the right hash: refused, or loaded as it says, but never a crash. */
static void test_lies(void)
{
    cerium_engine *engine = open_engine(models[1], "i8", 0);
    cerium_session *session = open_session(engine);
    int n_loaded = 0, n_refused = 0;
    for (size_t at = AT_HASHED; at < HEAD + 40; at++)
        for (unsigned value = 0; value < 256; value += 15) {
            memcpy(again, image, image_len);
            again[at] = (uint8_t)value;
            uint64_t hash = hash_bytes(again + AT_HASHED, image_len - AT_HASHED, 0);
            memcpy(again + 8, &hash, sizeof hash);
            int status = cerium_session_load(session, again, image_len, NULL, NULL);
            n_loaded += status == CERIUM_OK;
            n_refused += status != CERIUM_OK;
        }
    TEST_CHECK_THAT(n_loaded > 0 && n_refused > 500, "%d and %d", n_loaded, n_refused);
    cerium_session_close(&session);
    cerium_engine_close(&engine);
}

/* If others hold the pages, the rest is recomputed. */
static void test_no_room(void)
{
    int32_t prompt[PROMPT];
    size_t n;
    cerium_engine *engine = open_engine(models[1], "i8", 256);
    cerium_session *session = open_session(engine), *other = open_session(engine);
    fill(engine, prompt, PROMPT);
    prompt[0]++;
    TEST_CHECK(cerium_session_sync(other, prompt, PROMPT, NULL, NULL) == 0);
    cerium_sync_result result = {0};
    TEST_CHECK(cerium_session_load(session, image, image_len, &result, NULL) == 0);
    TEST_CHECK(result.tokens_reused < FULL);
    (void)cerium_session_tokens(session, &n);
    TEST_CHECK(n == PROMPT);
    cerium_session_close(&session);
    cerium_session_close(&other);
    cerium_engine_close(&engine);
}

int main(void)
{
    TEST_RUN(test_models);
    TEST_RUN(test_errors);
    TEST_RUN(test_others);
    TEST_RUN(test_lies);
    TEST_RUN(test_no_room);
    return unit_report("image");
}
