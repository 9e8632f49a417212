/* ending.h - what unfinished code lacks to be a whole text of its language. */
#ifndef GUARD_ENDING_H
#define GUARD_ENDING_H

#include "guard/guard.h"

enum { GUARD_ENDING_BYTES = 2048 };

typedef enum {
    GUARD_CLOSE_NOTHING = 0, /* a block of words without a statement gets one; no more */
    GUARD_CLOSE_HEADER = 1,  /* code that ends behind the line that opens a block is closed */
    GUARD_CLOSE_ALL = 2,     /* all code is closed */
} guard_closing;

typedef struct {
    uint64_t at;  /* byte of the stream where the text belongs; bytes from there on are dropped */
    bool refuses; /* a statement of it refuses */
    size_t n;
    char text[GUARD_ENDING_BYTES]; /* bytes of the stream */
} guard_ending;

/* The code that the stream ends with is to be a whole text.  False, and *out undefined: nothing is
 * missing, nothing that is known completes it, or it is not a text of its own (a diff, an edit,
 * JSON).  Before guard_finish(). */
bool guard_end_code(const guard_stream *s, guard_worker *w, guard_closing closing,
                    guard_ending *out);

#endif
