/* solve_asked.h - variants by a model that somebody else has: what is wanted is an event on
 * standard output, the body of a Completions request, and what came of it a line on standard input.
 *
 * One request at a time, for several variants of one place. */
#ifndef PROGRAMS_SOLVE_ASKED_H
#define PROGRAMS_SOLVE_ASKED_H

#include <jansson.h>

#include "programs/solve.h"

typedef struct {
    solve_set *set;
    uint32_t first, n, n_done; /* indices that are the model's; those that were asked for */
    uint32_t n_waves, n_asked; /* n_asked: variants of the request that waits; 0: none does */
    uint32_t place;            /* of that request */
    solve_span places[SOLVE_HOLES_MAX];
    uint32_t n_places, n_tokens_max;
    uint64_t seed;
    float temperature;         /* below 0: by the request */
    bool has_suffix, no_suffix; /* the request has one; the model knows none */
    bytes in;
    char why[400];             /* why there are no more; "": there may be */
} solve_asked;

/* Plan n variants, for which asked_pump() asks.  Set before: set, places, n_places, n_tokens_max,
 * seed, temperature; zero the rest. */
void asked_plan(solve_asked *a, uint32_t n);
/* Take what came, ask for more.  What is refused is not planned any more. */
CERIUM_CHECKED int asked_pump(solve_asked *a, cerium_error *err);
/* null, or why it made no more. */
json_t *asked_state(const solve_asked *a);
void asked_close(solve_asked *a);

#endif
