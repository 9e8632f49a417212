/* document_text.h - the text of an open document: UTF-8, its lines, and positions in it as editors
 * count them.
 *
 * Lines end with LF, CR LF or a lone CR.  A position is a line and a number of units in it, both
 * from 0.  A position after a line's end means the line's end, one after the text the text's end,
 * and one within a character that character's beginning. */
#ifndef LSP_DOCUMENT_TEXT_H
#define LSP_DOCUMENT_TEXT_H

#include "base/memory.h"

#define LSP_TEXT_BYTES_MAX (32u << 20) /* one document */

typedef enum { LSP_UTF8 = 0, LSP_UTF16 = 1 } lsp_encoding;

typedef struct {
    uint32_t line, character;
} lsp_position;

/* Zero-initialised, it is empty. */
typedef struct {
    bytes text;
    bytes starts; /* of uint32_t: the beginning of each line except the first */
} lsp_text;

/* Set the text, or replace bytes [from, to) of it.  On CERIUM_ERR_MEMORY, and CERIUM_ERR_CAPACITY
 * beyond LSP_TEXT_BYTES_MAX, the text is unchanged. */
CERIUM_CHECKED int lsp_text_set(lsp_text *t, view text);
CERIUM_CHECKED int lsp_text_replace(lsp_text *t, size_t from, size_t to, view with);
void lsp_text_close(lsp_text *t);

/* A text becomes *with: bytes [*from, *to) of it, and what of *with replaces them, in whole
 * characters. */
void lsp_text_difference(view was, size_t *from, size_t *to, view *with);

static inline view lsp_text_view(const lsp_text *t) { return (view){t->text.ptr, t->text.len}; }
uint32_t lsp_text_lines(const lsp_text *t);
/* Bytes [*from, *to) of a line, without its line break; a line beyond the last is the text's
 * end. */
void lsp_text_line(const lsp_text *t, uint32_t line, size_t *from, size_t *to);
uint32_t lsp_text_line_at(const lsp_text *t, size_t offset);

size_t lsp_text_offset(const lsp_text *t, lsp_position p, lsp_encoding encoding);
lsp_position lsp_text_position(const lsp_text *t, size_t offset, lsp_encoding encoding);

#endif
