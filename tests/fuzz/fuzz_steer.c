/* fuzz_steer.c - any message as a response.steer: it is refused and its input returned, or it
 * becomes user messages that continue a request. */
#include "protocol/steer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *reply(const protocol_steer *s, const protocol_error *e)
{
    const protocol_steer_reply how = {.id = e ? NULL : "steer_1", .previous = s->previous};
    bytes out = {.max = 1 << 28};
    if (e)
        CHECK(!protocol_steer_failed(&out, &how, s->input, e));
    else
        CHECK(!protocol_steer_accepted(&out, &how));
    json_t *event = json_loadb(out.ptr, out.len, JSON_ALLOW_NUL, NULL);
    bytes_free(&out);
    CHECK(event);
    return event;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const protocol_defaults defaults = {.has_chat_form = true};
    protocol_error error = {0};
    protocol_body body;
    protocol_steer s;
    protocol_request *r = NULL, *next = NULL;
    view text = {(const char *)data, size};
    if (protocol_body_load(&body, PROTOCOL_RESPONSES, text, &defaults, &error)) return 0;
    int status = protocol_steer_read(&s, &body, size, &error);
    CHECK(!status || (status == CERIUM_ERR_ARGUMENT && !strcmp(error.code, "invalid_input")));
    CHECK(!status == (s.items != NULL));
    json_t *event = reply(&s, status ? &error : NULL);
    if (status && s.input)
        CHECK(json_equal(json_object_get(json_object_get(event, "steer"), "input"), s.input));
    json_decref(event);
    if (!status) {
        CHECK(!protocol_request_parse(&r, PROTOCOL_RESPONSES, VIEW("{\"input\":\"a\"}"), &defaults,
                                      &error));
        CHECK(!protocol_request_again(&next, r, "resp_1", s.items, true, &defaults, &error));
        CHECK(next->n_messages == json_array_size(s.items) + 1);
        for (size_t i = 0; i < next->n_messages; i++)
            CHECK(!strcmp(next->messages[i].role, "user"));
        protocol_request_free(&next);
        protocol_request_free(&r);
    }
    protocol_steer_free(&s);
    return 0;
}
