/* jinja_json.c - owns JSON in templates: the form of Python's json.dumps(), and values of
 * jansson. */
#include "base/json.h"
#include "template/jinja_value.h"

/* ---- reading ---- */

static jinja_value text_of(jinja_run *r, view text, jinja_origin origin, bool copy)
{
    if (!copy || !text.len) return jinja_text(text, origin);
    char *to = jinja_room(r, text.len);
    if (!to) return jinja_literal("");
    memcpy(to, text.ptr, text.len);
    return jinja_text((view){to, text.len}, origin);
}

static jinja_value read(jinja_run *r, const json_t *json, jinja_origin origin, bool copy)
{
    jinja_value out = jinja_undefined(VIEW(""));
    if (!json || !jinja_step(r, 1)) return out;
    switch (json_typeof(json)) {
    case JSON_NULL: return jinja_none();
    case JSON_TRUE: return jinja_bool(true);
    case JSON_FALSE: return jinja_bool(false);
    case JSON_INTEGER: return jinja_int(json_integer_value(json));
    case JSON_REAL: return jinja_real(json_real_value(json));
    case JSON_STRING:
        return text_of(r, (view){json_string_value(json), json_string_length(json)}, origin, copy);
    case JSON_ARRAY:
    case JSON_OBJECT: break;
    }
    if (r->depth >= JINJA_DEPTH_MAX) {
        jinja_exceed(r, 0, "values that are nested too deep");
        return out;
    }
    r->depth++;
    if (json_is_array(json)) {
        out = jinja_list(r);
        for (size_t i = 0; i < json_array_size(json) && !r->status; i++)
            jinja_append(r, out, read(r, json_array_get(json, i), origin, copy));
    } else {
        const char *key;
        json_t *item;
        out = jinja_map(r);
        json_object_foreach((json_t *)(uintptr_t)json, key, item) {
            if (r->status) break;
            jinja_value value = read(r, item, origin, copy);
            jinja_put_value(r, out, text_of(r, view_of(key), origin, copy), value);
        }
    }
    r->depth--;
    return out;
}

jinja_value jinja_of_json(jinja_run *r, const json_t *json, jinja_origin origin)
{
    CHECK(r && json);
    return read(r, json, origin, false);
}

jinja_value jinja_from_json(jinja_run *r, jinja_value text, uint32_t line)
{
    json_error_t error;
    json_t *json = json_read(jinja_view(text), JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!json) {
        if (json_error_code(&error) == json_error_out_of_memory) jinja_no_memory(r);
        else jinja_fail(r, line, "from_json: this is not JSON");
        return jinja_undefined(VIEW(""));
    }
    jinja_origin origin = text.marks ? JINJA_MESSAGE : (jinja_origin)text.origin;
    jinja_value out = read(r, json, origin, true);
    json_decref(json);
    return out;
}

/* ---- writing ---- */

typedef struct {
    jinja_run *r;
    jinja_sink sink;
    const jinja_json_style *style;
} writer;

/* Text from a value is user text, including quotes and braces. */
static void put(writer *w, view text) { jinja_sink_put(w->r, &w->sink, text, JINJA_MESSAGE); }

static void put_escape(writer *w, view character)
{
    unsigned char c = (unsigned char)character.ptr[0];
    char out[16];
    static const char plain[] = "\"\\\n\r\t\f\b", names[] = "\"\\nrtfb";
    const char *known = c ? strchr(plain, (char)c) : NULL;
    uint32_t code = c;
    for (size_t i = 1; i < character.len; i++)
        code = (i == 1 ? code & (0xFFu >> (character.len + 1)) : code) << 6 |
               ((unsigned char)character.ptr[i] & 0x3F);
    if (known) snprintf(out, sizeof out, "\\%c", names[known - plain]);
    else if (code < 0x10000) snprintf(out, sizeof out, "\\u%04x", code);
    else
        snprintf(out, sizeof out, "\\u%04x\\u%04x", 0xD800 + ((code - 0x10000) >> 10),
                 0xDC00 + ((code - 0x10000) & 0x3FF));
    put(w, view_of(out));
}

static void put_string(writer *w, view text)
{
    size_t from = 0;
    put(w, VIEW("\""));
    for (size_t at = 0, n; at < text.len; at += n) {
        unsigned char c = (unsigned char)text.ptr[at];
        n = 1;
        if (c >= ' ' && c != '"' && c != '\\' && (c < 0x80 || !w->style->ascii)) continue;
        if (c >= 0x80) n = jinja_character((view){text.ptr + at, text.len - at});
        put(w, (view){text.ptr + from, at - from});
        put_escape(w, (view){text.ptr + at, n});
        from = at + n;
    }
    put(w, (view){text.ptr + from, text.len - from});
    put(w, VIEW("\""));
}

/* One step for several blanks: a template may ask for as many as an integer allows. */
static void put_spaces(writer *w, int64_t n)
{
    static const view some = VIEW("                                ");
    for (; n > 0 && jinja_step(w->r, 1); n -= (int64_t)some.len)
        put(w, (view){some.ptr, n < (int64_t)some.len ? (size_t)n : some.len});
}

static void put_line(writer *w, size_t level)
{
    if (w->style->indent < 0) return;
    put(w, VIEW("\n"));
    for (size_t i = 0; i < level && jinja_step(w->r, 1); i++) {
        put(w, w->style->indent_text);
        if (!w->style->indent_text.len) put_spaces(w, w->style->indent);
    }
}

static void put_value(writer *w, jinja_value v, size_t level);

static void put_items(writer *w, const jinja_items *in, size_t level)
{
    put(w, VIEW("["));
    for (size_t i = 0; i < in->n && jinja_step(w->r, 1); i++) {
        if (i) put(w, w->style->item);
        put_line(w, level + 1);
        put_value(w, in->items[i], level + 1);
    }
    if (in->n) put_line(w, level);
    put(w, VIEW("]"));
}

/* Keys that are not strings become strings, like in json.dumps(). */
static void put_key(writer *w, jinja_value key)
{
    if (jinja_is(key, KIND_STRING)) {
        put_string(w, jinja_view(key));
    } else if (jinja_is_number(key) || jinja_is(key, KIND_NONE)) {
        put(w, VIEW("\""));
        put_value(w, key, 0);
        put(w, VIEW("\""));
    } else {
        jinja_fail(w->r, 0, "tojson: a key cannot be a %s", jinja_kind_name(key));
    }
}

static void put_entries(writer *w, jinja_value v, size_t level)
{
    const jinja_entries *in = jinja_entries_of(v);
    jinja_value keys = {0};
    put(w, VIEW("{"));
    if (w->style->sort_keys) {
        static const jinja_args none = {0};
        keys = jinja_run_filter(w->r, jinja_find_filter(VIEW("sort")), v, &none);
    }
    for (size_t i = 0; i < in->n && jinja_step(w->r, 1); i++) {
        jinja_value key = w->style->sort_keys ? jinja_items_of(keys)->items[i]
                                              : in->entries[i].key;
        if (i) put(w, w->style->item);
        put_line(w, level + 1);
        put_key(w, key);
        put(w, w->style->key);
        const jinja_value *value = w->style->sort_keys ? jinja_find(w->r, v, key)
                                                       : &in->entries[i].value;
        if (value) put_value(w, *value, level + 1);
    }
    if (in->n) put_line(w, level);
    put(w, VIEW("}"));
}

static void put_value(writer *w, jinja_value v, size_t level)
{
    char number[JINJA_NUMBER_BYTES];
    if (w->r->status) return;
    if (w->r->depth >= JINJA_DEPTH_MAX) {
        jinja_exceed(w->r, 0, "tojson: values that are nested too deep");
        return;
    }
    w->r->depth++;
    switch ((jinja_kind)v.kind) {
    case KIND_NONE: put(w, VIEW("null")); break;
    case KIND_BOOL: put(w, v.truth ? VIEW("true") : VIEW("false")); break;
    case KIND_INT:
        snprintf(number, sizeof number, "%lld", (long long)v.integer);
        put(w, view_of(number));
        break;
    case KIND_REAL:
        jinja_write_real(number, v.real);
        put(w, view_of(number));
        break;
    case KIND_STRING: put_string(w, jinja_view(v)); break;
    case KIND_LIST:
    case KIND_TUPLE: put_items(w, jinja_items_of(v), level); break;
    case KIND_MAP: put_entries(w, v, level); break;
    case KIND_UNDEFINED:
        jinja_fail(w->r, 0, "tojson: '%.*s' is undefined", (int)(v.len < 80 ? v.len : 80),
                   v.text ? v.text : "");
        break;
    case KIND_NAMESPACE:
    case KIND_MACRO:
    case KIND_METHOD:
    case KIND_FUNCTION:
    case KIND_LOOP: jinja_fail(w->r, 0, "tojson: a %s is not JSON", jinja_kind_name(v)); break;
    }
    w->r->depth--;
}

jinja_value jinja_to_json(jinja_run *r, jinja_value v, const jinja_args *args, size_t first)
{
    jinja_value none = jinja_none();
    jinja_value indent = jinja_arg(args, first + 1, "indent", none);
    jinja_value separators = jinja_arg(args, first + 2, "separators", none);
    jinja_json_style style = {.indent = -1, .item = VIEW(", "), .key = VIEW(": ")};
    style.ascii = jinja_truth(jinja_arg(args, first, "ensure_ascii", none));
    style.sort_keys = jinja_truth(jinja_arg(args, first + 3, "sort_keys", none));
    if (jinja_is(indent, KIND_INT)) {
        style.indent = indent.integer < 0 ? 0 : indent.integer;
    } else if (jinja_is(indent, KIND_STRING)) {
        style.indent = 0;
        style.indent_text = jinja_view(indent);
    }
    if (style.indent >= 0) style.item = VIEW(",");
    if (jinja_is_sequence(separators) && jinja_items_of(separators)->n == 2) {
        const jinja_value *two = jinja_items_of(separators)->items;
        if (!jinja_is(two[0], KIND_STRING) || !jinja_is(two[1], KIND_STRING))
            jinja_fail(r, args->line, "tojson: separators are two strings");
        else style.item = jinja_view(two[0]), style.key = jinja_view(two[1]);
    }
    writer w = {.r = r, .style = &style};
    put_value(&w, v, 0);
    return jinja_sink_take(r, &w.sink);
}
