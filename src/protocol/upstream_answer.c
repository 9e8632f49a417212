/* upstream_answer.c - events of other servers become parts of an answer. */
#include "base/json.h"
#include "base/limits.h"
#include "protocol/upstream_api.h"
#include "reader/reader_json.h"

enum { EVENT_BYTES_MAX = 8 << 20, CALLS_MAX = 4096 };

void upstream_reader_open(upstream_reader *o, const protocol_request *request,
                          protocol_writer *writer, bool responses)
{
    *o = (upstream_reader){.request = request,
                           .writer = writer,
                           .responses = responses,
                           .call = -1,
                           .input.max = READER_HELD_BYTES_MAX};
    sse_open(&o->events, EVENT_BYTES_MAX);
}

void upstream_reader_close(upstream_reader *o)
{
    sse_close(&o->events);
    bytes_free(&o->input);
}

static view string_of(const json_t *value)
{
    return (view){json_string_value(value), json_string_length(value)};
}

static int say(upstream_reader *o, protocol_part part, view text)
{
    return protocol_writer_part(o->writer, 0, part, text);
}

/* ---- calls ---- */

static bool takes_free_text(const protocol_request *r, const char *name)
{
    for (size_t i = 0; i < r->n_tools; i++)
        if (!strcmp(r->tools[i].name, name)) return !r->tools[i].parameters;
    return false;
}

static int end_call(upstream_reader *o)
{
    if (o->call < 0) return CERIUM_OK;
    o->call = -1;
    if (o->free_text) {
        json_t *whole = json_read((view){o->input.ptr, o->input.len}, 0, NULL);
        const json_t *input = json_object_get(whole, "input");
        /* A server that ignores the schema: its text unchanged. */
        view text = json_is_string(input) ? string_of(input) : (view){o->input.ptr, o->input.len};
        int status = say(o, PROTOCOL_PART_ARGUMENTS, text);
        json_decref(whole);
        o->input.len = 0;
        RETURN_IF(status);
    }
    return say(o, PROTOCOL_PART_CALL_END, (view){NULL, 0});
}

/* wrapped: free text arrives as {"input": ...}. */
static int begin_call(upstream_reader *o, int64_t number, const char *name, bool wrapped)
{
    RETURN_IF(end_call(o));
    o->call = number;
    o->free_text = wrapped && takes_free_text(o->request, name);
    return say(o, PROTOCOL_PART_CALL, view_of(name));
}

static int add_arguments(upstream_reader *o, view text)
{
    if (o->call < 0 || !text.len) return CERIUM_OK;
    return o->free_text ? bytes_append(&o->input, text.ptr, text.len)
                        : say(o, PROTOCOL_PART_ARGUMENTS, text);
}

/* ---- the end ---- */

static uint32_t count_of(const json_t *from, const char *name)
{
    json_int_t n = json_integer_value(json_object_get(from, name));
    return n < 0 ? 0 : n > INT32_MAX ? INT32_MAX : (uint32_t)n;
}

/* Either API's usage. */
static void take_usage(upstream_reader *o, const json_t *usage)
{
    if (!json_is_object(usage)) return;
    const char *in = o->responses ? "input_tokens" : "prompt_tokens";
    const char *out = o->responses ? "output_tokens" : "completion_tokens";
    const json_t *details = json_object_get(usage, o->responses ? "input_tokens_details"
                                                                : "prompt_tokens_details");
    const json_t *thoughts = json_object_get(usage, o->responses ? "output_tokens_details"
                                                                 : "completion_tokens_details");
    o->has_usage = true;
    o->usage.input_tokens = count_of(usage, in);
    o->usage.output_tokens = count_of(usage, out);
    o->usage.cached_tokens = count_of(details, "cached_tokens");
    o->usage.reasoning_tokens = count_of(thoughts, "reasoning_tokens");
    if (o->usage.cached_tokens > o->usage.input_tokens)
        o->usage.cached_tokens = o->usage.input_tokens;
}

static int end_with(upstream_reader *o, protocol_end end)
{
    /* A call that was cut off is not closed: no client runs an incomplete one. */
    if (end == PROTOCOL_END_STOP) RETURN_IF(end_call(o));
    o->ended = true;
    o->end = end;
    return CERIUM_OK;
}

static int fail_with(upstream_reader *o, const json_t *error)
{
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *message = json_string_value(json_object_get(error, "message"));
    bool full = code && !strcmp(code, "context_length_exceeded");
    (void)protocol_error_set(&o->error, full ? 400 : 502,
                             full ? "invalid_request_error" : "server_error",
                             full ? "context_length_exceeded" : "server_error", "",
                             "the upstream failed: %.300s", message ? message : "it says not why");
    return end_with(o, PROTOCOL_END_FAILED);
}

/* ---- Chat Completions ---- */

static int chat_call(upstream_reader *o, const json_t *call)
{
    const json_t *function = json_object_get(call, "function");
    const char *name = json_string_value(json_object_get(function, "name"));
    json_int_t number = json_integer_value(json_object_get(call, "index"));
    if (number < 0 || number > CALLS_MAX) return CERIUM_ERR_FORMAT;
    if (name && *name && number != o->call) RETURN_IF(begin_call(o, number, name, true));
    if (number != o->call) return CERIUM_OK;
    return add_arguments(o, string_of(json_object_get(function, "arguments")));
}

static int chat_delta(upstream_reader *o, const json_t *delta)
{
    size_t i;
    const json_t *call, *calls = json_object_get(delta, "tool_calls");
    const json_t *thought = json_object_get(delta, "reasoning_content");
    if (!json_is_string(thought)) thought = json_object_get(delta, "reasoning");
    view content = string_of(json_object_get(delta, "content")), thinks = string_of(thought);
    if (thinks.len) RETURN_IF(say(o, PROTOCOL_PART_REASONING, thinks));
    if (content.len) {
        RETURN_IF(end_call(o));
        RETURN_IF(say(o, PROTOCOL_PART_TEXT, content));
    }
    json_array_foreach(calls, i, call) RETURN_IF(chat_call(o, call));
    return CERIUM_OK;
}

static int chat_event(upstream_reader *o, const json_t *event)
{
    const json_t *error = json_object_get(event, "error");
    const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
    const char *reason = json_string_value(json_object_get(choice, "finish_reason"));
    if (json_is_object(error)) return fail_with(o, error);
    take_usage(o, json_object_get(event, "usage"));
    if (o->ended) return CERIUM_OK; /* only usage comes after the end */
    RETURN_IF(chat_delta(o, json_object_get(choice, "delta")));
    if (!reason) return CERIUM_OK;
    return end_with(o, strcmp(reason, "length") ? PROTOCOL_END_STOP : PROTOCOL_END_LENGTH);
}

/* ---- Responses ---- */

static int item_added(upstream_reader *o, const json_t *event)
{
    const json_t *item = json_object_get(event, "item");
    const char *type = json_string_value(json_object_get(item, "type"));
    const char *name = json_string_value(json_object_get(item, "name"));
    const char *space = json_string_value(json_object_get(item, "namespace"));
    char full[2 * PROTOCOL_NAME_BYTES_MAX + 8];
    if (!type || !name) return CERIUM_OK;
    if (strcmp(type, "function_call") && strcmp(type, "custom_tool_call")) return CERIUM_OK;
    snprintf(full, sizeof full, "%s%s%s", space ? space : "", space ? "__" : "", name);
    return begin_call(o, json_integer_value(json_object_get(event, "output_index")), full, false);
}

static int response_ended(upstream_reader *o, const json_t *event, const char *how)
{
    const json_t *response = json_object_get(event, "response");
    take_usage(o, json_object_get(response, "usage"));
    if (!strcmp(how, "failed")) return fail_with(o, json_object_get(response, "error"));
    return end_with(o, strcmp(how, "completed") ? PROTOCOL_END_LENGTH : PROTOCOL_END_STOP);
}

static int responses_event(upstream_reader *o, const json_t *event)
{
    static const struct {
        const char *type;
        protocol_part part;
    } deltas[] = {
        {"response.output_text.delta", PROTOCOL_PART_TEXT},
        {"response.refusal.delta", PROTOCOL_PART_TEXT},
        {"response.reasoning_text.delta", PROTOCOL_PART_REASONING},
        {"response.reasoning_summary_text.delta", PROTOCOL_PART_REASONING},
        {"response.function_call_arguments.delta", PROTOCOL_PART_ARGUMENTS},
        {"response.custom_tool_call_input.delta", PROTOCOL_PART_ARGUMENTS},
    };
    const char *type = json_string_value(json_object_get(event, "type"));
    if (!type || o->ended) return type ? CERIUM_OK : CERIUM_ERR_FORMAT;
    view delta = string_of(json_object_get(event, "delta"));
    for (size_t i = 0; i < ARRAY_LEN(deltas); i++) {
        if (strcmp(deltas[i].type, type) != 0) continue;
        if (!delta.len) return CERIUM_OK;
        return deltas[i].part == PROTOCOL_PART_ARGUMENTS ? add_arguments(o, delta)
                                                         : say(o, deltas[i].part, delta);
    }
    if (!strcmp(type, "response.output_item.added")) return item_added(o, event);
    if (!strcmp(type, "response.output_item.done")) return end_call(o);
    if (!strcmp(type, "error")) {
        const json_t *error = json_object_get(event, "error");
        return fail_with(o, json_is_object(error) ? error : event);
    }
    static const char *const ends[] = {"completed", "incomplete", "failed"};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (!strncmp(type, "response.", 9) && !strcmp(type + 9, ends[i]))
            return response_ended(o, event, ends[i]);
    return CERIUM_OK;
}

/* ---- both ---- */

static int on_event(void *user, view data)
{
    upstream_reader *o = user;
    if (view_equal(data, VIEW("[DONE]"))) return CERIUM_OK;
    json_t *event = json_read(data, 0, NULL);
    if (!json_is_object(event)) {
        json_decref(event);
        return CERIUM_ERR_FORMAT;
    }
    int status = o->responses ? responses_event(o, event) : chat_event(o, event);
    json_decref(event);
    return status;
}

int upstream_reader_feed(upstream_reader *o, view body)
{
    return sse_feed(&o->events, body, on_event, o);
}

void upstream_refusal(view body, int http_status, const char *who, protocol_error *e)
{
    json_t *root = json_read(body, 0, NULL);
    const json_t *error = json_object_get(root, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    const char *code = json_string_value(json_object_get(error, "code"));
    bool full = code && !strcmp(code, "context_length_exceeded");
    /* Errors about our key, and the server's own failures, are not the client's fault. */
    bool his = http_status >= 400 && http_status < 500 && http_status != 401 &&
               http_status != 403 && http_status != 404;
    (void)protocol_error_set(e, http_status == 429 ? 429 : his ? 400 : 502,
                             http_status == 429 ? "rate_limit_error"
                             : his              ? "invalid_request_error" : "server_error",
                             http_status == 429 ? "rate_limit_exceeded"
                             : full             ? "context_length_exceeded"
                             : his              ? "invalid_value" : "upstream_failed", "",
                             "%.32s says HTTP %d: %.300s", who, http_status,
                             message ? message : "nothing more");
    json_decref(root);
}
