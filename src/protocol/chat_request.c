/* chat_request.c - the messages of Chat Completions. */
#include "protocol/parse.h"

typedef struct {
    const json_t *message;
    const place *at;
    int32_t index;
} chat_message;

static int add_call(parser *p, const chat_message *in, const place *at, const json_t *call)
{
    const char *type = "function", *name = NULL, *content = "", *id = NULL;
    json_t *facts = NULL;
    RETURN_IF(expect_object(p, at, call));
    RETURN_IF(field_string(p, at, call, "type", &type));
    RETURN_IF(field_name(p, at, call, "id", &id));
    bool custom = !strcmp(type, "custom");
    const place inner = {at, custom ? "custom" : "function", 0};
    RETURN_IF(field_object(p, at, call, inner.key, &facts));
    if (!facts) return parse_fail_missing(p, &inner);
    RETURN_IF(field_name(p, &inner, facts, "name", &name));
    RETURN_IF(field_string(p, &inner, facts, custom ? "input" : "arguments", &content));
    return call_add(p, &(cerium_message){"call", content, name, .call_id = id}, in->index);
}

/* The form before tools: one call, without an id. */
static int add_legacy_call(parser *p, const chat_message *in, const json_t *call)
{
    const place at = {in->at, "function_call", 0};
    const char *name = NULL, *content = "";
    RETURN_IF(field_name(p, &at, call, "name", &name));
    RETURN_IF(field_string(p, &at, call, "arguments", &content));
    return call_add(p, &(cerium_message){"call", content, name, .call_id = NULL}, in->index);
}

/* The assistant's thoughts, text and calls, in this order. */
static int add_assistant(parser *p, const chat_message *in)
{
    const char *thought = NULL, *shown = NULL;
    const place content = {in->at, "content", 0}, list = {in->at, "tool_calls", 0};
    json_t *calls = NULL, *legacy = NULL;
    if (json_is_string(json_object_get(in->message, "reasoning")))
        RETURN_IF(field_string(p, in->at, in->message, "reasoning", &thought));
    RETURN_IF(field_string(p, in->at, in->message, "reasoning_content", &thought));
    RETURN_IF(content_text(p, &content, json_object_get(in->message, "content"), VIEW(""), &shown));
    RETURN_IF(field_array(p, in->at, in->message, "tool_calls", PROTOCOL_MESSAGES_MAX, &calls));
    RETURN_IF(field_object(p, in->at, in->message, "function_call", &legacy));
    if (thought && thought[0])
        RETURN_IF(message_add(p, &(cerium_message){.role = "reasoning", .content = thought},
                              in->index));
    if (shown[0] || (!json_array_size(calls) && !legacy))
        RETURN_IF(message_add(p, &(cerium_message){.role = "assistant", .content = shown},
                              in->index));
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const place at = {&list, NULL, i};
        RETURN_IF(add_call(p, in, &at, json_array_get(calls, i)));
    }
    return legacy ? add_legacy_call(p, in, legacy) : CERIUM_OK;
}

static int add_result(parser *p, const chat_message *in)
{
    const char *id = NULL, *text = NULL;
    const place content = {in->at, "content", 0};
    RETURN_IF(field_name(p, in->at, in->message, "tool_call_id", &id));
    RETURN_IF(content_text(p, &content, json_object_get(in->message, "content"), VIEW("\n"),
                           &text));
    return result_add(p, id, text, in->index);
}

/* The result of a call without an id: only its function is known. */
static int add_legacy_result(parser *p, const chat_message *in)
{
    const char *name = NULL, *text = NULL;
    const place content = {in->at, "content", 0};
    RETURN_IF(field_name(p, in->at, in->message, "name", &name));
    RETURN_IF(content_text(p, &content, json_object_get(in->message, "content"), VIEW("\n"),
                           &text));
    return message_add(p, &(cerium_message){.role = "tool", .content = text, .name = name},
                       in->index);
}

static int add_message(parser *p, const chat_message *in)
{
    const char *role = NULL, *text = NULL;
    const place content = {in->at, "content", 0};
    RETURN_IF(expect_object(p, in->at, in->message));
    RETURN_IF(field_string(p, in->at, in->message, "role", &role));
    if (!role) return parse_fail_missing(p, &(place){in->at, "role", 0});
    if (!strcmp(role, "assistant")) return add_assistant(p, in);
    if (!strcmp(role, "tool")) return add_result(p, in);
    if (!strcmp(role, "function")) return add_legacy_result(p, in);
    if (strcmp(role, "user") && strcmp(role, "system") && strcmp(role, "developer"))
        return parse_fail_value(p, &(place){in->at, "role", 0}, role,
                                "'system', 'assistant', 'user', 'function', 'tool', and "
                                "'developer'");
    RETURN_IF(content_text(p, &content, json_object_get(in->message, "content"), VIEW("\n"),
                           &text));
    return message_add(p, &(cerium_message){.role = role, .content = text}, in->index);
}

static int prediction_parse(parser *p)
{
    json_t *prediction = NULL;
    const place at = {NULL, "prediction", 0}, content = {&at, "content", 0};
    const char *type = "content";
    RETURN_IF(field_object(p, NULL, p->root, "prediction", &prediction));
    if (!prediction) return CERIUM_OK;
    RETURN_IF(field_string(p, &at, prediction, "type", &type));
    if (strcmp(type, "content"))
        return parse_fail_value(p, &(place){&at, "type", 0}, type, "'content'");
    RETURN_IF(content_text(p, &content, json_object_get(prediction, "content"), VIEW(""),
                           &p->r->prediction));
    p->r->prediction_len = strlen(p->r->prediction);
    return CERIUM_OK;
}

static int logprobs_parse(parser *p)
{
    bool wanted = false;
    int64_t top = -1;
    RETURN_IF(field_bool(p, NULL, p->root, "logprobs", &wanted));
    RETURN_IF(field_integer(p, NULL, p->root, "top_logprobs", 0, CERIUM_TOP_MAX, &top));
    if (top > 0 && !wanted)
        return parse_fail(p, &(place){NULL, "top_logprobs", 0}, "invalid_value",
                          "The 'top_logprobs' parameter is only allowed when 'logprobs' is "
                          "enabled.");
    p->r->sampling.logprobs = wanted;
    p->r->top_logprobs = top > 0 ? (uint32_t)top : 0;
    return CERIUM_OK;
}

/* vLLM's: continue the last message, of the assistant, or do not open its turn. */
static int continue_parse(parser *p)
{
    protocol_request *r = p->r;
    const place at = {NULL, "continue_final_message", 0};
    const json_t *given = json_object_get(p->root, "add_generation_prompt");
    bool continues = false, opens = true;
    RETURN_IF(field_bool(p, NULL, p->root, at.key, &continues));
    RETURN_IF(field_bool(p, NULL, p->root, "add_generation_prompt", &opens));
    r->no_opening = !opens && !continues;
    if (!continues) return CERIUM_OK;
    if (json_is_true(given))
        return parse_fail(p, &at, "invalid_value",
                          "Cannot set both 'continue_final_message' and 'add_generation_prompt' "
                          "to true.");
    const cerium_message *last = &r->messages[r->n_messages - 1];
    if (strcmp(last->role, "assistant") || !last->content[0])
        return parse_fail(p, &at, "invalid_value",
                          "Invalid 'continue_final_message': the last message is not a text of the "
                          "assistant.");
    r->prefill = last->content;
    r->n_messages--;
    return CERIUM_OK;
}

int chat_parse(parser *p)
{
    const place list = {NULL, "messages", 0};
    RETURN_IF(field_array(p, NULL, p->root, "messages", PROTOCOL_MESSAGES_MAX, &p->r->items));
    if (!p->r->items) return parse_fail_missing(p, &list);
    if (!json_array_size(p->r->items))
        return parse_fail(p, &list, "empty_array",
                          "Invalid 'messages': empty array. Expected an array with minimum length "
                          "1, but got an empty array instead.");
    for (size_t i = 0; i < json_array_size(p->r->items); i++) {
        const place at = {&list, NULL, i};
        RETURN_IF(add_message(p, &(chat_message){json_array_get(p->r->items, i), &at,
                                                 (int32_t)i}));
    }
    RETURN_IF(field_bool(p, NULL, p->root, "return_progress", &p->r->return_progress));
    RETURN_IF(continue_parse(p));
    RETURN_IF(prediction_parse(p));
    return logprobs_parse(p);
}
