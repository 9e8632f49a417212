/* repair_line.h - the brackets and words of a line to rewrite.  Private to repair. */
#ifndef GUARD_REPAIR_LINE_H
#define GUARD_REPAIR_LINE_H

#include "guard/guard.h"

enum { BRACKETS_SEEN = 32 };

/* The brackets that a text closes without opening them, then those that it leaves open. */
typedef struct {
    char list[BRACKETS_SEEN];
    uint32_t n;
    bool opens; /* its last sign is Python's colon that opens a block */
} repair_brackets;

repair_brackets repair_read_brackets(guard_language language, view text);
bool repair_same_brackets(const repair_brackets *a, const repair_brackets *b);

/* After each byte of a line: the innermost open bracket, and the depth. */
typedef struct {
    bool text; /* the byte is of a string or a comment */
    char inner;
    uint16_t n;
} repair_depth;

typedef struct {
    repair_depth at[GUARD_LINE_BYTES_MAX];
    size_t n;
} repair_depths;

void repair_read_depths(repair_depths *d, guard_language language, view line);
/* The position after the bracket that closes the one at `at`. */
size_t repair_after_bracket(const repair_depths *d, size_t at);

size_t repair_skip_blanks(view line, size_t at);
bool repair_word_at(view line, size_t at, const char *word);

#endif
