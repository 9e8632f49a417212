/* json_reader.c - strings, escapes and nesting of JSON, one byte at a time. */
#include "guard/json_reader.h"

#include <ctype.h>

static json_event string_bytes(json_reader *r, uint32_t code, uint64_t at)
{
    json_event e = {.kind = JSON_STRING_BYTES, .at = at};
    if (code < 0x80) e.bytes[e.n++] = (char)code;
    else if (code < 0x800) {
        e.bytes[e.n++] = (char)(0xC0 | code >> 6);
        e.bytes[e.n++] = (char)(0x80 | (code & 63));
    } else {
        e.bytes[e.n++] = (char)(0xE0 | code >> 12);
        e.bytes[e.n++] = (char)(0x80 | (code >> 6 & 63));
        e.bytes[e.n++] = (char)(0x80 | (code & 63));
    }
    if (!r->in_key) return e;
    for (uint32_t i = 0; i < e.n && r->n_key < sizeof r->key; i++) r->key[r->n_key++] = e.bytes[i];
    return (json_event){.kind = JSON_NOTHING};
}

static json_event byte_event(json_reader *r, char c, uint64_t at)
{
    json_event e = {.kind = JSON_STRING_BYTES, .bytes = {c}, .n = 1, .at = at};
    if (!r->in_key) return e;
    if (r->n_key < sizeof r->key) r->key[r->n_key++] = c;
    return (json_event){.kind = JSON_NOTHING};
}

static uint32_t digit_of(char c)
{
    if (c >= '0' && c <= '9') return (uint32_t)(c - '0');
    c |= 32;
    return c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10 : 0;
}

static json_event step_escape(json_reader *r, char c)
{
    static const char from[] = "nrtbf", into[] = "\n\r\t\b\f";
    const char *known = c ? strchr(from, c) : NULL;
    if (r->n_unicode) {
        r->unicode = r->unicode << 4 | digit_of(c);
        if (--r->n_unicode) return (json_event){.kind = JSON_NOTHING};
        r->escaped = false;
        return string_bytes(r, r->unicode, r->escape_at);
    }
    if (c == 'u') {
        r->n_unicode = 4;
        r->unicode = 0;
        return (json_event){.kind = JSON_NOTHING};
    }
    r->escaped = false;
    return byte_event(r, known ? into[known - from] : c, r->escape_at);
}

static json_event step_string(json_reader *r, char c, uint64_t at)
{
    if (r->escaped) return step_escape(r, c);
    if (c == '\\') {
        r->escaped = true;
        r->escape_at = at;
        return (json_event){.kind = JSON_NOTHING};
    }
    if (c != '"') return byte_event(r, c, at);
    r->in_string = false;
    return (json_event){.kind = r->in_key ? JSON_KEY : JSON_STRING_END, .at = at};
}

static json_event step_structure(json_reader *r, char c, uint64_t at)
{
    bool object = r->depth && r->objects >> ((r->depth - 1) % JSON_READER_DEPTH) & 1;
    uint64_t bit = (uint64_t)1 << r->depth % JSON_READER_DEPTH;
    json_event e = {.kind = JSON_NOTHING, .at = at};
    if (c == '{' || c == '[') {
        r->objects = c == '{' ? r->objects | bit : r->objects & ~bit;
        r->depth++;
        r->expects_key = c == '{';
        e.kind = JSON_OPEN;
        e.object = c == '{';
    } else if (c == '}' || c == ']') {
        if (r->depth) r->depth--;
        e.kind = JSON_CLOSE;
        e.object = c == '}';
    } else if (c == ',') r->expects_key = object;
    else if (c == ':') r->expects_key = false;
    else if (c == '"') {
        r->in_string = true;
        r->in_key = r->expects_key;
        if (r->in_key) r->n_key = 0;
        else e.kind = JSON_STRING;
    }
    return e;
}

json_event json_reader_step(json_reader *r, char c, uint64_t at)
{
    return r->in_string ? step_string(r, c, at) : step_structure(r, c, at);
}

view json_reader_plain_key(const json_reader *r, char *out)
{
    size_t n = 0;
    for (uint32_t i = 0; i < r->n_key; i++)
        if (r->key[i] != '_' && r->key[i] != '-')
            out[n++] = (char)tolower((unsigned char)r->key[i]);
    return (view){out, n};
}
