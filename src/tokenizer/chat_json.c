/* chat_json.c - owns JSON in prompts: in the form of the published templates' tojson, which the
 * models were trained on. */
#include "tokenizer/chat_forms.h"

#include "base/json.h"

/* ---- reading ---- */

/* Length of the character at the beginning of text; 0: it is not UTF-8 (RFC 3629). */
static size_t character_len(view text)
{
    const unsigned char *p = (const unsigned char *)text.ptr;
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (n == 0 || n > text.len || p[0] > 0xF4) return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F)) return 0; /* surrogates */
    if ((p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F)) return 0;
    return n;
}

json_t *chat_json_string(view text)
{
    bytes clean = {.max = SIZE_MAX};
    size_t good = 0, n;
    int status = CERIUM_OK;
    while (good < text.len && (n = character_len((view){text.ptr + good, text.len - good})))
        good += n;
    if (good == text.len) return json_stringn_nocheck(text.ptr ? text.ptr : "", text.len);
    for (size_t i = 0; !status && i < text.len; i += n ? n : 1) {
        n = character_len((view){text.ptr + i, text.len - i});
        status = n ? bytes_append(&clean, text.ptr + i, n)
                   : bytes_append(&clean, "\xEF\xBF\xBD", 3); /* the replacement character */
    }
    json_t *out = status ? NULL : json_stringn_nocheck(clean.ptr, clean.len);
    bytes_free(&clean);
    return out;
}

json_t *chat_json_parse(view text, int *status)
{
    json_error_t error;
    json_t *out = json_read(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!out)
        *status = json_error_code(&error) == json_error_out_of_memory ? CERIUM_ERR_MEMORY
                                                                      : CERIUM_ERR_FORMAT;
    return out;
}

json_t *chat_tool_spec(const cerium_tool *tool, int *status)
{
    static const char one_text[] =
        "{\"type\": \"object\", \"properties\": {\"input\": {\"type\": \"string\"}}, "
        "\"required\": [\"input\"]}";
    *status = CERIUM_OK;
    json_t *parameters = chat_json_parse(view_of(tool->parameters ? tool->parameters : one_text),
                                         status);
    if (!parameters) return NULL;
    json_t *function = json_object(), *spec = json_object();
    bool whole = function && spec &&
                 !json_object_set_new(function, "name", chat_json_string(view_of(tool->name)));
    if (whole && tool->description)
        whole = !json_object_set_new(function, "description",
                                     chat_json_string(view_of(tool->description)));
    whole = whole && !json_object_set(function, "parameters", parameters) &&
            !json_object_set_new(spec, "type", json_string("function")) &&
            !json_object_set(spec, "function", function);
    json_decref(parameters);
    json_decref(function);
    if (whole) return spec;
    json_decref(spec);
    *status = CERIUM_ERR_MEMORY;
    return NULL;
}

/* ---- writing ---- */

/* jansson writes an escape in one piece, and its capital digits differ from Python's. */
static int take_json(const char *text, size_t len, void *user)
{
    char escape[6];
    if (len == sizeof escape && text[0] == '\\' && text[1] == 'u') {
        for (size_t i = 0; i < len; i++)
            escape[i] = text[i] >= 'A' && text[i] <= 'F' ? (char)(text[i] - 'A' + 'a') : text[i];
        text = escape;
    }
    prompt_text(user, (view){text, len});
    return 0;
}

void chat_json(prompt *p, const json_t *value, size_t indent)
{
    enum { DIGITS = 15 }; /* as many digits as every decimal keeps through a double */
    size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(DIGITS) | JSON_INDENT(indent);
    if (json_dump_callback(value, take_json, p, flags)) prompt_fail(p, CERIUM_ERR_MEMORY);
}

/* ---- arguments of a call ---- */

static const chat_tool *find_tool(const talk *k, view name)
{
    for (size_t i = 0; i < k->n_tools; i++)
        if (view_equal(view_of(k->tools[i].name), name)) return &k->tools[i];
    return NULL;
}

static json_t *input_object(const talk *k, view text)
{
    json_t *out = json_object();
    if (!out || json_object_set_new(out, "input", chat_json_string(text))) {
        prompt_fail(k->p, CERIUM_ERR_MEMORY);
        json_decref(out);
        out = NULL;
    }
    return out;
}

/* NULL: write them unchanged: broken JSON for a tool that takes JSON. */
static json_t *read_arguments(const talk *k, const piece *call)
{
    const chat_tool *tool = find_tool(k, call->name);
    int status = CERIUM_OK;
    if (tool && tool->free_text) return input_object(k, call->content);
    json_t *value = chat_json_parse(call->content.len ? call->content : VIEW("{}"), &status);
    if (status == CERIUM_ERR_MEMORY) prompt_fail(k->p, status);
    if (!tool && !json_is_object(value)) {
        json_decref(value);
        value = input_object(k, call->content);
    }
    return value;
}

void chat_arguments(const talk *k, const piece *call)
{
    json_t *value = read_arguments(k, call);
    if (value) chat_json(k->p, value, 0);
    else prompt_text(k->p, call->content);
    json_decref(value);
}

json_t *chat_arguments_object(const talk *k, const piece *call)
{
    json_t *value = read_arguments(k, call);
    if (json_is_object(value)) return value;
    json_decref(value);
    return input_object(k, call->content);
}
