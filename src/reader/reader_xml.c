/* reader_xml.c - owns calls in the form of Qwen3-Coder, <function=name> with a tag for each
 * parameter, and their conversion to JSON: values are text, and the tool gives their types. */
#include "reader/reader_parts.h"

#include "base/json.h"

enum { TYPE_STRING = 1, TYPE_NULL = 2, TYPE_BOOLEAN = 4, TYPE_OTHER = 8, TYPE_ANY = 15 };

static bool takes_text(const cerium_reader *r) { return r->tool && !r->tool->parameters; }

/* ---- types ---- */

static unsigned type_bit(const json_t *name)
{
    const char *text = json_string_value(name);
    return !text                           ? TYPE_ANY
           : strcmp(text, "string") == 0   ? TYPE_STRING
           : strcmp(text, "null") == 0     ? TYPE_NULL
           : strcmp(text, "boolean") == 0  ? TYPE_BOOLEAN
                                           : TYPE_OTHER;
}

/* Choices are searched one level deep: deeper ones may be anything. */
static unsigned types_of(const json_t *schema, bool choices)
{
    const json_t *type = json_object_get(schema, "type"), *list = json_object_get(schema, "anyOf");
    size_t i;
    json_t *one;
    unsigned types = 0;
    if (!list) list = json_object_get(schema, "oneOf");
    if (json_is_string(type)) return type_bit(type);
    json_array_foreach(type, i, one) types |= type_bit(one);
    if (!types && choices)
        json_array_foreach(list, i, one) types |= types_of(one, false);
    return types ? types : TYPE_ANY;
}

/* A parameter unknown to the tool is text. */
static unsigned find_types(const cerium_reader *r)
{
    const json_t *properties = json_object_get(r->schema, "properties");
    const char *name;
    json_t *schema;
    json_object_foreach((json_t *)properties, name, schema)
        if (view_equal(view_of(name), (view){r->key, r->n_key})) return types_of(schema, true);
    return TYPE_STRING;
}

/* ---- values ---- */

static void put(cerium_reader *r, const char *text)
{
    reader_put(r, CERIUM_PART_ARGUMENTS, text, strlen(text));
}

static void put_escaped(cerium_reader *r, view text)
{
    char out[JSON_TEXT_MAX];
    for (size_t i = 0; i < text.len; i++)
        reader_put(r, CERIUM_PART_ARGUMENTS, out, json_escape_byte(text.ptr[i], out));
}

void reader_xml_value_begin(cerium_reader *r)
{
    r->types = find_types(r);
    r->value.len = 0;
    r->value_first = true;
    if (takes_text(r)) return;
    put(r, r->n_parameters++ ? ", \"" : "{\"");
    put_escaped(r, (view){r->key, r->n_key});
    put(r, "\": ");
    if (r->types == TYPE_STRING) put(r, "\"");
}

/* The kept bytes are text, and so is the rest. */
static void become_text(cerium_reader *r)
{
    put(r, "\"");
    put_escaped(r, (view){r->value.ptr, r->value.len});
    r->types = TYPE_STRING;
}

static bool may_be_null(view text)
{
    return view_starts(VIEW("null"), text) || view_starts(VIEW("None"), text);
}

void reader_xml_value_byte(cerium_reader *r, char c)
{
    bool line = r->value_first && c == '\n'; /* the one after the tag */
    r->value_first = false;
    if (line) return;
    if (takes_text(r)) {
        reader_put(r, CERIUM_PART_ARGUMENTS, &c, 1);
        return;
    }
    if (r->types != TYPE_STRING) {
        int status = bytes_append(&r->value, &c, 1);
        if (status == CERIUM_ERR_MEMORY && !r->status) r->status = status;
        bool text = r->types == (TYPE_STRING | TYPE_NULL) &&
                    !may_be_null((view){r->value.ptr, r->value.len});
        if (!status && !text) return;
        become_text(r);
        if (!status) return;
    }
    put_escaped(r, (view){&c, 1});
}

static bool equals(view text, const char *a, const char *b)
{
    return view_equal(text, view_of(a)) || view_equal(text, view_of(b));
}

static void put_json(cerium_reader *r, view text)
{
    json_scan scan = {0};
    for (size_t i = 0; i < text.len; i++) {
        char out[JSON_TEXT_MAX] = {text.ptr[i]};
        bool escape = json_scan_in_string(&scan) && (unsigned char)out[0] < 0x20;
        size_t n = escape ? json_escape_byte(out[0], out) : 1;
        json_scan_byte(&scan, text.ptr[i]);
        reader_put(r, CERIUM_PART_ARGUMENTS, out, n);
    }
}

void reader_xml_value_end(cerium_reader *r)
{
    view text = {r->value.ptr, r->value.len};
    if (takes_text(r)) return;
    if (r->types == TYPE_STRING) {
        put(r, "\"");
        return;
    }
    text = view_trim(text, " \t\r\n");
    if ((r->types & TYPE_NULL) && equals(text, "null", "None")) put(r, "null");
    else if ((r->types & TYPE_BOOLEAN) && equals(text, "true", "True")) put(r, "true");
    else if ((r->types & TYPE_BOOLEAN) && equals(text, "false", "False")) put(r, "false");
    else if ((r->types & TYPE_OTHER) && json_is_whole(text)) put_json(r, text);
    else {
        become_text(r);
        put(r, "\"");
    }
}

/* ---- tags ---- */

static reader_state in_name, in_key, in_value, between, after_function;

void reader_xml_function(cerium_reader *r)
{
    json_error_t error;
    r->held.len = 0;
    r->tool = reader_find_tool(r);
    json_decref(r->schema);
    r->schema = NULL;
    if (r->tool && r->tool->parameters)
        r->schema = json_read(view_of(r->tool->parameters), 0, &error);
    reader_call(r);
    r->n_parameters = 0;
}

void reader_xml_arguments_end(cerium_reader *r)
{
    if (!takes_text(r)) put(r, r->n_parameters ? "}" : "{}");
}

static bool in_name(cerium_reader *r, char c)
{
    bool held = reader_hold(r, c);
    if (held && c == '>' && r->n_name) {
        reader_xml_function(r);
        r->state = between;
        return true;
    }
    if (!held || c == '>' || c == '\n' || c == '<' || r->n_name == sizeof r->name) {
        if (held) r->held.len--;
        reader_give_up(r);
        return false;
    }
    r->name[r->n_name++] = c;
    return true;
}

/* Text between parameters that is not one is put out after the call. */
static bool between(cerium_reader *r, char c)
{
    static const char *const marks[] = {"<parameter=", "</function>", "</tool_call>"};
    char out;
    int mark;
    r->window[r->n_window++] = c;
    while ((mark = reader_mark(r, marks, ARRAY_LEN(marks), &out)) == -1)
        if (!byte_is_blank(out) || r->held.len) reader_hold(r, out);
    if (mark == 0) {
        r->n_key = 0;
        r->state = in_key;
    } else if (mark > 0) {
        reader_xml_arguments_end(r);
        reader_call_end(r);
        reader_give_up(r);
        if (mark == 1) {
            r->closing = true;
            r->state = after_function;
        }
    }
    return true;
}

static bool in_key(cerium_reader *r, char c)
{
    if (c != '>') {
        if (r->n_key < sizeof r->key) r->key[r->n_key++] = c;
        return true;
    }
    reader_xml_value_begin(r);
    r->state = in_value;
    return true;
}

static bool in_value(cerium_reader *r, char c)
{
    static const char *const marks[] = {"\n</parameter>", "</parameter>"};
    char out;
    int mark;
    r->window[r->n_window++] = c;
    while ((mark = reader_mark(r, marks, ARRAY_LEN(marks), &out)) == -1)
        reader_xml_value_byte(r, out);
    if (mark < 0) return true;
    reader_xml_value_end(r);
    r->state = between;
    return true;
}

/* </tool_call> belongs to the call. */
static bool after_function(cerium_reader *r, char c)
{
    static const char tag[] = "</tool_call>";
    bool wanted = c == tag[r->n_window] || (byte_is_blank(c) && !r->n_window);
    if (!wanted || !reader_hold(r, c)) {
        r->n_window = 0;
        reader_give_up(r);
        return false;
    }
    if (!byte_is_blank(c) && ++r->n_window == sizeof tag - 1) {
        r->n_window = 0;
        reader_after_call(r);
    }
    return true;
}

void reader_xml_begin(cerium_reader *r)
{
    r->n_name = 0;
    r->called = false;
    r->state = in_name;
}

void reader_xml_value_flush(cerium_reader *r)
{
    for (size_t i = 0; i < r->n_window; i++) reader_xml_value_byte(r, r->window[i]);
    if (r->value.len && r->types != TYPE_STRING && !takes_text(r))
        put_escaped(r, (view){r->value.ptr, r->value.len});
}

void reader_xml_end(cerium_reader *r)
{
    if (r->state == in_value) reader_xml_value_flush(r);
}
