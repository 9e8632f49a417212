/* content.c - messages of a conversation and the text of their parts. */
#include "protocol/json_out.h"
#include "protocol/parse.h"
#include "protocol/texts.h"

int message_add(parser *p, const cerium_message *message, int32_t item)
{
    protocol_request *r = p->r;
    if (r->n_messages == p->messages_cap) {
        size_t cap = p->messages_cap ? p->messages_cap * 2 : 16;
        if (p->messages_cap >= PROTOCOL_MESSAGES_MAX)
            return parse_fail(p, NULL, "array_above_max_length",
                              "Too many messages: at most %u are read.", PROTOCOL_MESSAGES_MAX);
        cerium_message *messages = memory_zalloc(cap, sizeof *messages);
        int32_t *items = memory_zalloc(cap, sizeof *items);
        if (!messages || !items) {
            memory_free(messages);
            memory_free(items);
            return CERIUM_ERR_MEMORY;
        }
        if (r->n_messages) {
            memcpy(messages, r->messages, r->n_messages * sizeof *messages);
            memcpy(items, r->message_item, r->n_messages * sizeof *items);
        }
        memory_free(r->messages);
        memory_free(r->message_item);
        r->messages = messages;
        r->message_item = items;
        p->messages_cap = cap;
    }
    r->messages[r->n_messages] = *message;
    r->message_item[r->n_messages++] = item;
    return CERIUM_OK;
}

/* ---- parts ---- */

typedef enum { PART_TEXT, PART_REFUSAL, PART_IMAGE, PART_FILE, PART_AUDIO, PART_OTHER } part_kind;

static part_kind kind_of_part(const char *type)
{
    static const struct {
        const char *type;
        part_kind kind;
    } kinds[] = {
        {"input_text", PART_TEXT},          {"output_text", PART_TEXT},
        {"text", PART_TEXT},                {"summary_text", PART_TEXT},
        {"reasoning_text", PART_TEXT},      {"refusal", PART_REFUSAL},
        {"input_image", PART_IMAGE},        {"image_url", PART_IMAGE},
        {"image", PART_IMAGE},              {"output_image", PART_IMAGE},
        {"computer_screenshot", PART_IMAGE}, {"input_file", PART_FILE},
        {"file", PART_FILE},                {"input_audio", PART_AUDIO},
    };
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (!strcmp(type, kinds[i].type)) return kinds[i].kind;
    return PART_OTHER;
}

/* Text of one part; empty for a part without text. */
static int part_text(parser *p, const place *at, const json_t *part, const char **out)
{
    const char *type = "", *text = NULL;
    if (json_is_string(part)) return string_text(p, part, out);
    RETURN_IF(expect_object(p, at, part));
    RETURN_IF(field_string(p, at, part, "type", &type));
    part_kind kind = kind_of_part(type);
    switch (kind) {
    case PART_TEXT:
        RETURN_IF(field_string(p, at, part, "text", &text));
        if (!text) return parse_fail_missing(p, &(place){at, "text", 0});
        break;
    case PART_REFUSAL: RETURN_IF(field_string(p, at, part, "refusal", &text)); break;
    case PART_IMAGE:
        p->r->image_dropped = true;
        text = text_image_note;
        break;
    case PART_FILE: text = text_file_note; break;
    case PART_AUDIO: text = "[Sound was here. You cannot hear it: say so.]"; break;
    case PART_OTHER: /* text of an unknown kind is still text */
        if (json_is_string(json_object_get(part, "text")))
            RETURN_IF(string_text(p, json_object_get(part, "text"), &text));
        break;
    }
    *out = text ? text : "";
    return CERIUM_OK;
}

static int join_parts(parser *p, const place *at, const json_t *parts, view joint, bytes *all)
{
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const place here = {at, NULL, i};
        const char *text = "";
        RETURN_IF(part_text(p, &here, json_array_get(parts, i), &text));
        bool ends_line = !all->len || all->ptr[all->len - 1] == '\n';
        if (text[0] && !ends_line) RETURN_IF(bytes_append(all, joint.ptr, joint.len));
        RETURN_IF(bytes_append(all, text, strlen(text)));
    }
    return CERIUM_OK;
}

int content_text(parser *p, const place *at, const json_t *content, view joint, const char **out)
{
    *out = "";
    if (!content || json_is_null(content)) return CERIUM_OK;
    if (json_is_string(content)) return string_text(p, content, out);
    if (!json_is_array(content))
        return parse_fail_type(p, at, "a string or an array of parts", content);
    if (json_array_size(content) == 1) /* most are; needs no copy */
        return part_text(p, &(place){at, NULL, 0}, json_array_get(content, 0), out);
    bytes all = {.max = SIZE_MAX};
    int status = join_parts(p, at, content, joint, &all);
    if (!status) status = make_text(p, (view){all.ptr, all.len}, out);
    bytes_free(&all);
    return status;
}

/* ---- calls and their results ---- */

int call_add(parser *p, const cerium_message *call, int32_t item)
{
    json_t *index = json_integer((json_int_t)p->r->n_messages);
    if (call->call_id && json_object_set_new_nocheck(p->calls, call->call_id, index))
        return CERIUM_ERR_MEMORY;
    if (!call->call_id) json_decref(index);
    return message_add(p, call, item);
}

int result_add(parser *p, const char *call_id, const char *text, int32_t item)
{
    cerium_message result = {.role = "tool", .content = text, .call_id = call_id};
    const json_t *index = json_object_get(p->calls, call_id);
    if (index) result.name = p->r->messages[json_integer_value(index)].name;
    return message_add(p, &result, item);
}
