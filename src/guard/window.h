/* window.h - the end of unfinished code, as a grammar needs it. */
#ifndef GUARD_WINDOW_H
#define GUARD_WINDOW_H

#include "guard/lexer.h"

enum { WINDOW_CLOSERS = 1024 };

/* After text[0, n), which x has read: writes what closes its brackets, strings and blocks, and a
 * newline.
 * room: bytes after it that may be written, at least 64.  Returns how many bytes there are then;
 * positions in the code stay the same. */
size_t window_close(const lexer *x, char *text, size_t n, size_t room);
/* Blanks and tabs at the beginning of a line. */
static inline uint32_t window_indent(view line)
{
    uint32_t n = 0;
    while (n < line.len && (line.ptr[n] == ' ' || line.ptr[n] == '\t')) n++;
    return n;
}

/* Does a line of Ruby open a block, or a part of one, that does not end in it? */
bool window_opens_ruby(view line);
/* The `try:`s of Python's text that have no other part yet get one, in out. */
size_t window_tries(view text, char *out, size_t size);

#endif
