/* fuzz_dialects.c - a model's output as Messages, Ollama's lines and llama.cpp's chunks:
 * every event is whole JSON, blocks are opened and closed one after another, cuts do not change the
 * object, and text has no opening mark that the end cut off.
 *
 * Input: a byte for the API, one for the form, one for the end, and the text. */
#include "base/json.h"
#include "protocol/json_out.h"
#include "protocol/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TOOL "\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}"
static const struct {
    protocol_api api;
    const char *body;
} requests[] = {
    {PROTOCOL_MESSAGES, "{\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
                        "\"stop_sequences\":[\"stop\"],\"tools\":[{" TOOL "}]}"},
    {PROTOCOL_MESSAGES, "{\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
                        "\"thinking\":{\"type\":\"adaptive\",\"display\":\"omitted\"},\"tools\":[{"
                        TOOL "}],\"tool_choice\":{\"type\":\"auto\","
                        "\"disable_parallel_tool_use\":true}}"},
    {PROTOCOL_OLLAMA_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{"
                           "\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}"},
    {PROTOCOL_OLLAMA_GENERATE, "{\"prompt\":\"x\",\"options\":{\"stop\":[\"stop\"]}}"},
    {PROTOCOL_COMPLETION, "{\"prompt\":\"x\",\"stop\":[\"stop\"],\"stream\":true}"},
};
static const char *const forms[] = {"", "chatml", "qwen3", "qwen3.5", "qwen3-coder", "harmony",
                                    "llama3.1", "mistral-v7-tekken"};
static const protocol_end ends[] = {PROTOCOL_END_STOP, PROTOCOL_END_LENGTH, PROTOCOL_END_CONTEXT,
                                    PROTOCOL_END_CANCELED, PROTOCOL_END_STEERED,
                                    PROTOCOL_END_GUARDED};

typedef struct {
    bool is_open;
    json_int_t index;
} client;

static void on_event(void *user, const char *name, const char *json, size_t len)
{
    client *c = user;
    if (!json) return;
    json_t *event = json_read((view){json, len}, JSON_ALLOW_NUL, NULL);
    CHECK(event || memmem(json, len, "\\u0000", 6));
    if (!event) return;
    const char *type = json_string_value(json_object_get(event, "type"));
    if (name) {
        CHECK(type && !strcmp(name, type));
        const json_t *index = json_object_get(event, "index");
        if (index) CHECK(json_integer_value(index) == c->index);
        if (!strcmp(name, "content_block_start")) CHECK(!c->is_open);
        if (!strcmp(name, "content_block_delta")) CHECK(c->is_open);
        if (!strcmp(name, "content_block_start")) c->is_open = true;
        if (!strcmp(name, "content_block_stop")) {
            CHECK(c->is_open);
            c->is_open = false;
            c->index++;
        }
        if (!strcmp(name, "message_stop")) CHECK(!c->is_open);
    }
    json_decref(event);
}

static json_t *tell(const protocol_request *r, const char *form, protocol_end end, view text,
                    uint32_t seed)
{
    client c = {.is_open = false};
    protocol_writer *w = NULL;
    const protocol_usage usage = {.input_tokens = 9, .cached_tokens = 4, .output_tokens = 5,
                                  .reasoning_tokens = 1};
    const protocol_answer how = {.request = r, .id = "msg_01", .model = "m", .chat_form = form,
                                 .emit = on_event, .user = &c};
    CHECK(!protocol_writer_open(&w, &how) && !protocol_writer_begin(w));
    for (size_t i = 0, n; i < text.len && !protocol_writer_enough(w, 0); i += n) {
        seed = seed * 1664525 + 1013904223;
        n = 1 + (seed >> 24) % 23;
        if (n > text.len - i) n = text.len - i;
        while (i + n < text.len && ((unsigned char)text.ptr[i + n] & 0xC0) == 0x80) n++;
        CHECK(!protocol_writer_text(w, 0, (view){text.ptr + i, n}, NULL, 0));
    }
    const protocol_finding found = {.deed = "blocked", .weakness = "sql", .rule = "py-sql",
                                    .message = "weak", .idiom = "f(?)", .language = "python",
                                    .cwe = 89, .line = 3};
    if (end == PROTOCOL_END_GUARDED) CHECK(!protocol_writer_finding(w, 0, &found));
    CHECK(!protocol_writer_end(w, 0, protocol_writer_enough(w, 0) ? PROTOCOL_END_STOP : end,
                               &usage, NULL));
    json_t *object = protocol_writer_object(w); /* NULL: a key of a call's input has a NUL in it */
    protocol_writer_free(&w);
    return object;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    protocol_error error;
    protocol_request *r = NULL;
    const protocol_defaults defaults = {.has_chat_form = true};
    if (size < 4) return 0;
    const size_t which = data[0] % ARRAY_LEN(requests);
    const char *form = forms[data[1] % ARRAY_LEN(forms)];
    view text = {(const char *)data + 4, size - 4};
    if (!utf8_valid(text)) return 0;
    CHECK(!protocol_request_parse(&r, requests[which].api, view_of(requests[which].body),
                                  &defaults, &error));
    protocol_end end = ends[data[2] % ARRAY_LEN(ends)];
    json_t *a = tell(r, form, end, text, data[3]), *b = tell(r, form, end, text, data[3] + 77u);
    CHECK(!a == !b && (!a || json_equal(a, b)));
    json_decref(a);
    json_decref(b);
    protocol_request_free(&r);
    return 0;
}
