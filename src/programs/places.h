/* places.h - maps the lines of a diff to lines of the files that it changes. */
#ifndef PROGRAMS_PLACES_H
#define PROGRAMS_PLACES_H

#include "base/memory.h"

enum { PLACES_PATH_MAX = 4096 };

/* Zero-initialised: no line is known.  Feed it a text that may contain diffs: unified ones, also in
 * a Markdown fence, and new files of *** Begin Patch. */
typedef struct {
    bytes lines;   /* uint32_t for each line of the text: its number in the file, 0 for none */
    bytes files;   /* names, each with its end */
    bytes begins;  /* place_file: the line from which each name holds */
    char head[PLACES_PATH_MAX]; /* of the next line */
    size_t n_head;
    bool in_line;
    bool has_prefix;             /* names begin with "a/" and "b/" */
    uint32_t n_old, n_new, next; /* remaining lines of the hunk, and the next one's number */
    uint32_t hunk;               /* the line of its header; 0: there was none */
    bool has_lines, has_signs;   /* of the hunk */
    uint32_t by_words;           /* see diff_places_by_words() */
} diff_places;

/* Feed the next bytes.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int diff_places_feed(diff_places *p, view text);
/* The file that line (from 1) of the diff adds to or belongs to, and its line number there; NULL
 * for lines outside files.  Valid until the next call of feed. */
const char *diff_places_find(const diff_places *p, uint32_t line, uint32_t *number);
/* The line of the first hunk that has no line with a sign, or lines that no diff of lines has: it
 * was made by words (git diff --word-diff), and nothing in it can be told from what was there.
 * 0: none. */
uint32_t diff_places_by_words(const diff_places *p);
void diff_places_free(diff_places *p);

#endif
