/* hole_place.h - what may be proposed at a place of a document, unasked: nothing, a line, a block.
 *
 * Silence beats a guess: nothing in the middle of a word, before other code on the line, inside of
 * a string or a comment, in files that are not written by hand. */
#ifndef LSP_HOLE_PLACE_H
#define LSP_HOLE_PLACE_H

#include "guard/guard.h"
#include "lsp/document_text.h"

enum {
    LSP_LARGE_BYTES = 10 << 20, /* larger files, */
    LSP_LARGE_LINES = 50000,    /* and longer ones, are not completed */
    LSP_BEHIND_BYTES = 8,       /* other than closers that may come after the caret */
};

typedef enum {
    LSP_SPEAKS = 0,
    LSP_SILENT_LARGE = 1,    /* the file */
    LSP_SILENT_MINIFIED = 2, /* so is nothing that people write */
    LSP_SILENT_WORD = 3,     /* a word continues after the caret */
    LSP_SILENT_BEHIND = 4,   /* code comes after it */
    LSP_SILENT_TEXT = 5,     /* inside of a string or a comment */
    LSP_SILENCES = 6,
} lsp_silence;

typedef struct {
    lsp_silence silence;
    bool is_block;  /* more than a line may come */
    bool is_blank;  /* the caret's line has nothing but blanks before it */
    view behind;    /* what comes after the caret on its line */
} lsp_place;

/* Is it a file that a program wrote?  Reads all of it. */
bool lsp_text_is_minified(const lsp_text *t);
/* is_minified: as that said.  is_invoked: the user asked for it. */
lsp_place lsp_place_at(const lsp_text *t, guard_language language, size_t at, bool is_minified,
                       bool is_invoked);
/* For the log and the status. */
const char *lsp_silence_name(lsp_silence s);

#endif
