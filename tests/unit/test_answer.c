/* test_answer.c - output to clients of Responses and Chat: order of events, whole objects, and that
 * cuts of the model's text change neither; signs of life in every dialect. */
#include "answer_run.h"

#define HOLE "{\"input_prefix\":\"x\",\"input_suffix\":\"\""

/* ---- responses ---- */

static const char tools_body[] =
    "{\"model\":\"m\",\"input\":\"x\",\"stream_id\":\"lane-1\",\"store\":false,"
    "\"include\":[\"reasoning.encrypted_content\"],\"metadata\":{\"k\":\"v\"},\"tools\":["
    "{\"type\":\"namespace\",\"name\":\"ns\",\"tools\":[{\"type\":\"function\",\"name\":\"f\"}]},"
    "{\"type\":\"custom\",\"name\":\"patch\"},{\"type\":\"function\",\"name\":\"g\"}]}";

static const char all_kinds[] =
    "<think>\nhmm \xE2\x82\xAC\n</think>\n\nI say \"hi\"\n<tool_call>\n{\"name\": \"ns__f\", "
    "\"arguments\": {\"a\": \"\\u00e9\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"patch\", "
    "\"arguments\": {\"input\": \"*** Begin\\n\"}}\n</tool_call>";

static void test_all_kinds(void)
{
    static const char *const names[] = {
        "response.created", "response.in_progress",
        "response.output_item.added", "response.content_part.added",
        "response.reasoning_text.delta", "response.reasoning_text.done",
        "response.content_part.done", "response.output_item.done",
        "response.output_item.added", "response.content_part.added",
        "response.output_text.delta", "response.output_text.done",
        "response.content_part.done", "response.output_item.done",
        "response.output_item.added", "response.function_call_arguments.delta",
        "response.function_call_arguments.done", "response.output_item.done",
        "response.output_item.added", "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done", "response.output_item.done",
        "response.completed"};
    json_t *object = answer(&(run){PROTOCOL_RESPONSES, tools_body, "qwen3", all_kinds,
                                   .tier = "priority"});
    names_are(names, ARRAY_LEN(names));
    for (size_t i = 0; i < got.n; i++) text_is(event(i), "stream_id", "lane-1");
    text_is(event(0), "response/status", "in_progress");
    TEST_CHECK(json_is_null(at(event(0), "response/usage")));
    text_is(event(4), "delta", "hmm \xE2\x82\xAC");
    text_is(event(7), "item/content/0/text", "hmm \xE2\x82\xAC");
    text_is(event(7), "item/encrypted_content", "cerium1:aG1tIOKCrA==");
    text_is(event(10), "delta", "I say \"hi\"");
    text_is(event(10), "item_id", text_at(event(8), "item/id"));
    text_is(event(13), "item/content/0/text", "I say \"hi\"");
    text_is(event(13), "item/status", "completed");
    text_is(event(14), "item/arguments", "");
    text_is(event(17), "item/type", "function_call");
    text_is(event(17), "item/name", "f");
    text_is(event(17), "item/namespace", "ns");
    text_is(event(17), "item/arguments", text_at(event(16), "arguments"));
    text_is(event(17), "item/call_id", text_at(event(14), "item/call_id"));
    text_is(event(21), "item/type", "custom_tool_call");
    text_is(event(21), "item/input", "*** Begin\n");
    TEST_CHECK(!at(event(21), "item/namespace"));
    TEST_CHECK(strcmp(text_at(event(21), "item/call_id"), text_at(event(17), "item/call_id")));
    TEST_CHECK(json_equal(at(event(22), "response"), object));
    text_is(object, "status", "completed");
    text_is(object, "service_tier", "priority");
    text_is(object, "metadata/k", "v");
    TEST_CHECK(number_at(object, "usage/input_tokens_details/cached_tokens") == 64);
    TEST_CHECK(number_at(object, "usage/total_tokens") == 107);
    TEST_CHECK(number_at(object, "usage/output_tokens_details/reasoning_tokens") == 2);
    TEST_CHECK(number_at(object, "completed_at") == 1795227345);
    TEST_CHECK(json_array_size(at(object, "output")) == 4);
    TEST_CHECK(json_is_null(at(object, "tools/2/parameters")));
    json_decref(object);
}

static void test_cuts(void)
{
    static const char *const deltas[] = {"response.output_text.delta",
                                         "response.reasoning_text.delta",
                                         "response.function_call_arguments.delta",
                                         "response.custom_tool_call_input.delta"};
    json_t *whole = answer(&(run){PROTOCOL_RESPONSES, tools_body, "qwen3", all_kinds, .cut = 0});
    for (size_t cut = 1; cut < 40; cut++) {
        json_t *object = answer(&(run){PROTOCOL_RESPONSES, tools_body, "qwen3", all_kinds,
                                       .cut = cut});
        TEST_CHECK_THAT(json_equal(whole, object), "cuts of %zu", cut);
        for (size_t k = 0; k < ARRAY_LEN(deltas); k++) {
            char joined[256] = "";
            size_t len = 0;
            for (size_t i = 0; i < got.n; i++)
                if (!strcmp(got.names[i], deltas[k]))
                    len += (size_t)snprintf(joined + len, sizeof joined - len, "%s",
                                            text_at(event(i), "delta"));
            const char *want = k == 0   ? text_at(object, "output/1/content/0/text")
                               : k == 1 ? text_at(object, "output/0/content/0/text")
                               : k == 2 ? text_at(object, "output/2/arguments")
                                        : text_at(object, "output/3/input");
            TEST_CHECK_THAT(!strcmp(joined, want), "cuts of %zu: %s", cut, joined);
        }
        json_decref(object);
    }
    json_decref(whole);
}

/* A truncated call must not be run: it is never announced as done. */
static void test_unfinished(void)
{
    json_t *object = answer(&(run){PROTOCOL_RESPONSES, tools_body, "qwen3",
                                   "Now.\n<tool_call>\n{\"name\": \"g\", \"arguments\": {\"a\": 1",
                                   .cut = 3, .end = PROTOCOL_END_LENGTH});
    size_t n_done = 0;
    for (size_t i = 0; i < got.n; i++)
        n_done += !strcmp(got.names[i], "response.output_item.done");
    TEST_CHECK_THAT(n_done == 1, "%zu", n_done);
    text_is(object, "status", "incomplete");
    text_is(object, "incomplete_details/reason", "max_output_tokens");
    text_is(event(got.n - 1), "type", "response.incomplete");
    text_is(object, "output/1/status", "incomplete");
    json_decref(object);
    object = answer(&(run){PROTOCOL_RESPONSES, tools_body, "", "Now",
                           .end = PROTOCOL_END_CANCELED});
    text_is(object, "status", "cancelled");
    text_is(object, "output/0/status", "incomplete");
    text_is(event(got.n - 1), "type", "response.incomplete");
    json_decref(object);
    protocol_error error;
    (void)!protocol_error_set(&error, 503, "server_error", NULL, "", "gone\nfor good");
    object = answer(&(run){PROTOCOL_RESPONSES, tools_body, "", "",
                           .end = PROTOCOL_END_FAILED, .error = &error});
    text_is(event(got.n - 1), "type", "response.failed");
    text_is(object, "error/code", "server_error");
    text_is(object, "error/message", "gone for good");
    json_decref(object);
}

static void test_warm_up(void)
{
    json_t *object = answer(&(run){PROTOCOL_RESPONSES, "{\"input\":\"x\",\"generate\":false}", "",
                                   "", .cut = 0});
    static const char *const names[] = {"response.created", "response.in_progress",
                                        "response.completed"};
    names_are(names, ARRAY_LEN(names));
    TEST_CHECK(json_array_size(at(object, "output")) == 0);
    json_decref(object);
}

static void test_compaction(void)
{
    json_t *object = answer(&(run){PROTOCOL_COMPACT, "{\"model\":\"m\",\"input\":\"do it\"}", "",
                                   "They want it done.", .cut = 4});
    TEST_CHECK(got.n == 0);
    text_is(object, "object", "response.compaction");
    text_is(object, "output/0/role", "user");
    text_is(object, "output/0/content/0/text", "do it");
    text_is(object, "output/1/type", "compaction");
    /* Sent back, it is read as the same call. */
    json_t *next = json_pack("{s:O}", "input", at(object, "output"));
    char *body = json_dumps(next, 0);
    protocol_request *r = NULL;
    protocol_error error;
    TEST_CHECK(!protocol_request_parse(&r, PROTOCOL_RESPONSES, view_of(body), &defaults, &error));
    TEST_CHECK(r && r->n_messages == 2 && strstr(r->messages[1].content, "They want it done."));
    protocol_request_free(&r);
    memory_release(body);
    json_decref(next);
    json_decref(object);
    object = answer(&(run){PROTOCOL_RESPONSES, "{\"input\":[{\"type\":\"compaction_trigger\"}]}",
                           "", "Short.", .cut = 0});
    TEST_CHECK(json_array_size(at(object, "output")) == 1);
    text_is(event(3), "type", "response.output_item.done");
    text_is(event(3), "item/type", "compaction");
    json_decref(object);
}

/* ---- chat ---- */

static void test_chat(void)
{
    static const char body[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"stream\":true,\"stream_options\":"
        "{\"include_usage\":true},\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"
        "{\"type\":\"custom\",\"custom\":{\"name\":\"patch\"}}]}";
    static const char words[] =
        "<think>\nhm\n</think>\n\nHi<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"
        "\n<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"z\"}}\n</tool_call>";
    json_t *object = answer(&(run){PROTOCOL_CHAT, body, "qwen3", words, .cut = 0});
    TEST_CHECK_THAT(got.n == 10, "%zu", got.n);
    text_is(event(0), "choices/0/delta/role", "assistant");
    text_is(event(1), "choices/0/delta/reasoning_content", "hm");
    text_is(event(2), "choices/0/delta/content", "Hi");
    text_is(event(3), "choices/0/delta/tool_calls/0/function/name", "f");
    text_is(event(3), "choices/0/delta/tool_calls/0/type", "function");
    text_is(event(4), "choices/0/delta/tool_calls/0/function/arguments", "{}");
    text_is(event(5), "choices/0/delta/tool_calls/0/custom/name", "patch");
    TEST_CHECK(number_at(event(5), "choices/0/delta/tool_calls/0/index") == 1);
    text_is(event(6), "choices/0/delta/tool_calls/0/custom/input", "z");
    text_is(event(7), "choices/0/finish_reason", "tool_calls");
    TEST_CHECK(json_is_null(at(event(7), "usage")));
    TEST_CHECK(json_array_size(at(event(8), "choices")) == 0);
    TEST_CHECK(number_at(event(8),
                         "usage/completion_tokens_details/accepted_prediction_tokens") == 3);
    TEST_CHECK(!event(9));
    text_is(object, "choices/0/message/content", "Hi");
    text_is(object, "choices/0/message/reasoning_content", "hm");
    text_is(object, "choices/0/message/tool_calls/0/id",
            text_at(event(3), "choices/0/delta/tool_calls/0/id"));
    text_is(object, "choices/0/message/tool_calls/1/custom/input", "z");
    for (size_t cut = 1; cut < 20; cut++) {
        json_t *other = answer(&(run){PROTOCOL_CHAT, body, "qwen3", words, .cut = cut});
        TEST_CHECK_THAT(json_equal(object, other), "cuts of %zu", cut);
        json_decref(other);
    }
    json_decref(object);
}

static void test_choices(void)
{
    static const char body[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"n\":2}";
    json_t *object = answer(&(run){PROTOCOL_CHAT, body, "", "a", .end = PROTOCOL_END_LENGTH});
    TEST_CHECK(json_array_size(at(object, "choices")) == 2);
    text_is(object, "choices/1/finish_reason", "length");
    TEST_CHECK(number_at(object, "usage/prompt_tokens") == 100);
    TEST_CHECK(number_at(object, "usage/completion_tokens") == 14);
    TEST_CHECK(!at(event(0), "usage"));
    json_decref(object);
    protocol_error error;
    (void)!protocol_error_set(&error, 500, "server_error", "boom", "", "it broke");
    object = answer(&(run){PROTOCOL_CHAT, "{\"messages\":[{\"role\":\"user\"}]}", "", "a",
                           .end = PROTOCOL_END_FAILED, .error = &error});
    text_is(event(2), "error/message", "it broke");
    TEST_CHECK(got.n == 4 && !event(3));
    json_decref(object);
}

/* ---- signs of life ---- */

static const protocol_error broken = {.http_status = 500, .type = "server_error", .message = "x"};

/* At any point and for any end: sequence numbers continue, and all else is unchanged. */
static void test_keepalive(void)
{
    static const protocol_end ends[] = {PROTOCOL_END_STOP,     PROTOCOL_END_LENGTH,
                                        PROTOCOL_END_CONTEXT,  PROTOCOL_END_CANCELED,
                                        PROTOCOL_END_FAILED,   PROTOCOL_END_GUARDED};
    static const char body[] = "{\"input\":\"x\",\"stream_id\":\"l\",\"tools\":[{\"type\":"
                               "\"function\",\"name\":\"f\"}]}";
    static const char words[] = "<think>\nhm\n</think>\n\nSo.\n<tool_call>\n{\"name\": \"f\", "
                               "\"arguments\": {\"a\": 1}}\n</tool_call>";
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        run r = {PROTOCOL_RESPONSES, body, "qwen3", words, .cut = 3, .end = ends[i],
                 .error = &broken};
        json_t *without = answer(&r);
        size_t n_without = got.n, n_beats = 0;
        r.beats = true;
        json_t *with = answer(&r);
        for (size_t k = 0; k < got.n; k++) {
            TEST_CHECK(number_at(event(k), "sequence_number") == (int64_t)k);
            text_is(event(k), "stream_id", "l");
            text_is(event(k), "type", got.names[k]);
            if (strcmp(got.names[k], "keepalive")) continue;
            n_beats++;
            TEST_CHECK(number_at(event(k), "cerium/prompt_tokens") == 100);
            TEST_CHECK(number_at(event(k), "cerium/done") == 50);
        }
        TEST_CHECK(n_beats == (strlen(words) + 2) / 3 && got.n == n_without + n_beats);
        TEST_CHECK(json_equal(with, without) && !got.n_comments);
        json_decref(with);
        json_decref(without);
    }
}

/* The other APIs have no event for it, so no counters of their clients change. */
static void test_comments(void)
{
    static const run runs[] = {
        {PROTOCOL_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "qwen3", "abcdef",
         .cut = 2, .beats = true},
        {PROTOCOL_COMPLETIONS, "{\"prompt\":\"x\"}", "", "abcdef", .cut = 2, .beats = true},
        {PROTOCOL_INFILL, HOLE "}", "", "abcdef", .cut = 2, .beats = true},
        {PROTOCOL_COMPACT, "{\"model\":\"m\",\"input\":\"x\"}", "qwen3", "abcdef",
         .cut = 2, .beats = true},
    };
    for (size_t i = 0; i < ARRAY_LEN(runs); i++) {
        run quiet = runs[i];
        quiet.beats = false;
        json_t *without = answer(&quiet);
        size_t n = got.n;
        TEST_CHECK(!got.n_comments);
        json_t *with = answer(&runs[i]);
        TEST_CHECK(got.n == n && got.n_comments == 3 && json_equal(with, without));
        json_decref(with);
        json_decref(without);
    }
}

static void test_progress(void)
{
    static const struct {
        protocol_api api;
        const char *body, *text;
    } asked[] = {
        {PROTOCOL_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
                        "\"return_progress\":true}", "choices/0/delta"},
        {PROTOCOL_COMPLETIONS, "{\"prompt\":\"x\",\"return_progress\":true}", "choices/0/text"},
        {PROTOCOL_INFILL, HOLE ",\"return_progress\":true}", "content"},
    };
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        protocol_request *request = NULL;
        protocol_writer *w = NULL;
        protocol_error error;
        forget();
        int status = protocol_request_parse(&request, asked[i].api, view_of(asked[i].body),
                                            &defaults, &error);
        TEST_CHECK(!status && request->return_progress);
        const protocol_answer a = {.request = request, .id = "id", .model = "m",
                                   .emit = on_event, .user = &got};
        TEST_CHECK(!protocol_writer_open(&w, &a) && !protocol_writer_begin(w));
        TEST_CHECK(!protocol_writer_progress(w, &halfway));
        const json_t *chunk = event(got.n - 1), *words = at(chunk, asked[i].text);
        TEST_CHECK(number_at(chunk, "prompt_progress/total") == 100);
        TEST_CHECK(number_at(chunk, "prompt_progress/cache") == 20);
        TEST_CHECK(number_at(chunk, "prompt_progress/processed") == 50);
        TEST_CHECK(number_at(chunk, "prompt_progress/time_ms") == 7);
        TEST_CHECK(json_is_object(words) ? !json_object_size(words) : !json_string_length(words));
        protocol_writer_free(&w);
        protocol_request_free(&request);
    }
}

int main(void)
{
    TEST_RUN(test_all_kinds);
    TEST_RUN(test_cuts);
    TEST_RUN(test_unfinished);
    TEST_RUN(test_warm_up);
    TEST_RUN(test_compaction);
    TEST_RUN(test_chat);
    TEST_RUN(test_choices);
    TEST_RUN(test_keepalive);
    TEST_RUN(test_comments);
    TEST_RUN(test_progress);
    forget();
    return unit_report("answer");
}
