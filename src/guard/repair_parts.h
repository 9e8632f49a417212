/* repair_parts.h - the input and output of repairs.  Private to repair. */
#ifndef GUARD_REPAIR_PARTS_H
#define GUARD_REPAIR_PARTS_H

#include "guard/repair.h"
#include "guard/repair_line.h"

typedef struct {
    char text[REPAIR_BYTES];
    size_t n;
    bool fits;
} writing;

/* The line, without its newline; the weak part of it. */
typedef struct {
    const guard_finding *f;
    view line, newline;
    size_t indent, from, to;
    bool outside; /* of every function, as indentation gives it */
    bool pointer; /* its value is one */
    bool leaves;  /* the replaced code ended the function: "return x;" */
} repair;


/* ---- repair_words.c ---- */

void repair_put(writing *w, view text);
void repair_put_text(writing *w, const char *text);
view repair_part(view text, size_t from, size_t to);
bool repair_is_script(guard_language l);
/* A statement that refuses.  ends: with its terminator, if the language has one. */
bool repair_put_statement(writing *w, const repair *r, bool ends);
/* An expression that fits as any value, and as a function called with the following text. */
bool repair_put_expression(writing *w, const repair *r, bool called);

/* ---- repair_bound.c ---- */

/* Only the assigned value refuses: the text after the line compiles as before. */
bool repair_write_bound(const repair *r, const repair_depths *d, writing *w);

#endif
