/* test_head.c - the output head: a search for the best logits, with second products only for those
 * that may be among them, gives the tokens of the whole head, bit for bit; and a head in a narrower
 * type is close to the one in the file. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cerium.h"

#include "../unit/unit.h"

enum { PROMPT = 24, NEW = UNIT_TIMES(400, 120), ROUNDS = UNIT_TIMES(3, 1), CROWD = 44 };

static const char model[] = "models/cerium-line.gguf";

/* Every way of sampling that needs only the best, one that needs all, and one for which the screen
 * does not pay, so that searching pauses and begins again. */
static const cerium_sampling choices[] = {
    {.ignore_end = true},
    {.repetition_penalty = 1.3f, .ignore_end = true},
    {.repetition_penalty = 0.8f, .repetition_tokens = 200, .ignore_end = true},
    {.temperature = 0.8f, .top_k = 4, .seed = 1, .ignore_end = true},
    {.temperature = 1.2f, .top_k = 1, .repetition_penalty = 1.1f, .seed = 2, .ignore_end = true},
    {.temperature = 1.0f, .top_k = 40, .top_p = 0.9f, .min_p = 0.01f, .seed = 3,
     .repetition_penalty = 1.2f, .ignore_end = true},
    {.temperature = 1.0f, .seed = 4, .ignore_end = true},
};

static cerium_engine *open_engine(const char *head)
{
    cerium_engine *engine = NULL;
    cerium_engine_config config;
    cerium_error err;
    cerium_engine_config_defaults(&config);
    config.model_path = model;
    config.threads = 2;
    config.batch_tokens_max = 64;
    config.sessions_max = CROWD + 1;
    config.head = head;
    config.speculation = "always";
    TEST_CHECK_THAT(cerium_engine_open(&engine, &config, &err) == 0, "%s", err.message);
    return engine;
}

/* The first tokens of some code: a search pays where the next token is nearly certain. */
static void prompt_of(int32_t *tokens, uint32_t round, const cerium_engine *engine)
{
    static const char *const texts[] = {
        "import argparse\nimport json\nimport os\n\n\ndef main():\n    parser = argparse.Arg"
        "umentParser(description=__doc__)\n    parser.add_argument(\"path\")\n    args = parser",
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\nint main(int argc, char "
        "**argv)\n{\n    FILE *file = fopen(argv[1], \"rb\");\n    if (file == NULL) {\n",
        "package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc read(path string) ([]byte, "
        "error) {\n\tdata, err := os.ReadFile(path)\n\tif err != nil {\n\t\treturn",
    };
    const char *text = texts[round % (sizeof texts / sizeof *texts)];
    static int32_t all[256];
    size_t n = 0;
    cerium_error err;
    TEST_CHECK(cerium_tokenize(engine, text, strlen(text), 0, all, sizeof all / sizeof *all, &n,
                               &err) == 0);
    TEST_CHECK(n >= PROMPT);
    memcpy(tokens, all, PROMPT * sizeof *tokens);
}

enum { PANEL = 16 /* logits that are computed or skipped together */ };

static cerium_engine_stats measure(const cerium_engine *engine)
{
    cerium_engine_stats stats;
    cerium_engine_measure(engine, &stats);
    return stats;
}

/* The bytes that a pass reports to have read of the head, given how many of its logits it skipped:
 * whole panels, and all of it, except the screen, if it did not search, as when all are needed. */
static void check_bytes(uint64_t bytes, uint32_t n_left_out, bool looks_at_all, uint32_t n_vocab,
                        const cerium_engine_info *full, const cerium_engine_info *search)
{
    static uint64_t panel_bytes;
    const uint64_t whole_less_screen = full->step_bytes - search->step_bytes;
    const uint32_t panels = (n_vocab - n_left_out + PANEL - 1) / PANEL;
    TEST_CHECK(bytes == whole_less_screen || !looks_at_all);
    if (bytes == whole_less_screen) return; /* the second part of products was skipped */
    TEST_CHECK_THAT(bytes > 0 && bytes % panels == 0, "%llu bytes of %u panels",
                    (unsigned long long)bytes, panels);
    if (panel_bytes == 0) panel_bytes = bytes / panels;
    TEST_CHECK_THAT(bytes / panels == panel_bytes, "%llu bytes of %u panels, of %llu",
                    (unsigned long long)bytes, panels, (unsigned long long)panel_bytes);
}

static bool looks_at_all(const cerium_sampling *choice)
{
    return choice->temperature > 0 && choice->top_k == 0;
}

/* Steps of sessions of either engine, the first of which leaves out nothing: tokens [NEW]; the
 * logits that the other left out. */
static uint32_t compare_steps(cerium_session *full, cerium_session *search,
                              cerium_engine *const engines[2], const cerium_engine_info info[2],
                              const cerium_sampling *sampling)
{
    cerium_step a, b;
    cerium_error err;
    uint32_t n_left_out = 0;
    const uint32_t n_vocab = info[0].n_vocab;
    for (int i = 0; i < NEW; i++) {
        const cerium_engine_stats before = measure(engines[1]);
        const uint32_t left_out_before = n_left_out;
        TEST_CHECK(cerium_session_step(full, sampling, &a, &err) == 0);
        TEST_CHECK(cerium_session_step(search, sampling, &b, &err) == 0);
        TEST_CHECK_THAT(a.tokens[0] == b.tokens[0], "step %d: %d, not %d", i, b.tokens[0],
                        a.tokens[0]);
        const float *want = cerium_session_logits(full, NULL);
        const float *have = cerium_session_logits(search, NULL);
        for (uint32_t t = 0; t < n_vocab; t++) {
            bool is_out = have[t] == -INFINITY;
            n_left_out += is_out;
            TEST_CHECK(is_out || memcmp(have + t, want + t, sizeof *have) == 0);
        }
        const cerium_engine_stats after = measure(engines[1]);
        if (after.passes > before.passes) /* the first token is of the prompt's pass */
            check_bytes(after.head_bytes - before.head_bytes, n_left_out - left_out_before,
                        looks_at_all(sampling), n_vocab, &info[0], &info[1]);
    }
    TEST_CHECK(measure(engines[0]).head_bytes == 0);
    return n_left_out;
}

/* Logits that the second engine skipped for this way of sampling. */
static uint32_t left_out(cerium_engine *const engines[2], const cerium_engine_info info[2],
                         const cerium_sampling *choice)
{
    static const cerium_session_config by_one = {.no_speculation = true};
    cerium_error err;
    uint32_t n = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        cerium_session *sessions[2] = {NULL, NULL};
        int32_t tokens[PROMPT];
        prompt_of(tokens, round, engines[0]);
        for (int k = 0; k < 2; k++) {
            TEST_CHECK(cerium_session_open(&sessions[k], engines[k], &by_one, &err) == 0);
            TEST_CHECK(cerium_session_sync(sessions[k], tokens, PROMPT, NULL, &err) == 0);
        }
        n += compare_steps(sessions[0], sessions[1], engines, info, choice);
        for (int k = 0; k < 2; k++) cerium_session_close(&sessions[k]);
    }
    return n;
}

static void test_search_is_exact(void)
{
    cerium_engine *engines[2] = {open_engine("full"), open_engine("search")};
    cerium_engine_info info[2];
    uint32_t n_searched = 0, n_choices = 0;
    for (int k = 0; k < 2; k++) cerium_engine_describe(engines[k], &info[k]);
    for (size_t c = 0; c < sizeof choices / sizeof *choices; c++) {
        const uint32_t n_left_out = left_out(engines, info, &choices[c]);
        const bool at_all = looks_at_all(&choices[c]);
        TEST_CHECK_THAT(!at_all || n_left_out == 0, "choice %zu: %u left out", c, n_left_out);
        n_choices += !at_all;
        n_searched += n_left_out > 0;
    }
    /* Whether a search pays depends on the text, and a short run may not get there. */
    TEST_CHECK_THAT(UNIT_SANITIZED || 2 * n_searched > n_choices, "%u of %u left something out",
                    n_searched, n_choices);
    for (int k = 0; k < 2; k++) cerium_engine_close(&engines[k]);
}

/* This head is too small for a search: only second products are skipped, unless tokens are
 * penalised. */
static void test_second_products_are_exact(void)
{
    cerium_engine *engines[2] = {open_engine("full"), open_engine("auto")};
    cerium_engine_info info[2];
    for (int k = 0; k < 2; k++) cerium_engine_describe(engines[k], &info[k]);
    TEST_CHECK(info[0].step_bytes == info[1].step_bytes);
    for (size_t c = 0; c < sizeof choices / sizeof *choices; c++) {
        const bool wanted = looks_at_all(&choices[c]) || choices[c].repetition_penalty > 0;
        const uint32_t n = left_out(engines, info, &choices[c]);
        /* For greedy tokens nearly all are skipped. */
        TEST_CHECK_THAT(wanted ? n == 0 : n > 0, "choice %zu: %u left out", c, n);
        TEST_CHECK_THAT(c > 0 || n > info[0].n_vocab / 4 * 3 * NEW * ROUNDS, "%u left out", n);
    }
    for (int k = 0; k < 2; k++) cerium_engine_close(&engines[k]);
}

/* Logits that a caller can see are complete: after a sync, with logprobs, and where a session
 * continues after a search. */
static void check_whole_logits(const char *head)
{
    cerium_engine *engine = open_engine(head);
    cerium_engine_info info;
    cerium_session *session = NULL;
    cerium_error err;
    cerium_step step;
    int32_t tokens[PROMPT + 1];
    cerium_engine_describe(engine, &info);
    prompt_of(tokens, 0, engine);
    TEST_CHECK(cerium_session_open(&session, engine, NULL, &err) == 0);
    TEST_CHECK(cerium_session_sync(session, tokens, PROMPT, NULL, &err) == 0);
    for (int i = 0; i < 6; i++) {
        const cerium_sampling sampling = {.ignore_end = true,
                                          .logprobs = i % 2 == 0,
                                          .step_tokens_max = 1};
        TEST_CHECK(cerium_session_step(session, &sampling, &step, &err) == 0);
        TEST_CHECK((step.logprobs[0] < 0) == sampling.logprobs);
        if (i == 0) tokens[PROMPT] = step.tokens[0];
    }
    /* The logits before the last token are those of a search: they do not count as complete. */
    TEST_CHECK(cerium_session_sync(session, tokens, PROMPT + 1, NULL, &err) == 0);
    TEST_CHECK(cerium_session_step(session, NULL, &step, &err) == 0);
    TEST_CHECK(cerium_session_step(session, NULL, &step, &err) == 0);
    size_t n = 0, n_vocab = 0;
    const int32_t *timeline = cerium_session_tokens(session, &n);
    static int32_t copy[256];
    TEST_CHECK(n - 1 <= sizeof copy / sizeof *copy);
    memcpy(copy, timeline, (n - 1) * sizeof *copy);
    TEST_CHECK(cerium_session_sync(session, copy, n - 1, NULL, &err) == 0);
    const float *logits = cerium_session_logits(session, &n_vocab);
    for (size_t t = 0; t < n_vocab; t++) TEST_CHECK(logits[t] > -INFINITY);
    cerium_session_close(&session);
    cerium_engine_close(&engine);
}

static void test_whole_logits_where_wanted(void)
{
    check_whole_logits("search");
    check_whole_logits("auto");
}

/* Drafts are rows of one pass: each has its own best. */
static void run_request(cerium_engine *engine, const cerium_sampling *sampling, int32_t *out,
                        const int32_t *prediction, uint32_t *n_accepted)
{
    enum { ANSWER = 120 };
    cerium_session *session = NULL;
    cerium_engine_info info;
    cerium_error err;
    cerium_event event = {.kind = CERIUM_EVENT_NONE};
    int32_t tokens[PROMPT];
    uint32_t n = 0;
    cerium_engine_describe(engine, &info);
    prompt_of(tokens, 0, engine);
    TEST_CHECK(cerium_session_open(&session, engine, NULL, &err) == 0);
    const cerium_request request = {.tokens = tokens,
                                    .n_tokens = PROMPT,
                                    .new_tokens_max = ANSWER,
                                    .sampling = sampling,
                                    .prediction = prediction,
                                    .n_prediction = prediction ? ANSWER : 0};
    TEST_CHECK(cerium_session_start(session, &request, &err) == 0);
    while (event.kind != CERIUM_EVENT_DONE) {
        cerium_session_poll(session, &event);
        if (event.kind == CERIUM_EVENT_STEP) out[n++] = event.step.tokens[0];
    }
    TEST_CHECK(n == ANSWER && event.status == CERIUM_OK);
    cerium_usage usage;
    cerium_session_usage(session, &usage);
    *n_accepted = usage.accepted_tokens;
    cerium_session_close(&session);
}

static void check_drafts(const char *head)
{
    cerium_engine *full = open_engine("full"), *search = open_engine(head);
    for (size_t c = 0; c < 5; c++) {
        int32_t want[128] = {0}, have[128] = {0};
        uint32_t n_accepted = 0;
        run_request(full, &choices[c], want, NULL, &n_accepted);
        run_request(search, &choices[c], have, NULL, &n_accepted);
        TEST_CHECK(memcmp(want, have, sizeof want) == 0);
        run_request(search, &choices[c], have, want, &n_accepted);
        TEST_CHECK(memcmp(want, have, sizeof want) == 0 && n_accepted > 60);
    }
    cerium_engine_close(&full);
    cerium_engine_close(&search);
}

static void test_search_of_drafts(void)
{
    check_drafts("search");
    check_drafts("auto");
}

/* More sessions than rows of one head call, each with a grammar of its own or none: their output is
 * that of the whole head. */
static void crowd(cerium_engine *engine, int32_t out[CROWD][PROMPT])
{
    static const char *const words = "[a-z_ ]{1,80}";
    cerium_session *sessions[CROWD] = {NULL};
    cerium_grammar *grammar = NULL;
    cerium_error err;
    const cerium_sampling greedy = {.ignore_end = true};
    TEST_CHECK(cerium_grammar_compile(&grammar, CERIUM_GRAMMAR_REGEX, words, strlen(words),
                                      &err) == 0);
    const cerium_guide guide = {.grammar = grammar};
    for (uint32_t i = 0; i < CROWD; i++) {
        int32_t tokens[PROMPT];
        prompt_of(tokens, i, engine);
        const cerium_request request = {.tokens = tokens,
                                        .n_tokens = 3 + i / 3 % (PROMPT - 3),
                                        .new_tokens_max = PROMPT,
                                        .sampling = &greedy,
                                        .guide = i % 2 ? &guide : NULL};
        TEST_CHECK(cerium_session_open(&sessions[i], engine, NULL, &err) == 0);
        TEST_CHECK(cerium_session_start(sessions[i], &request, &err) == 0);
    }
    for (uint32_t i = 0; i < CROWD; i++) {
        cerium_event event = {.kind = CERIUM_EVENT_NONE};
        uint32_t n = 0;
        while (event.kind != CERIUM_EVENT_DONE) {
            cerium_session_poll(sessions[i], &event);
            if (event.kind == CERIUM_EVENT_STEP) out[i][n++] = event.step.tokens[0];
        }
        TEST_CHECK(event.status == CERIUM_OK);
        cerium_session_close(&sessions[i]);
    }
    cerium_grammar_close(&grammar);
}

static void test_crowd(void)
{
    static const char *const heads[] = {"full", "auto", "search"};
    static int32_t out[3][CROWD][PROMPT];
    for (int k = 0; k < 3; k++) {
        cerium_engine *engine = open_engine(heads[k]);
        crowd(engine, out[k]);
        TEST_CHECK_THAT(memcmp(out[0], out[k], sizeof out[0]) == 0, "%s", heads[k]);
        cerium_engine_close(&engine);
    }
}

/* In 4 bits more than half of the likeliest tokens stay the same, in 6 nearly all; and other heads
 * than the file's are refused where they make no sense. */
static double share_of_equal_best(const char *head)
{
    cerium_engine *engines[2] = {open_engine("full"), open_engine(head)};
    cerium_error err;
    cerium_engine_info info;
    int n_equal = 0, n = 0;
    cerium_engine_describe(engines[0], &info);
    for (uint32_t round = 0; round < 40; round++) {
        int32_t tokens[PROMPT];
        cerium_logprob best[2];
        for (uint32_t i = 0; i < PROMPT; i++)
            tokens[i] = (int32_t)((round * 977 + i * 2654435761u) % 100003 % info.n_vocab);
        for (int k = 0; k < 2; k++) {
            cerium_session *session = NULL;
            TEST_CHECK(cerium_session_open(&session, engines[k], NULL, &err) == 0);
            TEST_CHECK(cerium_session_sync(session, tokens, PROMPT, NULL, &err) == 0);
            TEST_CHECK(cerium_session_top(session, &best[k], 1) == 1);
            cerium_session_close(&session);
        }
        n_equal += best[0].token == best[1].token;
        n++;
    }
    for (int k = 0; k < 2; k++) cerium_engine_close(&engines[k]);
    return (double)n_equal / n;
}

static void test_narrow_head(void)
{
    static const struct {
        const char *head;
        double share_min;
    } heads[] = {{"q4_0", 0.6}, {"q4_w", 0.6}, {"q6_k", 0.85}, {"q8_0", 1}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        double share = share_of_equal_best(heads[i].head);
        TEST_CHECK_THAT(share >= heads[i].share_min, "%s: %g", heads[i].head, share);
    }
    static const char *const bad[] = {"f16", "q8", "none"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cerium_engine *engine = NULL;
        cerium_engine_config config;
        cerium_error err;
        cerium_engine_config_defaults(&config);
        config.model_path = model;
        config.head = bad[i];
        TEST_CHECK(cerium_engine_open(&engine, &config, &err) != 0 && !engine);
    }
}

int main(void)
{
    TEST_RUN(test_search_is_exact);
    TEST_RUN(test_second_products_are_exact);
    TEST_RUN(test_whole_logits_where_wanted);
    TEST_RUN(test_search_of_drafts);
    TEST_RUN(test_crowd);
    TEST_RUN(test_narrow_head);
    return unit_report("head");
}
