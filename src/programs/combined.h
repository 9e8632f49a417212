/* combined.h - makes plain diffs of the combined ones that git shows of a merge. */
#ifndef PROGRAMS_COMBINED_H
#define PROGRAMS_COMBINED_H

#include "base/memory.h"

enum { COMBINED_HEAD_MAX = 256, COMBINED_PARENTS_MAX = 32 };

/* Zero-initialised, and out.max set.  `git show` and `git diff` of a merge have a column of signs
 * for each parent and hunks between `@@@`.  Here such a line gets one sign: - if the result does
 * not have it, + if a parent does not; and its hunk one range of lines before, which is empty.
 * All other text stays what it was, and so does the number of lines. */
typedef struct {
    bytes out; /* of the last call */
    char head[COMBINED_HEAD_MAX];
    size_t n_head;      /* bytes of a line that are held back */
    size_t n_parents;   /* columns of the hunk; 0 outside */
    bool in_line;       /* the rest of the line is passed on */
} combined;

/* The next bytes; `last` releases what is held back.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int combined_feed(combined *c, view text, bool last);
void combined_free(combined *c);

#endif
