/* repair.h - the replacements of a weak line: its safe form, or a statement that refuses. */
#ifndef GUARD_REPAIR_H
#define GUARD_REPAIR_H

#include "guard/guard.h"

/* The forms, in the order of trying.  The first that parses in the line's place and is not weak is
 * inserted: guard_repair() does not know the surroundings. */
typedef enum {
    REPAIR_FIX = 0,        /* the rule's safe form, with the line's own names */
    REPAIR_BOUND = 1,      /* the value that a name is assigned, or an argument, refuses */
    REPAIR_STATEMENT = 2,  /* the statement refuses: raise, throw, panic, abort */
    REPAIR_EXPRESSION = 3, /* the weak expression refuses, and its line stays */
    REPAIR_HEADER = 4,     /* the block that the line opens refuses */
    REPAIR_BODY = 5,       /* the weak function refuses */
    REPAIR_VALUE = 6,      /* the value is removed from text that is not code */
    REPAIR_FORMS = 7,
} repair_form;

enum { REPAIR_BYTES = 4 * GUARD_LINE_BYTES_MAX };

/* The whole line of a finding in that form, as bytes of its stream: escaped where it is in JSON,
 * with a + where it is in a diff, its own newline at its end.  Returns the length; 0: the line has
 * no such form, or is not fully known. */
size_t guard_repair(const guard_finding *f, repair_form form, char *out, size_t size);

#endif
