/* syntax_parts.h - unfinished code and its open constructs; for syntax_check.c and ending.c. */
#ifndef GUARD_SYNTAX_PARTS_H
#define GUARD_SYNTAX_PARTS_H

#include "guard/guard_parts.h"

enum { SYNTAX_DIRECTIVES_MAX = 32 };

/* The code up to the place in question, and its open constructs. */
typedef struct {
    const char *text;
    uint32_t n;
    lexer lexer;
    uint32_t open_at[GUARD_BRACKETS_MAX];  /* where each bracket of the lexer's stack is */
    uint16_t directives[SYNTAX_DIRECTIVES_MAX]; /* brackets that were open at each #if */
    uint32_t n_directives;
    uint32_t closed_at, closed; /* the bracket of the last block that was closed, and the byte after
                                   its end; 0: none */
} beginning;

void syntax_read(beginning *b, guard_language language, view text);
/* The line around byte `at`, without the blanks before it. */
view syntax_line_at(const beginning *b, uint32_t at);
/* The text that must follow the bracket that closes this block, or "". */
const char *syntax_after_block(const beginning *b, uint32_t at);

#endif
