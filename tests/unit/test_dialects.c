/* test_dialects.c - requests of Anthropic's Messages, of Ollama and of llama.cpp become the same
 * messages as those of OpenAI's APIs, and answers become their events; response.steer. */
#include "protocol/protocol.h"
#include "protocol/steer.h"
#include "protocol/tool_guide.h"

#include "unit.h"

static protocol_defaults defaults = {.has_chat_form = true, .fills_in = true};
static protocol_error error;

static protocol_request *parse(protocol_api api, const char *body)
{
    protocol_request *r = NULL;
    memset(&error, 0, sizeof error);
    int status = protocol_request_parse(&r, api, view_of(body), &defaults, &error);
    TEST_CHECK_THAT((status == 0) == (r != NULL), "%d", status);
    return r;
}

/* "role name:content|..." */
static void messages_are(protocol_api api, const char *body, const char *want)
{
    char got[2048] = "";
    protocol_request *r = parse(api, body);
    TEST_CHECK_THAT(r, "%s: %s: %s", body, error.param, error.message);
    for (size_t i = 0; r && i < r->n_messages; i++) {
        const cerium_message *m = &r->messages[i];
        size_t n = strlen(got);
        snprintf(got + n, sizeof got - n, "%s%s%s%s:%s", i ? "|" : "", m->role,
                 m->name ? " " : "", m->name ? m->name : "", m->content);
    }
    TEST_CHECK_THAT(!strcmp(got, want), "%s\n want %s\n got  %s", body, want, got);
    protocol_request_free(&r);
}

static void refused(protocol_api api, const char *body, const char *param)
{
    protocol_request *r = parse(api, body);
    TEST_CHECK_THAT(!r && !strcmp(error.param, param) && error.http_status == 400, "%s: '%s' %s",
                    body, error.param, error.message);
    protocol_request_free(&r);
}

#define MESSAGES(rest) "{\"max_tokens\":9,\"messages\":[" rest "]}"
#define USER(content) "{\"role\":\"user\",\"content\":" content "}"
#define SAID(content) "{\"role\":\"assistant\",\"content\":" content "}"
#define USE "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"ls\",\"input\":{\"a\":1}}"
#define RESULT(rest) "{\"type\":\"tool_result\",\"tool_use_id\":\"t1\"" rest "}"

/* ---- messages: requests ---- */

static void test_messages(void)
{
    const protocol_api api = PROTOCOL_MESSAGES;
    messages_are(api, MESSAGES(USER("\"hi\"")), "user:hi");
    messages_are(api, MESSAGES(USER("[{\"type\":\"text\",\"text\":\"hi\"}]")), "user:hi");
    messages_are(api, "{\"max_tokens\":9,\"system\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":"
                      "\"text\",\"text\":\"b\",\"cache_control\":{}}],\"messages\":["
                      USER("\"hi\"") "]}", "system:ab|user:hi");
    /* The results come first, then the text after them. */
    messages_are(api, MESSAGES(USER("\"q\"") "," SAID("[" USE "]") ","
                               USER("[{\"type\":\"text\",\"text\":\"brief\"}," RESULT(
                                   ",\"content\":\"out\"") "]")),
                 "user:q|call ls:{\"a\":1}|tool ls:out|user:brief");
    messages_are(api, MESSAGES(USER("\"q\"") "," SAID("[" USE "]") ","
                               USER("[" RESULT(",\"is_error\":true,\"content\":[{\"type\":\"text\","
                                               "\"text\":\"no \"},{\"type\":\"text\",\"text\":"
                                               "\"way\"}]") "]")),
                 "user:q|call ls:{\"a\":1}|tool ls:Error: no way");
    messages_are(api, MESSAGES(USER("\"q\"") "," SAID("[" USE "]") "," USER("[" RESULT("") "]")),
                 "user:q|call ls:{\"a\":1}|tool ls:");
    /* A call that was interrupted. */
    messages_are(api, MESSAGES(USER("\"q\"") "," SAID("[" USE "]") "," USER("\"stop\"")),
                 "user:q|call ls:{\"a\":1}|tool ls:[No result: the call was interrupted.]|"
                 "user:stop");
    /* Messages of one role in a row are one turn; a system message stays in place in every form. */
    messages_are(api, MESSAGES(USER("\"a\"") "," USER("\"b\"")), "user:a\nb");
    messages_are(api, MESSAGES(USER("\"a\"") ",{\"role\":\"system\",\"content\":\"s\"}"),
                 "user:a|developer:s");
    messages_are(api, MESSAGES(USER("\"a\"") ",{\"role\":\"system\",\"content\":[{\"type\":"
                               "\"text\",\"text\":\"s\"}]}"), "user:a|developer:s");
    /* Thoughts of other models, an empty turn, unknown block types. */
    messages_are(api, MESSAGES(USER("\"a\"") "," SAID("[{\"type\":\"thinking\",\"thinking\":\"hm\","
                               "\"signature\":\"x\"},{\"type\":\"redacted_thinking\",\"data\":\"y\""
                               "},{\"type\":\"text\",\"text\":\"b\"}]") "," USER("\"c\"")),
                 "user:a|reasoning:hm|assistant:b|user:c");
    messages_are(api, MESSAGES(USER("\"a\"") "," SAID("[]") "," USER("\"c\"")),
                 "user:a|assistant:|user:c");
    messages_are(api, MESSAGES(USER("[{\"type\":\"of_tomorrow\",\"x\":1},{\"type\":\"text\","
                                    "\"text\":\"b\"}]")), "user:b");
    refused(api, "{\"messages\":[" USER("\"a\"") "]}", "max_tokens");
    refused(api, MESSAGES(""), "messages");
    refused(api, "{\"max_tokens\":9,\"thread\":{\"type\":\"continue\"},\"messages\":["
                 USER("\"a\"") "]}", "thread");
    TEST_CHECK(error.code && !strcmp(error.code, "thread_not_found"));
    refused(api, MESSAGES("{\"role\":\"tool\",\"content\":\"a\"}"), "messages[0].role");
    refused(api, MESSAGES(USER("[" RESULT("") "]")), "messages[0].content[0]");
}

static void test_messages_settings(void)
{
    protocol_request *r = parse(PROTOCOL_MESSAGES, MESSAGES(USER("\"a\"") "," SAID("\"int x\"")));
    TEST_CHECK(r && r->prefill && !strcmp(r->prefill, "int x") && r->n_messages == 1);
    protocol_request_free(&r);
    r = parse(PROTOCOL_MESSAGES,
              "{\"max_tokens\":0,\"messages\":[" USER("\"a\"") "],\"stop_sequences\":[\"x\"],"
              "\"speed\":\"fast\",\"thinking\":{\"type\":\"adaptive\",\"display\":\"omitted\"},"
              "\"tools\":[{\"name\":\"a\",\"input_schema\":{\"type\":\"object\"}},{\"name\":\"b\","
              "\"defer_loading\":true,\"input_schema\":{}},{\"type\":\"web_search_20260318\","
              "\"name\":\"w\"}],\"tool_choice\":{\"type\":\"any\","
              "\"disable_parallel_tool_use\":true}}");
    TEST_CHECK(r && r->warm_up && r->sampling.n_stops == 1 && r->hides_thoughts);
    TEST_CHECK(r && r->class_ == CERIUM_CLASS_EDIT && r->one_call && r->call_required);
    TEST_CHECK(r && r->n_tools == 1 && !strcmp(r->tools[0].name, "a"));
    protocol_request_free(&r);
    /* The block that changes with each request is not part of the prompt, alone or merged. */
    messages_are(PROTOCOL_MESSAGES,
                 "{\"max_tokens\":9,\"system\":[{\"type\":\"text\",\"text\":"
                 "\"x-anthropic-billing-header: a=1; cch=2;\"},{\"type\":\"text\",\"text\":\"S\"}],"
                 "\"messages\":[" USER("\"a\"") "]}", "system:S|user:a");
    messages_are(PROTOCOL_MESSAGES,
                 "{\"max_tokens\":9,\"system\":\"x-anthropic-billing-header: a=1; cch=2;\\nS\","
                 "\"messages\":[" USER("\"a\"") "]}", "system:S|user:a");
    defaults.counts = true;
    r = parse(PROTOCOL_MESSAGES, "{\"messages\":[" USER("\"a\"") "]}");
    TEST_CHECK(r != NULL);
    protocol_request_free(&r);
    defaults.counts = false;
}

/* ---- ollama and llama.cpp: requests ---- */

static void test_ollama(void)
{
    messages_are(PROTOCOL_OLLAMA_CHAT,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"q\",\"images\":[\"x\"]},{"
                 "\"role\":\"assistant\",\"content\":\"\",\"thinking\":\"hm\","
                 "\"tool_calls\":[{\"function\":"
                 "{\"name\":\"ls\",\"arguments\":{\"a\":1}}}]},{\"role\":\"tool\",\"content\":"
                 "\"out\",\"tool_name\":\"ls\"}]}",
                 "user:q\n[An image was here. You see text only: say so where it matters.]|"
                 "reasoning:hm|call ls:{\"a\":1}|tool ls:out");
    protocol_request *r = parse(PROTOCOL_OLLAMA_CHAT,
                                "{\"messages\":[" USER("\"a\"") "],\"think\":false,\"format\":"
                                "\"json\",\"options\":{\"num_predict\":5,\"temperature\":1.5,"
                                "\"stop\":[\"x\"],\"repeat_penalty\":1.5,\"num_ctx\":4096,"
                                "\"mirostat\":1}}");
    TEST_CHECK(r && r->stream && r->new_tokens_max == 5 && r->sampling.n_stops == 1);
    TEST_CHECK(r && r->wants_object && r->think == PROTOCOL_THINK_OFF);
    TEST_CHECK(r && r->sampling.temperature == 1.5f && r->sampling.repetition_penalty == 1.5f);
    bool warned = r && r->warnings.len && memmem(r->warnings.ptr, r->warnings.len,
                                                 "options.mirostat", 16);
    TEST_CHECK(warned);
    protocol_request_free(&r);
    r = parse(PROTOCOL_OLLAMA_CHAT, "{\"messages\":[],\"keep_alive\":0}");
    TEST_CHECK(r && r->loads && !strcmp(r->loads, "unload"));
    protocol_request_free(&r);
    messages_are(PROTOCOL_OLLAMA_GENERATE, "{\"prompt\":\"p\",\"system\":\"s\"}",
                 "system:s|user:p");
    r = parse(PROTOCOL_OLLAMA_GENERATE, "{\"prompt\":\"p\",\"raw\":true,\"stream\":false}");
    TEST_CHECK(r && !r->talks && r->n_prompts == 1 && !r->stream);
    protocol_request_free(&r);
    r = parse(PROTOCOL_OLLAMA_GENERATE, "{\"prompt\":\"p\",\"suffix\":\"s\"}");
    TEST_CHECK(r && !r->talks && r->fill_in && r->ends_hole && r->infill.prefix_len == 1);
    TEST_CHECK(r && r->class_ == CERIUM_CLASS_COMPLETION);
    protocol_request_free(&r);
    refused(PROTOCOL_OLLAMA_CHAT, "{\"messages\":[{\"role\":\"x\"}]}", "messages[0].role");
}

static void test_lengths(void)
{
    static const struct {
        protocol_api api;
        const char *body;
        uint32_t most;
        bool warm_up;
    } cases[] = {
        {PROTOCOL_CHAT, "{\"messages\":[" USER("\"a\"") "],\"max_tokens\":-1}", UINT32_MAX, false},
        {PROTOCOL_CHAT, "{\"messages\":[" USER("\"a\"") "],\"n_predict\":3}", 3, false},
        {PROTOCOL_CHAT, "{\"messages\":[" USER("\"a\"") "],\"n_predict\":0}", 0, true},
        {PROTOCOL_RESPONSES, "{\"input\":\"a\",\"n_predict\":0}", 0, true},
        {PROTOCOL_RESPONSES, "{\"input\":\"a\",\"max_output_tokens\":-1}", UINT32_MAX, false},
        {PROTOCOL_COMPLETIONS, "{\"prompt\":\"a\",\"n_predict\":4}", 4, false},
        {PROTOCOL_COMPLETIONS, "{\"prompt\":\"a\",\"max_tokens\":-1}", UINT32_MAX, false},
        {PROTOCOL_COMPLETIONS, "{\"prompt\":\"a\",\"max_tokens\":0}", 0, false},
        {PROTOCOL_COMPLETION, "{\"prompt\":\"a\",\"n_predict\":-1}", UINT32_MAX, false},
        {PROTOCOL_COMPLETION, "{\"prompt\":[1,2],\"n_predict\":0}", 0, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        protocol_request *r = parse(cases[i].api, cases[i].body);
        TEST_CHECK_THAT(r && r->new_tokens_max == cases[i].most && r->warm_up == cases[i].warm_up,
                        "%s: %u", cases[i].body, r ? r->new_tokens_max : 0);
        protocol_request_free(&r);
    }
    refused(PROTOCOL_CHAT, "{\"messages\":[" USER("\"a\"") "],\"max_tokens\":0}", "max_tokens");
    refused(PROTOCOL_COMPLETION, "{\"prompt\":[\"a\",\"b\"]}", "prompt");
}

/* ---- constraints of an answer ---- */

static void test_shapes(void)
{
    static const struct {
        const char *field, *syntax; /* "": JSON; NULL: refused */
    } cases[] = {
        {"\"response_format\":{\"type\":\"json_object\",\"schema\":{\"type\":\"object\"}}", ""},
        {"\"response_format\":{\"type\":\"json_schema\",\"schema\":{\"type\":\"object\"}}", ""},
        {"\"grammar\":\"root ::= \\\"a\\\"\"", "gbnf"},
        {"\"json_schema\":{\"type\":\"object\"}", ""},
        {"\"guided_json\":\"{\\\"type\\\":\\\"object\\\"}\"", ""},
        {"\"guided_regex\":\"a+\"", "regex"},
        {"\"guided_choice\":[\"a\",\"b\\\"\"]", "lark"},
        {"\"guided_grammar\":\"root ::= \\\"a\\\"\"", "gbnf"},
        {"\"structured_outputs\":{\"choice\":[\"a\"]}", "lark"},
        {"\"structured_outputs\":{\"json\":{\"type\":\"object\"}}", ""},
        {"\"guided_choice\":[]", NULL},
        {"\"grammar\":7", NULL},
        {"\"grammar\":\"root ::= \\\"a\\\"\",\"json_schema\":{}", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char body[512];
        snprintf(body, sizeof body, "{\"messages\":[%s],%s}", USER("\"a\""), cases[i].field);
        protocol_request *r = parse(PROTOCOL_CHAT, body);
        const char *want = cases[i].syntax;
        bool is = !want ? !r : *want ? r && r->grammar.text && !strcmp(r->grammar.syntax, want)
                                     : r && r->schema;
        TEST_CHECK_THAT(is, "%s: %s", body, error.message);
        TEST_CHECK_THAT(!r || (protocol_has_format(r) && !r->warnings.len), "%s", body);
        protocol_guide guide;
        if (r) CHECK(!protocol_guide_make(&guide, r, "chatml", false));
        if (r) TEST_CHECK(guide.grammar.len > 0 && !guide.n_triggers);
        if (r) protocol_guide_free(&guide);
        protocol_request_free(&r);
    }
}

/* Fill-in-the-middle marks in a client's prompt make it an infill request. */
static void test_written_holes(void)
{
    static const struct {
        const char *prompt, *prefix, *suffix;
    } cases[] = {
        {"<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>", "a", "b"},
        {"<fim_prefix>a<fim_suffix><fim_middle>", "a", ""},
        {"<PRE> a <SUF>b <MID>", "a", "b"},
        {"[SUFFIX]b[PREFIX]a", "a", "b"},
        {"<|fim_prefix|>a<|fim_suffix|>b", NULL, NULL},
        {"x<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>", NULL, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"prompt\":\"%s\"}", cases[i].prompt);
        protocol_request *r = parse(PROTOCOL_COMPLETIONS, body);
        bool is = r && r->fill_in && !strcmp(r->prompts[0], cases[i].prefix ? cases[i].prefix : "")
                  && !strcmp(r->infill.suffix, cases[i].suffix ? cases[i].suffix : "");
        TEST_CHECK_THAT(r && (cases[i].prefix ? is : !r->fill_in), "%s", body);
        protocol_request_free(&r);
    }
}

static void test_continued(void)
{
    const char *talk = "{\"messages\":[" USER("\"a\"") "," SAID("\"int main(\"") "]%s}";
    char body[256];
    snprintf(body, sizeof body, talk, ",\"continue_final_message\":true");
    protocol_request *r = parse(PROTOCOL_CHAT, body);
    TEST_CHECK(r && r->prefill && !strcmp(r->prefill, "int main(") && r->n_messages == 1);
    protocol_request_free(&r);
    snprintf(body, sizeof body, talk, ",\"add_generation_prompt\":false");
    r = parse(PROTOCOL_CHAT, body);
    TEST_CHECK(r && !r->prefill && r->no_opening && r->n_messages == 2);
    protocol_request_free(&r);
    snprintf(body, sizeof body, talk,
             ",\"continue_final_message\":true,\"add_generation_prompt\":true");
    refused(PROTOCOL_CHAT, body, "continue_final_message");
    refused(PROTOCOL_CHAT, "{\"messages\":[" USER("\"a\"") "],\"continue_final_message\":true}",
            "continue_final_message");
}

/* ---- results without their calls ---- */

static void test_orphans(void)
{
    refused(PROTOCOL_RESPONSES, "{\"input\":[" USER("\"a\"") ",{\"type\":\"function_call_output\","
                                "\"call_id\":\"c\",\"output\":\"x\"}]}", "input[1].call_id");
    TEST_CHECK_THAT(strstr(error.message, "No tool call found"), "%s", error.message);
    messages_are(PROTOCOL_RESPONSES,
                 "{\"input\":[{\"type\":\"compaction\",\"encrypted_content\":\"x\"},{\"type\":"
                 "\"function_call_output\",\"call_id\":\"c\",\"output\":\"x\"}]}",
                 "developer:[An earlier part of this conversation was compacted by another server "
                 "and cannot be read.]|tool tool:x");
    protocol_request *r = parse(PROTOCOL_RESPONSES,
                                "{\"previous_response_id\":\"resp_1\",\"input\":[{\"type\":"
                                "\"custom_tool_call_output\",\"call_id\":\"c\","
                                "\"output\":\"x\"}]}");
    TEST_CHECK(r && protocol_request_check_results(r, &error) == CERIUM_ERR_ARGUMENT);
    protocol_request_free(&r);
}

/* ---- events ---- */

typedef struct {
    bytes text; /* "name {...}\n" or "{...}\n" */
} heard;

static void hear(void *user, const char *name, const char *json, size_t len)
{
    heard *h = user;
    if (!json) return;
    if (name) CHECK(!bytes_append(&h->text, name, strlen(name)) &&
                    !bytes_append(&h->text, " ", 1));
    CHECK(!bytes_append(&h->text, json, len) && !bytes_append(&h->text, "\n", 1));
}

/* Returns the object, owned; the stream is in h->text. */
static json_t *tell(protocol_api api, const char *body, const char *form, const char *words,
                    protocol_end end, heard *h)
{
    protocol_request *r = parse(api, body);
    protocol_writer *w = NULL;
    TEST_CHECK_THAT(r, "%s: %s", error.param, error.message);
    if (!r) return NULL;
    const protocol_answer how = {.request = r, .id = "msg_01", .model = "tiny", .chat_form = form,
                                 .created_at = 1795227342, .emit = hear, .user = h};
    const protocol_usage usage = {.input_tokens = 9, .cached_tokens = 4, .output_tokens = 5};
    *h = (heard){.text.max = SIZE_MAX};
    CHECK(!protocol_writer_open(&w, &how));
    protocol_writer_input(w, 9);
    CHECK(!protocol_writer_begin(w));
    for (const char *c = words; *c && !protocol_writer_enough(w, 0); c++)
        CHECK(!protocol_writer_text(w, 0, (view){c, 1}, NULL, 0));
    CHECK(!protocol_writer_end(w, 0, protocol_writer_enough(w, 0) ? PROTOCOL_END_STOP : end,
                               &usage, NULL));
    CHECK(!bytes_append(&h->text, "", 1));
    json_t *object = protocol_writer_object(w);
    TEST_CHECK(object != NULL);
    protocol_writer_free(&w);
    protocol_request_free(&r);
    return object;
}

static size_t count_of(const heard *h, const char *what)
{
    size_t n = 0;
    for (const char *p = h->text.ptr; (p = strstr(p, what)); p++) n++;
    return n;
}

static const char *string_at(const json_t *o, const char *a, size_t i, const char *b)
{
    const json_t *list = json_object_get(o, a);
    const char *text = json_string_value(json_object_get(json_array_get(list, i), b));
    return text ? text : "";
}

#define TOOLS "\"tools\":[{\"name\":\"ls\",\"input_schema\":{\"type\":\"object\"}}]"
#define ASK "{\"max_tokens\":99,\"stream\":true,\"messages\":[" USER("\"a\"") "]"
#define CALL "<tool_call>\n{\"name\": \"ls\", \"arguments\": {\"a\": 1}}\n</tool_call>"

static void test_message_events(void)
{
    heard h;
    json_t *o = tell(PROTOCOL_MESSAGES, ASK "," TOOLS "}", "qwen3",
                     "<think>\nhm\n</think>\n\nHi.\n" CALL, PROTOCOL_END_STOP, &h);
    TEST_CHECK(count_of(&h, "message_start {") == 1 && count_of(&h, "message_stop {") == 1);
    TEST_CHECK(count_of(&h, "content_block_start {") == 3);
    TEST_CHECK(count_of(&h, "content_block_stop {") == 3);
    TEST_CHECK(count_of(&h, "signature_delta") == 1 && count_of(&h, "\"input\":{}") == 1);
    TEST_CHECK(strstr(h.text.ptr, "\"stop_reason\":\"tool_use\"") != NULL);
    TEST_CHECK(!strcmp(string_at(o, "content", 0, "thinking"), "hm"));
    TEST_CHECK(!strcmp(string_at(o, "content", 1, "text"), "Hi."));
    TEST_CHECK(!strncmp(string_at(o, "content", 2, "id"), "toolu_", 6));
    TEST_CHECK(json_integer_value(json_object_get(json_object_get(o, "usage"),
                                                  "input_tokens")) == 5);
    json_decref(o);
    bytes_free(&h.text);
    /* A truncated call is left out; hidden thoughts are in their signature alone. */
    o = tell(PROTOCOL_MESSAGES, ASK ",\"thinking\":{\"type\":\"adaptive\",\"display\":\"omitted\"},"
             TOOLS "}", "qwen3", "<think>hm</think>Hi." "<tool_call>\n{\"name\": \"ls\", \"argum",
             PROTOCOL_END_LENGTH, &h);
    TEST_CHECK(json_array_size(json_object_get(o, "content")) == 2);
    TEST_CHECK(!strcmp(string_at(o, "content", 0, "thinking"), ""));
    TEST_CHECK(string_at(o, "content", 0, "signature")[0] && !count_of(&h, "thinking_delta"));
    TEST_CHECK(!strcmp(json_string_value(json_object_get(o, "stop_reason")), "max_tokens"));
    TEST_CHECK(!strstr(h.text.ptr, "tool_call"));
    json_t *back = json_pack("{s:i, s:[{s:s, s:s}, {s:s, s:O}, {s:s, s:s}]}", "max_tokens", 9,
                             "messages", "role", "user", "content", "a", "role", "assistant",
                             "content", json_object_get(o, "content"), "role", "user", "content",
                             "b");
    char *text = json_dumps(back, 0);
    messages_are(PROTOCOL_MESSAGES, text, "user:a|reasoning:hm|assistant:Hi.|user:b");
    memory_release(text);
    json_decref(back);
    json_decref(o);
    bytes_free(&h.text);
    o = tell(PROTOCOL_MESSAGES, ASK ",\"stop_sequences\":[\"five\"]}", "chatml", "one five six",
             PROTOCOL_END_LENGTH, &h);
    TEST_CHECK(!strcmp(string_at(o, "content", 0, "text"), "one "));
    TEST_CHECK(!strcmp(json_string_value(json_object_get(o, "stop_sequence")), "five"));
    json_decref(o);
    bytes_free(&h.text);
}

static void test_ollama_events(void)
{
    heard h;
    json_t *o = tell(PROTOCOL_OLLAMA_CHAT, "{\"messages\":[" USER("\"a\"") "],\"tools\":[{\"type\":"
                     "\"function\",\"function\":{\"name\":\"ls\"}}]}", "chatml", "Hi." CALL,
                     PROTOCOL_END_STOP, &h);
    const json_t *message = json_object_get(o, "message");
    const json_t *call = json_array_get(json_object_get(message, "tool_calls"), 0);
    TEST_CHECK(!strcmp(json_string_value(json_object_get(message, "content")), "Hi."));
    TEST_CHECK(json_is_object(json_object_get(json_object_get(call, "function"), "arguments")));
    TEST_CHECK(count_of(&h, "\"done\":true") == 1 && count_of(&h, "tool_calls") == 1);
    TEST_CHECK(!strcmp(json_string_value(json_object_get(o, "done_reason")), "stop"));
    json_decref(o);
    bytes_free(&h.text);
    o = tell(PROTOCOL_COMPLETION, "{\"prompt\":\"a\",\"stop\":[\"x\"],\"stream\":true}", "chatml",
             "\n\nab x", PROTOCOL_END_LENGTH, &h);
    TEST_CHECK(!strcmp(json_string_value(json_object_get(o, "content")), "\n\nab "));
    TEST_CHECK(!strcmp(json_string_value(json_object_get(o, "stop_type")), "word"));
    TEST_CHECK(!strcmp(json_string_value(json_object_get(o, "stopping_word")), "x"));
    TEST_CHECK(!strstr(h.text.ptr, "DONE"));
    json_decref(o);
    bytes_free(&h.text);
}

static void test_errors(void)
{
    static const struct {
        int status, got;
        const char *type;
    } cases[] = {{400, 400, "invalid_request_error"}, {401, 401, "authentication_error"},
                 {403, 403, "permission_error"},      {404, 404, "not_found_error"},
                 {429, 429, "rate_limit_error"},      {500, 500, "api_error"},
                 {503, 529, "overloaded_error"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        protocol_error e;
        bytes out = {.max = 4096};
        (void)protocol_error_set(&e, cases[i].status, "x", NULL, "messages[2].content[0]", "no");
        TEST_CHECK(!protocol_error_body_as(&out, PROTOCOL_FORM_MESSAGES, &e, "req_1"));
        TEST_CHECK(protocol_error_status(PROTOCOL_FORM_MESSAGES, &e) == cases[i].got);
        TEST_CHECK(memmem(out.ptr, out.len, cases[i].type, strlen(cases[i].type)) != NULL);
        TEST_CHECK(memmem(out.ptr, out.len, "\"messages.2.content.0: no\"", 26) != NULL);
        bytes_free(&out);
        out.max = 4096;
        TEST_CHECK(!protocol_error_body_as(&out, PROTOCOL_FORM_OLLAMA, &e, NULL));
        TEST_CHECK(view_equal((view){out.ptr, out.len},
                              VIEW("{\"error\":\"messages[2].content[0]: no\"}")));
        bytes_free(&out);
    }
}

/* ---- steers ---- */

static bool steer_is(const char *message, const char *code)
{
    protocol_body body;
    protocol_steer s;
    protocol_error e = {.code = ""};
    CHECK(!protocol_body_load(&body, PROTOCOL_RESPONSES, view_of(message), &defaults, &e));
    int status = protocol_steer_read(&s, &body, strlen(message), &e);
    bool is = code ? status == CERIUM_ERR_ARGUMENT && !strcmp(e.code, code) && !s.items
                   : !status && json_array_size(s.items) == 1;
    protocol_steer_free(&s);
    return is;
}

#define STEER(input)                                                                               \
    "{\"type\":\"response.steer\",\"previous_response_id\":\"r\",\"input\":" input "}"

static void test_steers(void)
{
    static const char *const good[] = {
        STEER("\"x\""), STEER("[{\"role\":\"user\",\"content\":\"x\"}]"),
        STEER("[{\"type\":\"message\",\"role\":\"user\",\"id\":\"m\",\"status\":null,\"content\":[{"
              "\"type\":\"input_text\",\"text\":\"x\"}]}]")};
    static const char *const bad[] = {
        STEER("5"), STEER("[]"), STEER("{}"), STEER("[\"x\"]"),
        STEER("[{\"role\":\"system\",\"content\":\"x\"}]"), STEER("[{\"role\":\"user\"}]"),
        STEER("[{\"role\":\"user\",\"content\":[]}]"),
        STEER("[{\"role\":\"user\",\"content\":\"x\",\"name\":\"y\"}]"),
        STEER("[{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"x\"}]"),
        STEER("[{\"role\":\"user\",\"content\":[{\"type\":\"output_text\",\"text\":\"x\"}]}]"),
        STEER("[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\"}]}]"),
        STEER("\"x\",\"stream_id\":\"a\""), STEER("\"x\",\"model\":\"m\""),
        "{\"type\":\"response.steer\",\"input\":\"x\"}",
        "{\"type\":\"response.steer\",\"previous_response_id\":7,\"input\":\"x\"}",
        "{\"type\":\"response.steer\",\"previous_response_id\":\"r\"}"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        TEST_CHECK_THAT(steer_is(good[i], NULL), "%s", good[i]);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        TEST_CHECK_THAT(steer_is(bad[i], "invalid_input"), "%s", bad[i]);
}

/* The successor has the settings of the response; only its input and its parent differ. */
static void test_successor(void)
{
    protocol_request *r = parse(PROTOCOL_RESPONSES,
                                "{\"input\":\"a\",\"instructions\":\"be\",\"stream_id\":\"l\","
                                "\"tools\":[{\"type\":\"function\",\"name\":\"f\"}],"
                                "\"store\":false,"
                                "\"max_output_tokens\":7,\"metadata\":{\"k\":\"v\"}}");
    protocol_request *next = NULL;
    json_t *items = json_pack("[{s:s, s:s, s:s}]", "type", "message", "role", "user", "content",
                              "b");
    TEST_CHECK(r && !protocol_request_again(&next, r, "resp_1", items, false, &defaults, &error));
    TEST_CHECK(next && next->n_messages == 2 && !strcmp(next->messages[0].content, "be") &&
               !strcmp(next->messages[1].content, "b"));
    TEST_CHECK(next && next->n_tools == 1 && next->tool_set == r->tool_set && !next->store);
    TEST_CHECK(next && next->new_tokens_max == 7 && !strcmp(next->stream_id, "l"));
    TEST_CHECK(next && !strcmp(next->previous_response_id, "resp_1"));
    TEST_CHECK(r && !r->previous_response_id && json_array_size(r->items) == 1);
    protocol_request_free(&next);
    TEST_CHECK(r && !protocol_request_again(&next, r, "resp_1", items, true, &defaults, &error));
    TEST_CHECK(next && json_array_size(next->items) == 2 && next->n_messages == 3 &&
               !strcmp(next->messages[1].content, "b"));
    protocol_request_free(&next);
    protocol_request_free(&r);
    json_decref(items);
}

/* The place where a steered answer ends. */
static void test_cuts(void)
{
    static const struct {
        const char *form, *words; /* '^': the steer arrives; '!': the answer ends there */
    } cases[] = {
        {"chatml", "one ^two\nt!hree"},
        {"chatml", "one\ntw^o three\nf!our"},
        {"chatml", "a^\n`!``c\nx;\n```\nb"},
        {"chatml", "a\n```c\nx^;\ny;\n```\nb!"},
        {"chatml", "^```\nx\ny\n```\nb!"},
        {"qwen3", "<think>\nh^m!m"},
        {"chatml", "^Hi " CALL "!"},
        {"chatml", "<tool_call>\n{\"name\": \"ls\", ^\"arguments\": {}}\n</tool_call>!"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        protocol_request *r = parse(PROTOCOL_RESPONSES,
                                    "{\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"name\":"
                                    "\"ls\"}]}");
        protocol_writer *w = NULL;
        const protocol_answer how = {.request = r, .id = "resp_1", .model = "m",
                                     .chat_form = cases[i].form};
        CHECK(r && !protocol_writer_open(&w, &how) && !protocol_writer_begin(w));
        bool steered = false, ended = false, whole;
        size_t at = 0;
        for (const char *c = cases[i].words; *c && !ended; c++) {
            at = (size_t)(c - cases[i].words);
            if (*c == '!') continue;
            if (*c == '^') protocol_writer_steer(w);
            if (*c == '^') steered = true;
            else CHECK(!protocol_writer_text(w, 0, (view){c, 1}, NULL, 0));
            ended = steered && *c != '^' && protocol_writer_may_end(w, false, &whole);
        }
        TEST_CHECK_THAT(ended && cases[i].words[at + 1] == '!', "%s: at %zu", cases[i].words, at);
        protocol_writer_free(&w);
        protocol_request_free(&r);
    }
}

/* What a client gets while it waits for its model; "" if that is not an event. */
static void hear_signs(void *user, const char *name, const char *json, size_t len)
{
    char *out = user;
    if (json) snprintf(out, 512, "%s %.*s", name ? name : "-", (int)len, json);
    else snprintf(out, 512, ": %s", name ? name : "");
}

static void test_loading(void)
{
    static const char load[] = "\"loading\":{\"model\":\"big\",\"done_bytes\":25,"
                               "\"total_bytes\":100}";
    static const struct {
        protocol_api api;
        const char *body, *begins, *has;
    } cases[] = {
        {PROTOCOL_RESPONSES, "{\"input\":\"x\"}", "keepalive {\"type\":\"keepalive\"", load},
        {PROTOCOL_CHAT, "{\"messages\":[" USER("\"x\"") "]}", ": loading big, 25 %", ""},
        {PROTOCOL_COMPLETIONS, "{\"prompt\":\"x\"}", ": loading big, 25 %", ""},
        {PROTOCOL_COMPLETION, "{\"prompt\":\"x\"}", ": loading big, 25 %", ""},
        {PROTOCOL_COMPACT, "{\"model\":\"m\",\"input\":\"x\"}", ": loading big, 25 %", ""},
        {PROTOCOL_MESSAGES, MESSAGES(USER("\"x\"")), "ping {\"type\":\"ping\"", load},
        {PROTOCOL_OLLAMA_CHAT, "{\"messages\":[" USER("\"x\"") "]}", "- {\"model\":", load},
        {PROTOCOL_OLLAMA_GENERATE, "{\"prompt\":\"x\"}", "- {\"model\":", load},
    };
    protocol_progress p = {.prompt_tokens = 9, .loading = "big", .loaded_bytes = 25,
                           .load_bytes = 100};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char got[512] = "";
        protocol_writer *w = NULL;
        protocol_request *r = parse(cases[i].api, cases[i].body);
        const protocol_answer how = {.request = r, .id = "msg_01", .model = "big",
                                     .chat_form = "qwen3", .emit = hear_signs, .user = got};
        CHECK(r && !protocol_writer_open(&w, &how) && !protocol_writer_begin(w));
        p.loading = "big";
        CHECK(!protocol_writer_beat(w, &p));
        TEST_CHECK_THAT(view_starts(view_of(got), view_of(cases[i].begins)), "%s", got);
        TEST_CHECK_THAT(strstr(got, cases[i].has), "%s", got);
        p.loading = NULL;
        CHECK(!protocol_writer_beat(w, &p));
        TEST_CHECK_THAT(!strstr(got, "loading"), "%s", got);
        protocol_writer_free(&w);
        protocol_request_free(&r);
    }
}

/* Fields that bound a thought, and refused values. */
static void test_budgets(void)
{
    static const struct {
        protocol_api api;
        const char *body;
        uint32_t most;
    } cases[] = {
#define TALK(rest) "{\"messages\":[" USER("\"x\"") "]" rest "}"
        {PROTOCOL_CHAT, TALK(""), UINT32_MAX},
        {PROTOCOL_CHAT, TALK(",\"thinking_budget_tokens\":7"), 7},
        {PROTOCOL_CHAT, TALK(",\"reasoning_budget\":0"), 0},
        {PROTOCOL_CHAT, TALK(",\"reasoning_budget\":-1"), UINT32_MAX},
        {PROTOCOL_CHAT, TALK(",\"thinking_token_budget\":5,\"reasoning\":{\"max_tokens\":3}"), 3},
        {PROTOCOL_CHAT, TALK(",\"chat_template_kwargs\":{\"thinking_budget\":4}"), 4},
        {PROTOCOL_CHAT, TALK(",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":6}"), 6},
        {PROTOCOL_CHAT, TALK(",\"thinking\":null,\"reasoning\":null"), UINT32_MAX},
        {PROTOCOL_OLLAMA_CHAT, TALK(",\"thinking_budget\":2"), 2},
        {PROTOCOL_RESPONSES, "{\"input\":\"x\",\"reasoning\":{\"max_tokens\":8}}", 8},
        {PROTOCOL_COMPLETIONS, "{\"prompt\":\"x\",\"thinking_budget\":8}", UINT32_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        protocol_request *r = parse(cases[i].api, cases[i].body);
        TEST_CHECK_THAT(r && r->thought_tokens_max == cases[i].most, "%s: %u", cases[i].body,
                        r ? r->thought_tokens_max : 0);
        TEST_CHECK(!r || cases[i].most || r->think == PROTOCOL_THINK_OFF);
        protocol_request_free(&r);
    }
    refused(PROTOCOL_CHAT, TALK(",\"reasoning_budget\":\"x\""), "reasoning_budget");
    refused(PROTOCOL_CHAT, TALK(",\"reasoning\":{\"max_tokens\":[]}"), "reasoning.max_tokens");
    refused(PROTOCOL_CHAT, TALK(",\"chat_template_kwargs\":{\"thinking_budget\":{}}"),
            "chat_template_kwargs.thinking_budget");
    refused(PROTOCOL_OLLAMA_CHAT, TALK(",\"think\":7"), "think");
    refused(PROTOCOL_OLLAMA_CHAT, TALK(",\"options\":{\"num_predict\":\"x\"}"),
            "options.num_predict");
#undef TALK
}

int main(void)
{
    TEST_RUN(test_messages);
    TEST_RUN(test_messages_settings);
    TEST_RUN(test_ollama);
    TEST_RUN(test_lengths);
    TEST_RUN(test_shapes);
    TEST_RUN(test_written_holes);
    TEST_RUN(test_continued);
    TEST_RUN(test_orphans);
    TEST_RUN(test_message_events);
    TEST_RUN(test_ollama_events);
    TEST_RUN(test_errors);
    TEST_RUN(test_steers);
    TEST_RUN(test_successor);
    TEST_RUN(test_cuts);
    TEST_RUN(test_loading);
    TEST_RUN(test_budgets);
    return unit_report("dialects");
}
