/* test_draft_model.c - a model drafts for another, and answers do not change: with the
 * same vocabulary and another one, right always, never and sometimes, by steps and by requests,
 * alone, in a crowd and in a session that rewinds and continues, on one to three threads, with few
 * pages, stopped in the middle, and with a context that is shorter than the text. */
#include <unistd.h>

#include "base/memory.h"
#include "gguf/write.h"
#include "steps.h"

enum { ANSWER = 48, CROWD = 5 };

static const char *model, *draft;
static cerium_engine *plain_engine, *engines[3];
static float *want_logits, *have_logits;

static cerium_engine *open_with(const char *speculation, const char *draft_model, uint32_t threads,
                                uint64_t kv_bytes)
{
    cerium_engine_config config;
    cerium_engine *e = NULL;
    cerium_error err;
    cerium_engine_config_defaults(&config);
    config.model_path = model;
    config.draft_model = draft_model;
    config.threads = threads;
    config.speculation = speculation;
    config.head = "full"; /* "auto" depends on measured speed, and leaves logits out */
    config.batch_tokens_max = 128;
    config.context_tokens_max = CONTEXT_MAX;
    config.kv_bytes_max = kv_bytes;
    TEST_CHECK_THAT(cerium_engine_open(&e, &config, &err) == 0, "%s", err.message);
    return e;
}

/* Text without repetitions, so that only the draft model makes drafts; with
 * halves of characters, and control tokens. */
static void make_text(job *j, uint32_t round)
{
    static const char *const words[] = {
        "def ",     "return", " = ",  "(x, y)", ":\n    ", "\xc3\xa9t",
        "\xe2\x82", "while ", "1234", "\n\n",   "self.",   "\xf0\x9f"};
    char text[4096];
    size_t len = 0, n = 0;
    cerium_error err;
    random_state = 4711 + round;
    uint32_t n_words = 30 + next_random() % 60;
    for (uint32_t i = 0; i < n_words; i++) {
        const char *word = words[next_random() % ARRAY_LEN(words)];
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%u", word,
                                next_random() % 1000);
    }
    TEST_CHECK(cerium_tokenize(plain_engine, text, len, 0, j->prompt, PROMPT_MAX / 2, &n, &err) ==
               0);
    j->n_prompt = (uint32_t)n;
    if (round % 3 == 0) j->prompt[n / 2] = (int32_t)info.n_vocab - 1;
    j->n_new = ANSWER;
    j->sampling = (cerium_sampling){.ignore_end = round % 4 != 0};
    if (round % 3 == 1) j->sampling.temperature = 0.7f, j->sampling.seed = round;
    if (round % 5 == 2) j->sampling.repetition_penalty = 1.3f;
    j->sampling.logprobs = round % 2;
}

static void want(job *j, uint32_t round)
{
    cerium_session *plain = session_of(plain_engine);
    make_text(j, round);
    by_steps(plain, j, 0, want_logits);
    cerium_session_close(&plain);
}

static void check_logits(void)
{
    TEST_CHECK(!memcmp(have_logits, want_logits, info.n_vocab * sizeof(float)));
}

static void test_alone(void)
{
    static job asked, have;
    for (uint32_t round = 0; round < UNIT_TIMES(10, 4); round++) {
        want(&asked, round);
        for (int k = 0; k < 3; k++) {
            have = asked;
            have.session = session_of(engines[k]);
            by_steps(have.session, &have, k == 1 ? 3 : 0, have_logits);
            compare(&have, &asked, false);
            check_logits();
            cerium_session_close(&have.session);
            have.session = session_of(engines[k]);
            by_request(&have, have_logits);
            compare(&have, &asked, true);
            check_logits();
            cerium_session_close(&have.session);
        }
    }
}

static void test_crowd(void)
{
    static job asked[CROWD], have[CROWD];
    job *all[CROWD];
    for (uint32_t i = 0; i < CROWD; i++) want(&asked[i], 40 + i);
    for (int k = 0; k < 3; k++) {
        for (uint32_t i = 0; i < CROWD; i++) {
            have[i] = asked[i];
            have[i].session = session_of(engines[k]);
            all[i] = &have[i];
            start(all[i]);
        }
        finish(all, CROWD);
        for (uint32_t i = 0; i < CROWD; i++) {
            compare(&have[i], &asked[i], true);
            cerium_session_close(&have[i].session);
        }
    }
}

/* One session that is cut back, changed in the middle and continued, and its forks. */
static void test_back_and_forth(void)
{
    static job asked, have;
    cerium_error err;
    cerium_session *session = session_of(engines[1]), *fork = NULL;
    cerium_session *plain = session_of(plain_engine);
    for (uint32_t round = 0; round < UNIT_TIMES(12, 6); round++) {
        make_text(&asked, 80 + round / 4);
        asked.n_prompt -= round % 4 * 7;
        if (round % 4 == 2) asked.prompt[9] = (asked.prompt[9] + 1) % 200;
        by_steps(plain, &asked, 0, want_logits);
        have = asked;
        have.session = session;
        if (round % 2)
            by_steps(session, &have, 0, have_logits);
        else
            by_request(&have, have_logits);
        compare(&have, &asked, round % 2 == 0);
        check_logits();
        if (round % 3) continue;
        TEST_CHECK(cerium_session_fork(&fork, session, &err) == 0);
        have.session = fork;
        by_steps(fork, &have, 0, have_logits);
        compare(&have, &asked, false);
        cerium_session_close(&fork);
    }
    cerium_session_close(&session);
    cerium_session_close(&plain);
}

/* One turn after another: the draft model computes the new tokens only.  A head that was not right
 * yet does not read the whole prompt either: test_mtp.c. */
static void test_next_turn(void)
{
    static const char *const heads[] = {"mtp", "eagle3", "dflash", "dspark"};
    static job asked;
    bool is_head = false;
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) is_head |= strstr(draft, heads[i]) != NULL;
    cerium_engine_stats before, after, later;
    cerium_error err;
    cerium_step step;
    make_text(&asked, 120);
    asked.sampling = (cerium_sampling){.ignore_end = true};
    uint64_t tenant = ++fresh_tenant;
    for (int turn = 0; turn < 2; turn++) { /* each in a session of its own, as in a server */
        cerium_session *session = NULL;
        cerium_session_config config = {.tenant = tenant};
        CHECK(cerium_session_open(&session, engines[0], &config, &err) == 0);
        cerium_engine_measure(engines[0], turn ? &after : &before);
        TEST_CHECK(cerium_session_sync(session, asked.prompt, asked.n_prompt, NULL, &err) == 0);
        TEST_CHECK(cerium_session_step(session, &asked.sampling, &step, &err) == 0);
        TEST_CHECK(cerium_session_step(session, &asked.sampling, &step, &err) == 0);
        cerium_engine_measure(engines[0], &later);
        uint64_t n = later.draft_model_tokens - (turn ? after : before).draft_model_tokens;
        /* Then guesses, and the last tokens. */
        if (turn == 0)
            TEST_CHECK_THAT(n >= (is_head ? 5 : 70), "%llu", (unsigned long long)n);
        if (turn == 1) TEST_CHECK_THAT(n <= 40, "%llu", (unsigned long long)n);
        cerium_session_close(&session);
    }
}

/* A model that drafts for itself is always right: the same bits. */
static void test_right(void)
{
    static job asked, have;
    cerium_engine_stats before, after;
    for (uint32_t round = 0; round < 4; round++) {
        cerium_session *plain = session_of(plain_engine);
        make_text(&asked, 124 + round);
        asked.sampling = (cerium_sampling){.ignore_end = true};
        by_steps(plain, &asked, 0, want_logits);
        cerium_session_close(&plain);
        have = asked;
        have.session = session_of(engines[2]);
        cerium_engine_measure(engines[2], &before);
        if (round % 2)
            by_request(&have, have_logits);
        else
            by_steps(have.session, &have, 0, have_logits);
        cerium_engine_measure(engines[2], &after);
        compare(&have, &asked, round % 2);
        check_logits();
        uint64_t n = after.model_drafted_tokens - before.model_drafted_tokens;
        TEST_CHECK(n > 0 && n == after.model_accepted_tokens - before.model_accepted_tokens);
        TEST_CHECK_THAT(after.passes - before.passes <= 2 + ANSWER / 2, "%llu passes",
                        (unsigned long long)(after.passes - before.passes));
        cerium_session_close(&have.session);
    }
}

/* Stopped in the middle for any reason: the output is the beginning of the answer. */
static void *cancel_soon(void *arg)
{
    struct timespec nap = {0, 300000};
    nanosleep(&nap, NULL);
    cerium_session_cancel(arg);
    return NULL;
}

static void test_cancel(void)
{
    static job asked;
    cerium_error err;
    want(&asked, 131);
    for (uint32_t round = 0; round < UNIT_TIMES(30, 8); round++) {
        pthread_t thread;
        cerium_step step;
        uint32_t n = 0;
        int status = CERIUM_OK;
        cerium_session *session = session_of(engines[1]);
        TEST_CHECK(cerium_session_sync(session, asked.prompt, asked.n_prompt, NULL, &err) == 0);
        CHECK(pthread_create(&thread, NULL, cancel_soon, session) == 0);
        while (!status && n < asked.n_tokens) {
            cerium_sampling sampling = asked.sampling;
            sampling.step_tokens_max = asked.n_tokens - n;
            status = cerium_session_step(session, &sampling, &step, &err);
            for (uint32_t i = 0; !status && i < step.n_tokens; i++)
                TEST_CHECK(step.tokens[i] == asked.tokens[n + i]);
            if (!status) n += step.n_tokens;
        }
        pthread_join(thread, NULL);
        TEST_CHECK(status == CERIUM_OK || status == CERIUM_ERR_CANCELED);
        cerium_session_close(&session);
    }
    /* How many of those were still running is the machine's choice; this one is. */
    cerium_session *session = session_of(engines[1]);
    cerium_sampling sampling = asked.sampling;
    cerium_step step;
    sampling.step_tokens_max = 1;
    TEST_CHECK(cerium_session_sync(session, asked.prompt, asked.n_prompt, NULL, &err) == 0);
    TEST_CHECK(cerium_session_step(session, &sampling, &step, &err) == 0);
    cerium_session_cancel(session);
    TEST_CHECK(cerium_session_step(session, &sampling, &step, &err) == CERIUM_ERR_CANCELED);
    cerium_session_close(&session);
}

/* Longer than the draft model's context, and with pages for hardly more than one session. */
static void test_long(void)
{
    static job asked[2], have[2];
    job *all[2] = {&have[0], &have[1]};
    cerium_session *plain = session_of(plain_engine);
    cerium_engine *small = open_with("always", draft, 2, 1);
    for (uint32_t i = 0; i < 2; i++) {
        make_text(&asked[i], 140 + i);
        for (uint32_t n = asked[i].n_prompt; n < 700; asked[i].n_prompt = ++n)
            asked[i].prompt[n] = (int32_t)((n * 7919 + i) % 250);
        by_steps(plain, &asked[i], 0, want_logits);
        have[i] = asked[i];
        have[i].session = session_of(small);
        start(&have[i]);
    }
    finish(all, 2);
    for (uint32_t i = 0; i < 2; i++) {
        compare(&have[i], &asked[i], true);
        cerium_session_close(&have[i].session);
    }
    cerium_engine_close(&small);
    cerium_session_close(&plain);
}

/* As in production: costs count. */
static void test_auto(void)
{
    static job asked, have;
    cerium_engine *e = open_with("auto", draft, 2, 0);
    for (uint32_t round = 0; round < UNIT_TIMES(8, 3); round++) {
        want(&asked, 160 + round);
        have = asked;
        have.session = session_of(e);
        by_request(&have, have_logits);
        compare(&have, &asked, true);
        check_logits();
        cerium_session_close(&have.session);
    }
    cerium_engine_close(&e);
}

static void test_pair(const char *of, const char *by, bool is_right)
{
    const bool is_counting = strstr(of, "planted") != NULL;
    cerium_engine_stats sum = {0};
    cerium_engine_info known;
    model = of;
    draft = by;
    plain_engine = open_with("off", NULL, 2, 0);
    cerium_engine_describe(plain_engine, &info);
    want_logits = memory_alloc(info.n_vocab * sizeof *want_logits);
    have_logits = memory_alloc(info.n_vocab * sizeof *have_logits);
    for (uint32_t k = 0; k < 3; k++) engines[k] = open_with("always", draft, 1 + k, 0);
    cerium_engine_describe(engines[0], &known);
    long n_allocated = memory_live();
    TEST_RUN(test_alone);
    TEST_RUN(test_crowd);
    TEST_RUN(test_back_and_forth);
    if (!is_counting) TEST_RUN(test_next_turn); /* texts know the continuation, too */
    if (is_right) TEST_RUN(test_right);
    TEST_RUN(test_cancel);
    TEST_RUN(test_long);
    TEST_RUN(test_auto);
    for (int k = 0; k < 3; k++) {
        cerium_engine_stats one;
        cerium_engine_measure(engines[k], &one);
        sum.model_drafted_tokens += one.model_drafted_tokens;
        sum.model_accepted_tokens += one.model_accepted_tokens;
        sum.draft_model_passes += one.draft_model_passes;
    }
    printf("  %s by %s: %llu drafted, %llu accepted, %llu passes\n", of, by,
           (unsigned long long)sum.model_drafted_tokens,
           (unsigned long long)sum.model_accepted_tokens,
           (unsigned long long)sum.draft_model_passes);
    unit_test_failed = 0;
    TEST_CHECK(known.draft_model[0] && known.draft_model_bytes > 0);
    TEST_CHECK(sum.model_drafted_tokens > 100);
    TEST_CHECK(sum.model_accepted_tokens <= sum.model_drafted_tokens);
    TEST_CHECK(memory_live() == n_allocated + 3 * 3); /* one scheduler each */
    unit_failed += unit_test_failed > 0;
    for (int k = 0; k < 3; k++) cerium_engine_close(&engines[k]);
    cerium_engine_close(&plain_engine);
    memory_free(want_logits);
    memory_free(have_logits);
}

/* Models that cannot draft are refused in one line. */
static void refused(const char *of, const char *by, const char *why)
{
    cerium_engine_config config;
    cerium_engine *e = NULL;
    cerium_error err = {0};
    long before = memory_live();
    cerium_engine_config_defaults(&config);
    config.model_path = of;
    config.draft_model = by;
    TEST_CHECK(cerium_engine_open(&e, &config, &err) != 0 && !e);
    TEST_CHECK_THAT(strstr(err.message, "draft model: ") == err.message &&
                        strstr(err.message, why) && !strchr(err.message, '\n'),
                    "%s", err.message);
    TEST_CHECK(memory_live() == before);
}

/* A file with only a head: opening reads no more of a model that cannot generate. */
static void make_file(const char *path, const char *arch, const char *not_causal)
{
    cerium_error err;
    gguf_writer *w = NULL;
    CHECK(gguf_writer_open(&w, path, &err) == 0);
    gguf_write_string(w, "general.architecture", view_of(arch));
    if (not_causal) gguf_write_bool(w, not_causal, false);
    CHECK(gguf_writer_finish(&w, &err) == 0);
}

/* Encoders: of an architecture of their own, and of one that otherwise generates. */
static void test_no_decoder(void)
{
    char folder[] = "/tmp/cerium-draft-XXXXXX", path[64];
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/encoder.gguf", folder);
    make_file(path, "bert", NULL);
    refused("tests/golden/fixtures/llama.gguf", path, "architecture 'bert' is not supported");
    make_file(path, "qwen2", "qwen2.attention.causal");
    refused("tests/golden/fixtures/llama.gguf", path, "both directions");
    make_file(path, "qwen2", NULL); /* the small file was not the reason */
    refused("tests/golden/fixtures/llama.gguf", path, "qwen2.");
    unlink(path);
    rmdir(folder);
}

static void test_refused(void)
{
    refused("tests/golden/fixtures/llama.gguf", "models/cerium-line.gguf", "more than the model");
    refused("tests/golden/fixtures/llama.gguf", "tests/engine/steps.h", "GGUF");
    refused("tests/golden/fixtures/llama.gguf", "no such file", "no such file");
}

/* A model recites a text, and a model of another vocabulary that recites it, too, drafts: by steps,
 * most of its guesses right. */
static void test_recited(const char *text, const char *output)
{
    static job asked, have;
    cerium_engine_stats s;
    cerium_error err;
    size_t n = 0;
    TEST_CHECK(cerium_tokenize(plain_engine, text, strlen(text), 0, asked.prompt, PROMPT_MAX, &n,
                               &err) == 0);
    asked.n_prompt = 1;
    asked.n_new = (uint32_t)n - 1;
    cerium_session *plain = session_of(plain_engine);
    by_steps(plain, &asked, 0, want_logits);
    cerium_session_close(&plain);
    TEST_CHECK_THAT(asked.text_len == strlen(output) && !memcmp(asked.text, output, asked.text_len),
                    "%.*s", (int)asked.text_len, asked.text);
    for (int k = 0; k < 3; k++) {
        have = asked;
        have.session = session_of(engines[k]);
        by_steps(have.session, &have, 0, have_logits);
        compare(&have, &asked, false);
        check_logits();
        cerium_engine_measure(engines[k], &s);
        printf("  recited: %llu tokens, %llu passes, %llu drafted, %llu right\n",
               (unsigned long long)have.n_tokens, (unsigned long long)s.passes,
               (unsigned long long)s.model_drafted_tokens,
               (unsigned long long)s.model_accepted_tokens);
        TEST_CHECK(s.model_accepted_tokens * 4 > s.model_drafted_tokens * 3);
        TEST_CHECK(s.model_accepted_tokens * 2 > have.n_tokens && s.passes * 2 < have.n_tokens);
        cerium_session_close(&have.session);
    }
}

/* MODEL DRAFT TEXT SAID: of models that recite TEXT, whose first token is continued by SAID. */
static int recite(char **args)
{
    model = args[0];
    draft = args[1];
    plain_engine = open_with("off", NULL, 2, 0);
    cerium_engine_describe(plain_engine, &info);
    want_logits = memory_alloc(info.n_vocab * sizeof *want_logits);
    have_logits = memory_alloc(info.n_vocab * sizeof *have_logits);
    for (uint32_t k = 0; k < 3; k++) engines[k] = open_with("always", draft, 1 + k, 0);
    unit_test_failed = 0;
    test_recited(args[2], args[3]);
    unit_failed += unit_test_failed > 0;
    for (int k = 0; k < 3; k++) cerium_engine_close(&engines[k]);
    cerium_engine_close(&plain_engine);
    memory_free(want_logits);
    memory_free(have_logits);
    return unit_report("draft_model");
}

int main(int argc, char **argv)
{
    if (argc == 5) return recite(argv + 1);
    test_pair("tests/golden/fixtures/llama.gguf", "tests/golden/fixtures/llama.gguf", true);
    test_pair("tests/golden/fixtures/gpt-oss-mxfp4.gguf",
              "tests/golden/fixtures/gpt-oss-mxfp4.gguf", true); /* windows, experts */
    test_pair("models/cerium-line.gguf", "tests/golden/fixtures/qwen2-yarn.gguf", false);
    /* A model's own head, of one with states and of one without: random, and one that is right. */
    test_pair("tests/golden/fixtures/mtp-qwen35.gguf", "mtp", false);
    test_pair("tests/golden/fixtures/mtp-glm4moe.gguf", "mtp", false);
    test_pair("tests/golden/fixtures/mtp-planted-state.gguf", "mtp", true);
    /* A head in a file of its own, the same. */
    test_pair("tests/golden/fixtures/llama.gguf", "tests/golden/fixtures/eagle3-llama.gguf", false);
    test_pair("tests/golden/fixtures/qwen35.gguf", "tests/golden/fixtures/eagle3-wide.gguf", false);
    test_pair("tests/golden/fixtures/llama.gguf", "tests/golden/fixtures/eagle3-norms.gguf", false);
    test_pair("tests/golden/fixtures/qwen35.gguf", "tests/golden/fixtures/eagle3-layers.gguf",
              false);
    test_pair("tests/golden/fixtures/mtp-planted-state.gguf",
              "tests/golden/fixtures/eagle3-planted.gguf", true);
    /* A drafter that says blocks, the same. */
    test_pair("tests/golden/fixtures/llama.gguf", "tests/golden/fixtures/dflash-llama.gguf", false);
    test_pair("tests/golden/fixtures/qwen35.gguf", "tests/golden/fixtures/dflash-window.gguf",
              false);
    test_pair("tests/golden/fixtures/llama.gguf", "tests/golden/fixtures/dspark-llama.gguf", false);
    test_pair("tests/golden/fixtures/mtp-planted-state.gguf",
              "tests/golden/fixtures/dflash-planted.gguf", true);
    TEST_RUN(test_refused);
    TEST_RUN(test_no_decoder);
    return unit_report("draft_model");
}
