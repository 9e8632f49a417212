/* jinja_string.c - owns strings whose bytes record their origin: cutting, joining, and writing
 * other values as text. */
#include <math.h>

#include "template/jinja_value.h"

/* ---- characters ---- */

size_t jinja_character(view text)
{
    unsigned char c = (unsigned char)text.ptr[0];
    size_t n = c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    if (n > text.len) return 1;
    for (size_t i = 1; i < n; i++)
        if ((text.ptr[i] & 0xC0) != 0x80) return 1;
    return n;
}

size_t jinja_characters(view text)
{
    size_t n = 0;
    for (size_t at = 0; at < text.len; n++)
        at += (unsigned char)text.ptr[at] < 0x80
                  ? 1 : jinja_character((view){text.ptr + at, text.len - at});
    return n;
}

size_t jinja_offset(view text, size_t i)
{
    size_t at = 0;
    for (; i && at < text.len; i--) at += jinja_character((view){text.ptr + at, text.len - at});
    return at;
}

static uint32_t code_of(view character)
{
    const unsigned char *p = (const unsigned char *)character.ptr;
    switch (character.len) {
    case 1: return p[0];
    case 2: return (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    case 3: return (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    default:
        return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 |
               (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
    }
}

bool jinja_is_space(view character)
{
    uint32_t c = code_of(character);
    return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F) || c == 0x85 ||
           c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/* ---- cutting ---- */

jinja_value jinja_part(jinja_value s, size_t from, size_t len)
{
    CHECK(from <= s.len && len <= s.len - from);
    s.text += from;
    s.len = (uint32_t)len;
    if (s.marks) s.marks += from;
    return s;
}

static bool is_stripped(view character, const jinja_value *chars)
{
    if (!chars) return jinja_is_space(character);
    for (size_t at = 0, n; at < chars->len; at += n) {
        n = jinja_character((view){chars->text + at, chars->len - at});
        if (view_equal(character, (view){chars->text + at, n})) return true;
    }
    return false;
}

jinja_value jinja_strip(jinja_value s, const jinja_value *chars, bool left, bool right)
{
    while (left && s.len) {
        size_t n = jinja_character(jinja_view(s));
        if (!is_stripped((view){s.text, n}, chars)) break;
        s = jinja_part(s, n, s.len - n);
    }
    while (right && s.len) {
        size_t n = 1;
        while (n < 4 && n < s.len && (s.text[s.len - n] & 0xC0) == 0x80) n++;
        if (jinja_character((view){s.text + s.len - n, n}) != n) n = 1;
        if (!is_stripped((view){s.text + s.len - n, n}, chars)) break;
        s = jinja_part(s, 0, s.len - n);
    }
    return s;
}

/* ---- joining ---- */

/* Text and marks of the bytes of s one after another. */
static void copy_string(char *text, uint8_t *marks, jinja_value s)
{
    if (!s.len) return;
    memcpy(text, s.text, s.len);
    if (marks && s.marks) memcpy(marks, s.marks, s.len);
    else if (marks) memset(marks, s.origin, s.len);
}

jinja_value jinja_concat(jinja_run *r, const jinja_value *list, size_t n)
{
    size_t len = 0;
    bool mixed = false;
    const jinja_value *first = NULL;
    for (size_t i = 0; i < n; i++) {
        CHECK(jinja_is(list[i], KIND_STRING));
        if (!list[i].len) continue;
        if (!first) first = &list[i];
        mixed = mixed || list[i].marks || list[i].origin != first->origin;
        len += list[i].len;
    }
    if (!first) return jinja_literal("");
    if (first->len == len) return *first;
    if (len > JINJA_OUTPUT_BYTES_MAX) jinja_exceed(r, 0, "the template makes too long a string");
    char *text = jinja_step(r, n + len / 64) ? jinja_room(r, len) : NULL;
    uint8_t *marks = text && mixed ? jinja_room(r, len) : NULL;
    if (!text || (mixed && !marks)) return jinja_literal("");
    for (size_t i = 0, at = 0; i < n; at += list[i++].len)
        copy_string(text + at, marks ? marks + at : NULL, list[i]);
    jinja_value out = jinja_text((view){text, len}, first->origin);
    out.marks = marks;
    return out;
}

jinja_value jinja_join(jinja_run *r, jinja_value a, jinja_value b)
{
    const jinja_value both[] = {a, b};
    return jinja_concat(r, both, ARRAY_LEN(both));
}

/* ---- sinks ---- */

void jinja_sink_put(jinja_run *r, jinja_sink *sink, view text, jinja_origin origin)
{
    if (r->status || !text.len) return;
    if (!sink->text.max) sink->text.max = JINJA_OUTPUT_BYTES_MAX;
    r->steps += text.len / 64;
    if (sink->n && sink->pieces[sink->n - 1].origin == origin) {
        sink->pieces[sink->n - 1].end += text.len;
    } else {
        void *pieces = jinja_grow(r, sink->pieces, sink->n, &sink->cap, sizeof *sink->pieces);
        if (!pieces) return;
        sink->pieces = pieces;
        sink->pieces[sink->n++] = (jinja_piece){sink->text.len + text.len, origin};
    }
    int status = bytes_append(&sink->text, text.ptr, text.len);
    if (status == CERIUM_ERR_CAPACITY) jinja_exceed(r, 0, "the template writes too much");
    else if (status) jinja_no_memory(r);
}

void jinja_sink_value(jinja_run *r, jinja_sink *sink, jinja_value v)
{
    if (!jinja_is(v, KIND_STRING)) v = jinja_string(r, v);
    if (!v.marks) {
        jinja_sink_put(r, sink, jinja_view(v), (jinja_origin)v.origin);
        return;
    }
    for (size_t at = 0, end; at < v.len; at = end) {
        for (end = at + 1; end < v.len && v.marks[end] == v.marks[at];) end++;
        jinja_sink_put(r, sink, (view){v.text + at, end - at}, (jinja_origin)v.marks[at]);
    }
}

jinja_value jinja_sink_take(jinja_run *r, jinja_sink *sink)
{
    jinja_value out = jinja_literal("");
    size_t len = sink->text.len;
    char *text = len ? jinja_room(r, len) : NULL;
    uint8_t *marks = text && sink->n > 1 ? jinja_room(r, len) : NULL;
    if (text && (marks || sink->n == 1)) {
        memcpy(text, sink->text.ptr, len);
        size_t from = 0;
        for (size_t i = 0; marks && i < sink->n; from = sink->pieces[i++].end)
            memset(marks + from, sink->pieces[i].origin, sink->pieces[i].end - from);
        out = jinja_text((view){text, len}, sink->pieces[0].origin);
        out.marks = marks;
    }
    jinja_sink_free(sink);
    return out;
}

void jinja_sink_free(jinja_sink *sink)
{
    bytes_free(&sink->text);
    *sink = (jinja_sink){0};
}

/* ---- values as text ---- */

void jinja_write_real(char out[JINJA_NUMBER_BYTES], double x)
{
    char digits[JINJA_NUMBER_BYTES];
    int precision = 0;
    if (isnan(x) || isinf(x)) {
        snprintf(out, JINJA_NUMBER_BYTES, "%s", isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
        return;
    }
    do snprintf(digits, sizeof digits, "%.*e", precision, x);
    while (strtod(digits, NULL) != x && ++precision < 17);
    const char *e = strchr(digits, 'e');
    long exponent = strtol(e + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) { /* 1.5e+16 without further zeros */
        snprintf(out, JINJA_NUMBER_BYTES, "%.*se%c%02ld", (int)(e - digits), digits,
                 exponent < 0 ? '-' : '+', labs(exponent));
        return;
    }
    long decimals = precision - exponent;
    snprintf(out, JINJA_NUMBER_BYTES, "%.*f", (int)(decimals > 0 ? decimals : 1), x);
}

/* Like Python, use the quotes that are not in the text. */
static void repr_text(jinja_run *r, jinja_sink *sink, jinja_value v)
{
    bool single = v.len && memchr(v.text, '\'', v.len), twice = v.len && memchr(v.text, '"', v.len);
    char quote = single && !twice ? '"' : '\'';
    size_t from = 0;
    jinja_sink_put(r, sink, (view){&quote, 1}, JINJA_TEMPLATE);
    for (size_t i = 0; i < v.len && !r->status; i++) {
        char c = v.text[i], escape[8];
        int n = 0;
        if (c == quote || c == '\\') n = snprintf(escape, sizeof escape, "\\%c", c);
        else if (c == '\n') n = snprintf(escape, sizeof escape, "\\n");
        else if (c == '\r') n = snprintf(escape, sizeof escape, "\\r");
        else if (c == '\t') n = snprintf(escape, sizeof escape, "\\t");
        else if ((unsigned char)c < ' ' || c == 127)
            n = snprintf(escape, sizeof escape, "\\x%02x", (unsigned char)c);
        if (!n) continue;
        jinja_sink_value(r, sink, jinja_part(v, from, i - from));
        jinja_sink_put(r, sink, (view){escape, (size_t)n},
                       v.marks ? (jinja_origin)v.marks[i] : (jinja_origin)v.origin);
        from = i + 1;
    }
    jinja_sink_value(r, sink, jinja_part(v, from, v.len - from));
    jinja_sink_put(r, sink, (view){&quote, 1}, JINJA_TEMPLATE);
}

static void repr_list(jinja_run *r, jinja_sink *sink, jinja_value v)
{
    const jinja_items *in = jinja_items_of(v);
    bool tuple = jinja_is(v, KIND_TUPLE);
    jinja_sink_put(r, sink, tuple ? VIEW("(") : VIEW("["), JINJA_TEMPLATE);
    for (size_t i = 0; i < in->n && jinja_step(r, 1); i++) {
        if (i) jinja_sink_put(r, sink, VIEW(", "), JINJA_TEMPLATE);
        jinja_sink_repr(r, sink, in->items[i]);
    }
    jinja_sink_put(r, sink, !tuple ? VIEW("]") : in->n == 1 ? VIEW(",)") : VIEW(")"),
                   JINJA_TEMPLATE);
}

static void repr_map(jinja_run *r, jinja_sink *sink, jinja_value v)
{
    const jinja_entries *in = jinja_entries_of(v);
    jinja_sink_put(r, sink, VIEW("{"), JINJA_TEMPLATE);
    for (size_t i = 0; i < in->n && jinja_step(r, 1); i++) {
        if (i) jinja_sink_put(r, sink, VIEW(", "), JINJA_TEMPLATE);
        jinja_sink_repr(r, sink, in->entries[i].key);
        jinja_sink_put(r, sink, VIEW(": "), JINJA_TEMPLATE);
        jinja_sink_repr(r, sink, in->entries[i].value);
    }
    jinja_sink_put(r, sink, VIEW("}"), JINJA_TEMPLATE);
}

void jinja_sink_repr(jinja_run *r, jinja_sink *sink, jinja_value v)
{
    char number[JINJA_NUMBER_BYTES];
    if (r->status) return;
    if (r->depth >= JINJA_DEPTH_MAX) {
        jinja_exceed(r, 0, "values that are nested too deep");
        return;
    }
    r->depth++;
    switch ((jinja_kind)v.kind) {
    case KIND_STRING: repr_text(r, sink, v); break;
    case KIND_LIST:
    case KIND_TUPLE: repr_list(r, sink, v); break;
    case KIND_MAP: repr_map(r, sink, v); break;
    case KIND_NONE: jinja_sink_put(r, sink, VIEW("None"), JINJA_TEMPLATE); break;
    case KIND_BOOL:
        jinja_sink_put(r, sink, v.truth ? VIEW("True") : VIEW("False"), JINJA_TEMPLATE);
        break;
    case KIND_INT:
        snprintf(number, sizeof number, "%lld", (long long)v.integer);
        jinja_sink_put(r, sink, view_of(number), JINJA_TEMPLATE);
        break;
    case KIND_REAL:
        jinja_write_real(number, v.real);
        jinja_sink_put(r, sink, view_of(number), JINJA_TEMPLATE);
        break;
    case KIND_UNDEFINED: jinja_sink_put(r, sink, VIEW("Undefined"), JINJA_TEMPLATE); break;
    case KIND_NAMESPACE:
    case KIND_MACRO:
    case KIND_METHOD:
    case KIND_FUNCTION:
    case KIND_LOOP: jinja_fail(r, 0, "a %s cannot be written", jinja_kind_name(v)); break;
    }
    r->depth--;
}

jinja_value jinja_string(jinja_run *r, jinja_value v)
{
    if (jinja_is(v, KIND_STRING)) return v;
    if (jinja_is(v, KIND_UNDEFINED)) return jinja_literal("");
    jinja_sink sink = {0};
    jinja_sink_repr(r, &sink, v);
    return jinja_sink_take(r, &sink);
}
