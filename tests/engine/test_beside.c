/* test_beside.c - engines that share compute threads: each answers as it does alone, while another
 * computes, is loaded, or is closed; and an engine with only a vocabulary
 * treats texts the same. */
#include <stdatomic.h>

#include "base/memory.h"
#include "requests.h"

enum { PROMPT = 80, ANSWER = 24, ROUNDS = 6 };

static const char *paths[2];
static int32_t wanted[2][ANSWER];

static cerium_engine *open_beside(const char *path, cerium_engine *first, bool vocab_only)
{
    cerium_engine_config config;
    cerium_engine *e = NULL;
    cerium_error err = {0};
    cerium_engine_config_defaults(&config);
    config.model_path = path;
    config.threads = 2;
    config.cache = "off";
    config.threads_of = first;
    config.vocab_only = vocab_only;
    TEST_CHECK_THAT(cerium_engine_open(&e, &config, &err) == 0, "%s", err.message);
    return e;
}

typedef struct {
    cerium_session *session;
    int32_t tokens[ANSWER];
    uint32_t n;
    bool over;
} run_state;

static void start_one(run_state *r, cerium_engine *e, uint32_t n_prompt, cerium_class class_)
{
    cerium_error err = {0};
    int32_t prompt[PROMPT_MAX];
    cerium_engine_info about;
    cerium_engine_describe(e, &about);
    for (uint32_t i = 0; i < n_prompt; i++) prompt[i] = (int32_t)((i * 31 + 7) % about.n_vocab);
    cerium_sampling sampling = {.ignore_end = true};
    cerium_request request = {.tokens = prompt, .n_tokens = n_prompt, .new_tokens_max = ANSWER,
                              .sampling = &sampling, .class_ = class_};
    *r = (run_state){.n = 0};
    TEST_CHECK(cerium_session_open(&r->session, e, NULL, &err) == 0);
    TEST_CHECK_THAT(cerium_session_start(r->session, &request, &err) == 0, "%s", err.message);
}

static void follow(run_state *r)
{
    cerium_event event;
    cerium_session_poll(r->session, &event);
    if (event.kind == CERIUM_EVENT_DONE) {
        TEST_CHECK(event.status == 0);
        r->over = true;
    } else if (event.kind == CERIUM_EVENT_STEP) {
        for (uint32_t i = 0; i < event.step.n_tokens && r->n < ANSWER; i++)
            r->tokens[r->n++] = event.step.tokens[i];
    }
}

static void check(run_state *r, int which)
{
    cerium_session_close(&r->session);
    TEST_CHECK(r->n == ANSWER && !memcmp(r->tokens, wanted[which], sizeof wanted[which]));
}

static void test_alone(void)
{
    for (int i = 0; i < 2; i++) {
        run_state r;
        cerium_engine *e = open_beside(paths[i], NULL, false);
        start_one(&r, e, PROMPT, CERIUM_CLASS_TURN);
        while (!r.over) follow(&r);
        memcpy(wanted[i], r.tokens, sizeof wanted[i]);
        cerium_session_close(&r.session);
        cerium_engine_close(&e);
    }
    TEST_CHECK(memcmp(wanted[0], wanted[1], sizeof wanted[0]) != 0);
}

static void test_together(void)
{
    cerium_engine *first = open_beside(paths[0], NULL, false);
    cerium_engine *second = open_beside(paths[1], first, false);
    for (int round = 0; round < ROUNDS; round++) {
        run_state a, b;
        start_one(&a, first, PROMPT, CERIUM_CLASS_TURN);
        start_one(&b, second, PROMPT, round % 2 ? CERIUM_CLASS_COMPLETION : CERIUM_CLASS_TURN);
        while (!a.over || !b.over) {
            if (!a.over) follow(&a);
            if (!b.over) follow(&b);
        }
        check(&a, 0);
        check(&b, 1);
    }
    run_state left;
    cerium_engine_close(&first); /* the threads stay */
    start_one(&left, second, PROMPT, CERIUM_CLASS_TURN);
    while (!left.over) follow(&left);
    check(&left, 1);
    first = open_beside(paths[0], second, false);
    start_one(&left, first, PROMPT, CERIUM_CLASS_TURN);
    while (!left.over) follow(&left);
    check(&left, 0);
    cerium_engine_close(&second);
    cerium_engine_close(&first);
}

static cerium_engine *beside;
static int load_status;

static void *load_often(void *arg)
{
    (void)arg;
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = paths[1];
    config.cache = "off";
    config.threads_of = beside;
    for (int i = 0; i < ROUNDS && !load_status; i++) {
        cerium_engine *e = NULL;
        load_status = cerium_engine_open(&e, &config, NULL);
        cerium_engine_close(&e);
    }
    return NULL;
}

static void test_while_loading(void)
{
    pthread_t thread;
    run_state r;
    beside = open_beside(paths[0], NULL, false);
    TEST_CHECK(pthread_create(&thread, NULL, load_often, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        start_one(&r, beside, PROMPT, CERIUM_CLASS_TURN);
        while (!r.over) follow(&r);
        check(&r, 0);
    }
    pthread_join(thread, NULL);
    TEST_CHECK(load_status == 0);
    cerium_engine_close(&beside);
}

static _Atomic uint32_t asked;

static bool is_enough(void *user)
{
    return atomic_fetch_add(&asked, 1) >= *(const uint32_t *)user;
}

/* It is canceled anywhere: while it repacks, at its first check, or never. */
static void test_canceled(void)
{
    static const uint32_t after[] = {0, 1, 3, UINT32_MAX};
    cerium_engine *first = open_beside(paths[0], NULL, false);
    for (size_t i = 0; i < ARRAY_LEN(after); i++) {
        cerium_engine_config config;
        cerium_engine *e = NULL;
        cerium_error err = {0};
        uint32_t most = after[i];
        const long live = memory_live();
        cerium_engine_config_defaults(&config);
        config.model_path = paths[1];
        config.cache = "off";
        config.threads_of = i % 2 ? first : NULL;
        config.canceled = is_enough;
        config.canceled_user = &most;
        atomic_store(&asked, 0);
        int status = cerium_engine_open(&e, &config, &err);
        TEST_CHECK_THAT(status == (most == UINT32_MAX ? 0 : CERIUM_ERR_CANCELED), "%d", status);
        cerium_engine_close(&e);
        TEST_CHECK(memory_live() == live);
    }
    cerium_engine_close(&first);
}

static void test_vocabulary(void)
{
    static const char text[] = "def f(x):\n    return x + 1\n";
    cerium_engine_info a, b;
    cerium_engine_stats stats;
    cerium_error err = {0};
    cerium_session *s = NULL;
    int32_t tokens[2][64];
    size_t n[2];
    cerium_engine *whole = open_beside(paths[1], NULL, false);
    cerium_engine *words = open_beside(paths[1], NULL, true);
    cerium_engine_describe(whole, &a);
    cerium_engine_describe(words, &b);
    TEST_CHECK(!strcmp(a.name, b.name) && !strcmp(a.chat_form, b.chat_form));
    TEST_CHECK(a.weights_bytes == b.weights_bytes && a.kv_bytes == b.kv_bytes && a.kv_bytes > 0);
    TEST_CHECK(a.context_tokens_max == b.context_tokens_max && b.threads == 0);
    TEST_CHECK(cerium_tokenize(whole, text, sizeof text - 1, 0, tokens[0], 64, &n[0], &err) == 0);
    TEST_CHECK(cerium_tokenize(words, text, sizeof text - 1, 0, tokens[1], 64, &n[1], &err) == 0);
    TEST_CHECK(n[0] == n[1] && !memcmp(tokens[0], tokens[1], n[0] * sizeof **tokens));
    cerium_engine_measure(words, &stats);
    TEST_CHECK(stats.passes == 0 && stats.kv_pages_max == 0);
    TEST_CHECK(cerium_session_open(&s, words, NULL, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(strstr(err.message, "vocabulary"));
    cerium_engine_close(&words);
    cerium_engine_close(&whole);
}

int main(void)
{
    paths[0] = "tests/golden/fixtures/qwen2-q8_0.gguf";
    paths[1] = "tests/golden/fixtures/llama.gguf";
    TEST_RUN(test_alone);
    TEST_RUN(test_together);
    TEST_RUN(test_while_loading);
    TEST_RUN(test_canceled);
    TEST_RUN(test_vocabulary);
    return unit_report("beside");
}
