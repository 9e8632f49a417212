/* listing_read.c - reads an interpreter's listing, line by line:
 *
 *   M path       names from here on are of this module ("pos.path", "jfs")
 *   C path       of this class or object
 *   v name       a value
 *   s name path  it leads to that
 *   f name a,b   a function with these keywords; ? if they are unknown
 *   o            it may have other names
 *   P path       where Python's own sources are
 *   E            the end */
#include "exists/listing.h"

static view cut(view *line)
{
    const char *tab = line->len ? memchr(line->ptr, '\t', line->len) : NULL;
    view word = {line->ptr, tab ? (size_t)(tab - line->ptr) : line->len};
    size_t used = word.len + (tab != NULL);
    *line = (view){line->ptr + used, line->len - used};
    return word;
}

static void read_call(name_table *b, uint32_t scope, view name, view words)
{
    uint32_t call = names_scope(b, SCOPE_CALL, name, NAMES_NONE);
    if (call == NAMES_NONE) return;
    names_add(b, scope, name, NAME_CALL, call);
    if (view_equal(words, VIEW("?"))) {
        names_open_scope(b, call);
        return;
    }
    while (words.len) {
        const char *comma = memchr(words.ptr, ',', words.len);
        view word = {words.ptr, comma ? (size_t)(comma - words.ptr) : words.len};
        names_add(b, call, word, NAME_VALUE, 0);
        words = (view){words.ptr + word.len + (comma != NULL),
                       words.len - word.len - (comma != NULL)};
    }
}

static void read_line(name_table *b, view line, uint32_t *scope, char *library)
{
    view what = cut(&line), name = cut(&line);
    if (what.len != 1 || b->status) return;
    switch (what.ptr[0]) {
    case 'M':
    case 'C':
        if (!name.len) return;
        *scope = names_module(b, name, what.ptr[0] == 'C' ? SCOPE_CLASS : 0,
                              (view){name.ptr + 1, name.len - 1});
        if (*scope != NAMES_NONE) names_scope_at(b, *scope)->flags |= SCOPE_NATIVE;
        break;
    case 'v': names_add(b, *scope, name, NAME_VALUE, 0); break;
    case 's':
        if (line.len) names_import(b, *scope, name, line, VIEW(""));
        break;
    case 'f': read_call(b, *scope, name, line); break;
    case 'o': names_open_scope(b, *scope); break;
    case 'P':
        if (library && name.len < 4096) snprintf(library, 4096, "%.*s", (int)name.len, name.ptr);
        break;
    default: break;
    }
}

bool listing_read(name_table *b, view text, char *library)
{
    uint32_t scope = NAMES_NONE;
    if (text.len < 2 || memcmp(text.ptr + text.len - 2, "E\n", 2) != 0) return false;
    while (text.len && !b->status) {
        const char *stop = memchr(text.ptr, '\n', text.len);
        view line = {text.ptr, stop ? (size_t)(stop - text.ptr) : text.len};
        size_t used = line.len + (stop != NULL);
        text = (view){text.ptr + used, text.len - used};
        if (line.len && (scope != NAMES_NONE || strchr("MCP", line.ptr[0])))
            read_line(b, line, &scope, library);
    }
    return true;
}
