/* drafting.h - the time of speculative decoding with a draft model on cores that the model leaves
 * idle.
 *
 * A pass verifies the sure token and `tokens` - 1 guesses.  In turns, guesses and verifications
 * follow each other.  Overlapped: while a pass is verified the smaller model continues as though
 * all of it were right, and as though its next guess were the token that the pass yields; if so,
 * the next pass is ready, else it finishes the current step and starts again. */
#ifndef WAFER_DRAFTING_H
#define WAFER_DRAFTING_H

#include "wafer/plan.h"

typedef struct {
    wafer_region place;   /* idle cores, in the usable rectangle of a wafer: all that it may use */
    plan_request request; /* of the smaller model, on the whole machine: the request for timing
                             `plan` */
    plan_result plan;     /* on those cores, as on a wafer of its own */
    uint32_t tell_hops, offer_hops; /* from the head to it, from it to the embedding */
    uint32_t crossings;             /* between wafers, both ways together */
} draft_plan;

/* Microseconds of a pass. */
typedef struct {
    double verify;   /* of all its tokens */
    double step;     /* one guess, */
    double catch_up; /* and one after two tokens: if all were right, the last is not computed */
    double tell;     /* the right tokens and the next one, to the smaller model */
    double offer;    /* the guesses, to the model */
} draft_us;

/* CERIUM_ERR_ARGUMENT: different vocabularies, or a context over the smaller model's. */
CERIUM_CHECKED int draft_agree(const step_program *program, const step_program *drafter,
                               uint32_t context, cerium_error *err);
/* Plan r's model, and `drafter` (its program and quant; the rest is r's) on its idle cores: the
 * fastest layout whose idle cores fit the smaller one.  r->draft: tokens of a pass at most, 2 or
 * more.  CERIUM_ERR_CAPACITY: the reason and what would fit; those of draft_agree();
 * CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int draft_search(draft_plan *out, plan_result *plan, const plan_request *r,
                                const plan_request *drafter, cerium_error *err);
/* A pass of 1 to r->draft tokens: fast and slow end of the band.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int draft_time(draft_us out[2], const draft_plan *d, const plan_result *plan,
                              const plan_request *r, uint32_t tokens);
/* The same of two models, each whole on its own mesh, side by side: for `tokens` verified, and
 * steps of one and two tokens. */
typedef struct {
    const step_program *program;
    uint32_t width, height;
    step_cost cost; /* its mesh is that of both; its tokens do not matter */
} draft_region;
CERIUM_CHECKED int draft_time_beside(draft_us *out, const draft_region *large,
                                     const draft_region *small, uint32_t tokens, double clock_ghz);

/* The mean number of tokens of a pass, if each guess is right with probability p when those before
 * it are: 1 + p + ... + p^(tokens - 1). */
double draft_yield(double p, uint32_t tokens);
/* Mean microseconds from pass to pass.  A pass of one token needs no guess. */
double draft_turns_us(const draft_us *t, double p, uint32_t tokens);
double draft_overlapped_us(const draft_us *t, double p, uint32_t tokens);
/* Mean number of guesses from pass to pass: overlapped also discarded ones. */
double draft_turns_guesses(uint32_t tokens);
double draft_overlapped_guesses(const draft_us *t, double p, uint32_t tokens);

/* Dynamic joules of the parts of a pass: the ends of the energy constants. */
typedef struct {
    wafer_band verify;          /* of all its tokens */
    wafer_band guess, catch_up; /* one guess, and one after two tokens */
    wafer_band messages;        /* both ways */
} draft_joules;

/* For one user, who has the wafers alone: a token; dollars of a million. */
typedef struct {
    wafer_band tokens_s, joules, usd;
} draft_figures;

/* Of a pass of 1 to r->draft tokens.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int draft_energy(draft_joules *out, const draft_plan *d, const plan_result *plan,
                                const plan_request *r, uint32_t tokens);
/* us, j: of passes of this many tokens. */
draft_figures draft_figure(const draft_us us[2], const draft_joules *j, const plan_result *plan,
                           const plan_request *r, double p, uint32_t tokens, bool overlapped);

#endif
