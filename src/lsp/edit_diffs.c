/* edit_diffs.c - the user's last edits as hunks of a diff, in the prompt form of models for edits.
 * */
#include "lsp/edit_history.h"
#include "protocol/diff.h"

/* The text before edit `first`: undoes it and all later ones. */
static int text_before(const edit_history *h, view text, uint32_t first, bytes *out)
{
    const edit_record *order[EDIT_HISTORY_MAX]; /* [n] by their places */
    size_t at = 0, n = 0;
    for (uint32_t i = first; i < h->n; i++) {
        size_t k = n++;
        for (; k && order[k - 1]->from > h->list[i].from; k--) order[k] = order[k - 1];
        order[k] = &h->list[i];
    }
    out->len = 0;
    out->max = 2 * (size_t)LSP_TEXT_BYTES_MAX;
    for (size_t i = 0; i < n; i++) {
        const edit_record *r = order[i];
        if (r->from < at || r->to > text.len) continue;
        RETURN_IF(bytes_append(out, text.ptr + at, r->from - at));
        RETURN_IF(bytes_append(out, r->was.ptr ? r->was.ptr : "", r->was.len));
        at = r->to;
    }
    RETURN_IF(bytes_append(out, text.len ? text.ptr + at : "", text.len - at));
    for (n = at = 0; at < out->len; at++) /* only LF */
        if (out->ptr[at] != '\r' || at + 1 == out->len || out->ptr[at + 1] != '\n')
            out->ptr[n++] = out->ptr[at];
    out->len = n;
    return CERIUM_OK;
}

static view of(const bytes *b) { return (view){b->ptr ? b->ptr : "", b->len}; }

/* Without the lines that name the file. */
static int put_diff(bytes *out, const bytes *was, const bytes *is)
{
    char *printed = NULL;
    size_t n = 0;
    cerium_error err;
    diff d;
    RETURN_IF(diff_open(&d, of(was), of(is), false, &err));
    FILE *to = open_memstream(&printed, &n);
    int status = to ? CERIUM_OK : CERIUM_ERR_MEMORY;
    if (to) diff_print(&d, "x", to);
    if (to && fclose(to)) status = CERIUM_ERR_MEMORY;
    diff_close(&d);
    const char *hunk = !status && n ? memmem(printed, n, "\n@@", 3) : NULL;
    if (hunk) status = bytes_append(out, hunk + 1, n - (size_t)(hunk + 1 - printed));
    memory_release(printed);
    return status;
}

int edit_history_diffs(const edit_history *h, view text, bytes *out, size_t max, size_t *n)
{
    const uint32_t first = h->n > max ? h->n - (uint32_t)max : 0;
    bytes was = {0}, is = {0};
    int status = text_before(h, text, first, &was);
    *n = 0;
    for (uint32_t i = first; i < h->n && !status; i++) {
        bytes *one = &out[(*n)++];
        *one = (bytes){.max = 1 << 20};
        status = text_before(h, text, i + 1, &is);
        if (!status) status = put_diff(one, &was, &is);
        const bytes swap = was;
        was = is;
        is = swap;
    }
    while (status && *n) bytes_free(&out[--*n]);
    bytes_free(&was);
    bytes_free(&is);
    return status;
}
