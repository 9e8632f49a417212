/* messages_request.c - requests of Anthropic's Messages become the same messages as those of every
 * other API.
 *
 * Clients of this API add fields and blocks with every release, so unknown ones are ignored; one
 * that would mislead the model is an error that begins with its path. */
#include "protocol/json_out.h"
#include "protocol/parse.h"
#include "protocol/texts.h"

typedef struct {
    const json_t *list; /* of the request's messages */
    size_t from, to;    /* adjacent messages of one role, which are one turn */
    const char *role;
} turn;

/* ---- blocks ---- */

static const char *type_of(const json_t *block)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    return type ? type : "";
}

/* The first block of Claude Code names its version and a number that changes with requests: it is
 * left out of the prompt, or nothing after it would be found in the cache. */
static view without_attribution(view text)
{
    const view mark = VIEW("x-anthropic-billing-header:");
    if (!view_starts(text, mark)) return text;
    const char *line = memchr(text.ptr, '\n', text.len);
    size_t end = line ? (size_t)(line - text.ptr) : text.len, cut = end;
    while (cut && text.ptr[cut - 1] != ';') cut--;
    if (!cut) cut = end;
    text = (view){text.ptr + cut, text.len - cut};
    while (text.len && text.ptr[0] == '\n') text = (view){text.ptr + 1, text.len - 1};
    return text;
}

/* The text of a block for a text model; empty for blocks without text. */
static int block_text(parser *p, const place *at, const json_t *block, view *out)
{
    const char *type = type_of(block), *text = NULL;
    RETURN_IF(expect_object(p, at, block));
    *out = (view){"", 0};
    if (!strcmp(type, "text")) {
        RETURN_IF(field_string(p, at, block, "text", &text));
        if (!text) return parse_fail_missing(p, &(place){at, "text", 0});
    } else if (!strcmp(type, "image")) {
        p->r->image_dropped = true;
        text = text_image_note;
    } else if (!strcmp(type, "document") || !strcmp(type, "search_result")) {
        const json_t *source = json_object_get(block, "source");
        const json_t *spoken = json_object_get(source, "data");
        bool is_text = !strcmp(type_of(source), "text") && json_is_string(spoken);
        if (!is_text) spoken = json_object_get(source, "content");
        if (json_is_string(spoken))
            RETURN_IF(string_text(p, spoken, &text));
        else
            text = text_file_note;
    }
    if (text) *out = view_of(text);
    return CERIUM_OK;
}

static bool speaks(const json_t *block)
{
    const char *type = type_of(block);
    return strcmp(type, "tool_result") && strcmp(type, "tool_use") && strcmp(type, "thinking") &&
           strcmp(type, "redacted_thinking");
}

static int append(bytes *all, view joint, view text)
{
    bool ends_line = !all->len || all->ptr[all->len - 1] == '\n';
    if (text.len && !ends_line) RETURN_IF(bytes_append(all, joint.ptr, joint.len));
    return bytes_append(all, text.ptr, text.len);
}

/* Text of a content: a string, or its blocks with text.  head: the first block of `system`. */
static int append_content(parser *p, const place *at, const json_t *content, view joint, bool head,
                          bytes *all)
{
    if (!content || json_is_null(content)) return CERIUM_OK;
    if (json_is_string(content)) {
        view text = {json_string_value(content), json_string_length(content)};
        return append(all, joint, head ? without_attribution(text) : text);
    }
    if (!json_is_array(content))
        return parse_fail_type(p, at, "a string or an array of blocks", content);
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *block = json_array_get(content, i);
        view text;
        if (!speaks(block)) continue;
        RETURN_IF(block_text(p, &(place){at, NULL, i}, block, &text));
        RETURN_IF(append(all, joint, head ? without_attribution(text) : text));
    }
    return CERIUM_OK;
}

static int content_of(parser *p, const place *at, const json_t *content, view joint, bool head,
                      const char **out)
{
    bytes all = {.max = SIZE_MAX};
    int status = append_content(p, at, content, joint, head, &all);
    if (!status) status = make_text(p, (view){all.ptr ? all.ptr : "", all.len}, out);
    bytes_free(&all);
    return status;
}

/* ---- the user's turns ---- */

static int add_result(parser *p, const place *at, const json_t *block, size_t item)
{
    const char *id = NULL, *text = NULL;
    bool failed = false;
    bytes all = {.max = SIZE_MAX};
    RETURN_IF(field_name(p, at, block, "tool_use_id", &id));
    RETURN_IF(field_bool(p, at, block, "is_error", &failed));
    if (!json_object_get(p->calls, id))
        return parse_fail(p, at, "invalid_value",
                          "unexpected `tool_use_id` found in `tool_result` blocks: %.128s. Each "
                          "`tool_result` block must have a corresponding `tool_use` block before "
                          "it.", id);
    int status = failed ? bytes_append(&all, "Error: ", 7) : CERIUM_OK;
    const place content = {at, "content", 0};
    if (!status)
        status = append_content(p, &content, json_object_get(block, "content"), VIEW(""), false,
                                &all);
    if (!status) status = make_text(p, (view){all.ptr ? all.ptr : "", all.len}, &text);
    bytes_free(&all);
    return status ? status : result_add(p, id, text, (int32_t)item);
}

static bool has_result(const turn *t, const char *id)
{
    for (size_t i = t->from; i < t->to; i++) {
        const json_t *content = json_object_get(json_array_get(t->list, i), "content"), *block;
        size_t k;
        json_array_foreach(content, k, block) {
            const char *of = json_string_value(json_object_get(block, "tool_use_id"));
            if (of && !strcmp(of, id)) return true;
        }
    }
    return false;
}

/* A call that was interrupted has no result: the model is informed. */
static int add_lacking_results(parser *p, const turn *t)
{
    protocol_request *r = p->r;
    size_t first = r->n_messages, end = r->n_messages;
    while (first && strcmp(r->messages[first - 1].role, "user") &&
           strcmp(r->messages[first - 1].role, "tool"))
        first--;
    for (size_t i = first; i < end; i++) {
        const char *id = r->messages[i].call_id;
        if (strcmp(r->messages[i].role, "call") || !id || has_result(t, id)) continue;
        RETURN_IF(result_add(p, id, text_no_result, (int32_t)t->from));
    }
    return CERIUM_OK;
}

/* Results come before the user's text, whatever the order in the input. */
static int add_user(parser *p, const place *up, const turn *t)
{
    bytes spoken = {.max = SIZE_MAX};
    const char *text = "";
    bool any_text = false, any_result = false;
    RETURN_IF(add_lacking_results(p, t));
    int status = CERIUM_OK;
    for (size_t i = t->from; i < t->to && !status; i++) {
        const place at = {up, NULL, i}, in = {&at, "content", 0};
        const json_t *content = json_object_get(json_array_get(t->list, i), "content"), *block;
        size_t k;
        json_array_foreach(content, k, block) {
            const bool is = !strcmp(type_of(block), "tool_result");
            any_result |= is;
            any_text |= !is && speaks(block);
            if (is && !status) status = add_result(p, &(place){&in, NULL, k}, block, i);
        }
        any_text |= json_is_string(content);
        if (!status) status = append_content(p, &in, content, VIEW("\n"), false, &spoken);
    }
    if (!status && spoken.len) status = make_text(p, (view){spoken.ptr, spoken.len}, &text);
    bytes_free(&spoken);
    if (status || (any_result && (!any_text || !text[0]))) return status;
    return message_add(p, &(cerium_message){.role = "user", .content = text}, (int32_t)t->from);
}

/* ---- the assistant's turns ---- */

/* Our signature contains the hidden text. */
static int add_thought(parser *p, const place *at, const json_t *block, size_t item)
{
    const char *text = "", *signature = "";
    bytes hidden = {.max = PROTOCOL_BODY_BYTES_MAX};
    bool ours = false;
    RETURN_IF(field_string(p, at, block, "thinking", &text));
    RETURN_IF(field_string(p, at, block, "signature", &signature));
    if (!text[0] && signature[0]) {
        int status = opaque_read(&hidden, view_of(signature), &ours);
        if (!status && ours) status = make_text(p, (view){hidden.ptr, hidden.len}, &text);
        bytes_free(&hidden);
        RETURN_IF(status);
    }
    if (!text[0]) return CERIUM_OK;
    return message_add(p, &(cerium_message){.role = "reasoning", .content = text}, (int32_t)item);
}

static int add_use(parser *p, const place *at, const json_t *block, size_t item)
{
    const char *id = NULL, *name = NULL, *input = "{}";
    const json_t *given = json_object_get(block, "input");
    RETURN_IF(field_name(p, at, block, "id", &id));
    RETURN_IF(field_name(p, at, block, "name", &name));
    if (given) RETURN_IF(make_json(p, given, &input));
    return call_add(p, &(cerium_message){"call", input, name, .call_id = id}, (int32_t)item);
}

/* Adjacent texts are joined. */
static int flush_content(parser *p, bytes *spoken, size_t item)
{
    const char *text = NULL;
    if (!spoken->len) return CERIUM_OK;
    RETURN_IF(make_text(p, (view){spoken->ptr, spoken->len}, &text));
    spoken->len = 0;
    return message_add(p, &(cerium_message){.role = "assistant", .content = text}, (int32_t)item);
}

static int add_content(parser *p, const place *at, const json_t *block, size_t item, bytes *spoken)
{
    const char *type = type_of(block);
    view text;
    RETURN_IF(expect_object(p, at, block));
    const bool is_thought = !strcmp(type, "thinking"), is_use = !strcmp(type, "tool_use");
    if (is_thought || is_use) {
        RETURN_IF(flush_content(p, spoken, item));
        return is_use ? add_use(p, at, block, item) : add_thought(p, at, block, item);
    }
    if (!strcmp(type, "redacted_thinking") || !strcmp(type, "tool_result")) return CERIUM_OK;
    RETURN_IF(block_text(p, at, block, &text));
    return bytes_append(spoken, text.ptr, text.len);
}

static int add_blocks(parser *p, const place *up, const turn *t, bytes *spoken)
{
    for (size_t i = t->from; i < t->to; i++) {
        const place at = {up, NULL, i}, in = {&at, "content", 0};
        const json_t *content = json_object_get(json_array_get(t->list, i), "content"), *block;
        size_t k;
        if (json_is_string(content))
            RETURN_IF(bytes_append(spoken, json_string_value(content),
                                   json_string_length(content)));
        else if (content && !json_is_null(content) && !json_is_array(content))
            return parse_fail_type(p, &in, "a string or an array of blocks", content);
        json_array_foreach(content, k, block)
            RETURN_IF(add_content(p, &(place){&in, NULL, k}, block, i, spoken));
    }
    return CERIUM_OK;
}

/* The last turn is continued if it is only text. */
static int add_assistant(parser *p, const place *up, const turn *t)
{
    const bool is_last = t->to == json_array_size(t->list);
    const size_t before = p->r->n_messages;
    bytes spoken = {.max = SIZE_MAX};
    int status = add_blocks(p, up, t, &spoken);
    if (!status && is_last && spoken.len && p->r->n_messages == before) {
        status = make_text(p, (view){spoken.ptr, spoken.len}, &p->r->prefill);
    } else {
        if (!status) status = flush_content(p, &spoken, t->from);
        if (!status && p->r->n_messages == before && !is_last)
            status = message_add(p, &(cerium_message){.role = "assistant", .content = ""},
                                 (int32_t)t->from);
    }
    bytes_free(&spoken);
    return status;
}

/* ---- the conversation ---- */

static int add_system(parser *p, const place *up, const turn *t)
{
    for (size_t i = t->from; i < t->to; i++) {
        const place at = {up, NULL, i}, in = {&at, "content", 0};
        const char *text = NULL;
        RETURN_IF(content_of(p, &in, json_object_get(json_array_get(t->list, i), "content"),
                             VIEW(""), false, &text));
        if (text[0])
            RETURN_IF(message_add(p, &(cerium_message){.role = "developer", .content = text},
                                  (int32_t)i));
    }
    return CERIUM_OK;
}

static int role_of(parser *p, const place *at, const json_t *message, const char **role)
{
    *role = NULL;
    RETURN_IF(expect_object(p, at, message));
    RETURN_IF(field_string(p, at, message, "role", role));
    if (!*role) return parse_fail_missing(p, &(place){at, "role", 0});
    if (strcmp(*role, "user") && strcmp(*role, "assistant") && strcmp(*role, "system"))
        return parse_fail_value(p, &(place){at, "role", 0}, *role,
                                "'user', 'assistant', and 'system'");
    return CERIUM_OK;
}

static int conversation_parse(parser *p)
{
    const place list = {NULL, "messages", 0};
    RETURN_IF(field_array(p, NULL, p->root, "messages", PROTOCOL_MESSAGES_MAX, &p->r->items));
    if (!p->r->items) return parse_fail_missing(p, &list);
    const size_t n = json_array_size(p->r->items);
    if (!n)
        return parse_fail(p, &list, "empty_array", "at least one message is required");
    for (turn t = {.list = p->r->items}; t.from < n; t.from = t.to) {
        RETURN_IF(role_of(p, &(place){&list, NULL, t.from}, json_array_get(t.list, t.from),
                          &t.role));
        for (t.to = t.from + 1; t.to < n; t.to++) {
            const char *role;
            RETURN_IF(role_of(p, &(place){&list, NULL, t.to}, json_array_get(t.list, t.to),
                              &role));
            if (strcmp(role, t.role)) break;
        }
        RETURN_IF(!strcmp(t.role, "user")       ? add_user(p, &list, &t)
                  : !strcmp(t.role, "assistant") ? add_assistant(p, &list, &t)
                                                 : add_system(p, &list, &t));
    }
    return CERIUM_OK;
}

static int system_parse(parser *p)
{
    const char *text = NULL;
    RETURN_IF(content_of(p, &(place){NULL, "system", 0}, json_object_get(p->root, "system"),
                         VIEW(""), true, &text));
    if (!text[0]) return CERIUM_OK;
    return message_add(p, &(cerium_message){.role = "system", .content = text}, -1);
}

/* ---- the rest ---- */

static int speed_parse(parser *p)
{
    const char *speed = "";
    RETURN_IF(field_string(p, NULL, p->root, "speed", &speed));
    if (!strcmp(speed, "fast")) p->r->class_ = CERIUM_CLASS_EDIT;
    return CERIUM_OK;
}

/* A conversation stored by the server: none is stored under this name; the SDKs then send all of
 * it, which is found in the cache. */
static int thread_parse(parser *p)
{
    json_t *thread = NULL;
    const place at = {NULL, "thread", 0};
    const char *type = "";
    RETURN_IF(field_object(p, NULL, p->root, at.key, &thread));
    RETURN_IF(field_string(p, &at, thread, "type", &type));
    if (strcmp(type, "continue")) return CERIUM_OK;
    return parse_fail(p, &at, "thread_not_found",
                      "threads are not held here: send all messages of the conversation");
}

int messages_parse(parser *p)
{
    const json_t *most = json_object_get(p->root, "max_tokens");
    if ((!most || json_is_null(most)) && !p->defaults->counts)
        return parse_fail_missing(p, &(place){NULL, "max_tokens", 0});
    RETURN_IF(thread_parse(p));
    RETURN_IF(tools_parse(p));
    RETURN_IF(system_parse(p));
    RETURN_IF(conversation_parse(p));
    RETURN_IF(thoughts_parse(p));
    RETURN_IF(speed_parse(p));
    return answer_format_parse(p);
}
