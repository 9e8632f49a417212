/* window.h - the end of code that is not written to its end, as a grammar wants it. */
#ifndef GUARD_WINDOW_H
#define GUARD_WINDOW_H

#include "guard/lexer.h"

enum { WINDOW_CLOSERS = 1024 };

/* After text[0, n), which x has read: what closes its brackets, strings and blocks, and a newline.
 * room: bytes after it that may be written, at least 64.  Returns how many there are then; places
 * in the code stay what they are. */
size_t window_close(const lexer *x, char *text, size_t n, size_t room);
/* Blanks and tabs that a line begins with. */
static inline uint32_t window_indent(view line)
{
    uint32_t n = 0;
    while (n < line.len && (line.ptr[n] == ' ' || line.ptr[n] == '\t')) n++;
    return n;
}

/* The `try:`s of Python's text that have no other part yet get one, in out. */
size_t window_tries(view text, char *out, size_t size);

#endif
