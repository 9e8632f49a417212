/* test_guide.c - answers in a grammar: for any weights and sampling, each finished answer is in
 * it; drafts, searched heads, logprobs and forced tokens do not change it; triggers begin and
 * end where they should.
 *
 *   golden_guide [N]    with N: documents alone, N of each schema and model */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cerium.h"

#include "../unit/unit.h"
#include "base/memory.h"
#include "schema_check.h"

enum { NEW_MAX = 400, TEXT_MAX = 1 << 16 };

static const char model[] = "models/cerium-line.gguf";

/* A request and its answer. */
typedef struct {
    const cerium_guide *guide;
    cerium_sampling sampling;
    const int32_t *prediction;
    size_t n_prediction;
    uint32_t new_max;

    int32_t tokens[NEW_MAX + 1];
    size_t n_tokens;
    char text[TEXT_MAX];
    size_t text_len;
    cerium_stop stop;
    uint32_t n_events, n_accepted;
} job;

static const char *const schemas[] = {
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},"
    "\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":150},\"tags\":{\"type\":\"array\","
    "\"items\":{\"enum\":[\"red\",\"green\",\"blue\",null]},\"maxItems\":3}},"
    "\"required\":[\"name\",\"tags\"],\"additionalProperties\":false}",
    "{\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"value\":{\"type\":[\"integer\","
    "\"null\"],\"minimum\":-20,\"maximum\":20},\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/node\"},"
    "{\"type\":\"null\"}]}},\"required\":[\"value\",\"next\"],\"additionalProperties\":false}},"
    "\"$ref\":\"#/$defs/node\"}",
    "{\"type\":\"array\",\"items\":{\"type\":\"number\",\"minimum\":-2.5,\"maximum\":9.75},"
    "\"minItems\":1,\"maxItems\":4}",
    "{\"anyOf\":[{\"type\":\"boolean\"},{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":"
    "\"point\"},\"at\":{\"type\":\"string\",\"minLength\":2,\"maxLength\":5}},\"required\":"
    "[\"kind\",\"at\"],\"additionalProperties\":false}]}",
};

static cerium_engine *open_engine(const char *path, const char *head)
{
    cerium_engine *engine = NULL;
    cerium_engine_config config;
    cerium_error err;
    cerium_engine_config_defaults(&config);
    config.model_path = path;
    config.threads = 2;
    config.batch_tokens_max = 64;
    config.head = head;
    config.speculation = "always"; /* the cost of passes does not matter */
    TEST_CHECK_THAT(cerium_engine_open(&engine, &config, &err) == 0, "%s", err.message);
    return engine;
}

static cerium_grammar *compile(cerium_grammar_syntax syntax, const char *text)
{
    cerium_grammar *grammar = NULL;
    cerium_error err;
    TEST_CHECK_THAT(cerium_grammar_compile(&grammar, syntax, text, strlen(text), &err) == 0, "%s",
                    err.message);
    return grammar;
}

static void keep(job *j, const cerium_step *step)
{
    for (uint32_t i = 0; i < step->n_tokens && j->n_tokens < NEW_MAX; i++)
        j->tokens[j->n_tokens++] = step->tokens[i];
    if (step->text_len) memcpy(j->text + j->text_len, step->text, step->text_len);
    j->text_len += step->text_len;
    j->text[j->text_len] = '\0';
    j->stop = step->stop;
    j->n_events++;
}

static void begin(job *j)
{
    j->n_tokens = j->text_len = 0;
    j->n_events = j->n_accepted = 0;
    j->stop = CERIUM_STOP_NONE;
    if (!j->new_max) j->new_max = NEW_MAX;
}

static const int32_t prompt[] = {5, 17, 30, 41, 12};
enum { N_PROMPT = sizeof prompt / sizeof *prompt };

static void run_request(cerium_engine *engine, job *j)
{
    cerium_session *s = NULL;
    cerium_event event = {.kind = CERIUM_EVENT_NONE};
    cerium_usage usage;
    cerium_request request = {.tokens = prompt,
                              .n_tokens = N_PROMPT,
                              .new_tokens_max = j->new_max,
                              .sampling = &j->sampling,
                              .guide = j->guide,
                              .prediction = j->prediction,
                              .n_prediction = j->n_prediction};
    cerium_error err = {.status = 0};
    begin(j);
    TEST_CHECK(cerium_session_open(&s, engine, NULL, &err) == 0);
    int status = cerium_session_start(s, &request, &err);
    TEST_CHECK_THAT(status == 0, "%s", err.message);
    while (!status && event.kind != CERIUM_EVENT_DONE) {
        cerium_session_poll(s, &event);
        if (event.kind == CERIUM_EVENT_STEP) keep(j, &event.step);
        if (event.kind == CERIUM_EVENT_NONE) nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    TEST_CHECK(event.status == CERIUM_OK);
    j->stop = event.stop;
    cerium_session_usage(s, &usage);
    j->n_accepted = usage.accepted_tokens;
    cerium_session_close(&s);
}

static void run_steps(cerium_engine *engine, job *j)
{
    cerium_session *s = NULL;
    cerium_step step = {.stop = CERIUM_STOP_NONE};
    cerium_error err = {.status = 0};
    begin(j);
    TEST_CHECK(cerium_session_open(&s, engine, NULL, &err) == 0);
    TEST_CHECK(cerium_session_sync(s, prompt, N_PROMPT, NULL, &err) == 0);
    TEST_CHECK_THAT(cerium_session_guide(s, j->guide, &err) == 0, "%s", err.message);
    while (j->stop == CERIUM_STOP_NONE && j->n_tokens < j->new_max) {
        int status = cerium_session_step(s, &j->sampling, &step, &err);
        TEST_CHECK_THAT(status == 0, "%s", err.message);
        if (status) break;
        keep(j, &step);
    }
    cerium_session_close(&s);
}

static cerium_sampling sampling_of(uint32_t seed)
{
    cerium_sampling s = {.seed = seed};
    if (seed % 4 == 1) s.temperature = 1;
    if (seed % 4 == 2) s.temperature = 40; /* noise: the weights hardly matter */
    if (seed % 4 == 3) s.temperature = 4, s.top_k = 20, s.repetition_penalty = 1.3f;
    return s;
}

static void check_document(const char *schema_text, const cerium_grammar *grammar, const job *j,
                           uint32_t *n_ended)
{
    bool matches = false;
    cerium_error err;
    if (j->stop != CERIUM_STOP_END) return;
    json_error_t error;
    json_t *schema = json_loads(schema_text, 0, NULL);
    json_t *value = json_loadb(j->text, j->text_len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    TEST_CHECK_THAT(value && fits(schema, schema, value), "%s: %.*s", error.text, (int)j->text_len,
                    j->text);
    TEST_CHECK(cerium_grammar_matches(grammar, j->text, j->text_len, &matches, &err) == 0);
    TEST_CHECK(matches);
    json_decref(value);
    json_decref(schema);
    (*n_ended)++;
}

static uint32_t n_documents; /* 0: the number for a test */

/* Every document that ends is valid, from a trained model and from weights that are noise. */
static void test_documents(void)
{
    static const struct {
        const char *path;
        uint32_t n_seeds;
    } models[] = {{model, UNIT_TIMES(60, 15)},
                  {"tests/golden/fixtures/qwen2.gguf", UNIT_TIMES(20, 5)},
                  {"tests/golden/fixtures/llama.gguf", UNIT_TIMES(20, 5)}};
    static job j;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        cerium_engine *engine = open_engine(models[m].path, NULL);
        uint32_t n_ended = 0, n = 0;
        if (!engine) continue;
        for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
            cerium_grammar *grammar = compile(CERIUM_GRAMMAR_JSON_SCHEMA, schemas[i]);
            cerium_guide guide = {.grammar = grammar};
            for (uint32_t seed = 0; seed < (n_documents ? n_documents : models[m].n_seeds);
                 seed++, n++) {
                j = (job){.guide = &guide, .sampling = sampling_of(seed), .new_max = 200};
                run_request(engine, &j);
                check_document(schemas[i], grammar, &j, &n_ended);
            }
            cerium_grammar_close(&grammar);
        }
        TEST_CHECK_THAT(n_ended > n / 2, "%s: %u of %u ended", models[m].path, n_ended, n);
        cerium_engine_close(&engine);
    }
}

static bool same(const job *a, const job *b)
{
    return a->n_tokens == b->n_tokens && a->text_len == b->text_len && a->stop == b->stop &&
           !memcmp(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens) &&
           !memcmp(a->text, b->text, a->text_len);
}

/* Steps, requests, drafts right and wrong, logprobs, and a searched head: the same tokens. */
static void test_same_answers(void)
{
    cerium_engine *full = open_engine(model, "full"), *search = open_engine(model, "search");
    static job want, have;
    uint32_t n_accepted = 0;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        cerium_grammar *grammar = compile(CERIUM_GRAMMAR_JSON_SCHEMA, schemas[i]);
        cerium_guide guide = {.grammar = grammar};
        for (uint32_t seed = 0; seed < UNIT_TIMES(12, 4); seed++) {
            want = (job){.guide = &guide, .sampling = sampling_of(seed), .new_max = 120};
            run_request(full, &want);
            have = (job){.guide = &guide, .sampling = sampling_of(seed), .new_max = 120};
            run_request(search, &have);
            TEST_CHECK_THAT(same(&want, &have), "search: '%s' '%s'", want.text, have.text);
            run_steps(search, &have);
            TEST_CHECK_THAT(
                have.n_tokens >= want.n_tokens &&
                    !memcmp(want.tokens, have.tokens, want.n_tokens * sizeof *want.tokens),
                "steps: '%s' '%s'", want.text, have.text);
            have.sampling.logprobs = true;
            run_request(full, &have);
            TEST_CHECK_THAT(same(&want, &have), "logprobs: '%s' '%s'", want.text, have.text);
            have.sampling.logprobs = false;
            have.prediction = want.tokens;
            have.n_prediction = want.n_tokens;
            run_request(search, &have);
            TEST_CHECK_THAT(same(&want, &have), "drafts: '%s' '%s'", want.text, have.text);
            n_accepted += have.n_accepted;
            int32_t wrong[NEW_MAX];
            for (size_t k = 0; k < want.n_tokens; k++)
                wrong[k] = k % 5 == 4 ? (int32_t)(k * 31 % 500) : want.tokens[k];
            have.prediction = wrong;
            run_request(full, &have);
            TEST_CHECK_THAT(same(&want, &have), "wrong drafts: '%s' '%s'", want.text, have.text);
        }
        cerium_grammar_close(&grammar);
    }
    TEST_CHECK_THAT(n_accepted > 100, "%u drafts were accepted", n_accepted);
    cerium_engine_close(&full);
    cerium_engine_close(&search);
}

/* Text without a choice comes in one step, without a pass for each token. */
static void test_forced(void)
{
    cerium_engine *engine = open_engine(model, NULL);
    cerium_grammar *grammar =
        compile(CERIUM_GRAMMAR_REGEX, "def compute_the_answer\\(self, value\\): return [0-9]");
    cerium_guide guide = {.grammar = grammar};
    static job j;
    j = (job){.guide = &guide};
    run_steps(engine, &j);
    TEST_CHECK_THAT(j.stop == CERIUM_STOP_END && j.n_tokens > 10, "%zu tokens", j.n_tokens);
    TEST_CHECK_THAT(j.n_events <= 4, "%u steps for %zu tokens", j.n_events, j.n_tokens);
    /* A request has the same tokens, and one end. */
    static job r;
    r = (job){.guide = &guide, .new_max = NEW_MAX};
    run_request(engine, &r);
    TEST_CHECK_THAT(r.n_tokens == j.n_tokens &&
                        !memcmp(r.tokens, j.tokens, r.n_tokens * sizeof *r.tokens),
                    "%zu and %zu tokens", j.n_tokens, r.n_tokens);
    TEST_CHECK(!strncmp(j.text, "def compute_the_answer(self, value): return ", 44));
    /* Tokens of the forced part are those of the tokenizer. */
    int32_t tokens[64];
    size_t n = 0;
    cerium_error err;
    TEST_CHECK(cerium_tokenize(engine, "def compute_the_answer(self, value): return", 43, 0, tokens,
                               64, &n, &err) == 0);
    TEST_CHECK(n > 4 && !memcmp(tokens, j.tokens, (n - 1) * sizeof *tokens));
    cerium_grammar_close(&grammar);
    cerium_engine_close(&engine);
}

/* Free text, then a grammar, then free text again; and no end before a required
 * trigger. */
static void test_triggers(void)
{
    cerium_engine *engine = open_engine(model, NULL);
    cerium_grammar *grammar = compile(CERIUM_GRAMMAR_REGEX, "<[0-9]{3}>");
    cerium_trigger triggers[] = {{.text = "e", .text_len = 1, .grammar = grammar}};
    cerium_guide guide = {.triggers = triggers, .n_triggers = 1};
    static job j;
    uint32_t n_calls = 0;
    for (uint32_t seed = 0; seed < UNIT_TIMES(24, 6); seed++) {
        j = (job){.guide = &guide, .sampling = {.temperature = 1, .seed = seed}, .new_max = 60};
        run_request(engine, &j);
        for (const char *at = j.text; (at = strchr(at, 'e')); at++) {
            size_t left = j.text_len - (size_t)(at + 1 - j.text);
            bool whole = left >= 5 && at[1] == '<' && at[5] == '>';
            TEST_CHECK_THAT(whole || (left < 5 && j.stop != CERIUM_STOP_END), "'%s'", at);
            for (size_t k = 2; k < 5 && k <= left; k++) TEST_CHECK(at[k] >= '0' && at[k] <= '9');
            n_calls++;
        }
    }
    TEST_CHECK_THAT(n_calls > UNIT_TIMES(20, 3), "%u triggers", n_calls);
    guide.must = true;
    triggers[0].ends = true;
    triggers[0].text = "return";
    triggers[0].text_len = 6;
    for (uint32_t seed = 0; seed < 6; seed++) {
        j = (job){.guide = &guide, .sampling = {.temperature = 1, .seed = seed}};
        run_request(engine, &j);
        const char *at = strstr(j.text, "return");
        TEST_CHECK(j.stop != CERIUM_STOP_END || (at && strlen(at) == 11 && at[6] == '<'));
    }
    cerium_grammar_close(&grammar);
    cerium_engine_close(&engine);
}

static void test_errors(void)
{
    cerium_engine *engine = open_engine(model, NULL);
    cerium_session *s = NULL;
    cerium_error err;
    cerium_trigger trigger = {.text = "", .text_len = 0};
    cerium_guide guide = {.triggers = &trigger, .n_triggers = 1};
    cerium_request request = {.tokens = prompt, .n_tokens = N_PROMPT, .guide = &guide};
    TEST_CHECK(cerium_session_open(&s, engine, NULL, &err) == 0);
    TEST_CHECK(cerium_session_guide(s, &guide, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(cerium_session_start(s, &request, &err) == CERIUM_ERR_ARGUMENT);
    guide.n_triggers = CERIUM_TRIGGERS_MAX + 1;
    TEST_CHECK(cerium_session_guide(s, &guide, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(cerium_session_guide(s, NULL, &err) == 0);
    cerium_session_close(&s);
    cerium_engine_close(&engine);
}

/* Every allocation of a guide fails in turn: an error, nothing left over, and steps as before. */
static void test_memory(void)
{
    cerium_engine *engine = open_engine(model, NULL);
    cerium_grammar *grammar = compile(CERIUM_GRAMMAR_JSON_SCHEMA, schemas[0]);
    cerium_trigger trigger = {.text = "e", .text_len = 1, .grammar = grammar};
    cerium_guide guide = {.grammar = grammar, .triggers = &trigger, .n_triggers = 1};
    cerium_session *s = NULL;
    cerium_error err;
    TEST_CHECK(cerium_session_open(&s, engine, NULL, &err) == 0);
    long live = memory_live();
    bool done = false;
    for (long n = 0; n < 200 && !done; n++) {
        memory_fail_at(n);
        int status = cerium_session_guide(s, &guide, &err);
        memory_fail_at(-1);
        done = status == 0;
        TEST_CHECK(status == 0 || status == CERIUM_ERR_MEMORY);
        if (!done && n == 0) TEST_CHECK(memory_live() == live);
    }
    TEST_CHECK(done);
    cerium_session_close(&s);
    cerium_grammar_close(&grammar);
    cerium_engine_close(&engine);
    TEST_CHECK(memory_live() < live);
}

int main(int argc, char **argv)
{
    if (argc > 1) n_documents = (uint32_t)strtoul(argv[1], NULL, 10);
    TEST_RUN(test_documents);
    if (n_documents) return unit_report("guide");
    TEST_RUN(test_memory);
    TEST_RUN(test_same_answers);
    TEST_RUN(test_forced);
    TEST_RUN(test_triggers);
    TEST_RUN(test_errors);
    return unit_report("guide");
}
