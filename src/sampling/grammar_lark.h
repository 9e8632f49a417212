/* grammar_lark.h - front ends for grammars written by people: Lark's notation and llama.cpp's. */
#ifndef SAMPLING_GRAMMAR_LARK_H
#define SAMPLING_GRAMMAR_LARK_H

#include "sampling/grammar_codes.h"

uint32_t expr_lark(grammar_builder *b, view text);
uint32_t expr_gbnf(grammar_builder *b, view text);

/* ---- shared by both readers ---- */

typedef struct {
    view name;
    uint32_t rule;
    bool is_said;
    size_t at; /* its first use */
} notation_symbol;

typedef struct {
    grammar_builder *b;
    view text;
    size_t at;
    uint32_t depth;
    bytes symbols; /* notation_symbol */
} notation;

/* An error at the place: "line 3: ...". Returns EXPR_NEVER. */
uint32_t notation_refuse(notation *n, const char *what);
static inline bool notation_has(const notation *n)
{
    return n->at < n->text.len && !n->b->status;
}
static inline char notation_peek(const notation *n, size_t ahead)
{
    return n->at + ahead < n->text.len ? n->text.ptr[n->at + ahead] : '\0';
}
bool notation_take(notation *n, const char *what);
/* Letters, digits, '_' and those of more; empty: there is none. */
view notation_name(notation *n, const char *more);
bool notation_number(notation *n, uint32_t *out);
/* The symbol of a name, made at its first use.  NULL after an error. */
notation_symbol *notation_symbol_of(notation *n, view name);
/* Reject names that were used but never defined.  Returns the expression of the first rule's
 * text. */
uint32_t notation_begin(notation *n, const char *first);
/* The rest of a quoted text, after the opening quote, with its escapes decoded, appended to
 * *out. */
bool notation_quoted(notation *n, char quote, bytes *out);
/* One character in a text or class, an escape read; false at an error. */
bool notation_code(notation *n, uint32_t *code);
/* Append e to the list in *parts. */
void notation_keep(notation *n, bytes *parts, uint32_t e);
/* The collected parts as a sequence or as alternatives; frees *parts. */
uint32_t notation_join(notation *n, bytes *parts, bool is_alt);

#endif
