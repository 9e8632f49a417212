/* test_tools.c - calls that a model makes under the guide of a request's tools: for any
 * weights, each calls an allowed tool, with arguments that fit its schema or grammar.
 *
 * The guide and the reader know a chat form by its name alone, so one model represents all. */
#include <regex.h>

#include "cerium.h"
#include "server/output_format.h"

#include "../unit/unit.h"
#include "schema_check.h"

enum { NEW_MAX = 300, SEEDS = UNIT_TIMES(12, 2) };

static const char *const models[] = {"models/cerium-line.gguf",
                                     "tests/golden/fixtures/qwen2.gguf"};
static const char *const forms[] = {"",          "chatml",     "qwen3-coder",      "qwen3.5",
                                    "llama3.1",  "mistral-v3", "mistral-v7-tekken"};

#define SCHEMA                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"mode\":{\"type\":\"string\",\"enum\":[\"fast\","       \
    "\"safe\"]},\"n\":{\"type\":\"integer\",\"minimum\":-9,\"maximum\":99},\"list\":{\"type\":"    \
    "\"array\",\"items\":{\"type\":\"boolean\"},\"maxItems\":3}},\"required\":[\"mode\",\"n\"],"   \
    "\"additionalProperties\":false}"
#define REQUEST(rest)                                                                              \
    "{\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"set\",\"strict\":true,"         \
    "\"parameters\":" SCHEMA "},{\"type\":\"custom\",\"name\":\"shout\",\"format\":{\"type\":"     \
    "\"grammar\",\"syntax\":\"regex\",\"definition\":\"[A-Z]{1,9}(\\n\\\"[a-z])?!\"}},"      \
    "{\"type\":\"function\",\"name\":\"barred\"}],\"tool_choice\":{\"type\":\"allowed_tools\","    \
    "\"mode\":\"required\",\"tools\":[{\"type\":\"function\",\"name\":\"set\"},{\"type\":"         \
    "\"custom\",\"name\":\"shout\"}]}" rest "}"

typedef struct {
    char name[64], arguments[4096], output[4096];
    size_t n; /* calls that ended */
} answer_calls;

static void check_call(const answer_calls *a)
{
    if (!strcmp(a->name, "set")) {
        json_t *schema = json_loads(SCHEMA, 0, NULL), *value = json_loads(a->arguments, 0, NULL);
        TEST_CHECK_THAT(value && fits(schema, schema, value), "%s", a->arguments);
        json_decref(schema);
        json_decref(value);
        return;
    }
    regex_t pattern;
    TEST_CHECK_THAT(!strcmp(a->name, "shout"), "%s", a->name);
    CHECK(!regcomp(&pattern, "^[A-Z]{1,9}(\n\"[a-z])?!$", REG_EXTENDED | REG_NOSUB));
    TEST_CHECK_THAT(!regexec(&pattern, a->arguments, 0, NULL, 0), "%s", a->arguments);
    regfree(&pattern);
}

static void append(char *to, size_t size, view text)
{
    size_t len = strlen(to);
    snprintf(to + len, size - len, "%.*s", (int)text.len, text.ptr);
}

static int take_part(void *user, const cerium_part *part)
{
    answer_calls *a = user;
    const view text = {part->text, part->text_len};
    switch (part->kind) {
    case CERIUM_PART_TEXT: append(a->output, sizeof a->output, text); break;
    case CERIUM_PART_REASONING: break;
    case CERIUM_PART_CALL:
        a->name[0] = a->arguments[0] = 0;
        append(a->name, sizeof a->name, text);
        break;
    case CERIUM_PART_ARGUMENTS: append(a->arguments, sizeof a->arguments, text); break;
    case CERIUM_PART_CALL_END:
        check_call(a);
        a->n++;
        break;
    }
    return CERIUM_OK;
}

/* Samples under the guide, and reads the output by the form; returns how it ended. */
static cerium_stop run(cerium_engine *engine, const cerium_guide *guide, uint32_t seed,
                       cerium_reader *r, answer_calls *out)
{
    static const int32_t prompt[] = {5, 17, 41, 12};
    const cerium_session_config config = {.control_text = true};
    cerium_sampling sampling = {.temperature = seed % 3 ? 40 : 1, .seed = seed};
    cerium_session *s = NULL;
    cerium_step step = {.stop = CERIUM_STOP_NONE};
    cerium_error err;
    CHECK(!cerium_session_open(&s, engine, &config, &err));
    CHECK(!cerium_session_sync(s, prompt, ARRAY_LEN(prompt), NULL, &err));
    CHECK(!cerium_session_guide(s, guide, &err));
    for (size_t n = 0; n < NEW_MAX && step.stop == CERIUM_STOP_NONE; n++) {
        CHECK(!cerium_session_step(s, &sampling, &step, &err));
        CHECK(!cerium_reader_feed(r, step.text, step.text_len, take_part, out));
    }
    CHECK(!cerium_reader_end(r, true, take_part, out));
    cerium_session_close(&s);
    return step.stop;
}

/* Prepares the grammar of a request's answer, step by step. */
static int shape_for(grammar_cache *kept, const protocol_request *r, const char *form,
                     output_format *out, protocol_error *e)
{
    format_order *order = NULL;
    CHECK(!format_order_open(&order, kept, r, form) && order);
    while (format_order_step(order)) {
    }
    TEST_CHECK(format_order_is_done(order));
    int status = format_order_take(order, out, e);
    format_order_free(&order);
    TEST_CHECK(!order);
    return status;
}

static size_t check_form(cerium_engine *engine, const char *form, const char *body, bool one)
{
    const protocol_defaults defaults = {.has_chat_form = true};
    protocol_request *r = NULL;
    protocol_error e;
    grammar_cache *kept = NULL;
    output_format made;
    cerium_guide guide;
    size_t n = 0;
    CHECK(!protocol_request_parse(&r, PROTOCOL_RESPONSES, view_of(body), &defaults, &e));
    CHECK(!grammar_cache_open(&kept, NULL, NULL));
    int status = shape_for(kept, r, form, &made, &e);
    TEST_CHECK_THAT(!status, "%s: %s", form, e.message);
    TEST_CHECK(output_format_guide(&made, &guide));
    format_order *again = NULL; /* the compiled one is found */
    CHECK(!format_order_open(&again, kept, r, form));
    TEST_CHECK(format_order_is_done(again) && !format_order_step(again));
    format_order_free(&again);
    for (uint32_t seed = 0; seed < SEEDS && !status; seed++) {
        answer_calls got = {.n = 0};
        cerium_reader *in = NULL;
        CHECK(!cerium_reader_open(&in, form, r->tools, r->n_tools, NULL));
        cerium_stop stop = run(engine, &guide, seed, in, &got);
        cerium_reader_close(&in);
        TEST_CHECK_THAT(stop != CERIUM_STOP_STUCK, "%s", form);
        if (stop == CERIUM_STOP_END)
            TEST_CHECK_THAT(one ? got.n == 1 : got.n >= 1, "%s: %zu calls, said %s", form, got.n,
                            got.output);
        n += got.n;
    }
    output_format_free(&made);
    grammar_cache_close(&kept);
    protocol_request_free(&r);
    return n;
}

static cerium_engine *open_engine(const char *path)
{
    cerium_engine *engine = NULL;
    cerium_engine_config config;
    cerium_error err;
    cerium_engine_config_defaults(&config);
    config.model_path = path;
    config.threads = 2;
    config.cache = "off";
    TEST_CHECK_THAT(!cerium_engine_open(&engine, &config, &err), "%s", err.message);
    CHECK(engine);
    return engine;
}

static void test_calls(void)
{
    size_t n = 0;
    for (size_t m = 0; m < ARRAY_LEN(models); m++) {
        cerium_engine *engine = open_engine(models[m]);
        for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
            n += check_form(engine, forms[i], REQUEST(""), false);
            n += check_form(engine, forms[i], REQUEST(",\"parallel_tool_calls\":false"), true);
        }
        cerium_engine_close(&engine);
    }
    printf("  %zu calls\n", n);
    TEST_CHECK_THAT(n >= UNIT_TIMES(200, 30), "%zu", n);
}

/* What cannot be enforced is left out; an invalid schema is refused if it is strict. */
static void check_schema(const char *schema, const char *strict, bool is_refused)
{
    const protocol_defaults defaults = {.has_chat_form = true};
    char body[512];
    protocol_request *r = NULL;
    protocol_error e = {.message = ""};
    grammar_cache *kept = NULL;
    output_format made;
    snprintf(body, sizeof body,
             "{\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"odd\",\"strict\":%s,"
             "\"parameters\":%s}]}", strict, schema);
    CHECK(!protocol_request_parse(&r, PROTOCOL_RESPONSES, view_of(body), &defaults, &e));
    CHECK(!grammar_cache_open(&kept, NULL, NULL));
    int status = shape_for(kept, r, "chatml", &made, &e);
    TEST_CHECK_THAT((status == CERIUM_ERR_ARGUMENT) == is_refused, "%d %s", status, e.message);
    if (is_refused) TEST_CHECK(strstr(e.message, "odd") && !strcmp(e.param, "tools"));
    output_format_free(&made);
    grammar_cache_close(&kept);
    protocol_request_free(&r);
}

static void test_strict(void)
{
    static const char odd[] = "{\"type\":\"object\",\"not\":{\"items\":{}}}";
    static const char none[] = "{\"type\":\"nothing\"}";
    check_schema(odd, "true", false);
    check_schema(odd, "false", false);
    check_schema(none, "true", true);
    check_schema(none, "false", false);
}

int main(void)
{
    TEST_RUN(test_calls);
    TEST_RUN(test_strict);
    return unit_report("tools");
}
