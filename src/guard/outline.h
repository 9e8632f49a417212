/* outline.h - which functions of a window are complete, found by its lines.
 *
 * A complete function was judged when it was written; a parse needs its head, and its body only if
 * a call of it is followed.  So bodies are left out of the parse. */
#ifndef GUARD_OUTLINE_H
#define GUARD_OUTLINE_H

#include "guard/guard.h"

enum { OUTLINE_DONE_MAX = 40, OUTLINE_OPEN_MAX = 8 };

/* Offsets in the window: a head of [begin, body), a body of [body, tail), then its closing. */
typedef struct {
    uint16_t begin, body, tail, name, name_len;
    uint16_t indent, depth; /* blanks before it; brackets open around it */
} outline_function;

_Static_assert(GUARD_WINDOW_BYTES <= UINT16_MAX, "a place in the window has 16 bits");

typedef struct {
    outline_function done[OUTLINE_DONE_MAX], open[OUTLINE_OPEN_MAX];
    uint8_t n_done, n_open;
    uint32_t n_complete; /* functions so far, including removed ones */
} outline;

typedef struct {
    uint32_t begin, end;
} outline_hole;

/* A logical line [begin, end) of text is complete; brackets open before and after it. */
void outline_line(outline *o, guard_language language, view text, uint32_t begin, uint32_t end,
                  unsigned before, unsigned after);
/* Text [from, to) is removed, and the text after it moves. */
void outline_cut(outline *o, uint32_t from, uint32_t to);
/* Bodies that a parse of text does not need, at most OUTLINE_DONE_MAX; returns how many. */
uint32_t outline_holes(const outline *o, guard_language language, view text, outline_hole *out);

#endif
