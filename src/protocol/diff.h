/* diff.h - the differences between two texts, line by line. */
#ifndef PROTOCOL_DIFF_H
#define PROTOCOL_DIFF_H

#include <stdio.h>

#include "base/base.h"

/* ---- limits: bounds for broken or hostile input ---- */

#define DIFF_BYTES_MAX      (16u << 20)
#define DIFF_LINES_MAX      (1u << 20)
#define DIFF_CHANGES_MAX    2000       /* removed and added lines: 16 MB of scratch */

/* Lines [a, a + n_a) of the old text became [b, b + n_b) of the new one. */
typedef struct {
    uint32_t a, n_a, b, n_b;
} diff_change;

typedef struct {
    view *lines[2];       /* [n_lines], with their line ends; of the old and the new text */
    uint32_t n_lines[2];
    diff_change *changes; /* [n_changes], in order, with lines between them that are equal */
    uint32_t n_changes;
    bool is_loose;
} diff;

static inline view diff_without_end(view line) { return view_trim_end(line, " \t\r\n"); }
static inline bool diff_same(view a, view b, bool is_loose)
{
    return is_loose ? view_equal(diff_without_end(a), diff_without_end(b)) : view_equal(a, b);
}

/* The shortest list of changes that makes b from a (Myers 1986); if these had more than
 * DIFF_CHANGES_MAX lines, one change from the first to the last difference. is_loose: ignores
 * blanks at the ends of lines.
 * Borrows both texts.  CERIUM_ERR_CAPACITY for more than DIFF_LINES_MAX lines. */
CERIUM_CHECKED int diff_open(diff *out, view a, view b, bool is_loose, cerium_error *err);
void diff_close(diff *d);

/* As `diff -u`, with three lines around each change; nothing when there is none. */
void diff_print(const diff *d, const char *path, FILE *to);
/* Groups of changes that are shown together. */
uint32_t diff_hunks(const diff *d);
void diff_count(const diff *d, uint32_t *added, uint32_t *removed);

#endif
