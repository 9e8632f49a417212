/* infill_stop.h - where the text of a hole ends by itself.
 *
 * A completion is to be one block: it ends where the code leaves the block that the hole is in, at
 * the line that comes after the hole anyway, and where it begins to go round.  Text waits only
 * while it may still turn out to be such an end: blanks before a line is known, and what is so far
 * the beginning of a line that would end it. */
#ifndef PROTOCOL_INFILL_STOP_H
#define PROTOCOL_INFILL_STOP_H

#include "base/memory.h"

enum { INFILL_STOP_PERIOD_LINES = 8, INFILL_STOP_PERIOD_BYTES = 32 };

typedef enum {
    INFILL_STOP_NONE = 0,  /* there may be more */
    INFILL_STOP_LEFT = 1,  /* the code left its block */
    INFILL_STOP_MET = 2,   /* it came to the line after the hole */
    INFILL_STOP_ROUND = 3, /* it said what it had said just before */
} infill_stop_end;

/* Zero-initialised: all text is shown as it comes. */
typedef struct {
    infill_stop_end end;
    /* private */
    bool is_block, is_closing; /* closing: the line that comes ends the block */
    bool is_known;             /* indent is that of the block, not of the hole's line */
    uint32_t indent_min, indent;
    view follow;               /* first line after the hole's that is not blank */
    bytes text;                /* lines before the hole, from `begin` on its own */
    size_t begin, shown, line; /* places in text: of the line that comes */
    size_t solid;              /* after the last byte that is not blank */
    uint32_t n_again;
    size_t again[INFILL_STOP_PERIOD_LINES];  /* lines that would make it go round */
    uint32_t runs[INFILL_STOP_PERIOD_BYTES]; /* of the line, equal to those this many before */
} infill_stop;

/* Ends as said above.
 *   before, after: around the hole; after is borrowed until the end
 *   indent_min:    lines indented by less end it too (llama.cpp's n_indent); 0: none
 *   is_block:      false: indent_min alone ends it
 * CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int infill_stop_open(infill_stop *h, view before, view after, uint32_t indent_min,
                                    bool is_block);

/* More text of it.  Appends to *show what may be sent now; h->end says whether it ended, and what
 * comes then is not looked at.  CERIUM_ERR_MEMORY, _CAPACITY (of *show). */
CERIUM_CHECKED int infill_stop_feed(infill_stop *h, view text, bytes *show);

/* Nothing more comes: what waited and is no end is appended to *show, without blanks at its end. */
CERIUM_CHECKED int infill_stop_finish(infill_stop *h, bytes *show);

/* When the text ended because it went round in the middle of a line: how many of the bytes that
 * were sent are the beginning of that line, which is half of one.  Else 0. */
size_t infill_stop_broken(const infill_stop *h);

/* Frees what it holds. */
void infill_stop_close(infill_stop *h);

/* "block", "suffix", "loop"; "" while it is open */
const char *infill_stop_end_name(infill_stop_end end);

#endif
