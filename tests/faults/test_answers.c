/* test_answers.c - every allocation fails in turn, jansson's too: reading a request and writing its
 * answer returns an error, leaks nothing, and succeeds when memory is there again. */
#include "protocol/protocol.h"

#include "faults.h"

static const struct {
    protocol_api api;
    const char *body;
} requests[] = {
    {PROTOCOL_RESPONSES,
     "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},"
     "{\"type\":\"input_text\",\"text\":\"b\"}]},{\"type\":\"function_call\",\"name\":\"f\","
     "\"namespace\":\"n\",\"call_id\":\"c\"},{\"type\":\"function_call_output\",\"call_id\":\"c\","
     "\"output\":\"x\\u0000\\ud800\"},{\"type\":\"compaction\",\"encrypted_content\":"
     "\"cerium1:YQ==\"}],\"instructions\":\"i\",\"tools\":[{\"type\":\"namespace\",\"name\":\"n\","
     "\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{\"a\":1.5}}]},"
     "{\"type\":\"custom\",\"name\":\"p\",\"format\":{\"type\":\"grammar\",\"syntax\":\"lark\","
     "\"definition\":\"d\"}}],\"text\":{\"format\":{\"type\":\"json_schema\",\"schema\":{}}},"
     "\"include\":[\"reasoning.encrypted_content\"]}"},
    {PROTOCOL_RESPONSES, "{\"input\":\"x\",\"tools\":[{\"type\":\"custom\",\"name\":\"p\"}]}"},
    {PROTOCOL_CHAT, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\","
                    "\"function\":{\"name\":\"f\"}}]}],\"n\":2,\"logprobs\":true,"
                    "\"top_logprobs\":1,\"tools\":[{\"type\":\"function\","
                    "\"function\":{\"name\":\"f\"}}]}"},
    {PROTOCOL_COMPLETIONS, "{\"prompt\":[\"a\",[1,2]],\"echo\":true,\"logprobs\":1}"},
    {PROTOCOL_INFILL,
     "{\"prompt\":\"p\",\"input_prefix\":\"q\",\"input_suffix\":\"\",\"id_slot\":1,\"input_extra\":"
     "[{\"text\":\"t\"}],\"response_fields\":[\"content\"]}"},
    {PROTOCOL_COMPACT, "{\"model\":\"m\",\"input\":\"x\"}"},
};

static const char output[] = "<think>\nh\n</think>\nHi \xC3<tool_call>\n{\"name\": \"n__f\", "
                           "\"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n"
                           "{\"name\": \"p\", \"arguments\": {\"input\": \"z\"}}\n</tool_call>";

static view token_text(void *user, int32_t token)
{
    (void)user;
    (void)token;
    return VIEW("t");
}

static void on_event(void *user, const char *name, const char *json, size_t len)
{
    (void)name;
    (void)json;
    *(size_t *)user += len;
}

static int write_answer(const protocol_request *r)
{
    static const cerium_logprob top = {0, -1};
    const protocol_token token = {VIEW("<think>"), -1, &top, 1};
    const protocol_usage usage = {.output_tokens = 3};
    size_t n_bytes = 0;
    protocol_writer *w = NULL;
    bytes body = {.max = 1u << 20};
    const protocol_answer a = {.request = r, .id = "resp_1", .model = "m", .chat_form = "qwen3",
                               .served_tier = "default", .token_text = token_text,
                               .emit = on_event, .user = &n_bytes};
    int status = protocol_writer_open(&w, &a);
    if (!status) status = protocol_writer_begin(w);
    uint32_t n = r->n_choices * (uint32_t)(r->n_prompts ? r->n_prompts : 1);
    for (uint32_t i = 0; i < n && !status; i++) {
        status = protocol_writer_text(w, i, VIEW(output), &token, 1);
        if (!status) status = protocol_writer_end(w, i, PROTOCOL_END_STOP, &usage, NULL);
    }
    if (!status) status = protocol_writer_body(w, &body);
    if (!status && r->api == PROTOCOL_RESPONSES && !protocol_writer_output(w))
        status = CERIUM_ERR_MEMORY;
    bytes_free(&body);
    protocol_writer_free(&w);
    return status;
}

/* The first time the tools are read, the second time they are cached. */
static int use_protocol(size_t i)
{
    protocol_defaults defaults = {.fills_in = true};
    protocol_error error;
    int status = protocol_cache_open(&defaults.cache);
    for (int round = 0; round < 2 && !status; round++) {
        protocol_request *r = NULL;
        status = protocol_request_parse(&r, requests[i].api, view_of(requests[i].body), &defaults,
                                        &error);
        /* jansson reports some failed allocations as syntax errors. */
        if (status == CERIUM_ERR_ARGUMENT && !strcmp(error.code, "invalid_json"))
            status = CERIUM_ERR_MEMORY;
        if (!status) status = write_answer(r);
        protocol_request_free(&r);
    }
    protocol_cache_close(&defaults.cache);
    return status;
}

int main(void)
{
    json_set_alloc_funcs(memory_alloc, memory_free);
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        long live = memory_live(), n = 0;
        for (;; n++) {
            memory_fail_at(n);
            int status = use_protocol(i);
            memory_fail_at(-1);
            CHECK_THAT(memory_live() == live, n);
            if (status == CERIUM_OK) break;
            CHECK_THAT(status == CERIUM_ERR_MEMORY, n);
        }
        CHECK_THAT(n > 20, n);
        passed++;
    }
    printf("answers under failing allocations: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
