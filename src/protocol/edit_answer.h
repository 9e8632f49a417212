/* edit_answer.h - what a model answers when it is asked to edit a file: search/replace blocks, or
 * the whole file in a fence; and the file that this makes, or why it makes none. */
#ifndef PROTOCOL_EDIT_ANSWER_H
#define PROTOCOL_EDIT_ANSWER_H

#include "base/base.h"
#include "base/memory.h"

/* ---- limits: what a broken or hostile input can make us take ---- */

#define EDIT_FILE_BYTES_MAX (4u << 20) /* a file that is edited; the context is far shorter */
#define EDIT_BLOCKS_MAX     256u       /* search/replace blocks of one answer */

enum { EDIT_FAULT_MAX = 200 };

/* Whole lines of the file, and what is in their place. */
typedef struct {
    view search, replace;
    size_t at, len; /* of the file, once found */
} edit_block;

typedef struct {
    edit_block blocks[EDIT_BLOCKS_MAX];
    uint32_t n;
} edit_blocks;

/* Blocks of the form
 *   <<<<<<< SEARCH
 *   lines as they are
 *   =======
 *   lines as they shall be
 *   >>>>>>> REPLACE
 * with anything between them.  False with fault when one is not complete or there is none.
 * Views are of the answer. */
bool edit_blocks_read(view answer, edit_blocks *out, char fault[EDIT_FAULT_MAX]);

/* The file in place of which `file` is: what is between the first fence and the last that
 * closes it.  False with fault: none, not closed, or several where the file has none itself. */
bool edit_whole_read(view answer, view file, view *out, char fault[EDIT_FAULT_MAX]);

/* Put every block in its place in the file.  Each must be found exactly once, as whole lines, at
 * least when blanks at the ends of lines do not count, and no two may touch the same lines.
 * CERIUM_ERR_FORMAT with fault when that is not so; then out is as it was. */
CERIUM_CHECKED int edit_blocks_apply(edit_blocks *blocks, view file, bytes *out,
                                     char fault[EDIT_FAULT_MAX]);

/* What of an answered file was meant: lines that differ from the old ones in blanks at their ends
 * alone, and the end of the last line, stay as they were. */
CERIUM_CHECKED int edit_whole_apply(view answer, view file, bytes *out, char fault[EDIT_FAULT_MAX]);

#endif
