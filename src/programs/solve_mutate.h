/* solve_mutate.h - shared by edits of tokens and texts for an empty place. */
#ifndef PROGRAMS_SOLVE_MUTATE_H
#define PROGRAMS_SOLVE_MUTATE_H

#include "programs/solve.h"

enum { MUTATE_NAMES_MAX = 48 };

typedef struct {
    solve_set *set;
    uint32_t n_left;      /* edits that may still be made */
    solve_token *tokens;  /* [n] code tokens, with their places in the file */
    uint32_t n;
    view names[MUTATE_NAMES_MAX]; /* names of the file, those near the place first */
    uint32_t n_names;
    view numbers[4];      /* of the file */
    uint32_t n_numbers;
    uint32_t rank;        /* rank of the replacement in turn */
    cerium_error *err;
} mutator;

/* ---- solve_edit.c ---- */

view mutate_token(const mutator *m, uint32_t i);
/* Is token i this word?  False beyond the last token. */
bool mutate_is(const mutator *m, uint32_t i, const char *word);
/* Is it one of the words "a b c"? */
bool mutate_among(view word, const char *words);
/* Tokens [a, b) with the text between them. */
view mutate_span(const mutator *m, uint32_t a, uint32_t b);
/* After the operand that begins at i, with its calls, subscripts and members; i if there is
 * none. */
uint32_t mutate_operand_end(const mutator *m, uint32_t i);
/* Is it an operator between two operands? */
bool mutate_is_binary(const mutator *m, uint32_t i);
bool mutate_is_operand(const mutator *m, uint32_t i);
bool mutate_is_closer(const mutator *m, uint32_t i);
bool mutate_is_keyword(view word);
/* The token after the bracket that opens at i; m->n if it stays open. */
uint32_t mutate_after_bracket(const mutator *m, uint32_t i);
/* The beginning of the operand that ends before i; i if there is none. */
uint32_t mutate_operand_begin(const mutator *m, uint32_t i);
/* Make a variant: [begin, end) replaced by text, or by its parts; none if it equals another, is too
 * long, or there are enough. */
CERIUM_CHECKED int mutate_edit(mutator *m, size_t begin, size_t end, view text);
CERIUM_CHECKED int mutate_parts(mutator *m, size_t begin, size_t end, const view *parts,
                                uint32_t n);

/* ---- solve_fill.c ---- */

/* Make texts for an empty place: names, code from elsewhere in the file, and small forms of both.
 * The tokens are those of the whole file. */
CERIUM_CHECKED int mutate_fill(mutator *m, solve_span at);

#endif
