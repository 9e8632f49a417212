/* steer.c - response.steer: its messages in and out, and the requests that it causes. */
#include "protocol/steer.h"

#include "base/text.h"
#include "protocol/writer.h"

/* ---- requests ---- */

static int refuse(protocol_error *e, const char *param, const char *why)
{
    return protocol_error_set(e, 400, "invalid_request_error", "invalid_input", param, "%s", why);
}

static int check_part(const json_t *part, protocol_error *e)
{
    static const char *const kinds[] = {"input_text", "input_image", "input_file"};
    const char *type = json_string_value(json_object_get(part, "type"));
    if (!type || !view_is_one_of(view_of(type), kinds, ARRAY_LEN(kinds)))
        return refuse(e, "input", "A part of a message is input_text, input_image or input_file.");
    if (!strcmp(type, "input_text") && !json_is_string(json_object_get(part, "text")))
        return refuse(e, "input", "A part input_text has a string 'text'.");
    return CERIUM_OK;
}

static int check_message(const json_t *message, protocol_error *e)
{
    static const char *const known[] = {"type", "role", "content", "id", "status"};
    const char *key, *type = json_string_value(json_object_get(message, "type"));
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content");
    json_t *value;
    size_t i;
    if (!json_is_object(message)) return refuse(e, "input", "An item of 'input' is an object.");
    json_object_foreach((json_t *)message, key, value)
        if (!view_is_one_of(view_of(key), known, ARRAY_LEN(known)))
            return refuse(e, "input", "A message has type, role and content, and nothing else.");
        else if ((!strcmp(key, "id") || !strcmp(key, "status")) && !json_is_string(value) &&
                 !json_is_null(value))
            return refuse(e, "input", "'id' and 'status' of a message are strings.");
    if (json_object_get(message, "type") && (!type || strcmp(type, "message")))
        return refuse(e, "input", "Only messages steer: results of tools belong to a "
                                  "response.create.");
    if (!role || strcmp(role, "user"))
        return refuse(e, "input", "Only messages of the user steer: 'role' is \"user\".");
    if (json_is_string(content)) return CERIUM_OK;
    if (!json_array_size(content))
        return refuse(e, "input", "'content' is a string, or an array of parts that is not empty.");
    json_array_foreach((json_t *)content, i, value) RETURN_IF(check_part(value, e));
    return CERIUM_OK;
}

static int check(const json_t *root, const json_t *input, protocol_error *e)
{
    static const char *const known[] = {"type", "previous_response_id", "input"};
    const char *key;
    json_t *value;
    size_t i;
    json_object_foreach((json_t *)root, key, value) {
        char why[160];
        if (view_is_one_of(view_of(key), known, ARRAY_LEN(known))) continue;
        snprintf(why, sizeof why, "A response.steer has no field '%.64s': it goes to the lane of "
                                  "its response.", key);
        return refuse(e, key, why);
    }
    if (!json_string_length(json_object_get(root, "previous_response_id")))
        return refuse(e, "previous_response_id", "'previous_response_id' names a response.");
    if (json_is_string(input)) return CERIUM_OK;
    if (!json_is_array(input) || !json_array_size(input))
        return refuse(e, "input", "'input' is a string, or an array of messages that is not "
                                  "empty.");
    json_array_foreach((json_t *)input, i, value) RETURN_IF(check_message(value, e));
    return CERIUM_OK;
}

/* Messages in the form of a create: their ids are dropped. */
static json_t *items_of(const json_t *input)
{
    json_t *list = json_array(), *value;
    size_t i;
    if (json_is_string(input))
        json_array_append_new(list, json_pack("{s:s, s:s, s:O}", "type", "message", "role", "user",
                                              "content", input));
    json_array_foreach((json_t *)input, i, value)
        json_array_append_new(list, json_pack("{s:s, s:s, s:O}", "type", "message", "role", "user",
                                              "content", json_object_get(value, "content")));
    if (json_array_size(list)) return list;
    json_decref(list);
    return NULL;
}

int protocol_steer_read(protocol_steer *out, protocol_body *body, size_t n_bytes,
                        protocol_error *error)
{
    const char *id = json_string_value(json_object_get(body->root, "previous_response_id"));
    json_t *input = json_object_get(body->root, "input");
    *out = (protocol_steer){.previous = memory_copy(id ? id : "", id ? strlen(id) : 0),
                            .input = json_incref(input),
                            .n_bytes = n_bytes};
    int status = out->previous ? check(body->root, input, error) : CERIUM_ERR_MEMORY;
    if (!status) out->items = items_of(input);
    if (!status && !out->items) status = CERIUM_ERR_MEMORY;
    protocol_body_free(body);
    return status;
}

void protocol_steer_free(protocol_steer *steer)
{
    memory_free(steer->previous);
    json_decref(steer->input);
    json_decref(steer->items);
    *steer = (protocol_steer){.previous = NULL};
}

/* ---- events ---- */

static void begin(json_out *t, const char *type, const protocol_steer_reply *reply)
{
    json_out_literal(t, "{\"type\":");
    json_out_string(t, type);
    json_out_literal(t, ",\"sequence_number\":");
    json_out_integer(t, (int64_t)reply->sequence);
    if (reply->stream_id) {
        json_out_literal(t, ",\"stream_id\":");
        json_out_string(t, reply->stream_id);
    }
    json_out_literal(t, ",\"steer\":{");
    if (reply->id) {
        json_out_literal(t, "\"id\":");
        json_out_string(t, reply->id);
        json_out_literal(t, ",");
    }
    json_out_literal(t, "\"previous_response_id\":");
    json_out_string(t, reply->previous);
}

int protocol_steer_accepted(bytes *out, const protocol_steer_reply *reply)
{
    json_out t = {.b = *out};
    begin(&t, "response.steer.accepted", reply);
    json_out_literal(&t, "}}");
    *out = t.b;
    return t.status;
}

/* The call to answer, and with what; NULL: none. */
static const char *result_of(const json_t *item)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    const char *status = json_string_value(json_object_get(item, "status"));
    if (!type || !status || strcmp(status, "completed")) return NULL;
    return !strcmp(type, "function_call")      ? "function_call_output"
           : !strcmp(type, "custom_tool_call") ? "custom_tool_call_output" : NULL;
}

bool protocol_calls_client(const json_t *output)
{
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)output, i, item)
        if (result_of(item)) return true;
    return false;
}

int protocol_steer_pending(bytes *out, const protocol_steer_reply *reply, const json_t *output)
{
    json_out t = {.b = *out};
    size_t i;
    json_t *item;
    bool first = true;
    begin(&t, "response.steer.pending", reply);
    json_out_literal(&t, "},\"reason\":\"waiting_for_required_input\",\"required_input\":[");
    json_array_foreach((json_t *)output, i, item) {
        const char *result = result_of(item);
        if (!result) continue;
        if (!first) json_out_literal(&t, ",");
        first = false;
        json_out_literal(&t, "{\"type\":");
        json_out_string(&t, result);
        json_out_literal(&t, ",\"call_id\":");
        json_out_string(&t, json_string_value(json_object_get(item, "call_id")));
        if (!strcmp(result, "function_call_output")) {
            json_out_literal(&t, ",\"name\":");
            json_out_string(&t, json_string_value(json_object_get(item, "name")));
        }
        json_out_literal(&t, "}");
    }
    json_out_literal(&t, "]}");
    *out = t.b;
    return t.status;
}

int protocol_steer_failed(bytes *out, const protocol_steer_reply *reply, const json_t *input,
                          const protocol_error *error)
{
    json_out t = {.b = *out};
    begin(&t, "response.steer.failed", reply);
    json_out_literal(&t, ",\"input\":");
    if (input)
        json_out_value(&t, input);
    else
        json_out_literal(&t, "null");
    json_out_literal(&t, "},\"error\":{\"type\":");
    json_out_string(&t, error->type);
    json_out_literal(&t, ",\"code\":");
    json_out_string(&t, error->code);
    json_out_literal(&t, ",\"message\":");
    json_out_string(&t, error->message);
    json_out_literal(&t, "}}");
    *out = t.b;
    return t.status;
}

/* ---- requests ---- */

int protocol_request_again(protocol_request **out, const protocol_request *from,
                           const char *previous, const json_t *items, bool own,
                           const protocol_defaults *defaults, protocol_error *error)
{
    json_t *input = json_array();
    protocol_body body = {.root = json_copy(from->root), .tool_set = from->tool_set};
    if (body.tool_set) atomic_fetch_add(&body.tool_set->n_refs, 1);
    int failed = !input || !body.root || json_array_extend(input, (json_t *)items) ||
                 (own && json_array_extend(input, from->items)) ||
                 json_object_set(body.root, "input", input) ||
                 (previous && json_object_set_new(body.root, "previous_response_id",
                                                  json_string(previous)));
    if (!previous) json_object_del(body.root, "previous_response_id");
    json_decref(input);
    if (failed) {
        protocol_body_free(&body);
        return protocol_error_memory(error);
    }
    int status = protocol_body_parse(out, PROTOCOL_RESPONSES, &body, defaults, error);
    if (status == CERIUM_ERR_MEMORY) return protocol_error_memory(error);
    return status;
}

/* ---- the answer that is steered ---- */

uint64_t protocol_writer_sequence(protocol_writer *w) { return w->sequence++; }

void protocol_writer_steer(protocol_writer *w)
{
    const writer_choice *c = &w->choices[0];
    w->steered_from = c->piece == PIECE_TEXT ? c->text.len : 0;
}

bool protocol_writer_may_end(const protocol_writer *w, bool hurry, bool *whole)
{
    const writer_choice *c = &w->choices[0];
    const view text = {c->text.ptr ? c->text.ptr : "", c->text.len};
    const size_t from = w->steered_from < text.len ? w->steered_from : text.len;
    *whole = c->piece == PIECE_NONE && c->n_whole;
    switch (c->piece) {
    case PIECE_REASONING: return true;
    case PIECE_CALL: return false;
    case PIECE_NONE:
        return *whole && c->waiting == PIECE_NONE && cerium_reader_is_outside(c->reader);
    case PIECE_TEXT: break;
    }
    if (hurry) return cerium_reader_is_outside(c->reader);
    const char *end = memrchr(text.ptr + from, '\n', text.len - from);
    return end && !writer_in_fence((view){text.ptr, (size_t)(end - text.ptr)});
}
