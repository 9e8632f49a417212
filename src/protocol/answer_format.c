/* answer_format.c - reads the format that an answer must match, in the fields of every API:
 * text.format, response_format, llama.cpp's grammar and json_schema, vLLM's guided_* and
 * structured_outputs, Ollama's format. */
#include "base/json.h"
#include "protocol/parse.h"
#include "protocol/texts.h"
#include "protocol/tool_guide.h"

typedef enum { AS_SCHEMA, AS_OBJECT, AS_GBNF, AS_REGEX, AS_CHOICE, AS_GRAMMAR } format_kind;

typedef struct {
    const place *up; /* of the object that contains it */
    json_t *in;
    const char *key;
    format_kind kind;
} format_field;

/* ---- what holds ---- */

/* Conversations also show the schema to the model, as the last text before its answer. */
static int tell_schema(parser *p)
{
    const char *order = NULL;
    json_out t = {.b.max = SIZE_MAX};
    if (!p->r->talks) return CERIUM_OK;
    json_out_put(&t, view_of(text_json_schema));
    json_out_value(&t, p->r->schema);
    int status = t.status ? t.status : make_text(p, json_out_view(&t), &order);
    json_out_free(&t);
    if (status) return status;
    return message_add(p, &(cerium_message){.role = "developer", .content = order}, -1);
}

static int take_object(parser *p)
{
    p->r->wants_object = true;
    if (!p->r->talks) return CERIUM_OK;
    return message_add(p, &(cerium_message){.role = "developer", .content = text_json_object}, -1);
}

static int take_once(parser *p, const place *at)
{
    char path[96];
    if (!protocol_has_format(p->r)) return CERIUM_OK;
    place_print(at, path, sizeof path);
    return parse_fail(p, at, "invalid_value",
                      "Invalid '%s': another field says already what the answer has to match; "
                      "send one of them.", path);
}

/* A schema is an object, or true or false; a schema given as text is parsed, and the request owns
 * it. */
static int take_schema(parser *p, const place *at, json_t *in, const char *key)
{
    json_t *schema = json_object_get(in, key);
    if (json_is_string(schema)) {
        json_t *read = json_read(
            (view){json_string_value(schema), json_string_length(schema)}, JSON_ALLOW_NUL, NULL);
        if (!read || json_object_set_new(in, key, read))
            return parse_fail(p, at, "invalid_json_schema",
                              "Invalid schema in '%s': the text is not a JSON object.", key);
        schema = read;
    }
    if (!json_is_object(schema)) return parse_fail_type(p, at, "an object", schema);
    p->r->schema = schema;
    return tell_schema(p);
}

static int take_grammar(parser *p, const place *at, const json_t *value, const char *syntax)
{
    if (!json_is_string(value)) return parse_fail_type(p, at, "a string", value);
    p->r->grammar.syntax = syntax;
    return string_text(p, value, &p->r->grammar.text);
}

/* GBNF has ::= between a rule's name and its body, Lark has a colon. */
static int take_any_grammar(parser *p, const place *at, const json_t *value)
{
    const char *text = json_string_value(value);
    return take_grammar(p, at, value, text && strstr(text, "::=") ? "gbnf" : "lark");
}

/* Exactly one of these texts, as a grammar. */
static int take_choices(parser *p, const place *at, const json_t *list)
{
    json_out t = {.b.max = PROTOCOL_BODY_BYTES_MAX};
    if (!json_is_array(list) || !json_array_size(list))
        return parse_fail_type(p, at, "an array of strings", list);
    json_out_literal(&t, "start: ");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        if (!json_is_string(one) || !json_string_length(one)) {
            json_out_free(&t);
            return parse_fail_type(p, &(place){at, NULL, i}, "a string that is not empty", one);
        }
        if (i) json_out_literal(&t, " | ");
        json_out_quoted(&t, (view){json_string_value(one), json_string_length(one)});
    }
    int status = t.status ? t.status : make_text(p, json_out_view(&t), &p->r->grammar.text);
    p->r->grammar.syntax = "lark";
    json_out_free(&t);
    return status;
}

static int take(parser *p, const format_field *from)
{
    char path[96];
    json_t *value = json_object_get(from->in, from->key);
    const place at = {from->up, from->key, 0};
    if (!value || json_is_null(value)) return CERIUM_OK;
    if (from->kind == AS_OBJECT && json_is_false(value)) return CERIUM_OK;
    if (json_is_string(value) && !json_string_length(value)) return CERIUM_OK; /* none */
    RETURN_IF(take_once(p, &at));
    place_print(&at, path, sizeof path);
    RETURN_IF(make_text(p, view_of(path), &p->r->shape_field));
    switch (from->kind) {
    case AS_SCHEMA: return take_schema(p, &at, from->in, from->key);
    case AS_OBJECT: return take_object(p);
    case AS_GBNF: return take_grammar(p, &at, value, "gbnf");
    case AS_REGEX: return take_grammar(p, &at, value, "regex");
    case AS_CHOICE: return take_choices(p, &at, value);
    case AS_GRAMMAR: return take_any_grammar(p, &at, value);
    }
    return CERIUM_OK;
}

/* ---- the forms ---- */

/* {"type": "json_schema", ...}: Chat has the schema in an object of its own, llama.cpp's clients
 * beside the type. */
static int format_take(parser *p, const place *at, json_t *format, bool nested)
{
    const place inner = {at, "json_schema", 0};
    const char *type = "text";
    json_t *from = NULL;
    RETURN_IF(field_string(p, at, format, "type", &type));
    if (!strcmp(type, "text")) return CERIUM_OK;
    if (!strcmp(type, "json_object")) {
        const format_field schema = {at, format, "schema", AS_SCHEMA};
        RETURN_IF(take(p, &schema));
        return p->r->schema ? CERIUM_OK : take_object(p);
    }
    if (strcmp(type, "json_schema"))
        return parse_fail_value(p, &(place){at, "type", 0}, type,
                                "'json_object', 'json_schema', and 'text'");
    if (nested) RETURN_IF(field_object(p, at, format, inner.key, &from));
    if (nested && !from && !json_object_get(format, "schema"))
        return parse_fail_missing(p, &inner);
    const place *where = from ? &inner : at;
    if (!from) from = format;
    RETURN_IF(field_bool(p, where, from, "strict", &p->r->is_strict));
    if (!json_object_get(from, "schema"))
        return parse_fail_missing(p, &(place){where, "schema", 0});
    return take_schema(p, &(place){where, "schema", 0}, from, "schema");
}

static int text_format(parser *p)
{
    const place outer = {NULL, "text", 0}, at = {&outer, "format", 0};
    json_t *holder = NULL, *format = NULL;
    RETURN_IF(field_object(p, NULL, p->root, "text", &holder));
    RETURN_IF(field_object(p, &outer, holder, "format", &format));
    return format ? format_take(p, &at, format, false) : CERIUM_OK;
}

static int response_format(parser *p)
{
    const place at = {NULL, "response_format", 0};
    json_t *format = NULL;
    RETURN_IF(field_object(p, NULL, p->root, at.key, &format));
    return format ? format_take(p, &at, format, true) : CERIUM_OK;
}

/* Anthropic's: output_config.format, whose schema is always enforced. */
static int output_format(parser *p)
{
    const place outer = {NULL, "output_config", 0}, at = {&outer, "format", 0};
    json_t *config = NULL, *format = NULL;
    RETURN_IF(field_object(p, NULL, p->root, outer.key, &config));
    RETURN_IF(field_object(p, &outer, config, at.key, &format));
    p->r->is_strict = format != NULL;
    return format ? format_take(p, &at, format, false) : CERIUM_OK;
}

/* Ollama's: "json", or a schema. */
static int ollama_format(parser *p)
{
    const json_t *format = json_object_get(p->root, "format");
    const format_field schema = {NULL, p->root, "format", AS_SCHEMA};
    if (json_is_string(format) && !strcmp(json_string_value(format), "json"))
        return take_object(p);
    return take(p, &schema);
}

/* The fields of llama.cpp and vLLM beside OpenAI's. */
static int extended(parser *p)
{
    json_t *outputs = NULL;
    const place at = {NULL, "structured_outputs", 0};
    RETURN_IF(field_object(p, NULL, p->root, at.key, &outputs));
    const format_field fields[] = {
        {NULL, p->root, "grammar", AS_GBNF},          {NULL, p->root, "json_schema", AS_SCHEMA},
        {NULL, p->root, "guided_json", AS_SCHEMA},    {NULL, p->root, "guided_regex", AS_REGEX},
        {NULL, p->root, "guided_choice", AS_CHOICE},  {NULL, p->root, "guided_grammar", AS_GRAMMAR},
        {NULL, p->root, "guided_json_object", AS_OBJECT},
        {&at, outputs, "json", AS_SCHEMA},            {&at, outputs, "regex", AS_REGEX},
        {&at, outputs, "choice", AS_CHOICE},          {&at, outputs, "grammar", AS_GRAMMAR},
        {&at, outputs, "json_object", AS_OBJECT},
    };
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) RETURN_IF(take(p, &fields[i]));
    return CERIUM_OK;
}

int answer_format_parse(parser *p)
{
    switch (p->r->api) {
    case PROTOCOL_RESPONSES:
    case PROTOCOL_COMPACT: RETURN_IF(text_format(p)); break;
    case PROTOCOL_CHAT: RETURN_IF(response_format(p)); break;
    case PROTOCOL_COMPLETIONS:
    case PROTOCOL_COMPLETION: RETURN_IF(response_format(p)); break;
    case PROTOCOL_INFILL: break;
    case PROTOCOL_EDITS:
    case PROTOCOL_EMBEDDINGS:
    case PROTOCOL_OLLAMA_EMBED: return CERIUM_OK;
    case PROTOCOL_MESSAGES: return output_format(p);
    case PROTOCOL_OLLAMA_CHAT:
    case PROTOCOL_OLLAMA_GENERATE: return ollama_format(p);
    }
    return extended(p);
}
