/* repair.h - what replaces a weak line: its safe form, or a statement that refuses. */
#ifndef GUARD_REPAIR_H
#define GUARD_REPAIR_H

#include "guard/guard.h"

/* The forms, in the order in which they are tried.  The first that parses where the line stood and
 * is not weak is the one that is put in: guard_repair() does not know what is around it. */
typedef enum {
    REPAIR_FIX = 0,        /* the rule's safe form, with the line's own names */
    REPAIR_BOUND = 1,      /* what is given to a name refuses, or what a call is given */
    REPAIR_STATEMENT = 2,  /* the statement refuses: raise, throw, panic, abort */
    REPAIR_EXPRESSION = 3, /* what is weak refuses, and its line stays */
    REPAIR_HEADER = 4,     /* the block that the line opens refuses */
    REPAIR_BODY = 5,       /* the function that is weak refuses */
    REPAIR_VALUE = 6,      /* of text that is not code the value is taken out */
    REPAIR_FORMS = 7,
} repair_form;

enum { REPAIR_BYTES = 4 * GUARD_LINE_BYTES_MAX };

/* The whole line of a finding in that form, as bytes of its stream: escaped where it is in
 * JSON, with a + where it is in a diff, its own newline at its end.  Returns the length; 0
 * when the line has no such form, or not all of the line is known. */
size_t guard_repair(const guard_finding *f, repair_form form, char *out, size_t size);

#endif
