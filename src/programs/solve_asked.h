/* solve_asked.h - variants by the model of the caller: a request is an event on standard output,
 * with the body of a Completions request, and its answer is a line on standard input.
 *
 * One request at a time, for several variants of one place. */
#ifndef PROGRAMS_SOLVE_ASKED_H
#define PROGRAMS_SOLVE_ASKED_H

#include <jansson.h>

#include "programs/solve.h"

typedef struct {
    solve_set *set;
    uint32_t first, n, n_done; /* indices of the model's variants; n_done: those already asked
                                * for */
    uint32_t n_waves, n_asked; /* n_asked: variants of the pending request; 0: none is pending */
    uint32_t place;            /* of that request */
    solve_span places[SOLVE_HOLES_MAX];
    uint32_t n_places, n_tokens_max;
    uint64_t seed;
    float temperature;         /* below 0: chosen for each request */
    bool has_suffix, no_suffix; /* the request has one; the model does not support them */
    bytes in;
    char why[400];             /* why no more can be made; "": more can be */
} solve_asked;

/* Plan n variants, which asked_pump() requests.  Set before: set, places, n_places, n_tokens_max,
 * seed, temperature; zero the rest. */
void asked_plan(solve_asked *a, uint32_t n);
/* Take answers, send requests.  Refused variants are no longer planned. */
CERIUM_CHECKED int asked_pump(solve_asked *a, cerium_error *err);
/* null, or the reason why it made no more. */
json_t *asked_state(const solve_asked *a);
void asked_close(solve_asked *a);

#endif
