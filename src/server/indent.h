/* indent.h - completions end where the code leaves the block that they are in.
 *
 * llama.vim sends `n_indent`: lines indented by less are not part of the completion.  A line's
 * text waits until its indentation is known. */
#ifndef SERVER_INDENT_H
#define SERVER_INDENT_H

#include "base/base.h"
#include "base/memory.h"

/* More text of a completion.
 *   held:  what waits since the last call, its own line break first; owned by the caller
 *   *show: [2] what may be shown now, in order; valid until held changes
 *   Returns true when a line is indented by less than least: the completion ends before it.
 * least 0: everything is shown at once.  CERIUM_ERR_MEMORY is told through *status. */
bool indent_feed(bytes *held, uint32_t least, view text, bytes *show, int *status);

#endif
