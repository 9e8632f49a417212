/* syntax_parts.h - unfinished code and its open constructs; for syntax_check.c and ending*.c. */
#ifndef GUARD_SYNTAX_PARTS_H
#define GUARD_SYNTAX_PARTS_H

#include "guard/guard_parts.h"

enum { SYNTAX_WORDS_MAX = 32 };

/* A block between words: "#if" of C, "if (..):" of PHP. */
typedef struct {
    const char *end; /* the word that closes it */
    uint32_t at;     /* its last sign */
    uint16_t depth;  /* brackets that were open there */
} syntax_word;

/* The code up to the place in question, and its open constructs. */
typedef struct {
    const char *text;
    uint32_t n;
    lexer lexer;
    uint32_t open_at[GUARD_BRACKETS_MAX];  /* where each bracket of the lexer's stack is */
    syntax_word words[SYNTAX_WORDS_MAX];
    uint32_t n_words;
    const char *head; /* PHP: a colon here would open a block that ends with this; or NULL */
    uint32_t last; /* byte that is code, from 1; 0: there is none.  Comments are none */
    uint32_t closed_at, closed; /* the bracket of the last block that was closed, and the byte after
                                   its end; 0: none */
} beginning;

void syntax_read(beginning *b, guard_language language, view text);
/* Blanks and tabs before that line. */
view syntax_indent_at(const beginning *b, uint32_t at);
/* The line around byte `at`, without the blanks before it. */
view syntax_line_at(const beginning *b, uint32_t at);
/* The text that must follow the bracket that closes this block, or "". */
const char *syntax_after_block(const beginning *b, uint32_t at);

#endif
