/* edit_history.c - joins changes into edits, and maintains their places while the text moves. */
#include "lsp/edit_history.h"

/* A change, and the text after it; maps places in the text before it. */
typedef struct {
    const lsp_text *text;
    size_t from, to; /* in the text before it */
    view was, with;
} change;

void edit_history_close(edit_history *h)
{
    for (uint32_t i = 0; i < h->n; i++) bytes_free(&h->list[i].was);
    h->n = 0;
}

static void drop(edit_history *h, uint32_t i)
{
    bytes_free(&h->list[i].was);
    memmove(h->list + i, h->list + i + 1, (--h->n - i) * sizeof *h->list);
}

/* Bytes [from, to) of the text before the change. */
static int append_before(bytes *out, const change *c, size_t from, size_t to)
{
    const char *text = c->text->text.ptr;
    size_t end = to < c->from ? to : c->from;
    if (from < end) RETURN_IF(bytes_append(out, text + from, end - from));
    if (from < end) from = end;
    end = to < c->to ? to : c->to;
    if (from < end) RETURN_IF(bytes_append(out, c->was.ptr + (from - c->from), end - from));
    if (from < end) from = end;
    if (from >= to) return CERIUM_OK;
    return bytes_append(out, text + from - c->was.len + c->with.len, to - from);
}

/* The number of lines that begin in bytes [from, to) of the text before the change, counting LF. */
static uint32_t lines_before(const change *c, size_t from, size_t to)
{
    bytes text = {.max = EDIT_HISTORY_BYTES_MAX};
    uint32_t n = 0;
    if (to - from > EDIT_HISTORY_BYTES_MAX || append_before(&text, c, from, to)) n = UINT32_MAX;
    for (size_t i = 0; i < text.len; i++) n += text.ptr[i] == '\n';
    bytes_free(&text);
    return n;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }
static size_t most(size_t a, size_t b) { return a > b ? a : b; }

static bool has_line(view text)
{
    return text.len && memchr(text.ptr, '\n', text.len) != NULL;
}

/* Does the change belong to the edit? */
static bool joins(const edit_record *e, const change *c)
{
    if (c->from <= e->to && c->to >= e->from) /* they touch */
        return lines_before(c, least(e->from, c->from), most(e->to, c->to)) <
               EDIT_HISTORY_LINES_MAX;
    size_t from = least(e->to, c->to), to = most(e->from, c->from);
    return !has_line(c->was) && !has_line(c->with) &&
           !has_line((view){e->was.ptr, e->was.len}) && lines_before(c, from, to) == 0;
}

static int join(edit_record *e, const change *c)
{
    const size_t from = least(e->from, c->from), to = most(e->to, c->to);
    bytes was = {.max = EDIT_HISTORY_BYTES_MAX};
    int status = append_before(&was, c, from, e->from);
    if (!status) status = bytes_append(&was, e->was.ptr, e->was.len);
    if (!status) status = append_before(&was, c, e->to, to);
    if (status) {
        bytes_free(&was);
        return status;
    }
    bytes_free(&e->was);
    e->was = was;
    e->from = from;
    e->to = to - c->was.len + c->with.len;
    return CERIUM_OK;
}

/* An edit without this change moves, or is dropped. */
static bool move(edit_record *e, const change *c)
{
    if (e->to <= c->from) return true;
    if (e->from < c->to) return false;
    e->from = e->from - c->was.len + c->with.len;
    e->to = e->to - c->was.len + c->with.len;
    return true;
}

void edit_history_add(edit_history *h, const lsp_text *text, size_t from, view was, view with,
                      uint64_t now)
{
    const change c = {text, from, from + was.len, was, with};
    edit_record *last = h->n ? &h->list[h->n - 1] : NULL;
    if (was.len > EDIT_HISTORY_BYTES_MAX || with.len > EDIT_HISTORY_BYTES_MAX) {
        edit_history_close(h); /* almost a new file */
        return;
    }
    bool is_joined = last && joins(last, &c);
    for (uint32_t i = h->n - is_joined; i-- > 0;)
        if (!move(&h->list[i], &c)) drop(h, i);
    if (is_joined) {
        last = &h->list[h->n - 1];
        if (join(last, &c)) edit_history_close(h);
        else last->at_ns = now;
        return;
    }
    edit_record e = {.from = from, .to = from + with.len, .was = {.max = EDIT_HISTORY_BYTES_MAX},
                     .at_ns = now, .serial = ++h->last_serial};
    if (bytes_append(&e.was, was.ptr, was.len)) {
        edit_history_close(h);
        return;
    }
    if (h->n == EDIT_HISTORY_MAX) drop(h, 0);
    h->list[h->n++] = e;
}
