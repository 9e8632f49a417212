/* edit_rules.h - an edit as a rule that may hold in other places: these words between those became
 * others.
 *
 * A rule consists of words and signs; blanks between them are ignored. */
#ifndef LSP_EDIT_RULES_H
#define LSP_EDIT_RULES_H

#include "guard/guard.h"
#include "lsp/edit_history.h"

enum { RULE_WORDS_MAX = 64, RULE_AROUND = 3, RULE_PLACES_MAX = 512 };

/* Bytes [from, to) of a text. */
typedef struct {
    uint32_t from, to;
} code_word;

/* Words and signs of text, without blanks, at most max; SIZE_MAX: there are more. */
size_t code_words(view text, code_word *out, size_t max);
bool code_is_name(view word);

/* Words `a` became `b`; the views are into texts of the caller. */
typedef struct {
    view a, b;          /* with the blanks between them */
    size_t at;          /* of b, in the current text */
    bool is_rename;     /* one name became another, maybe several times */
} edit_rule;

/* The rule of an edit; was: its old words with those around them, a buffer for the answer.  False:
 * the edit cannot be repeated elsewhere. */
bool edit_rule_of(const lsp_text *t, const edit_record *e, bytes *was, edit_rule *out);

/* Words around a place of the text: [n_left] before `from`, [n_right] from `to` on. */
typedef struct {
    view left[RULE_AROUND], right[RULE_AROUND]; /* the nearest first */
    uint32_t n_left, n_right;
} edit_context;

void edit_context_at(const lsp_text *t, size_t from, size_t to, edit_context *out);
/* Keep only what both have in common, from the nearest word on. */
void edit_context_join(edit_context *a, const edit_context *b);
/* Places in code, outside of strings and comments, where `a` is between such words; at most n_max.
 * Returns how many. */
size_t edit_places(const lsp_text *t, guard_language language, view a, const edit_context *around,
                   code_word *out, size_t n_max);

#endif
