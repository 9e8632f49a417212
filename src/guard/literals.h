/* literals.h - the words that wake the rules, in one vectorscan database for all languages.
 *
 * Languages share most words: one database for each took more memory, and half of the time of a
 * start.  A line without such a word is never parsed; most have none.  The database is scanned once
 * for each complete line, so that the result does not depend on how the bytes arrive. */
#ifndef GUARD_LITERALS_H
#define GUARD_LITERALS_H

#include <hs/hs.h>

#include "guard/rules.h"

typedef struct {
    uint32_t rule;  /* of the set; RULE_LINE alone is kept apart */
    uint16_t len;
    uint8_t language; /* guard_language: in text of this one */
    bool word;      /* no letter of a word may be beside it */
    bool open;      /* letters may be after it */
    bool call;      /* it wakes calls alone: text like a call or an alias must follow */
    bool in_c;      /* and an alias is after "=" */
    const char *needs; /* one of these bytes must be on the line, or the rule finds nothing; or
                          NULL */
    bool line;      /* it wakes a RULE_LINE, not the tree's rules */
    const pcre2_code *name; /* the word around it must match, or NULL; borrowed from its rule */
} literal;

typedef struct {
    hs_database_t *database; /* NULL: no words */
    literal *list;   /* literals of one text are neighbors */
    uint32_t *first; /* text i of the database: list[first[i]] to list[first[i + 1] - 1] */
} literal_set;

typedef struct {
    bool tree;                           /* a rule of the tree is woken */
    uint64_t lines[GUARD_RULES_MAX / 64]; /* woken rules of lines */
} woken;

int literals_open(literal_set *l, const rule_set *rules, cerium_error *err);
void literals_close(literal_set *l);
/* whole: text is a logical line from its beginning to its end. */
void literals_scan(const literal_set *l, hs_scratch_t *scratch, const regex_scratch *re,
                   guard_language language, view text, bool whole, woken *out);

#endif
