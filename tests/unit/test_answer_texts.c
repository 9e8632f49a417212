/* test_answer_texts.c - output to clients of completions and infill, log-probabilities of all, and
 * other bodies: errors, lists of models. */
#include "answer_run.h"

#define HOLE "{\"input_prefix\":\"x\",\"input_suffix\":\"\""

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

/* Three per prompt are sampled, the two likeliest are returned, the best first; all count. */
static void test_best_of(void)
{
    static const char *const output[] = {"a", "b", "c", "d", "e", "f"};
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
        TEST_CHECK(!protocol_writer_text(w, c, view_of(output[c]), NULL, 0));
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
    /* Blanks alone are no message. */
    object = answer(&(run){PROTOCOL_RESPONSES, "{\"input\":\"x\"}", "", " \n\n ",
                           .cut = 0});
    TEST_CHECK(json_array_size(at(object, "output")) == 0);
    json_decref(object);
}

/* Long runs of multi-byte characters stay whole in pieces of any size. */
static void test_long_text(void)
{
    static char output[30000];
    for (size_t i = 0; i + 3 < sizeof output; i += 3) memcpy(output + i, "\xE2\x82\xAC", 3);
    json_t *whole = answer(&(run){PROTOCOL_RESPONSES, "{\"input\":\"x\"}", "qwen3", output,
                                  .cut = 0});
    text_is(whole, "output/0/content/0/text", output);
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
    text_is(value, "models/1/slug", "cerium"); /* a value that a configuration may always use */
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
    TEST_RUN(test_logprobs);
    TEST_RUN(test_legacy_logprobs);
    TEST_RUN(test_completions);
    TEST_RUN(test_best_of);
    TEST_RUN(test_infill);
    TEST_RUN(test_odd_text);
    TEST_RUN(test_long_text);
    TEST_RUN(test_bodies);
    forget();
    return unit_report("answer_texts");
}
