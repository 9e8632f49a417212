/* edit_answer.h - reads a model's answer to an edit request: search/replace blocks, or the whole
 * file in a fence; makes the new file, or gives the reason why not. */
#ifndef PROTOCOL_EDIT_ANSWER_H
#define PROTOCOL_EDIT_ANSWER_H

#include "base/base.h"
#include "base/memory.h"

/* ---- limits: bounds for broken or hostile input ---- */

#define EDIT_FILE_BYTES_MAX (4u << 20) /* of the edited file; the context is far shorter */
#define EDIT_BLOCKS_MAX     256u       /* search/replace blocks of one answer */

enum { EDIT_FAULT_MAX = 200 };

/* Whole lines of the file, and their replacement. */
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

/* The new text of `file`: the text between the first fence and the last one that closes it. False
 * with fault: no fence, not closed, or several although the file contains none. */
bool edit_whole_read(view answer, view file, view *out, char fault[EDIT_FAULT_MAX]);

/* Apply every block to the file.  Each must be found exactly once, as whole lines, at least when
 * blanks at the ends of lines are ignored, and no two may touch the same lines. Else
 * CERIUM_ERR_FORMAT with fault, and out is unchanged. */
CERIUM_CHECKED int edit_blocks_apply(edit_blocks *blocks, view file, bytes *out,
                                     char fault[EDIT_FAULT_MAX]);

/* Undo unintended changes of an answered file: lines that differ from the old ones only in blanks
 * at their ends, and the end of the last line, stay as they were. */
CERIUM_CHECKED int edit_whole_apply(view answer, view file, bytes *out, char fault[EDIT_FAULT_MAX]);

#endif
