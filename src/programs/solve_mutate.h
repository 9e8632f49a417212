/* solve_mutate.h - what edits of tokens and texts for an empty place share. */
#ifndef PROGRAMS_SOLVE_MUTATE_H
#define PROGRAMS_SOLVE_MUTATE_H

#include "programs/solve.h"

enum { MUTATE_NAMES_MAX = 48 };

typedef struct {
    solve_set *set;
    uint32_t n_left;      /* edits that may still be made */
    solve_token *tokens;  /* [n] code, with its places in the file */
    uint32_t n;
    view names[MUTATE_NAMES_MAX]; /* of the file, those near the place first */
    uint32_t n_names;
    view numbers[4];      /* of the file */
    uint32_t n_numbers;
    uint32_t rank;        /* which neighbour of a word is in turn */
    cerium_error *err;
} mutator;

/* ---- solve_edit.c ---- */

view mutate_token(const mutator *m, uint32_t i);
/* Is token i this word?  False beyond the last. */
bool mutate_is(const mutator *m, uint32_t i, const char *word);
/* Is it one of "a b c"? */
bool mutate_among(view word, const char *words);
/* Tokens [a, b) with what is between them. */
view mutate_span(const mutator *m, uint32_t a, uint32_t b);
/* After the operand that begins at i, with its calls, subscripts and members; i: there is none. */
uint32_t mutate_operand_end(const mutator *m, uint32_t i);
/* Is it an operator between two operands? */
bool mutate_is_binary(const mutator *m, uint32_t i);
bool mutate_is_operand(const mutator *m, uint32_t i);
bool mutate_is_closer(const mutator *m, uint32_t i);
bool mutate_is_keyword(view word);
/* After the bracket that opens at i; m->n where it stays open. */
uint32_t mutate_behind_bracket(const mutator *m, uint32_t i);
/* Where the operand that ends before i begins; i: there is none. */
uint32_t mutate_operand_begin(const mutator *m, uint32_t i);
/* A variant: [begin, end) replaced by text, or by its parts; nothing where that is the same as
 * another, too long, or there are enough. */
CERIUM_CHECKED int mutate_edit(mutator *m, size_t begin, size_t end, view text);
CERIUM_CHECKED int mutate_parts(mutator *m, size_t begin, size_t end, const view *parts,
                                uint32_t n);

/* ---- solve_fill.c ---- */

/* Texts for an empty place: names, what the file has elsewhere, and what small forms make of them.
 * The tokens are those of the whole file. */
CERIUM_CHECKED int mutate_fill(mutator *m, solve_span at);

#endif
