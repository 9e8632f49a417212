/* next_edit_sweep.c - the prompt of Sweep's next-edit models, byte for byte as sweep-autocomplete
 * 0.1.1 writes it: the file as it was, snippets, the last changes, then the lines around the caret
 * as they were, as they are, and to be written. */
#include "protocol/next_edit.h"
#include "protocol/next_edit_lines.h"

enum {
    LINES_BEFORE = 2, LINES_AFTER = 5,
    WINDOW_BYTES = 1792,    /* after its first two lines: 512 tokens */
    FILE_LINES = 800,       /* of a longer file only a part is shown: */
    PART_LINES = 300, STRIDE = PART_LINES / 2,
    SNIPPETS = 3, SNIPPET_LINES = 25,
    CHANGES = 6,
    LONG_LINE_BYTES = 600,  /* the rest is replaced by "..." */
};

static int put(bytes *out, view text) { return bytes_append(out, text.ptr, text.len); }

static int put_text(bytes *out, const char *text) { return put(out, view_of(text)); }

/* ---- lines ---- */

/* As Python's splitlines() counts. */
static size_t n_lines(view text)
{
    size_t n = 0;
    for (size_t at = 0; at < text.len; at = line_end(text, at)) n++;
    return n;
}

static bool is_blank_line(view text, size_t from, size_t to)
{
    while (from < to && memchr(" \t\r\n\f\v", text.ptr[from], 6)) from++;
    return from == to;
}

/* The line of a place; after the end, the last one. */
static size_t line_of(view text, size_t at)
{
    size_t n = 0;
    if (at >= text.len) {
        n = n_lines(text);
        return n ? n - 1 : 0;
    }
    for (size_t i = 0; i < at; i++) n += text.ptr[i] == '\n';
    return n;
}

/* ---- the window ---- */

/* Text that is too long for an answer is dropped from its end. */
static size_t bounded_end(view text, size_t from, size_t to)
{
    size_t head = from;
    for (int i = 0; i < LINES_BEFORE && head < to; i++) head = line_end(text, head);
    if ((to - head) * 2 / 7 <= WINDOW_BYTES * 2 / 7) return to;
    return line_begin(text, head + WINDOW_BYTES - 1);
}

static void find_window(next_edit_prompt *out, const next_edit_place *place)
{
    const view text = place->text;
    size_t caret = place->caret;
    if (caret >= text.len && text.len) caret = text.len - 1; /* on its last line */
    size_t from = line_begin(text, caret), to = line_end(text, from);
    for (int i = 0; i < LINES_BEFORE && from; i++) from = line_begin(text, from - 1);
    for (int i = 0; i < LINES_AFTER && to < text.len; i++) to = line_end(text, to);
    for (size_t end; from < to && is_blank_line(text, from, end = line_end(text, from));) {
        from = end;
        if (to < text.len) to = line_end(text, to);
    }
    while (to > from && is_blank_line(text, line_begin(text, to - 1), to))
        to = line_begin(text, to - 1);
    out->from = from;
    out->to = bounded_end(text, from, to);
}

/* ---- the parts of the prompt ---- */

static int put_file(bytes *out, const next_edit_place *place)
{
    const view text = place->original.ptr ? place->original : place->text;
    const size_t n = n_lines(text);
    if (n <= FILE_LINES) return put(out, text);
    /* The part whose middle is nearest to the caret, at a fixed stride, so that it changes
     * seldom. */
    const int64_t begin = (int64_t)line_of(text, place->caret) - PART_LINES / 2;
    const size_t ideal = begin > 0 ? (size_t)begin : 0;
    size_t stride = ideal / STRIDE, over = ideal % STRIDE * 2;
    if (over > STRIDE || (over == STRIDE && stride % 2)) stride++; /* a half rounds to even */
    size_t from = 0, to;
    for (size_t i = 0; i < stride * STRIDE; i++) from = line_end(text, from);
    to = from;
    for (size_t i = 0; i < PART_LINES; i++) to = line_end(text, to);
    if (to > from && text.ptr[to - 1] == '\n') to--;
    return put(out, (view){text.ptr + from, to - from});
}

static int put_snippet(bytes *out, const next_edit_snippet *s)
{
    size_t to = 0;
    for (size_t i = 0; i < SNIPPET_LINES; i++) to = line_end(s->text, to);
    RETURN_IF(put_text(out, "\n<|file_sep|>"));
    RETURN_IF(put(out, s->path));
    RETURN_IF(put_text(out, "\n"));
    RETURN_IF(put(out, (view){s->text.ptr, to}));
    return put_text(out, "\n");
}

static int put_range(bytes *out, view path, size_t from, size_t to)
{
    char numbers[48];
    RETURN_IF(put(out, path));
    snprintf(numbers, sizeof numbers, ":%zu:%zu\n", from, to);
    return put_text(out, numbers);
}

static view without_ends(const bytes *b)
{
    view text = {b->ptr ? b->ptr : "", b->len};
    while (text.len && text.ptr[text.len - 1] == '\n') text.len--;
    while (text.len && *text.ptr == '\n') text.ptr++, text.len--;
    return text;
}

/* The beginning of a hunk's new text, and how many lines after the hunk's first belong to it. */
static void place_of(const edit_hunk *h, size_t *from, size_t *n)
{
    const view hunk = h->hunk;
    const size_t head = line_end(hunk, 0);
    const char *plus = memchr(hunk.ptr, '+', head);
    *from = 0;
    *n = 0;
    for (const char *p = plus ? plus + 1 : hunk.ptr + head;
         p < hunk.ptr + head && *p >= '0' && *p <= '9' && *from < 100000000; p++)
        *from = *from * 10 + (size_t)(*p - '0');
    for (size_t at = line_end(hunk, head); at < hunk.len; at = line_end(hunk, at))
        *n += hunk.ptr[at] != '-';
}

static int put_change(bytes *out, const edit_hunk *h, bytes *was, bytes *is)
{
    size_t from, n;
    RETURN_IF(edit_hunk_parts(h, 1, false, was, is));
    if (is_blank_line((view){was->ptr, was->len}, 0, was->len) &&
        is_blank_line((view){is->ptr, is->len}, 0, is->len))
        return CERIUM_OK;
    place_of(h, &from, &n);
    RETURN_IF(put_text(out, "<|file_sep|>"));
    RETURN_IF(put_range(out, h->path, from, from + n - 1));
    RETURN_IF(put_text(out, "original:\n"));
    RETURN_IF(put(out, without_ends(was)));
    RETURN_IF(put_text(out, "\nupdated:\n"));
    RETURN_IF(put(out, without_ends(is)));
    return put_text(out, "\n");
}

static int put_changes(bytes *out, const edit_hunk *hunks, size_t n)
{
    bytes was = {0}, is = {0};
    const size_t begin = out->len;
    int status = CERIUM_OK;
    for (size_t i = n > CHANGES ? n - CHANGES : 0; i < n && !status; i++)
        status = put_change(out, &hunks[i], &was, &is);
    while (out->len > begin && out->ptr[out->len - 1] == '\n') out->len--;
    bytes_free(&was);
    bytes_free(&is);
    return status;
}

/* The window before the newest changes, as far as these are within it. */
static int make_before(bytes *out, view window, const edit_hunk *hunks, size_t n)
{
    int status = put(out, window);
    while (!status && n-- > 0)
        if (!edit_hunk_undo(&hunks[n], out, &status)) break;
    return status;
}

/* Line numbers of the three windows are the same: relative to the window. */
static int put_windows(bytes *out, const next_edit_place *place, const next_edit_prompt *p,
                       const bytes *before)
{
    const view window = {place->text.ptr + p->from, p->to - p->from};
    size_t caret = place->caret < p->from ? 0 : place->caret - p->from;
    if (caret > window.len) caret = window.len;
    const bool ends = window.len && window.ptr[window.len - 1] == '\n' && caret < window.len &&
                      before->len && before->ptr[before->len - 1] == '\n';
    const view after = {window.ptr + caret, window.len - caret - ends};
    const size_t line = line_of(window, caret) + 1;
    /* A mark after the last line's end counts as a line. */
    const bool is_own = !after.len && (!caret || window.ptr[caret - 1] == '\n');
    const size_t last = line + n_lines((view){window.ptr, window.len - ends}) + is_own;
    RETURN_IF(put_text(out, "\n<|file_sep|>original/"));
    RETURN_IF(put_range(out, place->path, line, last));
    RETURN_IF(put(out, (view){before->ptr, before->len - ends}));
    RETURN_IF(put_text(out, "\n<|file_sep|>current/"));
    RETURN_IF(put_range(out, place->path, line, last));
    RETURN_IF(put(out, (view){window.ptr, caret}));
    RETURN_IF(put_text(out, "<|cursor|>"));
    RETURN_IF(put(out, after));
    RETURN_IF(put_text(out, "\n<|file_sep|>updated/"));
    return put_range(out, place->path, line, last);
}

/* Lines that are too long end with dots. */
static int cut_lines(bytes *text)
{
    bytes out = {.max = text->max};
    const view all = {text->ptr, text->len};
    int status = CERIUM_OK;
    for (size_t at = 0, end; at < all.len && !status; at = end) {
        end = line_end(all, at);
        size_t len = end - at - (all.ptr[end - 1] == '\n');
        const bool is_long = len > LONG_LINE_BYTES;
        if (is_long) len = LONG_LINE_BYTES;
        while (is_long && len && ((unsigned char)all.ptr[at + len] & 0xC0) == 0x80) len--;
        status = put(&out, (view){all.ptr + at, len});
        if (!status && is_long) status = put_text(&out, "...");
        if (!status && all.ptr[end - 1] == '\n') status = put_text(&out, "\n");
    }
    bytes_free(text);
    *text = out;
    return status;
}

static int ask(next_edit_prompt *p, const next_edit_place *place, bytes *before)
{
    edit_hunk hunks[NEXT_EDIT_CHANGES_MAX];
    const size_t n = edit_hunks(place, hunks, NEXT_EDIT_CHANGES_MAX);
    RETURN_IF(put_text(&p->text, "<|file_sep|>"));
    RETURN_IF(put(&p->text, place->path));
    RETURN_IF(put_text(&p->text, "\n"));
    RETURN_IF(put_file(&p->text, place));
    for (size_t i = 0; i < place->n_snippets && i < SNIPPETS; i++)
        RETURN_IF(put_snippet(&p->text, &place->snippets[i]));
    RETURN_IF(put_text(&p->text, "\n"));
    RETURN_IF(put_changes(&p->text, hunks, n));
    RETURN_IF(make_before(before, (view){place->text.ptr + p->from, p->to - p->from}, hunks, n));
    RETURN_IF(put_windows(&p->text, place, p, before));
    return cut_lines(&p->text);
}

int next_edit_ask_sweep(next_edit_prompt *p, const next_edit_place *place)
{
    bytes before = {.max = NEXT_EDIT_TEXT_BYTES_MAX};
    find_window(p, place);
    if (p->from >= p->to) return CERIUM_OK;
    p->stops[p->n_stops++] = "<|file_sep|>";
    p->stops[p->n_stops++] = "<|endoftext|>";
    int status = ask(p, place, &before);
    bytes_free(&before);
    return status;
}
