/* test_tool_choice.c - which tools a request lets the model call, and answers that may call one. */
#include "protocol/protocol.h"

#include "unit.h"

static const protocol_defaults defaults = {.has_chat_form = true};
static protocol_error error;

#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"name\":\"f\"},{\"type\":\"custom\",\"name\":\"c\"},"      \
    "{\"type\":\"web_search\"},{\"type\":\"namespace\",\"name\":\"ns\",\"tools\":["                \
    "{\"type\":\"function\",\"name\":\"f\"}]}],\"input\":\"x\",\"tool_choice\":"
#define CHAT                                                                                       \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\","     \
    "\"function\":{\"name\":\"f\"}},{\"type\":\"custom\",\"custom\":{\"name\":\"c\"}}],"           \
    "\"tool_choice\":"

/* ---- allowed tools ---- */

/* want: "auto", "none" or "required", and after it a letter for each tool: y or n. */
static void check(protocol_api api, const char *body, const char *want)
{
    protocol_request *r = NULL;
    int status = protocol_request_parse(&r, api, view_of(body), &defaults, &error);
    TEST_CHECK_THAT(!status, "%s: %s: %s", body, error.param, error.message);
    if (status) return;
    char got[64];
    size_t len = (size_t)snprintf(got, sizeof got, "%s ", r->tools_barred    ? "none"
                                                          : r->call_required ? "required"
                                                                             : "auto");
    for (size_t i = 0; i < r->n_tools; i++) got[len++] = !r->callable || r->callable[i] ? 'y' : 'n';
    got[len] = 0;
    TEST_CHECK_THAT(!strcmp(got, want), "%s: %s, not %s", body, got, want);
    protocol_request_free(&r);
}

static void refused(protocol_api api, const char *body, const char *param, const char *says)
{
    protocol_request *r = NULL;
    int status = protocol_request_parse(&r, api, view_of(body), &defaults, &error);
    TEST_CHECK_THAT(status == CERIUM_ERR_ARGUMENT && error.http_status == 400, "%s", body);
    TEST_CHECK_THAT(!strcmp(error.param, param), "%s: \"%s\"", body, error.param);
    TEST_CHECK_THAT(strstr(error.message, says) != NULL, "%s: %s", body, error.message);
    protocol_request_free(&r);
}

static void test_words(void)
{
    check(PROTOCOL_RESPONSES, "{" TOOLS "null}", "auto yyy");
    check(PROTOCOL_RESPONSES, "{" TOOLS "\"auto\"}", "auto yyy");
    check(PROTOCOL_RESPONSES, "{" TOOLS "\"none\"}", "none yyy");
    check(PROTOCOL_RESPONSES, "{" TOOLS "\"required\"}", "required yyy");
    check(PROTOCOL_CHAT, CHAT "\"required\"}", "required yy");
    check(PROTOCOL_RESPONSES, "{\"input\":\"x\",\"tool_choice\":\"none\"}", "none ");
    refused(PROTOCOL_RESPONSES, "{" TOOLS "\"any\"}", "tool_choice", "'required'");
    refused(PROTOCOL_RESPONSES, "{" TOOLS "7}", "tool_choice", "an object");
    refused(PROTOCOL_RESPONSES, "{\"input\":\"x\",\"tool_choice\":\"required\"}", "tool_choice",
            "can be called");
    refused(PROTOCOL_RESPONSES,
            "{\"input\":\"x\",\"tools\":[{\"type\":\"web_search\"}],\"tool_choice\":\"required\"}",
            "tool_choice", "can be called");
}

static void test_names(void)
{
    check(PROTOCOL_RESPONSES, "{" TOOLS "{\"type\":\"function\",\"name\":\"f\"}}", "required ynn");
    check(PROTOCOL_RESPONSES, "{" TOOLS "{\"type\":\"custom\",\"name\":\"c\"}}", "required nyn");
    check(PROTOCOL_RESPONSES,
          "{" TOOLS "{\"type\":\"function\",\"name\":\"f\",\"namespace\":\"ns\"}}",
          "required nny");
    check(PROTOCOL_RESPONSES, "{" TOOLS "{\"type\":\"function\",\"name\":\"ns__f\"}}",
          "required nny");
    check(PROTOCOL_CHAT, CHAT "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}}",
          "required yn");
    check(PROTOCOL_CHAT, CHAT "{\"type\":\"custom\",\"custom\":{\"name\":\"c\"}}}",
          "required ny");
    refused(PROTOCOL_RESPONSES, "{" TOOLS "{\"type\":\"function\",\"name\":\"c\"}}", "tool_choice",
            "'function' named 'c' not found");
    refused(PROTOCOL_RESPONSES, "{" TOOLS "{\"type\":\"function\"}}", "tool_choice.name",
            "Missing");
    refused(PROTOCOL_RESPONSES, "{" TOOLS "{}}", "tool_choice.type", "Missing");
    refused(PROTOCOL_CHAT, CHAT "{\"type\":\"function\",\"function\":{}}}",
            "tool_choice.function.name", "Missing");
    refused(PROTOCOL_RESPONSES, "{" TOOLS "{\"type\":\"web_search\"}}", "tool_choice",
            "no hosted tools");
    refused(PROTOCOL_RESPONSES, "{" TOOLS "{\"type\":\"mcp\",\"server_label\":\"s\"}}",
            "tool_choice", "'mcp' not found");
}

static void test_allowed(void)
{
    check(PROTOCOL_RESPONSES,
          "{" TOOLS "{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":[{\"type\":"
          "\"function\",\"name\":\"f\"},{\"type\":\"custom\",\"name\":\"c\"}]}}", "auto yyn");
    check(PROTOCOL_RESPONSES,
          "{" TOOLS "{\"type\":\"allowed_tools\",\"mode\":\"required\",\"tools\":[{\"type\":"
          "\"web_search\"},{\"type\":\"function\",\"name\":\"f\"}]}}", "required ynn");
    check(PROTOCOL_RESPONSES, "{" TOOLS "{\"type\":\"allowed_tools\",\"tools\":[]}}", "auto nnn");
    check(PROTOCOL_CHAT,
          CHAT "{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"required\",\"tools\":["
               "{\"type\":\"custom\",\"custom\":{\"name\":\"c\"}}]}}}", "required ny");
    refused(PROTOCOL_RESPONSES, "{" TOOLS "{\"type\":\"allowed_tools\",\"mode\":\"auto\"}}",
            "tool_choice.tools", "Missing");
    refused(PROTOCOL_RESPONSES,
            "{" TOOLS "{\"type\":\"allowed_tools\",\"mode\":\"never\",\"tools\":[]}}",
            "tool_choice.mode", "'required'");
    refused(PROTOCOL_RESPONSES,
            "{" TOOLS "{\"type\":\"allowed_tools\",\"mode\":\"required\",\"tools\":[]}}",
            "tool_choice", "can be called");
    refused(PROTOCOL_RESPONSES,
            "{" TOOLS "{\"type\":\"allowed_tools\",\"tools\":[{\"name\":\"f\"}]}}",
            "tool_choice.tools[0].type", "Missing");
    refused(PROTOCOL_CHAT,
            CHAT "{\"type\":\"allowed_tools\",\"allowed_tools\":{\"tools\":[{\"type\":"
                 "\"function\",\"function\":{\"name\":\"g\"}}]}}}",
            "tool_choice.allowed_tools.tools[0]", "'g' not found");
}

#define LEGACY                                                                                     \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":"    \
    "null,\"function_call\":{\"name\":\"f\",\"arguments\":\"{}\"}},{\"role\":\"function\","        \
    "\"name\":\"f\",\"content\":\"5\"}],\"functions\":[{\"name\":\"f\",\"parameters\":{\"type\":"  \
    "\"object\"}},{\"name\":\"g\"}]"

static void test_legacy(void)
{
    protocol_request *r = NULL;
    TEST_CHECK(!protocol_request_parse(&r, PROTOCOL_CHAT, view_of(LEGACY "}"), &defaults, &error));
    TEST_CHECK_THAT(r && r->n_messages == 3 && r->n_tools == 2 && r->one_call, "%s",
                    error.message);
    if (r && r->n_messages == 3) {
        TEST_CHECK(!strcmp(r->messages[1].role, "call") && !strcmp(r->messages[1].name, "f"));
        TEST_CHECK(!strcmp(r->messages[2].role, "tool") && !strcmp(r->messages[2].name, "f"));
        TEST_CHECK(!strcmp(r->messages[2].content, "5"));
    }
    protocol_request_free(&r);
    check(PROTOCOL_CHAT, LEGACY ",\"function_call\":\"auto\"}", "auto yy");
    check(PROTOCOL_CHAT, LEGACY ",\"function_call\":\"none\"}", "none yy");
    check(PROTOCOL_CHAT, LEGACY ",\"function_call\":{\"name\":\"g\"}}", "required ny");
    refused(PROTOCOL_CHAT, LEGACY ",\"function_call\":\"required\"}", "function_call", "'auto'");
    refused(PROTOCOL_CHAT, LEGACY ",\"function_call\":{\"name\":\"h\"}}", "function_call",
            "not found");
    refused(PROTOCOL_CHAT,
            "{\"messages\":[{\"role\":\"function\",\"content\":\"x\"}]}", "messages[0].name",
            "Missing");
}

/* ---- answers ---- */

typedef struct {
    json_t *object; /* owned */
    json_t *events; /* owned array */
    size_t taken;   /* bytes read until the answer was complete */
} outcome;

static void on_event(void *user, const char *name, const char *json, size_t len)
{
    (void)name;
    if (len == 6 && !memcmp(json, "[DONE]", 6)) return;
    json_array_append_new(user, json_loadb(json, len, 0, NULL));
}

static outcome answer(protocol_api api, const char *body, const char *form, const char *words,
                      size_t cut)
{
    outcome out = {.events = json_array()};
    protocol_request *r = NULL;
    protocol_writer *w = NULL;
    const protocol_usage usage = {.output_tokens = 1};
    int status = protocol_request_parse(&r, api, view_of(body), &defaults, &error);
    TEST_CHECK_THAT(!status, "%s: %s", body, error.message);
    if (status) return out;
    const protocol_answer how = {.request = r, .id = "resp_1", .model = "m", .chat_form = form,
                                 .emit = on_event, .user = out.events};
    TEST_CHECK(!protocol_writer_open(&w, &how) && !protocol_writer_begin(w));
    for (size_t len = strlen(words); out.taken < len && !protocol_writer_enough(w, 0);) {
        size_t n = cut < len - out.taken ? cut : len - out.taken;
        TEST_CHECK(!protocol_writer_text(w, 0, (view){words + out.taken, n}, NULL, 0));
        out.taken += n;
    }
    TEST_CHECK(!protocol_writer_end(w, 0, PROTOCOL_END_STOP, &usage, NULL));
    out.object = protocol_writer_object(w);
    protocol_writer_free(&w);
    protocol_request_free(&r);
    return out;
}

static void forget(outcome *out)
{
    json_decref(out->object);
    json_decref(out->events);
}

#define HERMES "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"
#define XML "<tool_call>\n<function=f>\n</function>\n</tool_call>"

/* For any cuts of the text, the answer is its first call; text after its end is
 * neither generated nor sent. */
static void check_one_call(const char *form, const char *call, const char *more)
{
    char words[512];
    snprintf(words, sizeof words, "Look.\n%s%s", call, more);
    size_t first = 6 + strlen(call);
    for (size_t cut = 1; cut <= strlen(words); cut++) {
        outcome out = answer(PROTOCOL_RESPONSES,
                             "{" TOOLS "\"auto\",\"parallel_tool_calls\":false}", form, words, cut);
        const json_t *output = json_object_get(out.object, "output");
        const json_t *item = json_array_get(output, 1);
        TEST_CHECK_THAT(json_array_size(output) == 2, "%s cut by %zu: %zu items", form, cut,
                        json_array_size(output));
        TEST_CHECK(!strcmp(json_string_value(json_object_get(item, "name")), "f"));
        TEST_CHECK(!strcmp(json_string_value(json_object_get(item, "status")), "completed"));
        TEST_CHECK_THAT(cut > 1 || !*more || out.taken < strlen(words), "%s: %zu", form, out.taken);
        TEST_CHECK_THAT(cut > 1 || out.taken >= first, "%s: %zu", form, out.taken);
        forget(&out);
    }
}

static void test_one_call(void)
{
    check_one_call("chatml", HERMES, "");
    check_one_call("chatml", HERMES, "\n" HERMES "\nDone.");
    check_one_call("qwen3-coder", XML, "\n" XML);
    check_one_call("llama3.1", "{\"name\": \"f\", \"parameters\": {}}",
                   "; {\"name\": \"f\", \"parameters\": {\"a\": 1}}");
    check_one_call("mistral-v7-tekken", "[TOOL_CALLS]f[ARGS]{}", "[TOOL_CALLS]f[ARGS]{\"a\": 1}");
    check_one_call("mistral-v3", "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}",
                   ", {\"name\": \"f\", \"arguments\": {\"a\": 1}}]");
    outcome out = answer(PROTOCOL_RESPONSES, "{" TOOLS "\"auto\"}", "chatml", HERMES HERMES, 1);
    TEST_CHECK(json_array_size(json_object_get(out.object, "output")) == 2);
    forget(&out);
}

static void test_no_tools(void)
{
    static const char *const bodies[] = {"{\"input\":\"x\"}", "{" TOOLS "\"none\"}"};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        outcome out = answer(PROTOCOL_RESPONSES, bodies[i], "chatml", HERMES, 5);
        const json_t *item = json_array_get(json_object_get(out.object, "output"), 0);
        const json_t *part = json_array_get(json_object_get(item, "content"), 0);
        const char *text = json_string_value(json_object_get(part, "text"));
        TEST_CHECK_THAT(text && !strcmp(text, HERMES), "%s: %s", bodies[i], text ? text : "");
        forget(&out);
    }
}

/* As the SDKs assemble it: names come first, arguments are concatenated. */
static void test_legacy_answer(void)
{
    outcome out = answer(PROTOCOL_CHAT, LEGACY ",\"stream\":true}", "chatml",
                         "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"a\": \"b\"}}\n"
                         "</tool_call>", 3);
    char name[16] = "", arguments[64] = "";
    size_t i;
    json_t *event;
    const char *why = NULL;
    json_array_foreach(out.events, i, event)
    {
        const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
        const json_t *delta = json_object_get(choice, "delta");
        const json_t *call = json_object_get(delta, "function_call");
        const char *more = json_string_value(json_object_get(call, "arguments"));
        const char *words = json_string_value(json_object_get(call, "name"));
        TEST_CHECK(!json_object_get(delta, "tool_calls"));
        if (words) snprintf(name, sizeof name, "%s", words);
        size_t len = strlen(arguments);
        if (more) snprintf(arguments + len, sizeof arguments - len, "%s", more);
        if (json_string_value(json_object_get(choice, "finish_reason")))
            why = json_string_value(json_object_get(choice, "finish_reason"));
    }
    TEST_CHECK_THAT(!strcmp(name, "g") && !strcmp(arguments, "{\"a\": \"b\"}"), "%s %s", name,
                    arguments);
    TEST_CHECK(why && !strcmp(why, "function_call"));
    const json_t *choice = json_array_get(json_object_get(out.object, "choices"), 0);
    const json_t *message = json_object_get(choice, "message");
    const json_t *call = json_object_get(message, "function_call");
    TEST_CHECK(!strcmp(json_string_value(json_object_get(call, "arguments")), "{\"a\": \"b\"}"));
    TEST_CHECK(!json_object_get(message, "tool_calls"));
    forget(&out);
}

static void test_out_of_memory(void)
{
    static const char body[] = "{" TOOLS "{\"type\":\"allowed_tools\",\"mode\":\"required\","
                               "\"tools\":[{\"type\":\"function\",\"name\":\"f\"}]}}";
    int status = CERIUM_ERR_MEMORY;
    long live = memory_live(), n = 0;
    for (; status && n < 2000; n++) {
        protocol_request *r = NULL;
        memory_fail_at(n);
        status = protocol_request_parse(&r, PROTOCOL_RESPONSES, view_of(body), &defaults, &error);
        memory_fail_at(-1);
        TEST_CHECK(status == CERIUM_OK || status == CERIUM_ERR_MEMORY);
        protocol_request_free(&r);
        TEST_CHECK(memory_live() == live);
    }
    TEST_CHECK(status == CERIUM_OK && n > 10);
}

int main(void)
{
    TEST_RUN(test_words);
    TEST_RUN(test_names);
    TEST_RUN(test_allowed);
    TEST_RUN(test_legacy);
    TEST_RUN(test_one_call);
    TEST_RUN(test_no_tools);
    TEST_RUN(test_legacy_answer);
    TEST_RUN(test_out_of_memory);
    return unit_report("tool_choice");
}
