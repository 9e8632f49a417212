/* grammar_codes.h - sets of characters, as expressions over bytes. */
#ifndef SAMPLING_GRAMMAR_CODES_H
#define SAMPLING_GRAMMAR_CODES_H

#include "sampling/grammar_build.h"

enum { CODE_MAX = 0x10ffff, CODE_RANGES_MAX = 2048 }; /* \p{L} has 659 */

/* Ranges [lo, hi] of code points. */
typedef struct {
    uint32_t n;
    bool is_over; /* there were more than CODE_RANGES_MAX */
    uint32_t range[CODE_RANGES_MAX][2];
} code_set;

/* The spelling of a character in the text. */
typedef enum {
    CODES_RAW = 0,  /* in UTF-8 */
    CODES_JSON = 1, /* within a JSON string, in the shortest way */
} code_form;

void code_add(code_set *set, uint32_t lo, uint32_t hi);
void code_add_set(code_set *set, const code_set *more);
/* Sort, and join adjacent ranges. */
void code_sort(code_set *set);
/* All other characters; surrogates are not characters. */
void code_invert(code_set *set);
/* The other case of ASCII letters too. */
void code_fold(code_set *set);

/* ---- grammar_unicode.c ---- */

/* The characters that have a property (is_not: all others), by any name of it in Unicode,
 * ECMAScript or PCRE2: "Lu", "Letter", "Script=Greek". False: unknown name. */
bool code_add_property(grammar_builder *b, code_set *set, view name, bool is_not);
/* The other cases of all letters; of ASCII letters those in ASCII. */
void code_fold_all(grammar_builder *b, code_set *set);

/* Any one character of a set. */
uint32_t expr_codes(grammar_builder *b, const code_set *set, code_form form);
uint32_t expr_code_range(grammar_builder *b, uint32_t lo, uint32_t hi, code_form form);
/* Text, in UTF-8, in the spelling of its characters. */
uint32_t expr_literal(grammar_builder *b, view text, code_form form);

/* The character at text.ptr: how many bytes it has, 0 when it is not UTF-8. */
size_t code_read(view text, uint32_t *code);
/* Its bytes, 1 to 4. */
size_t code_write(uint32_t code, uint8_t out[4]);

/* ---- grammar_regex.c ---- */

typedef struct {
    code_form form;
    bool ignores_case;
    bool dot_is_all; /* . is a newline too */
    bool is_verbose; /* white space and # comments are ignored */
    bool is_search;  /* a match may be anywhere in the text */
    bool is_part;    /* of a longer text: the context of an assertion is unknown */
    bool is_lines;   /* ^ and $ are at the ends of lines too */
} regex_options;

/* A regular expression; `place` begins the line of an error: "/properties/a/pattern". */
uint32_t expr_regex(grammar_builder *b, view text, regex_options options, const char *place);

#endif
