/* test_upstream_api.c - requests as other servers read them, and event streams in any cuts. */
#include "protocol/upstream_api.h"

#include "unit.h"

static json_t *body_of(protocol_api api, const char *text, const char *items, bool responses)
{
    protocol_request *r = NULL;
    protocol_error e;
    const protocol_defaults defaults = {.has_chat_form = true};
    bytes out = {.max = 1 << 20};
    int status = protocol_request_parse(&r, api, view_of(text), &defaults, &e);
    TEST_CHECK_THAT(!status, "%s", e.message);
    if (status) return NULL;
    json_t *conversation = items ? json_loads(items, 0, NULL) : json_incref(r->items);
    upstream_order order = {
        .request = r, .items = conversation, .model = "big", .budget = "thinks_for",
        .responses = responses};
    TEST_CHECK(!strcmp(upstream_path(&order), api == PROTOCOL_RESPONSES && responses
                                                  ? "/responses"
                                                  : "/chat/completions"));
    TEST_CHECK(upstream_body(&out, &order) == CERIUM_OK);
    if (r->new_tokens_max != UINT32_MAX)
        TEST_CHECK(upstream_cap(&out, &order, r->new_tokens_max) == CERIUM_OK);
    json_t *body = json_loadb(out.ptr, out.len, 0, NULL);
    bytes_free(&out);
    json_decref(conversation);
    protocol_request_free(&r);
    return body;
}

static void check_same(json_t *got, const char *want_text)
{
    json_error_t why;
    json_t *want = json_loads(want_text, 0, &why);
    TEST_CHECK_THAT(want, "%s at %d", why.text, why.position);
    char *shown = got ? json_dumps(got, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    TEST_CHECK_THAT(json_equal(got, want), "%s", shown ? shown : "nothing");
    memory_release(shown);
    json_decref(want);
    json_decref(got);
}

/* A full conversation of Codex, for a server that only has Chat. */
static void test_translated(void)
{
    check_same(
        body_of(PROTOCOL_RESPONSES,
                "{\"model\":\"x\",\"instructions\":\"Be brief.\",\"input\":\"x\",\"stream\":true,"
                "\"store\":false,\"include\":[\"reasoning.encrypted_content\"],"
                "\"reasoning\":{\"effort\":\"high\",\"summary\":\"auto\"},\"temperature\":0.5,"
                "\"max_output_tokens\":9,\"parallel_tool_calls\":true,\"prompt_cache_key\":\"k\","
                "\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"},"
                "\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"strict\":true,"
                "\"schema\":{\"type\":\"object\"}}},"
                "\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"description\":\"d\","
                "\"parameters\":{\"type\":\"object\"}},{\"type\":\"custom\",\"name\":"
                "\"apply_patch\"},{\"type\":\"web_search\"},{\"type\":\"namespace\",\"name\":"
                "\"ns\",\"tools\":[{\"type\":\"function\",\"name\":\"g\",\"parameters\":{}}]}]}",
                "[{\"type\":\"message\",\"role\":\"developer\",\"content\":\"rules\"},"
                "{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},"
                "{\"type\":\"input_text\",\"text\":\"b\"}]},"
                "{\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":\"z\"},"
                "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":"
                "\"output_text\",\"text\":\"ok\"}]},"
                "{\"type\":\"function_call\",\"name\":\"f\",\"arguments\":\"{}\","
                "\"call_id\":\"1\"},"
                "{\"type\":\"custom_tool_call\",\"name\":\"apply_patch\",\"input\":\"*** \\\"\","
                "\"call_id\":\"2\"},"
                "{\"type\":\"function_call_output\",\"call_id\":\"1\",\"output\":\"done\"},"
                "{\"type\":\"custom_tool_call_output\",\"call_id\":\"2\",\"output\":[{\"type\":"
                "\"input_text\",\"text\":\"patched\"}]},"
                "{\"type\":\"function_call\",\"namespace\":\"ns\",\"name\":\"g\",\"arguments\":"
                "\"{}\",\"call_id\":\"3\"}]", false),
        "{\"model\":\"big\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
        "\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
        "{\"role\":\"system\",\"content\":\"rules\"},{\"role\":\"user\",\"content\":\"ab\"},"
        "{\"role\":\"assistant\",\"content\":\"ok\",\"tool_calls\":["
        "{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},"
        "{\"id\":\"2\",\"type\":\"function\",\"function\":{\"name\":\"apply_patch\","
        "\"arguments\":\"{\\\"input\\\":\\\"*** \\\\\\\"\\\"}\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"done\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"2\",\"content\":\"patched\"},"
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"3\",\"type\":"
        "\"function\",\"function\":{\"name\":\"ns__g\",\"arguments\":\"{}\"}}]}],"
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\","
        "\"parameters\":{\"type\":\"object\"}}},{\"type\":\"function\",\"function\":{\"name\":"
        "\"apply_patch\",\"parameters\":{\"type\":\"object\",\"properties\":{\"input\":{\"type\":"
        "\"string\"}},\"required\":[\"input\"]}}},{\"type\":\"function\",\"function\":{\"name\":"
        "\"ns__g\",\"parameters\":{}}}],"
        "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"
        "\"parallel_tool_calls\":true,\"max_tokens\":9,\"temperature\":0.5,"
        "\"reasoning_effort\":\"high\",\"response_format\":{\"type\":\"json_schema\","
        "\"json_schema\":{\"name\":\"n\",\"strict\":true,\"schema\":{\"type\":\"object\"}}}}");
}

/* The same API: as the client sent it, except for our own fields. */
static void test_same_api(void)
{
    check_same(body_of(PROTOCOL_RESPONSES,
                       "{\"type\":\"response.create\",\"model\":\"x\",\"input\":\"hi\","
                       "\"stream_id\":\"l\",\"previous_response_id\":\"resp_1\","
                       "\"client_metadata\":"
                       "{\"a\":\"b\"},\"tools\":[{\"type\":\"web_search\"}],\"top_p\":0.5}",
                       "[{\"role\":\"user\",\"content\":\"before\"},{\"type\":\"reasoning\"},"
                       "{\"role\":\"user\",\"content\":\"hi\"}]", true),
               "{\"model\":\"big\",\"stream\":true,\"store\":false,\"tools\":[{\"type\":"
               "\"web_search\"}],\"top_p\":0.5,\"input\":[{\"role\":\"user\",\"content\":"
               "\"before\"},{\"role\":\"user\",\"content\":\"hi\"}]}");
    check_same(body_of(PROTOCOL_CHAT,
                       "{\"model\":\"x\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
                       "\"seed\":4,\"stream\":false,\"service_tier\":\"flex\"}", NULL, true),
               "{\"model\":\"big\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
               "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"seed\":4}");
    /* A cap keeps the name that it came with, once. */
    check_same(body_of(PROTOCOL_RESPONSES, "{\"input\":\"hi\",\"max_output_tokens\":7}", "[]",
                       true),
               "{\"model\":\"big\",\"stream\":true,\"store\":false,\"input\":[],"
               "\"max_output_tokens\":7}");
    check_same(body_of(PROTOCOL_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
                       "\"max_completion_tokens\":7}", NULL, true),
               "{\"model\":\"big\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
               "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
               "\"max_completion_tokens\":7}");
    check_same(body_of(PROTOCOL_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
                       "\"max_tokens\":7}", NULL, true),
               "{\"model\":\"big\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
               "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":7}");
}

#define ASKED "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define TO_CHAT                                                                                    \
    "{\"model\":\"big\",\"stream\":true,\"stream_options\":{\"include_usage\":true}," ASKED

/* A budget of thoughts is sent under the other server's name, whatever its name here. */
static void test_budgets(void)
{
    static const char *const names[] = {"thinking_budget_tokens", "reasoning_budget",
                                        "thinking_token_budget"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char body[200];
        snprintf(body, sizeof body, "{" ASKED ",\"%s\":70}", names[i]);
        check_same(body_of(PROTOCOL_CHAT, body, NULL, true), TO_CHAT ",\"thinks_for\":70}");
        snprintf(body, sizeof body, "{" ASKED ",\"%s\":-1}", names[i]);
        check_same(body_of(PROTOCOL_CHAT, body, NULL, true), TO_CHAT "}");
        snprintf(body, sizeof body, "{" ASKED ",\"%s\":0}", names[i]);
        check_same(body_of(PROTOCOL_CHAT, body, NULL, true), TO_CHAT ",\"thinks_for\":0}");
    }
    check_same(body_of(PROTOCOL_MESSAGES,
                       "{" ASKED ",\"max_tokens\":2000,\"thinking\":{\"type\":\"enabled\","
                       "\"budget_tokens\":1024}}", NULL, true),
               TO_CHAT ",\"thinks_for\":1024,\"max_tokens\":2000}");
    check_same(body_of(PROTOCOL_OLLAMA_CHAT, "{" ASKED ",\"thinking_budget_tokens\":9}", NULL,
                       true),
               TO_CHAT ",\"thinks_for\":9}");
    check_same(body_of(PROTOCOL_RESPONSES, "{\"input\":\"hi\",\"reasoning\":{\"max_tokens\":8}}",
                       "[{\"role\":\"user\",\"content\":\"hi\"}]", false),
               TO_CHAT ",\"thinks_for\":8}");
    /* The same API reads its own field names. */
    check_same(body_of(PROTOCOL_RESPONSES, "{\"input\":\"hi\",\"reasoning\":{\"max_tokens\":8}}",
                       "[]", true),
               "{\"model\":\"big\",\"stream\":true,\"store\":false,\"input\":[],\"reasoning\":"
               "{\"max_tokens\":8}}");
}

typedef struct {
    char text[256];
    int n;
} heard;

static int hear(void *user, view data)
{
    heard *h = user;
    size_t at = strlen(h->text);
    snprintf(h->text + at, sizeof h->text - at, "<%.*s>", (int)data.len, data.ptr ? data.ptr : "");
    h->n++;
    return CERIUM_OK;
}

static void test_sse(void)
{
    static const char stream[] = "\n: comment\nevent: x\ndata: one\n\ndata:two\r\ndata:  three\r\n"
                                 "\r\nid: 1\n\ndata\n\ndatum: no\n\rdata: four\r\rdata: not over";
    for (size_t cut = 1; cut < sizeof stream; cut++) {
        sse s;
        heard h = {.n = 0};
        sse_open(&s, 64);
        for (size_t at = 0; at < sizeof stream - 1; at += cut) {
            size_t n = cut < sizeof stream - 1 - at ? cut : sizeof stream - 1 - at;
            TEST_CHECK(sse_feed(&s, (view){stream + at, n}, hear, &h) == CERIUM_OK);
        }
        TEST_CHECK_THAT(!strcmp(h.text, "<one><two\n three><><four>"), "%s", h.text);
        sse_close(&s);
    }
    sse s;
    heard h = {.n = 0};
    char line[100];
    memset(line, 'x', sizeof line);
    sse_open(&s, 64); /* an event over the bound, in one line and in many */
    TEST_CHECK(sse_feed(&s, (view){line, sizeof line}, hear, &h) == CERIUM_ERR_CAPACITY);
    sse_close(&s);
    sse_open(&s, 64);
    int status = CERIUM_OK;
    for (int i = 0; i < 10 && !status; i++)
        status = sse_feed(&s, VIEW("data: 0123456789\n"), hear, &h);
    TEST_CHECK(status == CERIUM_ERR_CAPACITY && !h.n);
    sse_close(&s);
}

static void test_refusal(void)
{
    protocol_error e;
    upstream_refusal(VIEW("{\"error\":{\"message\":\"too long\","
                          "\"code\":\"context_length_exceeded\"}}"),
                     400, "big", &e);
    TEST_CHECK(e.http_status == 400 && !strcmp(e.code, "context_length_exceeded"));
    TEST_CHECK(!strcmp(e.message, "big says HTTP 400: too long"));
    upstream_refusal(VIEW("<html>"), 401, "big", &e); /* our key: not the client's fault */
    TEST_CHECK(e.http_status == 502 && !strcmp(e.code, "upstream_failed"));
    upstream_refusal(VIEW(""), 429, "big", &e);
    TEST_CHECK(e.http_status == 429 && !strcmp(e.code, "rate_limit_exceeded"));
}

int main(void)
{
    TEST_RUN(test_translated);
    TEST_RUN(test_same_api);
    TEST_RUN(test_budgets);
    TEST_RUN(test_sse);
    TEST_RUN(test_refusal);
    return unit_report("upstream_api");
}
