/* answers.c - answers of every kind, as a server would send them, for other programs to judge: one
 * JSON object per line with "name", "api", the "request", the "sse" of its stream and the whole
 * "object". */
#include "protocol/protocol.h"

#include <jansson.h>

static const char text[] = "Plain \xE2\x82\xAC \"text\"\nwith two lines.";
static const char thought[] = "<think>\nFirst I think.\n</think>\n\nThen I speak.";
static const char calls[] =
    "Looking.\n<tool_call>\n{\"name\": \"exec_command\", \"arguments\": {\"cmd\": \"ls\"}}\n"
    "</tool_call>\n<tool_call>\n{\"name\": \"multi_agent_v1__close_agent\", \"arguments\": {}}\n"
    "</tool_call>\n<tool_call>\n{\"name\": \"apply_patch\", \"arguments\": {\"input\": "
    "\"*** Begin Patch\\n\"}}\n</tool_call>";
static const char chat_calls[] =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n"
    "{\"name\": \"f\", \"arguments\": {\"a\": 2}}\n</tool_call>";

#define TOOLS \
    "\"tools\":[{\"type\":\"function\",\"name\":\"exec_command\"},{\"type\":\"namespace\"," \
    "\"name\":\"multi_agent_v1\",\"description\":\"Agents.\",\"tools\":[{\"type\":\"function\"," \
    "\"name\":\"close_agent\",\"parameters\":{\"type\":\"object\"},\"strict\":false}]}," \
    "{\"type\":\"web_search\"},{\"type\":\"custom\",\"name\":\"apply_patch\",\"format\":" \
    "{\"type\":\"grammar\",\"syntax\":\"lark\",\"definition\":\"start: x\"}}]"
#define CHAT "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"

static const struct {
    const char *name;
    protocol_api api;
    const char *body, *words;
    protocol_end end;
} answers[] = {
    {"text", PROTOCOL_RESPONSES, "{\"model\":\"m\",\"input\":\"x\",\"temperature\":0.5}", text, 0},
    {"thought", PROTOCOL_RESPONSES, "{\"model\":\"m\",\"input\":\"x\",\"instructions\":\"Think.\","
     "\"include\":[\"reasoning.encrypted_content\"],\"reasoning\":{\"effort\":\"high\",\"summary\":"
     "\"auto\"}}", thought, 0},
    {"calls", PROTOCOL_RESPONSES, "{\"model\":\"m\",\"input\":\"x\",\"store\":false," TOOLS "}",
     calls, 0},
    {"logprobs", PROTOCOL_RESPONSES, "{\"model\":\"m\",\"input\":\"x\",\"top_logprobs\":2}", text,
     0},
    {"schema", PROTOCOL_RESPONSES,
     "{\"model\":\"m\",\"input\":\"x\",\"text\":{\"verbosity\":\"low\",\"format\":{\"type\":\""
     "json_schema\",\"name\":\"n\",\"schema\":{\"type\":\"object\"},\"strict\":true}},\"tool_c"
     "hoice\":{\"type\":\"function\",\"name\":\"f\"},\"tools\":[{\"type\":"
     "\"function\",\"name\":\"f\"}],\"metadata\":{\"a\":\"b\"},\"max_output_t"
     "okens\":9,\"top_p\":0.5,\"truncation\":\"auto\",\"service_tier\":\"priority\",\"prompt_c"
     "ache_key\":\"k\",\"previous_response_id\":\"resp_0\"}", "{}", 0},
    {"cut off", PROTOCOL_RESPONSES, "{\"model\":\"m\",\"input\":\"x\"}", text,
     PROTOCOL_END_LENGTH},
    {"canceled", PROTOCOL_RESPONSES, "{\"model\":\"m\",\"input\":\"x\"}", text,
     PROTOCOL_END_CANCELED},
    {"failed", PROTOCOL_RESPONSES, "{\"model\":\"m\",\"input\":\"x\"}", "", PROTOCOL_END_FAILED},
    {"warm-up", PROTOCOL_RESPONSES, "{\"model\":\"m\",\"input\":\"x\",\"generate\":false}", "", 0},
    {"compaction", PROTOCOL_RESPONSES, "{\"model\":\"m\",\"input\":[{\"type\":"
     "\"compaction_trigger\"}]}", "What was said.", 0},
    {"compact", PROTOCOL_COMPACT, "{\"model\":\"m\",\"input\":\"x\"}", "What was said.", 0},
    {"chat", PROTOCOL_CHAT, "{" CHAT ",\"stream_options\":{\"include_usage\":true}}", text, 0},
    {"chat progress", PROTOCOL_CHAT, "{" CHAT ",\"return_progress\":true}", text, 0},
    {"completion progress", PROTOCOL_COMPLETIONS, "{\"model\":\"m\",\"prompt\":\"a\","
     "\"return_progress\":true}", text, 0},
    {"chat thought", PROTOCOL_CHAT, "{" CHAT "}", thought, 0},
    {"chat calls", PROTOCOL_CHAT, "{" CHAT ",\"tools\":[{\"type\":\"function\",\"function\":"
     "{\"name\":\"f\"}}]}", chat_calls, 0},
    {"chat custom", PROTOCOL_CHAT, "{" CHAT ",\"tools\":[{\"type\":\"custom\",\"custom\":"
     "{\"name\":\"f\"}}]}", chat_calls, 0},
    {"chat logprobs", PROTOCOL_CHAT, "{" CHAT ",\"logprobs\":true,\"top_logprobs\":2,\"n\":2}",
     text, PROTOCOL_END_LENGTH},
    {"completion", PROTOCOL_COMPLETIONS, "{\"model\":\"m\",\"prompt\":[\"a\",\"b\"],\"echo\":true,"
     "\"n\":2,\"stream_options\":{\"include_usage\":true}}", text, 0},
    {"completion logprobs", PROTOCOL_COMPLETIONS, "{\"model\":\"m\",\"prompt\":\"a\",\"logprobs\":"
     "2}", text, PROTOCOL_END_LENGTH},
};

static void on_event(void *user, const char *name, const char *json, size_t len)
{
    bytes *sse = user;
    if (!json) {
        CHECK(!bytes_append(sse, ": keep-alive\n\n", 14));
        return;
    }
    if (name) {
        CHECK(!bytes_append(sse, "event: ", 7) && !bytes_append(sse, name, strlen(name)));
        CHECK(!bytes_append(sse, "\n", 1));
    }
    CHECK(!bytes_append(sse, "data: ", 6) && !bytes_append(sse, json, len));
    CHECK(!bytes_append(sse, "\n\n", 2));
}

static view token_text(void *user, int32_t token)
{
    (void)user;
    return token ? VIEW("t") : VIEW("\xE2\x82");
}

static const protocol_progress halfway = {9, 4, 6, 1000000, NULL, 0, 0};

/* Three bytes per token, one token at a time. */
static void say(protocol_writer *w, uint32_t choice, const char *words)
{
    static const cerium_logprob top[] = {{1, -0.25f}, {0, -1.5f}};
    for (size_t i = 0, len = strlen(words); i < len;) {
        if (i % 2) CHECK(!protocol_writer_beat(w, &halfway));
        size_t n = len - i < 3 ? len - i : 3;
        while (i + n < len && ((unsigned char)words[i + n] & 0xC0) == 0x80) n++;
        const protocol_token token = {{words + i, n}, -0.25f, top, 2};
        CHECK(!protocol_writer_text(w, choice, (view){words + i, n}, &token, 1));
        i += n;
    }
}

static void show(size_t i)
{
    const protocol_defaults defaults = {.sampling = {.temperature = 0.25f}};
    const protocol_usage usage = {.input_tokens = 9, .cached_tokens = 4, .output_tokens = 5};
    protocol_request *r = NULL;
    protocol_writer *w = NULL;
    protocol_error error;
    bytes sse = {.max = 1u << 20};
    int status = protocol_request_parse(&r, answers[i].api, view_of(answers[i].body), &defaults,
                                        &error);
    if (status) fprintf(stderr, "%s: %s\n", answers[i].name, error.message);
    CHECK(!status);
    (void)!protocol_error_set(&error, 500, "server_error", "server_error", "", "It broke.");
    const protocol_answer a = {.request = r, .id = "resp_0f1e", .model = "spark",
                               .chat_form = "qwen3", .created_at = 1795227342,
                               .token_text = token_text, .emit = on_event, .user = &sse};
    CHECK(!protocol_writer_open(&w, &a) && !protocol_writer_begin(w));
    CHECK(!protocol_writer_beat(w, &halfway));
    if (r->return_progress) CHECK(!protocol_writer_progress(w, &halfway));
    uint32_t n = r->n_choices * (uint32_t)(r->n_prompts ? r->n_prompts : 1);
    for (uint32_t k = 0; k < n; k++) {
        say(w, k, answers[i].words);
        CHECK(!protocol_writer_end(w, k, answers[i].end, &usage, &error));
    }
    json_t *line = json_pack("{s:s, s:i, s:O, s:s%, s:o}", "name", answers[i].name, "api",
                             (int)answers[i].api, "request", r->root, "sse",
                             sse.ptr ? sse.ptr : "", sse.len, "object",
                             protocol_writer_object(w));
    CHECK(line && !json_dumpf(line, stdout, JSON_COMPACT));
    printf("\n");
    json_decref(line);
    bytes_free(&sse);
    protocol_writer_free(&w);
    protocol_request_free(&r);
}

int main(void)
{
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) show(i);
    return 0;
}
