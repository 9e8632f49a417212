/* test_request.c - requests as real clients send them, and invalid ones. */
#include "protocol/protocol.h"

#include "base/limits.h"
#include "unit.h"

static const protocol_defaults defaults = {.sampling = {.temperature = 0.25f}, .fills_in = true};
static protocol_error error;

static protocol_request *parse(protocol_api api, const char *body)
{
    protocol_request *r = NULL;
    memset(&error, 0, sizeof error);
    int status = protocol_request_parse(&r, api, view_of(body), &defaults, &error);
    TEST_CHECK_THAT((status == 0) == (r != NULL), "%d", status);
    TEST_CHECK_THAT(status == 0 || status == CERIUM_ERR_ARGUMENT, "%d", status);
    TEST_CHECK_THAT(status == 0 || error.http_status >= 400, "%d", error.http_status);
    return r;
}

static protocol_request *good(protocol_api api, const char *body)
{
    protocol_request *r = parse(api, body);
    TEST_CHECK_THAT(r, "%s: %s: %s", body, error.param, error.message);
    return r;
}

/* Checks that it is refused with an error that names the field and its kind. */
static void bad(protocol_api api, const char *body, const char *param, const char *code)
{
    protocol_request *r = parse(api, body);
    TEST_CHECK_THAT(!r, "%s", body);
    TEST_CHECK_THAT(!strcmp(error.param, param), "%s: \"%s\"", body, error.param);
    TEST_CHECK_THAT(error.code && !strcmp(error.code, code), "%s: %s", body, error.code);
    TEST_CHECK(error.http_status == 400 && error.message[0]);
    protocol_request_free(&r);
}

static void message_is(const protocol_request *r, size_t i, int item, const char *role,
                       const char *content)
{
    if (!r || i >= r->n_messages) {
        TEST_CHECK_THAT(false, "no message %zu", i);
        return;
    }
    const cerium_message *m = &r->messages[i];
    TEST_CHECK_THAT(!strcmp(m->role, role), "%zu: %s", i, m->role);
    TEST_CHECK_THAT(!strcmp(m->content, content), "%zu: \"%s\"", i, m->content);
    TEST_CHECK_THAT(r->message_item[i] == item, "%zu: %d", i, r->message_item[i]);
}

static void call_is(const protocol_request *r, size_t i, const char *name, const char *id)
{
    if (!r || i >= r->n_messages) {
        TEST_CHECK_THAT(false, "no message %zu", i);
        return;
    }
    const cerium_message *m = &r->messages[i];
    TEST_CHECK_THAT(name ? m->name && !strcmp(m->name, name) : !m->name, "%zu: %s", i, m->name);
    TEST_CHECK_THAT(m->call_id && !strcmp(m->call_id, id), "%zu: %s", i, m->call_id);
}

/* ---- responses ---- */

/* All fields that Codex 0.169 sends, in one conversation. */
static const char codex_turn[] =
    "{\"type\":\"response.create\",\"model\":\"local-code-model\",\"stream\":true,\"input\":["
    "{\"type\":\"message\",\"id\":\"msg_a\",\"role\":\"developer\",\"content\":["
    "{\"type\":\"input_text\",\"text\":\"You are a coding agent\"},"
    "{\"type\":\"input_text\",\"text\":\"<permissions instructions>\\nnone\"}]},"
    "{\"type\":\"message\",\"id\":\"msg_b\",\"role\":\"user\",\"content\":["
    "{\"type\":\"input_text\",\"text\":\"say hi\"}]},"
    "{\"type\":\"reasoning\",\"id\":\"rs_2\",\"summary\":[{\"type\":\"summary_text\","
    "\"text\":\"**Thinking** hard\"}],\"content\":[{\"type\":\"reasoning_text\","
    "\"text\":\"raw think\"}],\"encrypted_content\":null},"
    "{\"type\":\"message\",\"id\":\"msg_3\",\"role\":\"assistant\",\"content\":["
    "{\"type\":\"output_text\",\"text\":\"ok\",\"annotations\":[]}]},"
    "{\"type\":\"function_call\",\"id\":\"fc_3\",\"name\":\"exec_command\","
    "\"arguments\":\"{\\\"cmd\\\":\\\"echo x\\\"}\",\"call_id\":\"call_r\"},"
    "{\"type\":\"function_call\",\"namespace\":\"multi_agent_v1\",\"name\":\"close_agent\","
    "\"arguments\":\"{}\",\"call_id\":\"call_n\"},"
    "{\"type\":\"function_call_output\",\"id\":\"fco_1\",\"call_id\":\"call_r\","
    "\"output\":\"Chunk ID: eaee47\\nOutput:\\nx\\n\"},"
    "{\"type\":\"function_call_output\",\"call_id\":\"call_n\",\"output\":["
    "{\"type\":\"input_text\",\"text\":\"closed\"},"
    "{\"type\":\"input_image\",\"image_url\":\"data:image/png;base64,AA==\"}]},"
    "{\"type\":\"custom_tool_call\",\"id\":\"ctc_3\",\"call_id\":\"call_p1\","
    "\"name\":\"apply_patch\",\"input\":\"*** Begin Patch\\n\",\"status\":\"completed\"},"
    "{\"type\":\"custom_tool_call_output\",\"call_id\":\"call_p1\",\"output\":\"Exit code: 0\"}],"
    "\"tools\":[{\"type\":\"function\",\"name\":\"exec_command\",\"description\":\"Runs.\","
    "\"strict\":false,\"parameters\":{\"type\":\"object\",\"properties\":{\"cmd\":"
    "{\"type\":\"string\"}}}},{\"type\":\"namespace\",\"name\":\"multi_agent_v1\",\"tools\":["
    "{\"type\":\"function\",\"name\":\"close_agent\"}]},"
    "{\"type\":\"web_search\",\"external_web_access\":true},"
    "{\"type\":\"custom\",\"name\":\"apply_patch\",\"description\":\"FREEFORM\",\"format\":"
    "{\"type\":\"grammar\",\"syntax\":\"lark\",\"definition\":\"start: x\\n\"}}],"
    "\"tool_choice\":\"auto\",\"parallel_tool_calls\":true,\"reasoning\":{\"summary\":\"auto\"},"
    "\"store\":false,\"include\":[\"reasoning.encrypted_content\"],"
    "\"prompt_cache_key\":\"01a1fbe3\",\"text\":{\"verbosity\":\"low\"},"
    "\"client_metadata\":{\"turn_id\":\"\"},\"generate\":false,\"service_tier\":\"priority\"}";

static void test_codex(void)
{
    protocol_request *r = good(PROTOCOL_RESPONSES, codex_turn);
    if (!r) return;
    TEST_CHECK(r->stream && !r->store && r->warm_up && r->opaque_reasoning && !r->cancel);
    TEST_CHECK(r->class_ == CERIUM_CLASS_EDIT && !strcmp(r->service_tier, "priority"));
    TEST_CHECK(!strcmp(r->model, "local-code-model") && !r->previous_response_id);
    TEST_CHECK(r->new_tokens_max == UINT32_MAX && r->sampling.temperature == 0.25f);
    TEST_CHECK_THAT(r->n_messages == 10, "%zu", r->n_messages);
    message_is(r, 0, 0, "developer", "You are a coding agent\n<permissions instructions>\nnone");
    message_is(r, 1, 1, "user", "say hi");
    message_is(r, 2, 2, "reasoning", "raw think");
    message_is(r, 3, 3, "assistant", "ok");
    message_is(r, 4, 4, "call", "{\"cmd\":\"echo x\"}");
    message_is(r, 5, 5, "call", "{}");
    message_is(r, 6, 6, "tool", "Chunk ID: eaee47\nOutput:\nx\n");
    message_is(r, 7, 7, "tool", "closed\n[An image was here. You see text only: say so where it "
                                "matters.]");
    message_is(r, 8, 8, "call", "*** Begin Patch\n");
    message_is(r, 9, 9, "tool", "Exit code: 0");
    call_is(r, 4, "exec_command", "call_r");
    call_is(r, 5, "multi_agent_v1__close_agent", "call_n");
    call_is(r, 6, "exec_command", "call_r");
    call_is(r, 7, "multi_agent_v1__close_agent", "call_n");
    call_is(r, 9, "apply_patch", "call_p1");
    TEST_CHECK(r->image_dropped);
    TEST_CHECK_THAT(r->n_tools == 3, "%zu", r->n_tools);
    if (r->n_tools == 3) {
        TEST_CHECK(!strcmp(r->tools[0].name, "exec_command"));
        TEST_CHECK(!strcmp(r->tools[0].parameters,
                           "{\"type\":\"object\",\"properties\":{\"cmd\":{\"type\":\"string\"}}}"));
        TEST_CHECK(!strcmp(r->tools[1].name, "multi_agent_v1__close_agent"));
        TEST_CHECK(!r->tools[2].parameters);
        TEST_CHECK_THAT(!strcmp(r->tools[2].description,
                                "FREEFORM\nThe input follows this grammar (lark):\nstart: x\n"),
                        "%s", r->tools[2].description);
    }
    protocol_request_free(&r);
    TEST_CHECK(!r);
}

static void test_input(void)
{
    protocol_request *r = good(PROTOCOL_RESPONSES,
                               "{\"input\":\"hi\\u0000there\",\"instructions\":\"be brief\"}");
    message_is(r, 0, -1, "system", "be brief");
    message_is(r, 1, 0, "user", "hi\xEF\xBF\xBDthere");
    TEST_CHECK(r && r->store && !r->stream && json_array_size(r->items) == 1);
    protocol_request_free(&r);
    r = good(PROTOCOL_RESPONSES,
             "{\"input\":[{\"role\":\"user\",\"content\":\"cut \\ud83d here \\ud83d\\ude00\"}]}");
    message_is(r, 0, 0, "user", "cut \xEF\xBF\xBD here \xF0\x9F\x98\x80");
    protocol_request_free(&r);
    /* Unknown items are ignored; items that hosts add are read. */
    r = good(PROTOCOL_RESPONSES,
             "{\"input\":[{\"type\":\"web_search_call\",\"id\":\"ws_1\",\"status\":\"completed\"},"
             "{\"type\":\"brand_new\",\"x\":[1]},"
             "{\"type\":\"local_shell_call\",\"call_id\":\"c\",\"action\":{\"command\":[\"ls\"]}},"
             "{\"type\":\"local_shell_call_output\",\"call_id\":\"c\",\"output\":\"a.c\"},"
             "{\"type\":\"reasoning\",\"summary\":[]},"
             "{\"type\":\"agent_message\",\"author\":\"/root/a\",\"content\":["
             "{\"type\":\"input_text\",\"text\":\"done\"},{\"type\":\"encrypted_content\","
             "\"encrypted_content\":\"x\"}]}]}");
    message_is(r, 0, 2, "call", "{\"command\":[\"ls\"]}");
    message_is(r, 1, 3, "tool", "a.c");
    call_is(r, 1, "local_shell", "c");
    message_is(r, 2, 5, "user", "Message from /root/a:\ndone");
    TEST_CHECK(r && r->n_messages == 3);
    protocol_request_free(&r);
    /* A warm-up with nothing to compute, and a turn that only continues. */
    r = good(PROTOCOL_RESPONSES, "{\"input\":[],\"previous_response_id\":\"resp_1\"}");
    TEST_CHECK(r && r->n_messages == 0 && !strcmp(r->previous_response_id, "resp_1"));
    protocol_request_free(&r);
}

static void test_results_of_earlier_calls(void)
{
    static const char body[] =
        "{\"previous_response_id\":\"resp_2\",\"input\":[{\"type\":\"function_call_output\","
        "\"call_id\":\"a\",\"output\":\"1\"},{\"type\":\"function_call_output\",\"call_id\":\"b\","
        "\"output\":\"2\"},{\"type\":\"function_call_output\",\"call_id\":\"c\","
        "\"output\":\"3\"}]}";
    json_t *earlier = json_loads("[{\"type\":\"function_call\",\"call_id\":\"b\",\"name\":\"f\","
                                 "\"namespace\":\"ns\"},{\"call_id\":\"a\",\"name\":\"g\"},7]", 0,
                                 NULL);
    protocol_request *r = good(PROTOCOL_RESPONSES, body);
    call_is(r, 0, NULL, "a");
    TEST_CHECK(!protocol_request_name_results(r, earlier));
    json_decref(earlier);
    call_is(r, 0, "g", "a");
    call_is(r, 1, "ns__f", "b");
    call_is(r, 2, NULL, "c");
    protocol_request_name_orphans(r);
    call_is(r, 2, "tool", "c");
    protocol_request_free(&r);
}

static json_t *find_item(void *user, const char *id)
{
    return !strcmp(id, "msg_1") ? json_incref(user) : NULL;
}

static void test_references(void)
{
    static const char body[] = "{\"input\":[{\"type\":\"item_reference\",\"id\":\"msg_1\"}]}";
    json_t *item = json_loads("{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"kept\"}",
                              0, NULL);
    protocol_defaults with = defaults;
    with.find_item = find_item;
    with.user = item;
    protocol_request *r = NULL;
    TEST_CHECK(!protocol_request_parse(&r, PROTOCOL_RESPONSES, view_of(body), &with, &error));
    message_is(r, 0, 0, "assistant", "kept");
    protocol_request_free(&r);
    json_decref(item);
    bad(PROTOCOL_RESPONSES, body, "input[0].id", "item_not_found");
}

static void test_compaction(void)
{
    protocol_request *r = good(
        PROTOCOL_RESPONSES,
        "{\"input\":[{\"type\":\"compaction\",\"encrypted_content\":\"cerium1:c3VtbWFyeQ==\"},"
        "{\"type\":\"compaction\",\"encrypted_content\":\"gAAAAABo\"},"
        "{\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":\"cerium1:dGhvdWdodA==\"},"
        "{\"type\":\"compaction_trigger\"}]}");
    message_is(r, 0, 0, "user", "The conversation so far was summed up to save room. Go on from "
                                "this summary:\n\nsummary");
    message_is(r, 1, 1, "developer", "[An earlier part of this conversation was compacted by "
                                     "another server and cannot be read.]");
    message_is(r, 2, 2, "reasoning", "thought");
    TEST_CHECK(r && r->compacts && r->n_messages == 4 && r->message_item[3] == -1);
    protocol_request_free(&r);
    bad(PROTOCOL_COMPACT, "{\"input\":\"x\"}", "model", "missing_required_parameter");
    r = good(PROTOCOL_COMPACT, "{\"model\":\"m\",\"input\":\"x\"}");
    TEST_CHECK(r && r->compacts && r->n_messages == 2 && !r->store);
    protocol_request_free(&r);
}

static void test_tools(void)
{
    /* A flat name that is already used gets a number; a repeated tool counts once. */
    protocol_request *r =
        good(PROTOCOL_RESPONSES,
             "{\"input\":[{\"type\":\"function_call\",\"namespace\":\"a\",\"name\":\"b\","
             "\"call_id\":\"x\",\"arguments\":\"\"}],\"tools\":["
             "{\"type\":\"function\",\"name\":\"a__b\"},{\"type\":\"function\",\"name\":\"a__b\"},"
             "{\"type\":\"namespace\",\"name\":\"a\",\"tools\":["
             "{\"type\":\"function\",\"name\":\"b\"}]}],\"tool_choice\":\"none\"}");
    TEST_CHECK(r && r->n_tools == 2 && r->tools_barred);
    if (r && r->n_tools == 2) {
        TEST_CHECK(!strcmp(r->tools[0].name, "a__b"));
        TEST_CHECK_THAT(!strcmp(r->tools[1].name, "a__b_1"), "%s", r->tools[1].name);
    }
    call_is(r, 0, "a__b_1", "x");
    protocol_request_free(&r);
    bad(PROTOCOL_RESPONSES, "{\"input\":\"x\",\"tools\":[{\"type\":\"function\"}]}",
        "tools[0].name", "missing_required_parameter");
    bad(PROTOCOL_RESPONSES,
        "{\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":[]}]}",
        "tools[0].parameters", "invalid_type");
    bad(PROTOCOL_RESPONSES,
        "{\"input\":\"x\",\"tools\":[{\"type\":\"custom\",\"name\":\"f\",\"format\":{\"type\":"
        "\"grammar\",\"syntax\":\"ebnf\",\"definition\":\"x\"}}]}",
        "tools[0].format.syntax", "invalid_value");
    bad(PROTOCOL_RESPONSES, "{\"input\":\"x\",\"tool_choice\":\"sometimes\"}", "tool_choice",
        "invalid_value");
    bad(PROTOCOL_CHAT,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\","
        "\"name\":\"f\"}]}",
        "tools[0].function", "missing_required_parameter");
}

static void test_cached_tools(void)
{
    protocol_defaults with = defaults;
    long live = memory_live();
    TEST_CHECK(!protocol_cache_open(&with.cache));
    protocol_request *first = NULL, *again = NULL, *chat = NULL;
    view body = view_of(codex_turn);
    TEST_CHECK(!protocol_request_parse(&first, PROTOCOL_RESPONSES, body, &with, &error));
    TEST_CHECK(!protocol_request_parse(&again, PROTOCOL_RESPONSES, body, &with, &error));
    TEST_CHECK(first->tool_set == again->tool_set && again->n_tools == 3);
    TEST_CHECK(json_equal(first->root, again->root));
    protocol_request_free(&first);
    call_is(again, 5, "multi_agent_v1__close_agent", "call_n");
    /* The same bytes have another meaning in Chat, and the cache does not hide broken JSON. */
    static const char other[] = "{\"messages\":[{\"role\":\"user\"}],\"tools\":[]}";
    static const char tools[] = "{\"input\":\"x\",\"tools\":[]}";
    TEST_CHECK(!protocol_request_parse(&first, PROTOCOL_RESPONSES, view_of(tools), &with, &error));
    TEST_CHECK(!protocol_request_parse(&chat, PROTOCOL_CHAT, view_of(other), &with, &error));
    TEST_CHECK(first->tool_set != chat->tool_set);
    protocol_request_free(&chat);
    TEST_CHECK(protocol_request_parse(&chat, PROTOCOL_RESPONSES,
                                      view_of("{\"input\":\"x\",\"tools\":[]]}"), &with, &error));
    protocol_cache_close(&with.cache);
    call_is(again, 4, "exec_command", "call_r");
    TEST_CHECK(again->n_tools == 3 && !strcmp(again->tools[0].name, "exec_command"));
    protocol_request_free(&first);
    protocol_request_free(&again);
    TEST_CHECK(memory_live() == live);
}

static void test_lanes_and_cancel(void)
{
    protocol_request *r = good(PROTOCOL_RESPONSES, "{\"type\":\"response.cancel\",\"stream_id\":"
                                                   "\"a.B-9_\",\"response_id\":\"resp_4\"}");
    TEST_CHECK(r && r->cancel && !strcmp(r->stream_id, "a.B-9_"));
    TEST_CHECK(r && !strcmp(r->response_id, "resp_4"));
    protocol_request_free(&r);
    bad(PROTOCOL_RESPONSES, "{\"input\":\"x\",\"stream_id\":\"a b\"}", "stream_id",
        "invalid_stream_id");
    bad(PROTOCOL_RESPONSES, "{\"input\":\"x\",\"stream_id\":\"\"}", "stream_id",
        "invalid_stream_id");
    bad(PROTOCOL_RESPONSES, "{\"type\":\"response.append\",\"input\":\"x\"}", "type",
        "invalid_value");
}

static void test_formats(void)
{
    protocol_request *r = good(PROTOCOL_RESPONSES,
                               "{\"input\":\"x\",\"text\":{\"format\":{\"type\":\"json_schema\","
                               "\"strict\":true,\"name\":\"codex_output_schema\",\"schema\":"
                               "{\"type\":\"object\"}}}}");
    message_is(r, 1, -1, "developer",
               "Answer with one JSON value and nothing else. It must match this JSON schema:\n"
               "{\"type\":\"object\"}");
    TEST_CHECK(r && json_object_get(r->schema, "type"));
    protocol_request_free(&r);
    r = good(PROTOCOL_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
                            "\"response_format\":{\"type\":\"json_object\"}}");
    TEST_CHECK(r && r->n_messages == 2 && !r->schema);
    protocol_request_free(&r);
    bad(PROTOCOL_RESPONSES, "{\"input\":\"x\",\"text\":{\"format\":{\"type\":\"xml\"}}}",
        "text.format.type", "invalid_value");
    bad(PROTOCOL_CHAT, "{\"messages\":[{\"role\":\"user\"}],\"response_format\":{\"type\":"
                       "\"json_schema\",\"json_schema\":{\"name\":\"x\"}}}",
        "response_format.json_schema.schema", "missing_required_parameter");
}

static void test_bad_responses(void)
{
    const protocol_api api = PROTOCOL_RESPONSES;
    bad(api, "{}", "input", "missing_required_parameter");
    bad(api, "{\"input\":7}", "input", "invalid_type");
    bad(api, "{\"input\":[7]}", "input[0]", "invalid_type");
    bad(api, "{\"input\":[{}]}", "input[0].type", "missing_required_parameter");
    bad(api, "{\"input\":[{\"role\":\"king\",\"content\":\"x\"}]}", "input[0].role",
        "invalid_value");
    bad(api, "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\"}]}]}",
        "input[0].content[0].text", "missing_required_parameter");
    bad(api, "{\"input\":[{\"type\":\"function_call\",\"call_id\":\"x\"}]}", "input[0].name",
        "missing_required_parameter");
    bad(api, "{\"input\":[{\"type\":\"function_call_output\",\"output\":\"x\"}]}",
        "input[0].call_id", "missing_required_parameter");
    bad(api, "{\"input\":\"x\",\"model\":3}", "model", "invalid_type");
    bad(api, "{\"input\":\"x\",\"temperature\":3}", "temperature", "decimal_above_max_value");
    TEST_CHECK_THAT(!strcmp(error.message,
                            "Invalid 'temperature': decimal above maximum value. Expected a value "
                            "<= 2, but got 3 instead."), "%s", error.message);
    bad(api, "{\"input\":\"x\",\"top_p\":-0.5}", "top_p", "decimal_below_min_value");
    bad(api, "{\"input\":\"x\",\"top_logprobs\":21}", "top_logprobs", "integer_above_max_value");
    bad(api, "{\"input\":\"x\",\"max_output_tokens\":0}", "max_output_tokens",
        "integer_below_min_value");
    bad(api, "{\"input\":\"x\",\"top_logprobs\":1e300}", "top_logprobs",
        "integer_above_max_value");
    bad(api, "{\"input\":\"x\",\"max_output_tokens\":1.5}", "max_output_tokens", "invalid_type");
    bad(api, "{\"input\":\"x\",\"truncation\":\"maybe\"}", "truncation", "invalid_value");
    bad(api, "{\"input\":\"x\",\"conversation\":\"c\"}", "conversation", "unsupported_parameter");
    bad(api, "{\"input\":\"x\",\"background\":true,\"store\":false}", "background",
        "invalid_value");
    bad(api, "{\"input\":\"x\",\"background\":\"no\"}", "background", "invalid_type");
    bad(PROTOCOL_COMPACT, "{\"model\":\"m\",\"input\":\"x\",\"background\":true}", "background",
        "invalid_value");
    bad(api, "{\"input\":\"x\"", "", "invalid_json");
    bad(api, "[]", "", "invalid_json");
    bad(api, "", "", "invalid_json");
    bad(api, "{\"input\":\"\xFF\"}", "", "invalid_json");
}

static void test_limits(void)
{
    bytes deep = {.max = 4096};
    for (size_t i = 0; i <= PROTOCOL_DEPTH_MAX; i++) TEST_CHECK(!bytes_append(&deep, "[", 1));
    TEST_CHECK(!bytes_append(&deep, "", 1));
    bad(PROTOCOL_RESPONSES, deep.ptr, "", "invalid_json");
    bytes_free(&deep);
    bytes many = {.max = 1u << 20};
    TEST_CHECK(!bytes_append(&many, "{\"input\":[", 10));
    for (size_t i = 0; i <= PROTOCOL_CONTAINERS_MAX; i++)
        TEST_CHECK(!bytes_append(&many, "{},", 3));
    TEST_CHECK(!bytes_append(&many, "{}]}", 5));
    bad(PROTOCOL_RESPONSES, many.ptr, "", "invalid_json");
    bytes_free(&many);
    protocol_request *r = NULL;
    view large = {memory_zalloc(1, PROTOCOL_BODY_BYTES_MAX + 1), PROTOCOL_BODY_BYTES_MAX + 1};
    TEST_CHECK(protocol_request_parse(&r, PROTOCOL_RESPONSES, large, &defaults, &error) ==
               CERIUM_ERR_ARGUMENT);
    TEST_CHECK(error.http_status == 413);
    memory_free((void *)large.ptr);
}

/* ---- chat ---- */

static void test_chat(void)
{
    protocol_request *r = good(
        PROTOCOL_CHAT,
        "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"s\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
        "{\"type\":\"text\",\"text\":\"b\"}]},"
        "{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"hm\",\"tool_calls\":["
        "{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},"
        "{\"id\":\"c2\",\"type\":\"custom\",\"custom\":{\"name\":\"g\",\"input\":\"raw\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c2\",\"content\":\"out\"}],"
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}},"
        "{\"type\":\"custom\",\"custom\":{\"name\":\"g\"}}],"
        "\"stop\":[\"\\n\\n\",\"END\"],\"max_completion_tokens\":50,\"n\":3,\"seed\":-7,"
        "\"logprobs\":true,\"top_logprobs\":5,\"stream\":true,"
        "\"stream_options\":{\"include_usage\":true},"
        "\"prediction\":{\"type\":\"content\",\"content\":[{\"type\":\"text\","
        "\"text\":\"int x;\"}]},"
        "\"temperature\":1.5,\"top_p\":0.5,\"service_tier\":\"flex\"}");
    if (!r) return;
    message_is(r, 0, 0, "system", "s");
    message_is(r, 1, 1, "user", "a\nb");
    message_is(r, 2, 2, "reasoning", "hm");
    message_is(r, 3, 2, "call", "{}");
    message_is(r, 4, 2, "call", "raw");
    message_is(r, 5, 3, "tool", "out");
    call_is(r, 5, "g", "c2");
    TEST_CHECK(r->n_messages == 6 && r->n_tools == 2 && !r->tools[1].parameters);
    TEST_CHECK(r->sampling.n_stops == 2 && !strcmp(r->stops[1], "END"));
    TEST_CHECK(r->sampling.stops == r->stops && r->sampling.seed == (uint64_t)-7);
    TEST_CHECK(r->new_tokens_max == 50 && r->n_choices == 3 && r->top_logprobs == 5);
    TEST_CHECK(r->sampling.logprobs && r->include_usage && r->class_ == CERIUM_CLASS_BATCH);
    TEST_CHECK(r->prediction_len == 6 && !strcmp(r->prediction, "int x;"));
    TEST_CHECK(r->sampling.temperature == 1.5f && r->sampling.top_p == 0.5f);
    protocol_request_free(&r);
}

static void test_bad_chat(void)
{
    const protocol_api api = PROTOCOL_CHAT;
    bad(api, "{}", "messages", "missing_required_parameter");
    bad(api, "{\"messages\":[]}", "messages", "empty_array");
    bad(api, "{\"messages\":[{\"role\":\"tool\",\"content\":\"x\"}]}", "messages[0].tool_call_id",
        "missing_required_parameter");
    bad(api, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\"}]}]}",
        "messages[0].tool_calls[0].function", "missing_required_parameter");
    bad(api, "{\"messages\":[{\"role\":\"user\"}],\"n\":65}", "n", "integer_above_max_value");
    bad(api, "{\"messages\":[{\"role\":\"user\"}],\"top_logprobs\":1}", "top_logprobs",
        "invalid_value");
    bad(api, "{\"messages\":[{\"role\":\"user\"}],\"stop\":[1]}", "stop[0]", "invalid_type");
    bad(api, "{\"messages\":[{\"role\":\"user\"}],\"prediction\":{\"type\":\"x\"}}",
        "prediction.type", "invalid_value");
    bad(api, "{\"messages\":[{\"role\":\"user\"}],\"stream\":\"yes\"}", "stream", "invalid_type");
}

/* ---- completions and infill ---- */

static void test_completions(void)
{
    protocol_request *r = good(PROTOCOL_COMPLETIONS,
                               "{\"prompt\":\"def f(\",\"suffix\":\"\\n\",\"max_tokens\":0,"
                               "\"logprobs\":0,\"echo\":true,\"user\":\"a.py\",\"top_p\":0}");
    TEST_CHECK(r && r->n_prompts == 1 && r->prompt_lens[0] == 6 && r->fill_in);
    TEST_CHECK(r && r->infill.suffix_len == 1 && r->echo && r->new_tokens_max == 0);
    TEST_CHECK(r && r->sampling.logprobs && !r->top_logprobs && !r->warm_up);
    TEST_CHECK(r && !strcmp(r->document, "a.py") && r->class_ == CERIUM_CLASS_COMPLETION);
    TEST_CHECK(r && r->sampling.temperature == 0);
    protocol_request_free(&r);
    r = good(PROTOCOL_COMPLETIONS, "{\"prompt\":[\"a\",\"bc\",[1,2,3]],\"n\":2}");
    TEST_CHECK(r && r->n_prompts == 3 && !strcmp(r->prompts[1], "bc") && !r->prompt_tokens[1]);
    TEST_CHECK(r && r->prompt_tokens[2] && r->prompt_n_tokens[2] == 3);
    TEST_CHECK(r && r->prompt_tokens[2][2] == 3 && !r->fill_in);
    protocol_request_free(&r);
    r = good(PROTOCOL_COMPLETIONS, "{\"prompt\":[7,8]}");
    TEST_CHECK(r && r->n_prompts == 1 && r->prompt_n_tokens[0] == 2);
    protocol_request_free(&r);
    r = good(PROTOCOL_COMPLETIONS, "{\"prompt\":\"a\",\"n\":3,\"best_of\":64}");
    TEST_CHECK(r && r->n_choices == 64 && r->n_best == 3);
    protocol_request_free(&r);
    r = good(PROTOCOL_COMPLETIONS, "{\"prompt\":\"a\",\"n\":2,\"best_of\":2,\"stream\":true}");
    TEST_CHECK(r && r->n_choices == 2 && r->n_best == 2);
    protocol_request_free(&r);
    r = good(PROTOCOL_COMPLETIONS, "{\"prompt\":\"a\",\"token_healing\":false}");
    TEST_CHECK(r->whole_tokens);
    protocol_request_free(&r);
    bad(PROTOCOL_COMPLETIONS, "{\"prompt\":\"a\",\"token_healing\":1}", "token_healing",
        "invalid_type");
    r = good(PROTOCOL_COMPLETIONS, "{\"prompt\":\"a\",\"best_of\":null}");
    TEST_CHECK(r && r->n_choices == 1 && r->n_best == 1);
    protocol_request_free(&r);
    r = good(PROTOCOL_COMPLETIONS, "{\"prompt\":\"a\",\"min_confidence\":0.5}");
    TEST_CHECK(r->confidence_min == 0.5);
    protocol_request_free(&r);
    bad(PROTOCOL_COMPLETIONS, "{\"prompt\":\"a\",\"min_confidence\":1.5}", "min_confidence",
        "decimal_above_max_value");
    bad(PROTOCOL_COMPLETIONS, "{\"prompt\":\"a\",\"min_confidence\":0.5,\"logprobs\":1}",
        "min_confidence", "invalid_value");
    bad(PROTOCOL_COMPLETIONS, "{\"prompt\":\"a\",\"n\":3,\"best_of\":2}", "best_of",
        "invalid_value");
    bad(PROTOCOL_COMPLETIONS, "{\"prompt\":\"a\",\"best_of\":2,\"stream\":true}", "best_of",
        "invalid_value");
    bad(PROTOCOL_COMPLETIONS, "{\"prompt\":\"a\",\"best_of\":65}", "best_of",
        "integer_above_max_value");
    bad(PROTOCOL_COMPLETIONS, "{}", "prompt", "missing_required_parameter");
    bad(PROTOCOL_COMPLETIONS, "{\"prompt\":{}}", "prompt", "invalid_type");
    bad(PROTOCOL_COMPLETIONS, "{\"prompt\":[1,\"a\"]}", "prompt[1]", "invalid_type");
    bad(PROTOCOL_COMPLETIONS, "{\"prompt\":[-1]}", "prompt[0]", "invalid_value");
    bad(PROTOCOL_COMPLETIONS, "{\"prompt\":[1],\"suffix\":\"x\"}", "suffix", "invalid_value");
}

/* As llama.vim sends it. */
static void test_infill(void)
{
    protocol_request *r = good(
        PROTOCOL_INFILL,
        "{\"id_slot\":0,\"input_prefix\":\"int a;\\n\",\"input_suffix\":\"\\n}\",\"input_extra\":["
        "{\"text\":\"void x();\",\"filename\":\"x.h\"}],\"prompt\":\"int \",\"n_predict\":128,"
        "\"n_indent\":4,\"top_k\":40,\"top_p\":0.9,\"samplers\":[\"top_k\",\"top_p\",\"infill\"],"
        "\"stop\":[\"\\n\"],\"stream\":false,\"cache_prompt\":true,\"t_max_prompt_ms\":500,"
        "\"t_max_predict_ms\":1000,\"response_fields\":[\"content\",\"timings/predicted_n\"]}");
    TEST_CHECK(r && !strcmp(r->infill.prefix, "int a;\nint ") && r->infill.prefix_len == 11);
    TEST_CHECK(r && r->infill.suffix_len == 2 && r->infill.n_files == 1);
    TEST_CHECK(r && !strcmp(r->infill.files[0].path, "x.h") && r->infill.files[0].text_len == 9);
    TEST_CHECK(r && r->indent_min == 4 && r->prompt_ms_max == 500 && r->predict_ms_max == 1000);
    TEST_CHECK(r && r->new_tokens_max == 128 && r->sampling.top_k == 40 && !r->warm_up);
    TEST_CHECK(r && !strcmp(r->document, "slot 0"));
    protocol_request_free(&r);
    r = good(
        PROTOCOL_INFILL,
        "{\"input_prefix\":\"\",\"input_suffix\":\"\",\"n_predict\":0,\"t_max_predict_ms\":1}");
    TEST_CHECK(r && r->warm_up && !r->document && r->infill.suffix_len == 0);
    protocol_request_free(&r);
    r = good(PROTOCOL_INFILL,
             "{\"input_prefix\":\"\",\"input_suffix\":\"\",\"n_predict\":-1,\"filename\":\"a.c\"}");
    TEST_CHECK(r && !r->warm_up && r->new_tokens_max == UINT32_MAX);
    TEST_CHECK(r && !strcmp(r->document, "a.c") && !strcmp(r->infill.path, "a.c"));
    protocol_request_free(&r);
    bad(PROTOCOL_INFILL, "{\"messages\":1}", "input_prefix", "missing_required_parameter");
    bad(PROTOCOL_INFILL, "{\"input_suffix\":\"\"}", "input_prefix", "missing_required_parameter");
    bad(PROTOCOL_INFILL, "{\"input_prefix\":\"a\"}", "input_suffix", "missing_required_parameter");
    bad(PROTOCOL_INFILL, "{\"input_prefix\":\"a\",\"input_suffix\":null}", "input_suffix",
        "missing_required_parameter");
    bad(PROTOCOL_INFILL, "{\"input_prefix\":[],\"input_suffix\":\"\"}", "input_prefix",
        "invalid_type");
    bad(PROTOCOL_INFILL,
        "{\"input_prefix\":\"\",\"input_suffix\":\"\",\"input_extra\":[{\"text\":1}]}",
        "input_extra[0].text", "invalid_type");
    const protocol_defaults cannot = {.fills_in = false};
    TEST_CHECK(protocol_request_parse(&r, PROTOCOL_INFILL, VIEW("{}"), &cannot, &error));
    TEST_CHECK(error.http_status == 501 && !r);
}

static void test_side_requests(void)
{
    static const struct {
        const char *body;
        cerium_class class_;
    } cases[] = {
        {"{\"input\":\"x\"}", CERIUM_CLASS_TURN},
        {"{\"input\":\"x\",\"client_metadata\":{\"x-codex-turn-metadata\":"
         "\"{\\\"thread_source\\\":\\\"user\\\"}\"}}", CERIUM_CLASS_TURN},
        {"{\"input\":\"x\",\"client_metadata\":{\"x-codex-turn-metadata\":"
         "\"{\\\"thread_source\\\":\\\"subagent\\\"}\"}}", CERIUM_CLASS_BATCH},
        {"{\"input\":\"x\",\"client_metadata\":{\"x-codex-turn-metadata\":"
         "{\"thread_source\":\"memory\"}}}", CERIUM_CLASS_BATCH},
        {"{\"input\":\"x\",\"client_metadata\":{\"x-codex-turn-metadata\":\"{\"}}",
         CERIUM_CLASS_TURN},
        {"{\"input\":\"x\",\"service_tier\":\"priority\",\"client_metadata\":"
         "{\"x-codex-turn-metadata\":{\"thread_source\":\"memory\"}}}", CERIUM_CLASS_EDIT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        protocol_request *r = good(PROTOCOL_RESPONSES, cases[i].body);
        TEST_CHECK_THAT(r && r->class_ == cases[i].class_, "%s", cases[i].body);
        protocol_request_free(&r);
    }
}

int main(void)
{
    TEST_RUN(test_side_requests);
    TEST_RUN(test_codex);
    TEST_RUN(test_input);
    TEST_RUN(test_results_of_earlier_calls);
    TEST_RUN(test_references);
    TEST_RUN(test_compaction);
    TEST_RUN(test_tools);
    TEST_RUN(test_cached_tools);
    TEST_RUN(test_lanes_and_cancel);
    TEST_RUN(test_formats);
    TEST_RUN(test_bad_responses);
    TEST_RUN(test_limits);
    TEST_RUN(test_chat);
    TEST_RUN(test_bad_chat);
    TEST_RUN(test_completions);
    TEST_RUN(test_infill);
    return unit_report("request");
}
