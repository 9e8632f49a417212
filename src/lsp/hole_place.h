/* hole_place.h - what may be proposed unasked at a place of a document: nothing, a line, a block.
 *
 * Silence beats a guess: no proposal in the middle of a word, before other code on the line, inside
 * a string or a comment, or in generated files. */
#ifndef LSP_HOLE_PLACE_H
#define LSP_HOLE_PLACE_H

#include "guard/guard.h"
#include "lsp/document_text.h"

enum {
    LSP_LARGE_BYTES = 10 << 20, /* larger files, */
    LSP_LARGE_LINES = 50000,    /* and longer ones, are not completed */
    LSP_BEHIND_BYTES = 8,       /* bytes after the caret other than closers */
};

typedef enum {
    LSP_SPEAKS = 0,
    LSP_SILENT_LARGE = 1,    /* the file is too large */
    LSP_SILENT_MINIFIED = 2, /* generated or minified */
    LSP_SILENT_WORD = 3,     /* a word continues after the caret */
    LSP_SILENT_BEHIND = 4,   /* code comes after it */
    LSP_SILENT_TEXT = 5,     /* inside of a string or a comment */
    LSP_SILENCES = 6,
} lsp_silence;

typedef struct {
    lsp_silence silence;
    bool is_block;  /* more than one line may come */
    bool is_blank;  /* only blanks are before the caret on its line */
    view after;     /* the text after the caret on its line */
} lsp_place;

/* Did a program write the file?  Reads all of it. */
bool lsp_text_is_minified(const lsp_text *t);
/* is_minified: the result of that.  is_invoked: the user asked for a completion. */
lsp_place lsp_place_at(const lsp_text *t, guard_language language, size_t at, bool is_minified,
                       bool is_invoked);
/* For the log and the status. */
const char *lsp_silence_name(lsp_silence s);

#endif
