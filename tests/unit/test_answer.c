/* test_answer.c - what clients are told: order of events, whole objects, and that cuts of the
 * model's text change neither. */
#include "protocol/protocol.h"

#include "unit.h"

#define HOLE "{\"input_prefix\":\"x\",\"input_suffix\":\"\""

/* ---- a client that writes down what it gets ---- */

enum { EVENTS_MAX = 2048 };

typedef struct {
    size_t n;
    char names[EVENTS_MAX][64];
    json_t *events[EVENTS_MAX]; /* NULL: [DONE] */
    size_t n_comments;
} client;

static client got;

static void on_event(void *user, const char *name, const char *json, size_t len)
{
    client *c = user;
    if (!json) c->n_comments++;
    if (!json || c->n == EVENTS_MAX) return;
    json_error_t why;
    bool done = len == 6 && !memcmp(json, "[DONE]", 6);
    json_t *event = done ? NULL : json_loadb(json, len, JSON_ALLOW_NUL, &why);
    TEST_CHECK_THAT(done || event, "%s: %.*s", why.text, (int)len, json);
    snprintf(c->names[c->n], sizeof c->names[0], "%s", name ? name : "");
    c->events[c->n++] = event;
}

static void forget(void)
{
    for (size_t i = 0; i < got.n; i++) json_decref(got.events[i]);
    got.n = got.n_comments = 0;
}

static const json_t *at(const json_t *value, const char *path)
{
    char key[64];
    for (const char *p = path; value && *p;) {
        size_t len = strcspn(p, "/");
        snprintf(key, sizeof key, "%.*s", (int)len, p);
        value = json_is_array(value) ? json_array_get(value, strtoul(key, NULL, 10))
                                     : json_object_get(value, key);
        p += len + (p[len] == '/');
    }
    return value;
}

static const char *text_at(const json_t *value, const char *path)
{
    const char *text = json_string_value(at(value, path));
    return text ? text : "";
}

static int64_t number_at(const json_t *value, const char *path)
{
    return (int64_t)json_integer_value(at(value, path));
}

static void text_is(const json_t *value, const char *path, const char *want)
{
    TEST_CHECK_THAT(!strcmp(text_at(value, path), want), "%s: \"%s\"", path, text_at(value, path));
}

static const json_t *event(size_t i) { return i < got.n ? got.events[i] : NULL; }

/* ---- a run of a writer ---- */

static const protocol_defaults defaults = {.fills_in = true};
static const protocol_usage usage = {.input_tokens = 100, .cached_tokens = 64, .output_tokens = 7,
                                     .reasoning_tokens = 2, .accepted_tokens = 3,
                                     .rejected_tokens = 1, .prompt_ns = 2000000,
                                     .predict_ns = 3500000000u};

typedef struct {
    protocol_api api;
    const char *body, *form, *said;
    size_t cut; /* bytes a time, at least; 0: all at once */
    protocol_end end;
    const protocol_error *error;
    const char *tier;
    bool beats; /* a sign of life before each cut */
} run;

static size_t next_cut(const char *text, size_t len, size_t cut)
{
    size_t n = cut && cut < len ? cut : len;
    while (n < len && ((unsigned char)text[n] & 0xC0) == 0x80) n++;
    return n;
}

static const protocol_progress halfway = {.prompt_tokens = 100, .cached_tokens = 20,
                                           .done_tokens = 50, .prompt_ns = 7000000};

static view no_token(void *user, int32_t token)
{
    (void)user;
    return token == 1 ? VIEW("one") : VIEW("\xE2\x82");
}

/* Returns the whole object, owned. */
static json_t *answer(const run *r)
{
    forget();
    protocol_request *request = NULL;
    protocol_writer *w = NULL;
    protocol_error error;
    int status = protocol_request_parse(&request, r->api, view_of(r->body), &defaults, &error);
    TEST_CHECK_THAT(!status, "%s", error.message);
    if (status) return NULL;
    const protocol_answer a = {.request = request, .id = "resp_0123", .model = "spark",
                               .chat_form = r->form, .served_tier = r->tier,
                               .created_at = 1795227342, .token_text = no_token,
                               .emit = on_event, .user = &got};
    TEST_CHECK(!protocol_writer_open(&w, &a) && !protocol_writer_begin(w));
    uint32_t n = request->n_choices * (uint32_t)(request->n_prompts ? request->n_prompts : 1);
    for (uint32_t c = 0; c < n; c++) {
        for (size_t i = 0, len = strlen(r->said); i < len;) {
            size_t part = next_cut(r->said + i, len - i, r->cut);
            if (r->beats) TEST_CHECK(!protocol_writer_beat(w, &halfway));
            TEST_CHECK(!protocol_writer_text(w, c, (view){r->said + i, part}, NULL, 0));
            i += part;
        }
        TEST_CHECK(!protocol_writer_end(w, c, r->end, &usage, r->error));
    }
    size_t n_events = got.n, n_comments = got.n_comments;
    TEST_CHECK(!protocol_writer_beat(w, &halfway)); /* nothing lives after the end */
    TEST_CHECK(!protocol_writer_progress(w, &halfway));
    TEST_CHECK(got.n == n_events && got.n_comments == n_comments);
    json_t *object = protocol_writer_object(w);
    TEST_CHECK(object);
    if (r->api == PROTOCOL_RESPONSES)
        TEST_CHECK(json_equal(protocol_writer_output(w), json_object_get(object, "output")));
    protocol_writer_free(&w);
    protocol_request_free(&request);
    return object;
}

static void names_are(const char *const *names, size_t n)
{
    TEST_CHECK_THAT(got.n == n, "%zu events, not %zu", got.n, n);
    for (size_t i = 0; i < n && i < got.n; i++) {
        TEST_CHECK_THAT(!strcmp(got.names[i], names[i]), "%zu: %s", i, got.names[i]);
        TEST_CHECK(!strcmp(got.names[i], text_at(event(i), "type")));
        TEST_CHECK(number_at(event(i), "sequence_number") == (int64_t)i);
    }
}

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

/* A call that was cut off must not be run: it is never announced as done. */
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
    /* It comes back as what it says. */
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
    static const char said[] =
        "<think>\nhm\n</think>\n\nHi<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"
        "\n<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"z\"}}\n</tool_call>";
    json_t *object = answer(&(run){PROTOCOL_CHAT, body, "qwen3", said, .cut = 0});
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
        json_t *other = answer(&(run){PROTOCOL_CHAT, body, "qwen3", said, .cut = cut});
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

/* ---- logprobs ---- */

/* Tokens arrive before their text, cut characters and markup among them. */
static void test_logprobs(void)
{
    static const char body[] = "{\"messages\":[{\"role\":\"user\"}],\"logprobs\":true,"
                               "\"top_logprobs\":2}";
    static const cerium_logprob top[] = {{1, -0.5f}, {2, -2}};
    static const view texts[] = {VIEW("<think>"), VIEW("hm"), VIEW("</think>"), VIEW("\n\n"),
                                 VIEW("A"), VIEW("\xE2\x82"), VIEW("\xAC"), VIEW(" b")};
    protocol_request *request = NULL;
    protocol_error error;
    forget();
    TEST_CHECK(!protocol_request_parse(&request, PROTOCOL_CHAT, view_of(body), &defaults, &error));
    const protocol_answer a = {.request = request, .id = "chatcmpl-1", .model = "m",
                               .chat_form = "qwen3", .token_text = no_token, .emit = on_event,
                               .user = &got};
    protocol_writer *w = NULL;
    TEST_CHECK(!protocol_writer_open(&w, &a) && !protocol_writer_begin(w));
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const protocol_token token = {texts[i], -1.0f - (float)i, top, 2};
        view text = i == 5 ? VIEW("") : i == 6 ? VIEW("\xE2\x82\xAC") : texts[i];
        TEST_CHECK(!protocol_writer_text(w, 0, text, &token, 1));
    }
    TEST_CHECK(!protocol_writer_end(w, 0, PROTOCOL_END_STOP, &usage, NULL));
    json_t *object = protocol_writer_object(w);
    const json_t *list = at(object, "choices/0/logprobs/content");
    TEST_CHECK_THAT(json_array_size(list) == 4, "%zu", json_array_size(list));
    text_is(list, "0/token", "A");
    TEST_CHECK(json_real_value(at(list, "0/top_logprobs/0/logprob")) == -0.5);
    text_is(list, "0/top_logprobs/0/token", "one");
    text_is(list, "1/token", "\xEF\xBF\xBD\xEF\xBF\xBD");
    TEST_CHECK(number_at(list, "1/bytes/1") == 0x82);
    TEST_CHECK(number_at(list, "2/logprob") == -7);
    text_is(list, "3/token", " b");
    text_is(object, "choices/0/message/content", "A\xE2\x82\xAC b");
    json_decref(object);
    protocol_writer_free(&w);
    protocol_request_free(&request);
}

static void test_legacy_logprobs(void)
{
    static const char body[] = "{\"prompt\":\"a\xC3\xA9\",\"echo\":true,\"logprobs\":1}";
    static const cerium_logprob top[] = {{1, -0.5f}, {2, -2}};
    static const protocol_token tokens[] = {{VIEW("x"), -1, top, 2}, {VIEW("yz"), -2, top, 2}};
    protocol_request *request = NULL;
    protocol_error error;
    forget();
    TEST_CHECK(!protocol_request_parse(&request, PROTOCOL_COMPLETIONS, view_of(body), &defaults,
                                       &error));
    const protocol_answer a = {.request = request, .id = "cmpl-1", .model = "m",
                               .token_text = no_token, .emit = on_event, .user = &got};
    protocol_writer *w = NULL;
    TEST_CHECK(!protocol_writer_open(&w, &a) && !protocol_writer_begin(w));
    TEST_CHECK(!protocol_writer_text(w, 0, VIEW("x"), &tokens[0], 1));
    TEST_CHECK(!protocol_writer_text(w, 0, VIEW("yz"), &tokens[1], 1));
    TEST_CHECK(!protocol_writer_end(w, 0, PROTOCOL_END_STOP, &usage, NULL));
    json_t *object = protocol_writer_object(w);
    text_is(event(0), "choices/0/text", "a\xC3\xA9");
    text_is(event(2), "choices/0/logprobs/tokens/0", "yz");
    TEST_CHECK(json_array_size(at(event(2), "choices/0/logprobs/tokens")) == 1);
    text_is(object, "choices/0/text", "a\xC3\xA9xyz");
    TEST_CHECK(number_at(object, "choices/0/logprobs/text_offset/1") == 3);
    TEST_CHECK(json_real_value(at(object, "choices/0/logprobs/top_logprobs/0/one")) == -0.5);
    TEST_CHECK(json_object_get(at(object, "choices/0/logprobs/top_logprobs/0"),
                               "bytes:\\xe2\\x82"));
    json_decref(object);
    protocol_writer_free(&w);
    protocol_request_free(&request);
}

/* ---- signs of life ---- */

static const protocol_error broken = {.http_status = 500, .type = "server_error", .message = "x"};

/* Wherever they come and however the answer ends: numbers go on, and all else stays as it is. */
static void test_keepalive(void)
{
    static const protocol_end ends[] = {PROTOCOL_END_STOP,     PROTOCOL_END_LENGTH,
                                        PROTOCOL_END_CONTEXT,  PROTOCOL_END_CANCELED,
                                        PROTOCOL_END_FAILED,   PROTOCOL_END_GUARDED};
    static const char body[] = "{\"input\":\"x\",\"stream_id\":\"l\",\"tools\":[{\"type\":"
                               "\"function\",\"name\":\"f\"}]}";
    static const char said[] = "<think>\nhm\n</think>\n\nSo.\n<tool_call>\n{\"name\": \"f\", "
                               "\"arguments\": {\"a\": 1}}\n</tool_call>";
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        run r = {PROTOCOL_RESPONSES, body, "qwen3", said, .cut = 3, .end = ends[i],
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
        TEST_CHECK(n_beats == (strlen(said) + 2) / 3 && got.n == n_without + n_beats);
        TEST_CHECK(json_equal(with, without) && !got.n_comments);
        json_decref(with);
        json_decref(without);
    }
}

/* The other APIs have no event for it, so nothing that their clients count is changed. */
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
        const json_t *chunk = event(got.n - 1), *said = at(chunk, asked[i].text);
        TEST_CHECK(number_at(chunk, "prompt_progress/total") == 100);
        TEST_CHECK(number_at(chunk, "prompt_progress/cache") == 20);
        TEST_CHECK(number_at(chunk, "prompt_progress/processed") == 50);
        TEST_CHECK(number_at(chunk, "prompt_progress/time_ms") == 7);
        TEST_CHECK(json_is_object(said) ? !json_object_size(said) : !json_string_length(said));
        protocol_writer_free(&w);
        protocol_request_free(&request);
    }
}

/* ---- completions, infill, other bodies ---- */

static void test_completions(void)
{
    json_t *object = answer(&(run){PROTOCOL_COMPLETIONS,
                                   "{\"prompt\":[\"a\",[1]],\"echo\":true,\"n\":2}", "", "<think>z",
                                   .cut = 2});
    TEST_CHECK(json_array_size(at(object, "choices")) == 4);
    text_is(object, "choices/1/text", "a<think>z");
    text_is(object, "choices/2/text", "one<think>z");
    TEST_CHECK(number_at(object, "usage/prompt_tokens") == 200);
    TEST_CHECK(number_at(object, "usage/completion_tokens") == 28);
    json_decref(object);
}

/* Three of each prompt are sampled, the two likeliest come back, the best first; all count. */
static void test_best_of(void)
{
    static const char *const said[] = {"a", "b", "c", "d", "e", "f"};
    static const double logprobs[] = {-8, -2, -4, -6, -6, -1};
    protocol_request *request = NULL;
    protocol_writer *w = NULL;
    protocol_error error;
    int status = protocol_request_parse(
        &request, PROTOCOL_COMPLETIONS,
        VIEW("{\"prompt\":[\"x\",\"y\"],\"n\":2,\"best_of\":3}"), &defaults, &error);
    const protocol_answer a = {.request = request, .id = "cmpl-1", .model = "spark"};
    TEST_CHECK(!status && !protocol_writer_open(&w, &a) && !protocol_writer_begin(w));
    for (uint32_t c = 0; c < 6; c++) {
        const protocol_usage one = {.output_tokens = 1 + c % 2, .input_tokens = 5,
                                    .logprob = logprobs[c]};
        TEST_CHECK(!protocol_writer_text(w, c, view_of(said[c]), NULL, 0));
        TEST_CHECK(!protocol_writer_end(w, c, PROTOCOL_END_STOP, &one, NULL));
    }
    json_t *object = protocol_writer_object(w);
    TEST_CHECK(json_array_size(at(object, "choices")) == 4);
    text_is(object, "choices/0/text", "b"); /* -1 a token */
    text_is(object, "choices/1/text", "c"); /* -4 */
    text_is(object, "choices/2/text", "f"); /* -0.5 */
    text_is(object, "choices/3/text", "d"); /* -3 */
    for (int i = 0; i < 4; i++) {
        const json_t *choice = json_array_get(json_object_get(object, "choices"), (size_t)i);
        TEST_CHECK(number_at(choice, "index") == i);
    }
    TEST_CHECK(number_at(object, "usage/prompt_tokens") == 10);
    TEST_CHECK(number_at(object, "usage/completion_tokens") == 9);
    json_decref(object);
    protocol_writer_free(&w);
    protocol_request_free(&request);
}

static void test_infill(void)
{
    json_t *object = answer(&(run){PROTOCOL_INFILL, HOLE ",\"id_slot\":3}", "", "x\ny", .cut = 1,
                                   .end = PROTOCOL_END_CONTEXT});
    TEST_CHECK(got.n == 4);
    text_is(event(1), "content", "\n");
    TEST_CHECK(json_is_true(at(event(3), "stop")));
    text_is(object, "content", "x\ny");
    TEST_CHECK(json_is_true(at(object, "truncated")) && json_is_true(at(object, "has_new_line")));
    TEST_CHECK(number_at(object, "timings/prompt_n") == 36);
    TEST_CHECK(number_at(object, "timings/prompt_ms") == 2);
    TEST_CHECK(number_at(object, "timings/predicted_per_second") == 2);
    TEST_CHECK(number_at(object, "tokens_cached") == 107 && number_at(object, "id_slot") == 3);
    json_decref(object);
    object = answer(&(run){PROTOCOL_INFILL, HOLE ",\"response_fields\":[\"content\",\"none\","
                                            "\"timings/predicted_n\",\"timings/x/y\"]}", "", "q",
                           .cut = 0});
    TEST_CHECK(json_object_size(object) == 2);
    text_is(object, "content", "q");
    TEST_CHECK(json_integer_value(json_object_get(object, "timings/predicted_n")) == 7);
    json_decref(object);
}

static void test_odd_text(void)
{
    json_t *object = answer(&(run){PROTOCOL_COMPLETIONS, "{\"prompt\":\"\"}", "",
                                   "\x01\t\"\\\x7F\xC3\xFF\xF0\x9F\x98\x80", .cut = 0});
    text_is(object, "choices/0/text", "\x01\t\"\\\x7F\xEF\xBF\xBD\xEF\xBF\xBD\xF0\x9F\x98\x80");
    json_decref(object);
    /* Nothing but blanks is no message. */
    object = answer(&(run){PROTOCOL_RESPONSES, "{\"input\":\"x\"}", "", " \n\n ",
                           .cut = 0});
    TEST_CHECK(json_array_size(at(object, "output")) == 0);
    json_decref(object);
}

/* Long runs of characters of several bytes stay whole, however much comes at once. */
static void test_long_text(void)
{
    static char said[30000];
    for (size_t i = 0; i + 3 < sizeof said; i += 3) memcpy(said + i, "\xE2\x82\xAC", 3);
    json_t *whole = answer(&(run){PROTOCOL_RESPONSES, "{\"input\":\"x\"}", "qwen3", said,
                                  .cut = 0});
    text_is(whole, "output/0/content/0/text", said);
    for (size_t i = 0; i < got.n; i++)
        TEST_CHECK(!strstr(text_at(event(i), "delta"), "\xEF\xBF\xBD"));
    json_decref(whole);
}

static void test_bodies(void)
{
    protocol_error error;
    bytes out = {.max = 1 << 16};
    TEST_CHECK(protocol_error_set(&error, 429, "rate_limit_error", "rate_limit_exceeded", "a[0].b",
                                  "Please try again in %ds", 2) == CERIUM_ERR_ARGUMENT);
    error.retry_after_s = 2;
    TEST_CHECK(!protocol_error_event(&out, &error, "lane"));
    json_t *value = json_loadb(out.ptr, out.len, 0, NULL);
    TEST_CHECK(number_at(value, "status") == 429);
    text_is(value, "headers/retry-after", "2");
    text_is(value, "stream_id", "lane");
    text_is(value, "error/param", "a[0].b");
    text_is(value, "error/message", "Please try again in 2s");
    json_decref(value);
    out.len = 0;
    TEST_CHECK(!protocol_error_body(&out, &error));
    value = json_loadb(out.ptr, out.len, 0, NULL);
    text_is(value, "error/code", "rate_limit_exceeded");
    json_decref(value);
    out.len = 0;
    const protocol_model models[] = {
        {.id = "a", .display_name = "A", .context_tokens = 131072, .created_at = 7, .chats = true,
         .fills_in = true, .chat_form = "template", .chat_refusal = ""},
        {.id = "b", .context_tokens = 512, .created_at = 7, .fills_in = true, .chat_form = "",
         .chat_refusal = "line 2: it does \"that\""}};
    TEST_CHECK(!protocol_models_body(&out, models, 2));
    value = json_loadb(out.ptr, out.len, 0, NULL);
    TEST_CHECK(json_array_size(at(value, "data")) == 2);
    TEST_CHECK(json_array_size(at(value, "models")) == 2);
    text_is(value, "models/0/slug", "a");
    text_is(value, "models/0/visibility", "list");
    text_is(value, "models/1/slug", "cerium"); /* what a configuration may always say */
    text_is(value, "models/1/visibility", "hide");
    TEST_CHECK(number_at(value, "models/0/context_window") == 131072);
    /* Codex refuses the list without one of these. */
    static const char *const needed[] = {
        "slug", "display_name", "supported_reasoning_levels", "shell_type", "visibility",
        "supported_in_api", "priority", "support_verbosity", "truncation_policy",
        "experimental_supported_tools", "base_instructions", "context_window"};
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        TEST_CHECK_THAT(json_object_get(at(value, "models/0"), needed[i]), "%s", needed[i]);
    json_decref(value);
    bytes_free(&out);
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
    TEST_RUN(test_logprobs);
    TEST_RUN(test_legacy_logprobs);
    TEST_RUN(test_keepalive);
    TEST_RUN(test_comments);
    TEST_RUN(test_progress);
    TEST_RUN(test_completions);
    TEST_RUN(test_best_of);
    TEST_RUN(test_infill);
    TEST_RUN(test_odd_text);
    TEST_RUN(test_long_text);
    TEST_RUN(test_bodies);
    forget();
    return unit_report("answer");
}
