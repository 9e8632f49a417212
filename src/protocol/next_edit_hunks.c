/* next_edit_hunks.c - the user's changes, hunk by hunk, and a text without the newest of them.
 *
 * Sweep's server reads hunks line by line, and treats the line that names the file as context; its
 * models were trained on the result, so this does the same. */
#include "protocol/next_edit.h"

static bool next_line(view *rest, view *line)
{
    if (!rest->len) return false;
    const char *end = memchr(rest->ptr, '\n', rest->len);
    size_t n = end ? (size_t)(end - rest->ptr) + 1 : rest->len;
    *line = (view){rest->ptr, n};
    *rest = (view){rest->ptr + n, rest->len - n};
    return true;
}

static view stripped(view text) { return view_trim(text, " \t\r\n"); }

static view of(const bytes *b) { return (view){b->ptr ? b->ptr : "", b->len}; }

/* ---- parts ---- */

/* Which of a hunk's lines changed: [*first, *last]; false: none did. */
static bool changed_lines(view hunk, size_t n_head, size_t *first, size_t *last)
{
    view line;
    bool found = false;
    for (size_t i = n_head; next_line(&hunk, &line);) {
        if (view_starts(line, VIEW("@@"))) continue;
        if (*line.ptr == '-' || *line.ptr == '+') {
            if (!found) *first = i;
            *last = i;
            found = true;
        }
        i++;
    }
    return found;
}

static int take(view line, bytes *was, bytes *is)
{
    const view rest = {line.ptr + 1, line.len - 1};
    if (*line.ptr != '+') RETURN_IF(bytes_append(was, rest.ptr, rest.len));
    if (*line.ptr != '-') RETURN_IF(bytes_append(is, rest.ptr, rest.len));
    return CERIUM_OK;
}

int edit_hunk_parts(const edit_hunk *h, size_t n_around, bool with_path, bytes *was, bytes *is)
{
    view rest = h->hunk, line;
    size_t first, last;
    was->len = is->len = 0;
    was->max = is->max = NEXT_EDIT_TEXT_BYTES_MAX;
    if (!changed_lines(rest, with_path, &first, &last)) return CERIUM_OK;
    const size_t from = first < n_around ? 0 : first - n_around;
    if (with_path && !from) { /* "File: PATH", as a line of context */
        static const view head = VIEW("ile: ");
        for (int side = 0; side < 2; side++) {
            bytes *to = side ? is : was;
            RETURN_IF(bytes_append(to, head.ptr, head.len));
            RETURN_IF(bytes_append(to, h->path.ptr, h->path.len));
            RETURN_IF(bytes_append(to, "\n", 1));
        }
    }
    for (size_t i = with_path; next_line(&rest, &line);) {
        if (view_starts(line, VIEW("@@"))) continue;
        if (i >= from && i <= last + n_around) RETURN_IF(take(line, was, is));
        i++;
    }
    return CERIUM_OK;
}

/* ---- all of them ---- */

/* The hunk at the beginning of *rest, which moves after it. */
static bool next_hunk(view *rest, view *hunk)
{
    view line;
    while (!view_starts(*rest, VIEW("@@")))
        if (!next_line(rest, &line)) return false;
    const char *begin = rest->ptr;
    (void)next_line(rest, &line);
    while (rest->len && !view_starts(*rest, VIEW("@@"))) (void)next_line(rest, &line);
    *hunk = (view){begin, (size_t)(rest->ptr - begin)};
    while (hunk->len && hunk->ptr[hunk->len - 1] == '\n') hunk->len--;
    return true;
}

/* Does it change more than blanks? */
static bool says_something(const edit_hunk *h)
{
    bytes was = {0}, is = {0};
    int status = edit_hunk_parts(h, 0, false, &was, &is);
    bool differs = !status && !view_equal(stripped(of(&was)), stripped(of(&is)));
    bytes_free(&was);
    bytes_free(&is);
    return differs;
}

size_t edit_hunks(const next_edit_place *place, edit_hunk *out, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < place->n_changes; i++) {
        view rest = place->changes[i].diff;
        edit_hunk h = {.path = place->changes[i].path};
        while (next_hunk(&rest, &h.hunk)) {
            if (!says_something(&h)) continue;
            if (n == max) memmove(out, out + 1, --n * sizeof *out);
            out[n++] = h;
        }
    }
    return n;
}

/* ---- undoing ---- */

/* Replaces the first `is` by `was`; false: it is not there. */
static bool replace(bytes *text, view is, view was, int *status)
{
    const char *at = memmem(text->ptr ? text->ptr : "", text->len, is.ptr, is.len);
    bytes out = {.max = NEXT_EDIT_TEXT_BYTES_MAX};
    if (!at) return false;
    const size_t before = (size_t)(at - text->ptr);
    *status = bytes_append(&out, text->ptr, before);
    if (!*status) *status = bytes_append(&out, was.ptr, was.len);
    if (!*status) *status = bytes_append(&out, at + is.len, text->len - before - is.len);
    if (*status) {
        bytes_free(&out);
        return false;
    }
    bytes_free(text);
    *text = out;
    return true;
}

bool edit_hunk_undo(const edit_hunk *h, bytes *text, int *status)
{
    bytes was = {0}, is = {0};
    bool done = false;
    *status = CERIUM_OK;
    for (int around = 1; around >= 0 && !done && !*status; around--) {
        *status = edit_hunk_parts(h, (size_t)around, around, &was, &is);
        if (!*status && stripped(of(&is)).len) done = replace(text, of(&is), of(&was), status);
    }
    bytes_free(&was);
    bytes_free(&is);
    return done;
}
