/* edit_history.h - what the user changed in a document last: places, and what stood there before.
 *
 * Changes that touch each other, or the same line, are one edit: a word that is typed is a change a
 * key, and one edit. */
#ifndef LSP_EDIT_HISTORY_H
#define LSP_EDIT_HISTORY_H

#include "lsp/document_text.h"

enum {
    EDIT_HISTORY_MAX = 20,        /* edits that are kept */
    EDIT_HISTORY_BYTES_MAX = 4096, /* of one, before or after; a larger one begins a new list */
    EDIT_HISTORY_LINES_MAX = 8,   /* of one that goes on */
};

typedef struct {
    size_t from, to; /* of the text as it is now */
    bytes was;       /* what stood there */
    uint64_t at_ns;  /* its last change */
    uint64_t serial; /* larger: later */
} edit_record;

typedef struct {
    edit_record list[EDIT_HISTORY_MAX]; /* [n], the newest last */
    uint32_t n;
    uint64_t last_serial;
} edit_history;

/* text: after the change; at `from` is `with`, where `was` was.  Without memory the history is
 * forgotten. */
void edit_history_add(edit_history *h, const lsp_text *text, size_t from, view was, view with,
                      uint64_t now);
void edit_history_close(edit_history *h);

/* The last edits, at most max, as hunks of `diff -u` of texts with LF alone, the oldest first;
 * out[*n] owned.  CERIUM_ERR_MEMORY: none. */
CERIUM_CHECKED int edit_history_diffs(const edit_history *h, view text, bytes *out, size_t max,
                                      size_t *n);

#endif
