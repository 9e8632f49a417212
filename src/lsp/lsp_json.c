/* lsp_json.c - reads and writes values of the protocol: documents, positions, ranges, strings. */
#include "lsp/lsp_parts.h"

#include <ctype.h>

json_t *lsp_json_text(view text) { return json_stringn(text.len ? text.ptr : "", text.len); }

static json_t *position_json(const lsp_server *s, const lsp_document *d, size_t offset)
{
    lsp_position p = lsp_text_position(&d->text, offset, s->encoding);
    return json_pack("{s:I, s:I}", "line", (json_int_t)p.line, "character",
                     (json_int_t)p.character);
}

json_t *lsp_json_range(const lsp_server *s, const lsp_document *d, size_t from, size_t to)
{
    return json_pack("{s:o, s:o}", "start", position_json(s, d, from), "end",
                     position_json(s, d, to));
}

/* A number larger than any file means its end. */
static bool read_unit(const json_t *object, const char *key, uint32_t *out)
{
    const json_t *value = json_object_get(object, key);
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0) return false;
    *out = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
    return true;
}

bool lsp_read_position(const lsp_server *s, const lsp_document *d, const json_t *from, size_t *out)
{
    lsp_position p;
    if (!read_unit(from, "line", &p.line) || !read_unit(from, "character", &p.character))
        return false;
    *out = lsp_text_offset(&d->text, p, s->encoding);
    return true;
}

bool lsp_read_range(const lsp_server *s, const lsp_document *d, const json_t *range, size_t *from,
                    size_t *to)
{
    if (!lsp_read_position(s, d, json_object_get(range, "start"), from) ||
        !lsp_read_position(s, d, json_object_get(range, "end"), to))
        return false;
    if (*to < *from) *to = *from;
    return true;
}

view lsp_read_string(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_string(value) ? (view){json_string_value(value), json_string_length(value)}
                                 : (view){NULL, 0};
}

int lsp_put_lines(bytes *out, const lsp_document *d, view text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (d->has_cr && text.ptr[i] == '\n') RETURN_IF(bytes_append(out, "\r", 1));
        RETURN_IF(bytes_append(out, text.ptr + i, 1));
    }
    return CERIUM_OK;
}

json_t *lsp_workspace_edit(const lsp_server *s, const lsp_document *d, json_t *edits)
{
    if (!edits) return NULL;
    if (s->can.changes)
        return json_pack("{s:[{s:{s:s, s:I}, s:o}]}", "documentChanges", "textDocument", "uri",
                         d->uri, "version", (json_int_t)d->version, "edits", edits);
    return json_pack("{s:{s:o}}", "changes", d->uri, edits);
}

void lsp_whole_characters(char *text)
{
    size_t n = strlen(text), end = n;
    while (n && end - n < 3 && ((unsigned char)text[n - 1] & 0xC0) == 0x80) n--;
    if (!n || (unsigned char)text[n - 1] < 0xC0) return;
    const unsigned char lead = (unsigned char)text[n - 1];
    size_t whole = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (end - (n - 1) < whole) text[n - 1] = 0;
}

/* ---- documents ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

char *lsp_path_of(view uri, bool *is_file)
{
    *is_file = view_starts(uri, VIEW("file://"));
    if (*is_file) uri = (view){uri.ptr + 7, uri.len - 7};
    char *out = memory_alloc(uri.len + 1);
    size_t n = 0;
    if (!out) return NULL;
    for (size_t i = 0; i < uri.len; i++) {
        int high = uri.ptr[i] == '%' && i + 2 < uri.len ? hex_digit(uri.ptr[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(uri.ptr[i + 2]) : -1;
        char c = uri.ptr[i];
        if (low >= 0) c = (char)(high << 4 | low), i += 2;
        if (c) out[n++] = c;
    }
    out[n] = 0;
    return out;
}

lsp_document *lsp_document_by_uri(lsp_server *s, view uri)
{
    for (uint32_t i = 0; i < s->n_documents; i++)
        if (view_equal(view_of(s->documents[i]->uri), uri)) return s->documents[i];
    return NULL;
}

lsp_document *lsp_document_of(lsp_server *s, const json_t *params)
{
    return lsp_document_by_uri(s, lsp_read_string(json_object_get(params, "textDocument"), "uri"));
}

lsp_document *lsp_document_by_key(lsp_server *s, uint64_t key)
{
    for (uint32_t i = 0; i < s->n_documents; i++)
        if (s->documents[i]->key == key) return s->documents[i];
    return NULL;
}

json_t *lsp_next_edit_json(lsp_server *s, const lsp_document *d, size_t from, size_t to,
                           json_t *text, size_t n)
{
    return json_pack("{s:o, s:{s:s, s:I}, s:o, s:{s:s, s:s, s:[s, I, I]}}", "text", text,
                     "textDocument", "uri", d->uri, "version", (json_int_t)d->version, "range",
                     lsp_json_range(s, d, from, to), "command", "title", "Next Edit Accepted",
                     "command", "cerium.server.accepted", "arguments", d->uri, (json_int_t)0,
                     (json_int_t)n);
}
