/* fuzz_writer.c - any model output, in any cuts: every event is JSON, sequence numbers
 * have no gaps, the deltas of an item are its text, and the last event holds the whole object.
 *
 * Bytes: the request (of a list), the chat form, the end, the first cut; then the text, in
 * which a byte 0xFE ends a cut. */
#include "protocol/json_out.h"
#include "protocol/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"name\":\"f\"},{\"type\":\"custom\",\"name\":\"p\"}," \
    "{\"type\":\"namespace\",\"name\":\"n\",\"tools\":[{\"type\":\"function\",\"name\":\"f\"}]}]"

static const struct {
    protocol_api api;
    const char *body;
} requests[] = {
    {PROTOCOL_RESPONSES,
     "{\"input\":\"x\",\"include\":[\"reasoning.encrypted_content\"]," TOOLS "}"},
    {PROTOCOL_RESPONSES, "{\"input\":\"x\",\"top_logprobs\":1,\"stream_id\":\"l\"," TOOLS "}"},
    {PROTOCOL_RESPONSES, "{\"input\":[{\"type\":\"compaction_trigger\"}]}"},
    {PROTOCOL_CHAT, "{\"messages\":[{\"role\":\"user\"}],\"n\":2,\"tools\":[{\"type\":\"function\","
                    "\"function\":{\"name\":\"f\"}},{\"type\":\"custom\",\"custom\":"
                    "{\"name\":\"p\"}}]}"},
    {PROTOCOL_CHAT, "{\"messages\":[{\"role\":\"user\"}],\"logprobs\":true,\"top_logprobs\":1}"},
    {PROTOCOL_COMPLETIONS, "{\"prompt\":[\"a\",\"b\"],\"echo\":true,\"logprobs\":1}"},
    {PROTOCOL_INFILL, "{\"input_prefix\":\"x\",\"input_suffix\":\"\","
                      "\"response_fields\":[\"content\",\"timings/predicted_n\"]}"},
    {PROTOCOL_COMPACT, "{\"model\":\"m\",\"input\":\"x\"}"},
};
static const char *const forms[] = {"", "chatml", "qwen3", "qwen3.5", "harmony", "llama3.1",
                                    "mistral-v7-tekken", "mistral-v3"};

typedef struct {
    int64_t sequence;
    bytes deltas; /* of the open item */
    json_t *last;
} client;

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

static void on_event(void *user, const char *name, const char *json, size_t len)
{
    client *c = user;
    if (!json) return; /* a sign of life that is not an event */
    if (len == 6 && !memcmp(json, "[DONE]", 6)) return;
    json_error_t why;
    json_t *event = json_loadb(json, len, JSON_ALLOW_NUL, &why);
    CHECK(event);
    const json_t *delta = json_object_get(event, "delta");
    if (name) {
        CHECK(!strcmp(name, json_string_value(json_object_get(event, "type"))));
        CHECK(json_integer_value(json_object_get(event, "sequence_number")) == c->sequence++);
        if (ends_with(name, ".added")) c->deltas.len = 0;
        if (ends_with(name, ".delta"))
            CHECK(!bytes_append(&c->deltas, json_string_value(delta), json_string_length(delta)));
        static const char *const keys[] = {"text", "arguments", "input"};
        for (size_t i = 0; i < 3 && ends_with(name, ".done"); i++) {
            const json_t *text = json_object_get(event, keys[i]);
            view whole = {json_string_value(text), json_string_length(text)};
            if (text) CHECK(view_equal(whole, (view){c->deltas.ptr, c->deltas.len}));
        }
    }
    json_decref(c->last);
    c->last = event;
}

static view token_text(void *user, int32_t token)
{
    (void)user;
    return token ? VIEW("t") : VIEW("\xFF");
}

typedef struct {
    const protocol_request *request;
    const char *form;
    protocol_end end;
    view output;
    bool cut;
} run;

/* Whole characters of one cut, at least one byte of the rest. */
static size_t cut_len(view left, bool cut)
{
    size_t n = 0;
    while (n < left.len && (!cut || (uint8_t)left.ptr[n] != 0xFE)) {
        size_t len = utf8_char_len((view){left.ptr + n, left.len - n});
        n += len ? len : 1;
    }
    return n;
}

static json_t *answer(const run *r, client *c)
{
    protocol_writer *w = NULL;
    const protocol_answer a = {.request = r->request, .id = "resp_1", .model = "m",
                               .chat_form = r->form, .token_text = token_text,
                               .emit = c ? on_event : NULL, .user = c};
    protocol_error error;
    (void)!protocol_error_set(&error, 500, "server_error", NULL, "", "x");
    CHECK(!protocol_writer_open(&w, &a) && !protocol_writer_begin(w));
    size_t n = r->request->n_choices * (r->request->n_prompts ? r->request->n_prompts : 1);
    const cerium_logprob top = {0, -1};
    for (uint32_t i = 0; i < n; i++) {
        for (size_t at = 0; at < r->output.len;) {
            view left = {r->output.ptr + at, r->output.len - at};
            size_t len = cut_len(left, r->cut);
            const protocol_token token = {{left.ptr, len}, -0.25f, &top, 1};
            CHECK(!protocol_writer_text(w, i, (view){left.ptr, len}, &token, 1));
            at += len + (r->cut && len < left.len);
            /* Signs of life between any two events do not change the answer. */
            const protocol_progress there = {.prompt_tokens = 4, .done_tokens = 4};
            if (r->cut) CHECK(!protocol_writer_beat(w, &there));
        }
        const protocol_usage usage = {.input_tokens = 4, .output_tokens = 2,
                                      .reasoning_tokens = 1};
        CHECK(!protocol_writer_end(w, i, r->end, &usage, &error));
    }
    json_t *object = protocol_writer_object(w);
    CHECK(object && protocol_writer_output(w));
    protocol_writer_free(&w);
    return object;
}

/* The text without its marks, so that only the cuts differ. */
static void check_cuts(const run *r, const json_t *object)
{
    bytes plain = {.max = 1u << 24};
    bool whole_chars = true;
    for (size_t at = 0; at < r->output.len;) {
        view left = {r->output.ptr + at, r->output.len - at};
        size_t len = cut_len(left, true);
        whole_chars = whole_chars && utf8_valid((view){left.ptr, len});
        CHECK(!bytes_append(&plain, left.ptr, len));
        at += len + (len < left.len);
    }
    run whole = *r;
    whole.cut = false;
    whole.output = (view){plain.ptr, plain.len};
    /* Callers pass whole characters; logprobs show the pieces of the text. */
    if (whole_chars && !r->request->sampling.logprobs) {
        json_t *other = answer(&whole, NULL);
        CHECK(json_equal(object, other));
        json_decref(other);
    }
    bytes_free(&plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) return 0;
    const protocol_defaults defaults = {.fills_in = true};
    protocol_request *request = NULL;
    protocol_error error;
    size_t which = data[0] % ARRAY_LEN(requests);
    CHECK(!protocol_request_parse(&request, requests[which].api, view_of(requests[which].body),
                                  &defaults, &error));
    client c = {.deltas.max = 1u << 24};
    const run r = {request, forms[data[1] % ARRAY_LEN(forms)],
                   (protocol_end)(data[2] % (PROTOCOL_END_FAILED + 1)),
                   {(const char *)data + 3, size - 3}, true};
    json_t *object = answer(&r, &c);
    if (request->api == PROTOCOL_RESPONSES)
        CHECK(json_equal(object, json_object_get(c.last, "response")));
    check_cuts(&r, object);
    json_decref(object);
    json_decref(c.last);
    bytes_free(&c.deltas);
    protocol_request_free(&request);
    return 0;
}
