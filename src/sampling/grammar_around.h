/* grammar_around.h - assertions of regular expressions: ^, $, \b, \B, lookaheads and lookbehinds.
 * Private to grammar_regex.c and grammar_around.c.
 *
 * Each assertion becomes a *mark*: a byte that never occurs in a text, at its position. A mark has
 * a language of bad contexts: texts in which the mark is where it must not be. Take the expression
 * with its marks, subtract all texts in which some mark has a bad context, then delete the marks:
 * that is the expression's language. It is regular for any repetition or nesting. */
#ifndef SAMPLING_GRAMMAR_AROUND_H
#define SAMPLING_GRAMMAR_AROUND_H

#include "sampling/grammar_codes.h"

enum {
    MARK_FIRST = 0xf5, /* up to 0xfe: no bytes of UTF-8; 0xff marks control tokens */
    MARKS_MAX = 10,
};

typedef enum {
    PLACE_BEGIN = 0, /* of the text, or (is_line) of a line */
    PLACE_END = 1,
    PLACE_WORD = 2,  /* one side is a letter of a word, the other is not */
    PLACE_INNER = 3, /* not so */
    PLACES = 4,
} around_place;

typedef struct {
    grammar_builder *b;
    code_form form;
    uint32_t n;                      /* marks that are in use */
    uint32_t bad[MARKS_MAX];         /* expressions */
    uint32_t floor;                  /* marks below it belong to enclosing assertions */
    uint32_t outer[MARKS_MAX];       /* of a look: the floor outside of it */
    uint32_t known[PLACES][2];       /* [place][is_line] its mark + 1; 0: none yet */
} around;

void around_open(around *a, grammar_builder *b, code_form form);
/* An expression that is true at a place.  NONE: there are too many marks. */
uint32_t around_at(around *a, around_place place, bool is_line);
/* The same for the text after it (is_ahead) or before it: it begins (ends) with e.  `begun` is the
 * result of around_begin() before e was read.  NONE likewise. */
uint32_t around_begin(around *a);
uint32_t around_look(around *a, uint32_t begun, uint32_t e, bool is_ahead, bool is_not);
/* e without the texts forbidden by its marks, and without marks. */
uint32_t around_close(around *a, uint32_t e);

#endif
