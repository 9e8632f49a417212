/* fuzz_upstream.c - any answer of another server, in any cuts.
 *
 * Bytes: its API, the first cut, then the body.  The output to our client is JSON,
 * its sequence has no gap, and it does not depend on the cuts. */
#include "protocol/upstream_api.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char body_text[] =
    "{\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"f\"},{\"type\":\"custom\","
    "\"name\":\"p\"},{\"type\":\"namespace\",\"name\":\"n\",\"tools\":[{\"type\":\"function\","
    "\"name\":\"f\"}]}]}";

typedef struct {
    int64_t sequence;
    bytes events;
} client;

static void on_event(void *user, const char *name, const char *json, size_t len)
{
    client *c = user;
    json_t *event = json_loadb(json, len, JSON_ALLOW_NUL, NULL);
    CHECK(event && name);
    CHECK(json_integer_value(json_object_get(event, "sequence_number")) == c->sequence++);
    json_decref(event);
}

/* The whole output, appended to *out; returns how reading ended. */
static int read_answer(view body, size_t cut, bool responses, bytes *out)
{
    protocol_request *request = NULL;
    protocol_writer *writer = NULL;
    protocol_error e;
    upstream_reader o;
    client c = {.events.max = 1 << 24};
    const protocol_defaults defaults = {.has_chat_form = true};
    CHECK(!protocol_request_parse(&request, PROTOCOL_RESPONSES, VIEW(body_text), &defaults, &e));
    const protocol_answer answer = {.request = request, .id = "resp_1", .model = "m",
                                    .emit = on_event, .user = &c};
    CHECK(!protocol_writer_open(&writer, &answer) && !protocol_writer_begin(writer));
    upstream_reader_open(&o, request, writer, responses);
    int status = CERIUM_OK;
    for (size_t at = 0, n; at < body.len && !status; at += n) {
        n = cut && cut < body.len - at ? cut : body.len - at;
        char *exact = memory_copy(body.ptr + at, n); /* so that a read past its end is seen */
        CHECK(exact);
        status = upstream_reader_feed(&o, (view){exact, n});
        memory_free(exact);
    }
    CHECK(o.usage.cached_tokens <= o.usage.input_tokens);
    protocol_end end = status || !o.ended ? PROTOCOL_END_FAILED : o.end;
    CHECK(!protocol_writer_end(writer, 0, end, &o.usage, &o.error));
    if (!status) CHECK(!protocol_writer_body(writer, out));
    upstream_reader_close(&o);
    protocol_writer_free(&writer);
    protocol_request_free(&request);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bytes whole = {.max = 1 << 26}, pieces = {.max = 1 << 26};
    if (size < 2 || size > 1 << 16) return 0;
    view body = {(const char *)data + 2, size - 2};
    protocol_error e;
    int one = read_answer(body, 0, data[0] & 1, &whole);
    int two = read_answer(body, data[1], data[0] & 1, &pieces);
    CHECK(one == two && view_equal((view){whole.ptr, whole.len}, (view){pieces.ptr, pieces.len}));
    upstream_refusal(body, 400 + data[1], "fuzz", &e);
    CHECK(e.http_status >= 400 && !strchr(e.message, '\n'));
    bytes_free(&whole);
    bytes_free(&pieces);
    return 0;
}
