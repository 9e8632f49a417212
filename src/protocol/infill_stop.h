/* infill_stop.h - where the text of a hole ends by itself.
 *
 * A completion should be one block: it ends where the code leaves the block of the hole, at the
 * line that comes after the hole anyway, and where it begins to loop.  Text is held back only while
 * it may still be such an end: blanks before the line is known, and the beginning of a line that
 * would end it. */
#ifndef PROTOCOL_INFILL_STOP_H
#define PROTOCOL_INFILL_STOP_H

#include "base/memory.h"

enum { INFILL_STOP_PERIOD_LINES = 8, INFILL_STOP_PERIOD_BYTES = 32 };

typedef enum {
    INFILL_STOP_NONE = 0,  /* not ended */
    INFILL_STOP_LEFT = 1,  /* the code left its block */
    INFILL_STOP_MET = 2,   /* it reached the line after the hole */
    INFILL_STOP_ROUND = 3, /* it repeated the text just before */
} infill_stop_end;

/* Zero-initialised: all text is shown at once. */
typedef struct {
    infill_stop_end end;
    /* private */
    bool is_block, is_closing; /* closing: the current line ends the block */
    bool is_known;             /* indent is that of the block, not of the hole's line */
    uint32_t indent_min, indent;
    view follow;               /* first line after the hole's that is not blank */
    bytes text;                /* lines before the hole; from `begin` on the completion */
    size_t begin, shown, line; /* offsets in text: of the current line */
    size_t solid;              /* after the last byte that is not blank */
    uint32_t n_again;
    size_t again[INFILL_STOP_PERIOD_LINES];  /* lines that would make it a loop */
    uint32_t runs[INFILL_STOP_PERIOD_BYTES]; /* bytes of the line equal to those this many before */
} infill_stop;

/* Open a hole with the ends described above.
 *   before, after: around the hole; after is borrowed until the end
 *   indent_min:    lines indented by less end it too (llama.cpp's n_indent); 0: none
 *   is_block:      false: indent_min alone ends it
 * CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int infill_stop_open(infill_stop *h, view before, view after, uint32_t indent_min,
                                    bool is_block);

/* Feed more text of the completion.  Appends to *show the text that may be sent now; h->end says
 * whether it ended, and later text is ignored.  CERIUM_ERR_MEMORY, _CAPACITY (of *show). */
CERIUM_CHECKED int infill_stop_feed(infill_stop *h, view text, bytes *show);

/* The text is complete: held back text that is not an end is appended to *show, without blanks at
 * its end. */
CERIUM_CHECKED int infill_stop_finish(infill_stop *h, bytes *show);

/* If the text ended by a loop in the middle of a line: how many of the sent bytes are the beginning
 * of that incomplete line.  Else 0. */
size_t infill_stop_broken(const infill_stop *h);

/* Frees what it holds. */
void infill_stop_close(infill_stop *h);

/* "block", "suffix", "loop"; "" while it is open */
const char *infill_stop_end_name(infill_stop_end end);

#endif
