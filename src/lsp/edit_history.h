/* edit_history.h - the user's last changes in a document: places, and their old text.
 *
 * Changes that touch each other, or the same line, are one edit: a typed word is one change for
 * each key, but one edit. */
#ifndef LSP_EDIT_HISTORY_H
#define LSP_EDIT_HISTORY_H

#include "lsp/document_text.h"

enum {
    EDIT_HISTORY_MAX = 20,        /* edits that are kept */
    EDIT_HISTORY_BYTES_MAX = 4096, /* of one, before or after; a larger change empties the list */
    EDIT_HISTORY_LINES_MAX = 8,   /* of one that may still grow */
};

typedef struct {
    size_t from, to; /* of the current text */
    bytes was;       /* the old text */
    uint64_t at_ns;  /* time of its last change */
    uint64_t serial; /* larger: later */
} edit_record;

typedef struct {
    edit_record list[EDIT_HISTORY_MAX]; /* [n], the newest last */
    uint32_t n;
    uint64_t last_serial;
} edit_history;

/* text: after the change, with `with` at `from` in place of `was`.  Without memory the history is
 * dropped. */
void edit_history_add(edit_history *h, const lsp_text *text, size_t from, view was, view with,
                      uint64_t now);
void edit_history_close(edit_history *h);

/* The last edits, at most max, as hunks of `diff -u` of texts with only LF, the oldest first;
 * out[*n] owned.  CERIUM_ERR_MEMORY: none. */
CERIUM_CHECKED int edit_history_diffs(const edit_history *h, view text, bytes *out, size_t max,
                                      size_t *n);

#endif
