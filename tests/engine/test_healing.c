/* test_healing.c - prompts that end within a token: the part that is cut off, and that the answer's
 * tokens spell it while its text does not. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cerium.h"

#include "../unit/unit.h"

enum { NEW = 24, PROMPT_MAX = 64, TEXT_MAX = 4096 };

static cerium_engine *engine;

typedef struct {
    int32_t prompt[PROMPT_MAX];
    size_t n;
    char heal_prefix[CERIUM_HEAL_PREFIX_MAX];
    size_t n_heal;
    cerium_resume begin;
} question;

typedef struct {
    int32_t tokens[NEW];
    size_t n;
    char text[TEXT_MAX];
    size_t len;
    cerium_stop stop;
} answer;

static void ask(question *q, const char *text)
{
    memset(q, 0, sizeof *q);
    size_t len = strlen(text);
    q->n_heal = cerium_heal_prefix(engine, text, len);
    memcpy(q->heal_prefix, text + len - q->n_heal, q->n_heal);
    TEST_CHECK(cerium_tokenize(engine, text, len - q->n_heal, CERIUM_TOKENIZE_BEGIN, q->prompt,
                               PROMPT_MAX, &q->n, NULL) == 0);
    q->begin = (cerium_resume){.heal_prefix = q->heal_prefix, .n_heal = q->n_heal};
}

/* The same for infill with a line after the hole. */
static void ask_hole(question *q, const char *text)
{
    memset(q, 0, sizeof *q);
    size_t len = strlen(text);
    q->n_heal = cerium_infill_heal_prefix(engine, text, len);
    memcpy(q->heal_prefix, text + len - q->n_heal, q->n_heal);
    cerium_infill in = {.prefix = text, .prefix_len = len - q->n_heal, .suffix = "\nend\n",
                        .suffix_len = 5};
    TEST_CHECK(cerium_infill_tokens(engine, &in, q->prompt, PROMPT_MAX, &q->n, NULL) == 0);
    q->begin = (cerium_resume){.heal_prefix = q->heal_prefix, .n_heal = q->n_heal};
}

static cerium_session *open_session(bool drafts)
{
    static uint64_t tenant;
    cerium_session *session = NULL;
    cerium_session_config config = {.tenant = ++tenant, .no_speculation = !drafts};
    TEST_CHECK(cerium_session_open(&session, engine, &config, NULL) == 0);
    return session;
}

static void take(answer *a, const cerium_step *step)
{
    for (uint32_t i = 0; i < step->n_tokens && a->n < NEW; i++) a->tokens[a->n++] = step->tokens[i];
    memcpy(a->text + a->len, step->text, step->text_len);
    a->len += step->text_len;
    a->text[a->len] = 0;
    a->stop = step->stop;
}

static void walk(answer *a, cerium_session *session, const cerium_sampling *sampling)
{
    cerium_step step;
    cerium_sampling own = sampling ? *sampling : (cerium_sampling){0};
    while (a->n < NEW && a->stop == CERIUM_STOP_NONE) {
        own.step_tokens_max = (uint32_t)(NEW - a->n);
        TEST_CHECK(cerium_session_step(session, &own, &step, NULL) == 0);
        take(a, &step);
    }
}

static void by_steps(answer *a, const question *q, const cerium_sampling *sampling, bool drafts)
{
    cerium_session *session = open_session(drafts);
    memset(a, 0, sizeof *a);
    TEST_CHECK(cerium_session_resume(session, q->prompt, q->n, &q->begin, NULL, NULL) == 0);
    walk(a, session, sampling);
    cerium_session_close(&session);
}

static void by_request(answer *a, const question *q, const cerium_sampling *sampling)
{
    cerium_session *session = open_session(true);
    cerium_request request = {.tokens = q->prompt, .n_tokens = q->n, .new_tokens_max = NEW,
                              .sampling = sampling, .resume = &q->begin};
    cerium_event event = {0};
    memset(a, 0, sizeof *a);
    TEST_CHECK(cerium_session_start(session, &request, NULL) == 0);
    while (event.kind != CERIUM_EVENT_DONE) {
        cerium_session_poll(session, &event);
        if (event.kind == CERIUM_EVENT_STEP) take(a, &event.step);
        if (event.kind == CERIUM_EVENT_NONE) usleep(50);
    }
    TEST_CHECK(event.status == 0);
    cerium_session_close(&session);
}

/* The tokens' bytes are heal_prefix and then the text, except for an incomplete character. */
static void check_spelled(const question *q, const answer *a)
{
    char bytes[TEXT_MAX];
    size_t n = 0;
    for (size_t i = 0; i < a->n; i++) {
        size_t len;
        const char *piece = cerium_token_bytes(engine, a->tokens[i], &len);
        if (len > 4 && !memcmp(piece, "<|", 2) && !memcmp(piece + len - 2, "|>", 2))
            continue; /* a control token: no text */
        memcpy(bytes + n, piece, len);
        n += len;
    }
    TEST_CHECK(n >= q->n_heal && !memcmp(bytes, q->heal_prefix, q->n_heal));
    TEST_CHECK_THAT(n >= q->n_heal + a->len && n - q->n_heal - a->len < 4,
                    "%zu bytes: %zu and %zu", n, q->n_heal, a->len);
    TEST_CHECK(!memcmp(bytes + q->n_heal, a->text, a->len));
}

static void check_heal_prefix(const question *q, const char *text, const char *want)
{
    TEST_CHECK_THAT(!strncmp(q->heal_prefix, want, q->n_heal) && q->n_heal == strlen(want),
                    "%s: %.*s", text, (int)q->n_heal, q->heal_prefix);
}

static void test_taken_off(void)
{
    static const struct {
        const char *text, *heal_prefix, *before_hole;
    } cases[] = {{"def f(x):", "):", "):"}, {"import num", " num", " num"}, {"x", "", ""},
                 {"a = b\n", "\n", ""},     {"f()\n    ", "    ", "    "},
                 {"f()\n\n", "()\n\n", ""}};
    question q;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask(&q, cases[i].text);
        check_heal_prefix(&q, cases[i].text, cases[i].heal_prefix);
        ask_hole(&q, cases[i].text);
        check_heal_prefix(&q, cases[i].text, cases[i].before_hole);
    }
    /* After a control token text begins; without text there is nothing to heal. */
    TEST_CHECK(cerium_heal_prefix(engine, "a b<|fim_middle|>", 17) == 0);
    TEST_CHECK(cerium_heal_prefix(engine, "a b<|fim_middle|>x", 18) == 1);
    TEST_CHECK(cerium_heal_prefix(engine, "", 0) == 0 && cerium_heal_prefix(engine, NULL, 0) == 0);
    /* For a text of any length, only its end counts. */
    static char large[100000];
    memset(large, 'a', sizeof large);
    memcpy(large + sizeof large - 11, "\ndef f(xy):", 11);
    TEST_CHECK(cerium_heal_prefix(engine, large, sizeof large) == 2);
    /* A run of blanks longer than the window, and bytes that are not UTF-8. */
    memset(large, ' ', sizeof large);
    TEST_CHECK(cerium_heal_prefix(engine, large, sizeof large) < CERIUM_HEAL_PREFIX_MAX);
    memset(large, 0xff, sizeof large);
    TEST_CHECK(cerium_heal_prefix(engine, large, sizeof large) < CERIUM_HEAL_PREFIX_MAX);
}

static const char *const prompts[] = {"def fibonacci(n):",     "int main(void)",
                                      "for (int i = 0; i < n", "import num",
                                      "    return self.",      "x = 'é"};
enum { PROMPTS = sizeof prompts / sizeof *prompts };

static void check_all_spelled(void (*ask_it)(question *, const char *))
{
    question q;
    answer plain, drafted, requested;
    for (int i = 0; i < PROMPTS; i++) {
        ask_it(&q, prompts[i]);
        TEST_CHECK_THAT(q.n_heal > 0, "%s", prompts[i]);
        for (uint64_t seed = 0; seed < UNIT_TIMES(12, 3); seed++) {
            cerium_sampling sampling = {.temperature = seed ? 1.2f : 0, .seed = seed};
            by_steps(&plain, &q, &sampling, false);
            by_steps(&drafted, &q, &sampling, true);
            by_request(&requested, &q, &sampling);
            check_spelled(&q, &plain);
            size_t reached = 0; /* some token spells the cut part, so the first one does */
            if (plain.n) cerium_token_bytes(engine, plain.tokens[0], &reached);
            TEST_CHECK_THAT(reached >= q.n_heal, "%zu bytes of %zu", reached, q.n_heal);
            size_t n = plain.n * sizeof *plain.tokens;
            TEST_CHECK(plain.n == drafted.n && !memcmp(plain.tokens, drafted.tokens, n));
            TEST_CHECK(plain.n == requested.n && !memcmp(plain.tokens, requested.tokens, n));
            TEST_CHECK(!strcmp(plain.text, drafted.text) && !strcmp(plain.text, requested.text));
        }
    }
}

static void test_spelled(void)
{
    check_all_spelled(ask);
    check_all_spelled(ask_hole);
}

/* Whether a token spells the whole rest, or more. */
static bool reaches(const question *q, int32_t id, size_t at)
{
    size_t len, left = q->n_heal - at;
    const char *bytes = cerium_token_bytes(engine, id, &len);
    return len >= left && !memcmp(bytes, q->heal_prefix + at, left);
}

/* Greedy: the likeliest of the tokens that spell the whole rest or more; found here by
 * trying each. */
static void test_likeliest(void)
{
    question q;
    answer a;
    ask(&q, "def fibonacci(n):");
    by_steps(&a, &q, NULL, true);
    cerium_session *session = open_session(false);
    size_t at = 0, n_vocab;
    for (size_t k = 0; k < a.n && at < q.n_heal; k++) {
        TEST_CHECK(cerium_session_sync(session, q.prompt, q.n, NULL, NULL) == 0);
        const float *logits = cerium_session_logits(session, &n_vocab);
        int32_t best = -1;
        for (int32_t id = 0; id < (int32_t)n_vocab; id++) {
            if (!reaches(&q, id, at)) continue;
            if (best < 0 || logits[id] > logits[best]) best = id;
        }
        TEST_CHECK(best == a.tokens[k]);
        size_t len;
        (void)cerium_token_bytes(engine, best, &len);
        at += len;
        q.prompt[q.n++] = best;
    }
    cerium_session_close(&session);
}

/* The log-probability of a token that spells: among all that do. */
static void test_logprob(void)
{
    question q;
    size_t n_vocab;
    cerium_step step;
    const cerium_sampling sampling = {.logprobs = true, .step_tokens_max = 1};
    ask(&q, "import num");
    cerium_session *session = open_session(false), *spelling = open_session(false);
    TEST_CHECK(cerium_session_sync(session, q.prompt, q.n, NULL, NULL) == 0);
    TEST_CHECK(cerium_session_resume(spelling, q.prompt, q.n, &q.begin, NULL, NULL) == 0);
    TEST_CHECK(cerium_session_step(spelling, &sampling, &step, NULL) == 0);
    const float *logits = cerium_session_logits(session, &n_vocab);
    double sum = 0, chosen = (double)logits[step.tokens[0]];
    uint32_t n = 0;
    for (int32_t id = 0; id < (int32_t)n_vocab; id++) {
        if (!reaches(&q, id, 0)) continue;
        sum += exp((double)logits[id] - chosen);
        n++;
    }
    TEST_CHECK(n > 1 && fabs((double)step.logprobs[0] + log(sum)) < 1e-4);
    cerium_session_close(&session);
    cerium_session_close(&spelling);
}

/* A heal_prefix that no single token spells, with and without drafts; continued after each
 * token. */
static void test_many_tokens(void)
{
    question q;
    answer whole, rest;
    ask(&q, "x = y");
    memcpy(q.heal_prefix, " qzxjkvb:", 9);
    q.begin.n_heal = q.n_heal = 9;
    by_steps(&whole, &q, NULL, true);
    check_spelled(&q, &whole);
    TEST_CHECK(whole.n > 3);
    for (size_t n = 0; n <= 8; n++) {
        cerium_session *session = open_session(n % 2);
        cerium_resume resume = q.begin;
        int32_t tokens[PROMPT_MAX + NEW];
        size_t shown = 0, spelled = 0;
        memcpy(tokens, q.prompt, q.n * sizeof *tokens);
        memcpy(tokens + q.n, whole.tokens, n * sizeof *tokens);
        resume.n_answer = n;
        for (size_t i = 0; i < n; i++) {
            size_t len;
            (void)cerium_token_bytes(engine, whole.tokens[i], &len);
            spelled += len;
        }
        if (spelled > q.n_heal) shown = spelled - q.n_heal;
        memset(&rest, 0, sizeof rest);
        rest.n = n;
        TEST_CHECK(cerium_session_resume(session, tokens, q.n + n, &resume, NULL, NULL) == 0);
        walk(&rest, session, NULL);
        TEST_CHECK(!memcmp(rest.tokens + n, whole.tokens + n, (NEW - n) * sizeof *rest.tokens));
        TEST_CHECK_THAT(!strcmp(rest.text, whole.text + shown), "%zu: %s|%s", n, rest.text,
                        whole.text + shown);
        cerium_session_close(&session);
    }
}

/* A stop string within the prompt has no effect; one after it has. */
static void test_stops(void)
{
    question q;
    answer plain, a;
    char own[4] = "";
    const char *const stops[] = {"):", own};
    ask(&q, "def fibonacci(n):");
    by_steps(&plain, &q, NULL, true);
    size_t len = strlen(plain.text);
    TEST_CHECK(len > 8);
    memcpy(own, plain.text + len / 2, 3);
    for (uint32_t n = 1; n <= 2; n++) {
        cerium_sampling sampling = {.stops = stops, .n_stops = n};
        const char *end = plain.text + len;
        for (uint32_t k = 0; k < n; k++) {
            const char *at = strstr(plain.text, stops[k]);
            if (at && at < end) end = at;
        }
        size_t want = (size_t)(end - plain.text);
        by_steps(&a, &q, &sampling, true);
        TEST_CHECK_THAT(strlen(a.text) == want && !memcmp(a.text, plain.text, want), "'%s', '%s'",
                        a.text, plain.text);
        TEST_CHECK((a.stop == CERIUM_STOP_TEXT) == (want < len));
    }
}

static void test_fork(void)
{
    question q;
    answer a, b = {0};
    cerium_session *fork = NULL, *session = open_session(true);
    ask(&q, "import num");
    by_steps(&a, &q, NULL, true);
    TEST_CHECK(cerium_session_resume(session, q.prompt, q.n, &q.begin, NULL, NULL) == 0);
    TEST_CHECK(cerium_session_fork(&fork, session, NULL) == 0);
    walk(&b, fork, NULL);
    TEST_CHECK(a.n == b.n && !memcmp(a.tokens, b.tokens, a.n * sizeof *a.tokens));
    TEST_CHECK(!strcmp(a.text, b.text));
    cerium_session_close(&fork);
    cerium_session_close(&session);
}

static void test_refused(void)
{
    question q;
    cerium_error err;
    cerium_session *session = open_session(true);
    ask(&q, "def f(x):");
    cerium_resume bad = q.begin;
    bad.n_answer = 1; /* "f", which is not a heal_prefix */
    TEST_CHECK(cerium_session_resume(session, q.prompt, q.n, &bad, NULL, &err) ==
               CERIUM_ERR_ARGUMENT);
    TEST_CHECK_THAT(strstr(err.message, "does not begin with its heal_prefix"), "%s", err.message);
    bad = q.begin;
    bad.n_heal = CERIUM_HEAL_PREFIX_MAX + 1;
    TEST_CHECK(cerium_session_resume(session, q.prompt, q.n, &bad, NULL, &err) ==
               CERIUM_ERR_ARGUMENT);
    bad = (cerium_resume){.n_heal = 1};
    TEST_CHECK(cerium_session_resume(session, q.prompt, q.n, &bad, NULL, &err) ==
               CERIUM_ERR_ARGUMENT);
    cerium_guide guide = {0};
    TEST_CHECK(cerium_session_resume(session, q.prompt, q.n, &q.begin, NULL, &err) == 0);
    TEST_CHECK(cerium_session_guide(session, &guide, &err) == CERIUM_ERR_ARGUMENT);
    cerium_request request = {.tokens = q.prompt, .n_tokens = q.n, .new_tokens_max = 1,
                              .resume = &q.begin, .guide = &guide};
    TEST_CHECK(cerium_session_start(session, &request, &err) == CERIUM_ERR_ARGUMENT);
    cerium_session_close(&session);
}

/* Only a text of a grammar, then any text; with the rest of a heal_prefix before it. */
static void test_within(void)
{
    static const struct {
        const char *prompt, *within;
    } cases[] = {{"x", "(?:zzx|quy)(?:\\n[\\s\\S]*)?"},
                 {"import num", " num(?:zzx|quy)(?:\\n[\\s\\S]*)?"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        question q;
        answer steps, drafted, request;
        cerium_grammar *g = NULL;
        TEST_CHECK(cerium_grammar_compile(&g, CERIUM_GRAMMAR_REGEX, cases[i].within,
                                          strlen(cases[i].within), NULL) == 0);
        ask(&q, cases[i].prompt);
        q.begin.within = g;
        by_steps(&steps, &q, NULL, false);
        by_steps(&drafted, &q, NULL, true);
        by_request(&request, &q, NULL);
        TEST_CHECK_THAT(!strncmp(steps.text, "zzx", 3) || !strncmp(steps.text, "quy", 3), "%s",
                        steps.text);
        TEST_CHECK_THAT(!steps.text[3] || steps.text[3] == '\n', "%s", steps.text);
        TEST_CHECK(!strcmp(steps.text, drafted.text) && !strcmp(steps.text, request.text));
        check_spelled(&q, &steps);
        cerium_grammar_close(&g);
    }
}

int main(void)
{
    cerium_error err;
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = "models/cerium-line.gguf";
    config.context_tokens_max = 512;
    config.threads = 1;
    if (cerium_engine_open(&engine, &config, &err)) {
        printf("  FAIL %s\nhealing: 0 passed, 1 failed\n", err.message);
        return 1;
    }
    TEST_RUN(test_taken_off);
    TEST_RUN(test_spelled);
    TEST_RUN(test_likeliest);
    TEST_RUN(test_logprob);
    TEST_RUN(test_many_tokens);
    TEST_RUN(test_stops);
    TEST_RUN(test_fork);
    TEST_RUN(test_refused);
    TEST_RUN(test_within);
    cerium_engine_close(&engine);
    return unit_report("healing");
}
