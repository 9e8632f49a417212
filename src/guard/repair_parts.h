/* repair_parts.h - what repairs are written with.  Private to repair. */
#ifndef GUARD_REPAIR_PARTS_H
#define GUARD_REPAIR_PARTS_H

#include "guard/repair.h"
#include "guard/repair_line.h"

typedef struct {
    char text[REPAIR_BYTES];
    size_t n;
    bool fits;
} writing;

/* The line, without its newline; what is weak in it. */
typedef struct {
    const guard_finding *f;
    view line, newline;
    size_t indent, from, to;
    bool outside; /* of every function, by how it is there */
    bool pointer; /* its value is one */
    bool leaves;  /* what is replaced ended the function: "return x;" */
} repair;


/* ---- repair_words.c ---- */

void repair_put(writing *w, view text);
void repair_put_text(writing *w, const char *text);
view repair_part(view text, size_t from, size_t to);
bool repair_is_script(guard_language l);
/* A statement that refuses.  ends: with the sign that ends it, where the language has one. */
bool repair_put_statement(writing *w, const repair *r, bool ends);
/* What serves as any value, and as what is called with what follows. */
bool repair_put_expression(writing *w, const repair *r, bool called);

/* ---- repair_bound.c ---- */

/* Only what the name is given refuses: what comes after the line is compiled as it was. */
bool repair_write_bound(const repair *r, const repair_depths *d, writing *w);

#endif
