/* items.c - input items of the Responses API become messages.
 *
 * Clients send back our items, items of other models, and kinds newer than this file: unknown kinds
 * are ignored and never fail a turn. */
#include "protocol/json_out.h"
#include "protocol/parse.h"
#include "protocol/texts.h"

typedef struct {
    const json_t *item;
    const place *at;
    int32_t index;
} input_item;

static int add_text(parser *p, const input_item *in, const char *role, const char *text)
{
    return message_add(p, &(cerium_message){.role = role, .content = text}, in->index);
}

static int item_message(parser *p, const input_item *in)
{
    const char *role = NULL, *text = NULL;
    const place content = {in->at, "content", 0};
    RETURN_IF(field_string(p, in->at, in->item, "role", &role));
    if (!role) return parse_fail_missing(p, &(place){in->at, "role", 0});
    bool assistant = !strcmp(role, "assistant");
    if (!assistant && strcmp(role, "user") && strcmp(role, "system") && strcmp(role, "developer"))
        return parse_fail_value(p, &(place){in->at, "role", 0}, role,
                                "'assistant', 'system', 'developer', and 'user'");
    RETURN_IF(content_text(p, &content, json_object_get(in->item, "content"),
                           assistant ? VIEW("") : VIEW("\n"), &text));
    return add_text(p, in, role, text);
}

/* function_call and custom_tool_call: the model's text is under key. */
static int item_call(parser *p, const input_item *in, const char *key)
{
    const char *name = NULL, *space = NULL, *call_id = NULL, *content = "";
    RETURN_IF(field_name(p, in->at, in->item, "name", &name));
    RETURN_IF(field_name(p, in->at, in->item, "call_id", &call_id));
    RETURN_IF(field_string(p, in->at, in->item, "namespace", &space));
    RETURN_IF(field_string(p, in->at, in->item, key, &content));
    if (space && !space[0]) space = NULL;
    if (space && strlen(space) > PROTOCOL_NAME_BYTES_MAX)
        return parse_fail(p, &(place){in->at, "namespace", 0}, "string_above_max_length",
                          "Invalid namespace: at most %u bytes.", PROTOCOL_NAME_BYTES_MAX);
    RETURN_IF(tool_full_name(p, space, name, &name));
    const cerium_message call = {"call", content, name, .call_id = call_id};
    return call_add(p, &call, in->index);
}

static int item_result(parser *p, const input_item *in)
{
    const char *call_id = NULL, *text = NULL;
    const place output = {in->at, "output", 0};
    RETURN_IF(field_name(p, in->at, in->item, "call_id", &call_id));
    RETURN_IF(content_text(p, &output, json_object_get(in->item, "output"), VIEW("\n"), &text));
    return result_add(p, call_id, text, in->index);
}

/* Text that we wrote into encrypted_content; *out stays NULL if another server wrote it. */
static int opaque_text(parser *p, const input_item *in, const char **out)
{
    const char *opaque = NULL;
    bytes text = {.max = PROTOCOL_BODY_BYTES_MAX};
    bool ours = false;
    RETURN_IF(field_string(p, in->at, in->item, "encrypted_content", &opaque));
    if (!opaque) return CERIUM_OK;
    int status = opaque_read(&text, view_of(opaque), &ours);
    if (!status && ours) status = make_text(p, (view){text.ptr, text.len}, out);
    bytes_free(&text);
    return status;
}

static int item_reasoning(parser *p, const input_item *in)
{
    const char *text = "", *hidden = NULL;
    const place content = {in->at, "content", 0}, summary = {in->at, "summary", 0};
    RETURN_IF(content_text(p, &content, json_object_get(in->item, "content"), VIEW(""), &text));
    if (!text[0]) {
        RETURN_IF(opaque_text(p, in, &hidden));
        if (hidden) text = hidden;
    }
    if (!text[0])
        RETURN_IF(content_text(p, &summary, json_object_get(in->item, "summary"), VIEW("\n"),
                               &text));
    return text[0] ? add_text(p, in, "reasoning", text) : CERIUM_OK;
}

/* prefix and text as one message. */
static int add_joined(parser *p, const input_item *in, const char *role, const char *prefix,
                      const char *text)
{
    bytes all = {.max = SIZE_MAX};
    const char *joined = NULL;
    int status = bytes_append(&all, prefix, strlen(prefix));
    if (!status) status = bytes_append(&all, text, strlen(text));
    if (!status) status = make_text(p, (view){all.ptr, all.len}, &joined);
    bytes_free(&all);
    return status ? status : add_text(p, in, role, joined);
}

static int item_compaction(parser *p, const input_item *in)
{
    const char *text = NULL;
    RETURN_IF(opaque_text(p, in, &text));
    return text ? add_joined(p, in, "user", text_summary_begins, text)
                : add_text(p, in, "developer", text_summary_unreadable);
}

/* A message from one agent to another. */
static int item_agent(parser *p, const input_item *in)
{
    const char *author = "another agent", *text = NULL;
    char prefix[PROTOCOL_NAME_BYTES_MAX + 32];
    const place content = {in->at, "content", 0};
    RETURN_IF(field_string(p, in->at, in->item, "author", &author));
    RETURN_IF(content_text(p, &content, json_object_get(in->item, "content"), VIEW("\n"), &text));
    snprintf(prefix, sizeof prefix, "Message from %.*s:\n", (int)PROTOCOL_NAME_BYTES_MAX, author);
    return add_joined(p, in, "user", prefix, text);
}

/* Calls and results of tools that hosts bring along (local_shell_call and others): they are shown
 * unchanged, under the name of their kind.  Other items are ignored. */
static int item_other(parser *p, const input_item *in, const char *type)
{
    static const char *const members[] = {"arguments", "input", "action", "operation", "execution"};
    const json_t *call_id = json_object_get(in->item, "call_id");
    size_t len = strlen(type);
    const char *id = NULL, *name = NULL, *content = "";
    if (!json_is_string(call_id) || json_string_length(call_id) > PROTOCOL_NAME_BYTES_MAX)
        return CERIUM_OK;
    RETURN_IF(string_text(p, call_id, &id));
    if (json_object_get(in->item, "output")) {
        const json_t *output = json_object_get(in->item, "output");
        const place at = {in->at, "output", 0};
        if (json_is_string(output) || json_is_array(output))
            RETURN_IF(content_text(p, &at, output, VIEW("\n"), &content));
        else
            RETURN_IF(make_json(p, output, &content));
        return result_add(p, id, content, in->index);
    }
    if (len < 6 || len > PROTOCOL_NAME_BYTES_MAX || strcmp(type + len - 5, "_call"))
        return CERIUM_OK;
    RETURN_IF(make_text(p, (view){type, len - 5}, &name));
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const json_t *value = json_object_get(in->item, members[i]);
        if (!value || json_is_null(value)) continue;
        if (json_is_string(value))
            RETURN_IF(string_text(p, value, &content));
        else
            RETURN_IF(make_json(p, value, &content));
        break;
    }
    return call_add(p, &(cerium_message){"call", content, name, .call_id = id}, in->index);
}

static int item_known(parser *p, const input_item *in, const char *type)
{
    if (!strcmp(type, "message")) return item_message(p, in);
    if (!strcmp(type, "function_call")) return item_call(p, in, "arguments");
    if (!strcmp(type, "custom_tool_call")) return item_call(p, in, "input");
    if (!strcmp(type, "function_call_output")) return item_result(p, in);
    if (!strcmp(type, "custom_tool_call_output")) return item_result(p, in);
    if (!strcmp(type, "reasoning")) return item_reasoning(p, in);
    if (!strcmp(type, "compaction") || !strcmp(type, "compaction_summary") ||
        !strcmp(type, "context_compaction"))
        return item_compaction(p, in);
    if (!strcmp(type, "agent_message")) return item_agent(p, in);
    if (!strcmp(type, "compaction_trigger")) {
        p->r->compacts = true;
        return CERIUM_OK;
    }
    return item_other(p, in, type);
}

/* The type decides how an item is read; a message may lack it. */
static int item_type(parser *p, const input_item *in, const char **type)
{
    RETURN_IF(expect_object(p, in->at, in->item));
    RETURN_IF(field_string(p, in->at, in->item, "type", type));
    if (!*type && json_object_get(in->item, "role")) *type = "message";
    return *type ? CERIUM_OK : parse_fail_missing(p, &(place){in->at, "type", 0});
}

static int item_parse(parser *p, input_item in)
{
    const char *type = NULL, *id = NULL;
    RETURN_IF(item_type(p, &in, &type));
    if (strcmp(type, "item_reference")) return item_known(p, &in, type);
    RETURN_IF(field_name(p, in.at, in.item, "id", &id));
    const protocol_defaults *d = p->defaults;
    json_t *found = d->find_item ? d->find_item(d->user, id) : NULL;
    in.item = found;
    if (found && !p->r->found) p->r->found = json_array();
    if (found && json_array_append_new(p->r->found, found)) return CERIUM_ERR_MEMORY;
    if (!in.item)
        return parse_fail(p, &(place){in.at, "id", 0}, "item_not_found",
                          "Item with id '%.128s' not found. Items are kept with the responses that "
                          "are stored: send the item itself.", id);
    type = NULL;
    RETURN_IF(item_type(p, &in, &type));
    return strcmp(type, "item_reference") ? item_known(p, &in, type) : CERIUM_OK;
}

/* [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": ...}]}]; by hand,
 * since json_pack() reads its format anew each time. */
static json_t *message_of(json_t *text)
{
    json_t *part = json_object(), *parts = json_array();
    json_t *item = json_object(), *list = json_array();
    int failed = json_object_set_new_nocheck(part, "type", json_string_nocheck("input_text")) |
                 json_object_set_nocheck(part, "text", text) | json_array_append(parts, part) |
                 json_object_set_new_nocheck(item, "type", json_string_nocheck("message")) |
                 json_object_set_new_nocheck(item, "role", json_string_nocheck("user")) |
                 json_object_set_nocheck(item, "content", parts) | json_array_append(list, item);
    json_decref(part);
    json_decref(parts);
    json_decref(item);
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

/* `input` as an array; a string is one message of the user. */
static int input_items(parser *p)
{
    json_t *input = json_object_get(p->root, "input");
    const place at = {NULL, "input", 0};
    if (json_is_string(input)) {
        json_t *list = message_of(input);
        if (!list || json_object_set_new(p->root, "input", list)) return CERIUM_ERR_MEMORY;
    } else if (input && !json_is_null(input) && !json_is_array(input)) {
        return parse_fail_type(p, &at, "a string or an array of items", input);
    } else if (!json_is_array(input)) {
        json_t *list = json_array();
        if (!list || json_object_set_new(p->root, "input", list)) return CERIUM_ERR_MEMORY;
    }
    return field_array(p, NULL, p->root, "input", PROTOCOL_MESSAGES_MAX, &p->r->items);
}

int items_parse(parser *p)
{
    const place input = {NULL, "input", 0}, from = {NULL, "instructions", 0};
    const json_t *instructions = json_object_get(p->root, "instructions");
    const char *text = NULL;
    bool given = json_object_get(p->root, "input") != NULL;
    RETURN_IF(content_text(p, &from, instructions, VIEW("\n"), &text));
    if (text[0])
        RETURN_IF(message_add(p, &(cerium_message){.role = "system", .content = text}, -1));
    RETURN_IF(input_items(p));
    if (!given && !text[0] && !p->r->previous_response_id)
        return parse_fail_missing(p, &input);
    for (size_t i = 0; i < json_array_size(p->r->items); i++) {
        const place at = {&input, NULL, i};
        RETURN_IF(item_parse(p, (input_item){json_array_get(p->r->items, i), &at, (int32_t)i}));
    }
    if (p->r->api == PROTOCOL_COMPACT) p->r->compacts = true;
    if (!p->r->compacts) return CERIUM_OK;
    return message_add(p, &(cerium_message){.role = "user", .content = text_sum_up}, -1);
}
