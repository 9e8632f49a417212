/* lexer.h - reads code byte by byte: strings, comments, brackets, and where a logical line ends. It
 * is right on code of people and models, and merely bounded on everything else. */
#ifndef GUARD_LEXER_H
#define GUARD_LEXER_H

#include "guard/guard.h"

enum { LEXER_ID_BYTES = 64 };

/* Open constructs, innermost last:
 *   ( [        as they are
 *   {          a block                 E  a brace in an expression
 *   I          code in a string        M  HTML around PHP
 *   ' " `      strings                 3  three double quotes      2  three single ones
 *   D d        the same as 3 and 2 at the beginning of a statement: documentation
 *   /          a comment over lines    #  a comment to the line's end
 *   R          an expression in slashes (J: in its brackets)
 *   H          a heredoc */
typedef struct {
    guard_language language;
    uint16_t n;    /* in stack */
    uint32_t over; /* opened beyond it */
    char stack[GUARD_BRACKETS_MAX];
    char prev;     /* the byte before */
    char last;     /* the last byte of code that is not blank; '\n' at a logical line's begin */
    char word[8];  /* the last word's first letters */
    uint8_t n_word;
    uint8_t run;   /* quotes in a row */
    bool escaped, begun;
    char ids[LEXER_ID_BYTES]; /* of the heredocs that follow one another, each with a newline */
    uint8_t n_ids, id_state, id_at;
} lexer;

void lexer_begin(lexer *x, guard_language language);
/* The next byte.  True when a logical line ends with it. */
bool lexer_step(lexer *x, char c);
/* Is the position inside a string or a comment? */
bool lexer_in_text(const lexer *x);
/* Inside a comment or documentation? */
bool lexer_in_comment(const lexer *x);
/* Is a round or square bracket open around the current position? */
unsigned lexer_n_parens(const lexer *x);
/* The text that closes all open constructs; returns its length, at most size. */
size_t lexer_closers(const lexer *x, char *out, size_t size);

#endif
