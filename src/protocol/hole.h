/* hole.h - where the text of a hole ends by itself.
 *
 * A completion is to be one block: it ends where the code leaves the block that the hole is in, at
 * the line that stands behind the hole anyway, and where it begins to go round.  Text waits only
 * while it may still turn out to be such an end: blanks before a line is known, and what is so far
 * the beginning of a line that would end it. */
#ifndef PROTOCOL_HOLE_H
#define PROTOCOL_HOLE_H

#include "base/memory.h"

enum { HOLE_PERIOD_LINES = 8, HOLE_PERIOD_BYTES = 32 };

typedef enum {
    HOLE_OPEN = 0,  /* there may be more */
    HOLE_LEFT = 1,  /* the code left its block */
    HOLE_MET = 2,   /* it came to the line behind the hole */
    HOLE_ROUND = 3, /* it said what it had said just before */
} hole_end;

/* Zero-initialised: all text is shown as it comes. */
typedef struct {
    hole_end end;
    /* private */
    bool is_block, is_closing; /* closing: the line that comes ends the block */
    bool is_known;             /* indent is that of the block, not of the hole's line */
    uint32_t indent_min, indent;
    view follow;               /* first line behind the hole's that is not blank */
    bytes text;                /* lines before the hole, from `begin` on its own */
    size_t begin, shown, line; /* places in text: of the line that comes */
    size_t solid;              /* behind the last byte that is no blank */
    uint32_t n_again;
    size_t again[HOLE_PERIOD_LINES]; /* lines that would make it go round */
    uint32_t runs[HOLE_PERIOD_BYTES]; /* bytes of the line that are those so many before them */
} hole;

/* Ends as said above.
 *   before, after: around the hole; after is borrowed until the end
 *   indent_min:    lines indented by less end it too (llama.cpp's n_indent); 0: none
 *   is_block:      false: indent_min alone ends it
 * CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int hole_open(hole *h, view before, view after, uint32_t indent_min, bool is_block);

/* More text of it.  Appends to *show what may be told now; h->end says whether it ended, and what
 * comes then is not looked at.  CERIUM_ERR_MEMORY, _CAPACITY (of *show). */
CERIUM_CHECKED int hole_feed(hole *h, view text, bytes *show);

/* Nothing more comes: what waited and is no end is appended to *show, without blanks at its end. */
CERIUM_CHECKED int hole_finish(hole *h, bytes *show);

/* When the text ended because it went round in the middle of a line: how many of the bytes that
 * were told are the beginning of that line, which is half of one.  Else 0. */
size_t hole_broken(const hole *h);

/* Frees what it holds. */
void hole_close(hole *h);

/* "block", "suffix", "loop"; "" while it is open */
const char *hole_end_name(hole_end end);

#endif
