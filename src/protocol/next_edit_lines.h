/* next_edit_lines.h - the beginnings and ends of lines.  Private to next_edit*.c. */
#ifndef PROTOCOL_NEXT_EDIT_LINES_H
#define PROTOCOL_NEXT_EDIT_LINES_H

#include "base/base.h"

/* After the line's LF, or the text's end. */
static inline size_t line_end(view text, size_t at)
{
    const char *end = at < text.len ? memchr(text.ptr + at, '\n', text.len - at) : NULL;
    return end ? (size_t)(end - text.ptr) + 1 : text.len;
}

static inline size_t line_begin(view text, size_t at)
{
    while (at && text.ptr[at - 1] != '\n') at--;
    return at;
}

#endif
