/* mcp_search.c - finds whole words in files, and the definitions among them. */
#include "programs/mcp_search.h"

#include <sys/stat.h>

#include "programs/options.h"
#include "programs/walk.h"
#include "snippets/words.h"

enum { FILE_BYTES_MAX = 1 << 20, AROUND = 2, LINE_SHOWN = 240, ANSWER_BYTES_MAX = 1 << 19 };

typedef struct {
    const char *folder;
    view name;
    uint32_t most, n_definitions, n_uses;
    bytes definitions, uses, text; /* text: of the file */
} search;

static size_t line_end(view text, size_t at)
{
    while (at < text.len && text.ptr[at] != '\n') at++;
    return at;
}

static int put_place(search *s, bytes *out, const char *path, uint32_t number, size_t begin,
                     bool is_definition)
{
    const view text = {s->text.ptr, s->text.len};
    char head[4300];
    uint32_t first = number;
    for (int i = 0; i < AROUND && begin > 0; i++, first--) {
        begin--;
        while (begin > 0 && text.ptr[begin - 1] != '\n') begin--;
    }
    int n = snprintf(head, sizeof head, "%s:%u%s\n", path, number,
                     is_definition ? " (definition)" : "");
    RETURN_IF(bytes_append(out, head, (size_t)n));
    for (uint32_t k = first; k <= number + AROUND && begin < text.len; k++) {
        size_t end = line_end(text, begin), shown = end - begin;
        if (shown > LINE_SHOWN) shown = LINE_SHOWN;
        n = snprintf(head, sizeof head, "%5u%c ", k, k == number ? '>' : ' ');
        RETURN_IF(bytes_append(out, head, (size_t)n));
        RETURN_IF(bytes_append(out, text.ptr + begin, shown));
        RETURN_IF(bytes_append(out, "\n", 1));
        begin = end + 1;
    }
    return bytes_append(out, "\n", 1);
}

static int search_text(search *s, const char *path)
{
    const view text = {s->text.ptr, s->text.len}, name = s->name;
    uint32_t number = 1;
    size_t counted = 0, begin = 0;
    for (size_t at = 0; at + name.len <= text.len;) {
        const char *found = memmem(text.ptr + at, text.len - at, name.ptr, name.len);
        if (!found) break;
        size_t here = (size_t)(found - text.ptr), after = here + name.len;
        at = after;
        if (here > 0 && word_has(text.ptr[here - 1])) continue;
        if (after < text.len && word_has(text.ptr[after])) continue;
        for (; counted < here; counted++)
            if (text.ptr[counted] == '\n') number++, begin = counted + 1;
        const view line = {text.ptr + begin, line_end(text, begin) - begin};
        bool is_definition = word_is_defined_at(line, here - begin, name.len);
        uint32_t *n = is_definition ? &s->n_definitions : &s->n_uses;
        at = begin + line.len; /* a line counts as one place */
        if ((*n)++ >= s->most) continue;
        int status = put_place(s, is_definition ? &s->definitions : &s->uses, path, number, begin,
                               is_definition);
        if (status == CERIUM_ERR_MEMORY) return status;
    }
    return CERIUM_OK;
}

static int search_file(void *user, const char *path, cerium_error *err)
{
    search *s = user;
    struct stat st;
    cerium_error ignored;
    if (stat(path, &st) || !S_ISREG(st.st_mode) || st.st_size > FILE_BYTES_MAX) return CERIUM_OK;
    s->text.len = 0;
    if (read_file(path, &s->text, &ignored)) return CERIUM_OK;
    if (!s->text.len || memchr(s->text.ptr, 0, s->text.len)) return CERIUM_OK;
    size_t n = strlen(s->folder);
    const char *shown = !strncmp(path, s->folder, n) && path[n] == '/' ? path + n + 1 : path;
    if (search_text(s, shown)) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a search");
    return CERIUM_OK;
}

int mcp_search(const char *folder, view name, uint32_t most, bytes *out, uint32_t *n,
               cerium_error *err)
{
    search s = {.folder = folder, .name = name, .most = most};
    const walk_visitor visitor = {.file = search_file, .user = &s};
    s.definitions.max = s.uses.max = ANSWER_BYTES_MAX;
    s.text.max = FILE_BYTES_MAX + 4096;
    int status = walk_folder(folder, &visitor, err);
    *n = s.n_definitions + s.n_uses;
    if (!status && bytes_append(out, s.definitions.ptr, s.definitions.len))
        status = error_set(err, CERIUM_ERR_MEMORY, "no memory for a search");
    size_t at = 0; /* uses fill the places that definitions leave */
    for (uint32_t left = most > s.n_definitions ? most - s.n_definitions : 0; left > 0; left--) {
        const char *end = at < s.uses.len ? memmem(s.uses.ptr + at, s.uses.len - at, "\n\n", 2) : 0;
        if (!end) break;
        at = (size_t)(end - s.uses.ptr) + 2;
    }
    if (!status && bytes_append(out, s.uses.ptr, at))
        status = error_set(err, CERIUM_ERR_MEMORY, "no memory for a search");
    bytes_free(&s.definitions);
    bytes_free(&s.uses);
    bytes_free(&s.text);
    return status;
}
