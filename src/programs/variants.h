/* variants.h - `--best-of N`: N answers to one prompt, sampled in parallel; returns the
 * likeliest. */
#ifndef PROGRAMS_VARIANTS_H
#define PROGRAMS_VARIANTS_H

#include "programs/generate.h"

enum { VARIANTS_MAX = 64 }; /* rows of one pass */

typedef struct {
    cerium_session *session;
    bytes text;           /* owned */
    uint64_t seed;
    double logprob;       /* of all its tokens together */
    uint32_t n_tokens;
    cerium_stop stop;
    bool done, weak;      /* weak: the watchdog blocks it, and its text was dropped */
} variant;

typedef struct {
    variant of[VARIANTS_MAX]; /* after variants_sample() sorted: the likeliest first, the weak ones
                               * last */
    uint32_t n, n_weak;
    uint32_t prompt_tokens, new_tokens; /* new: of all variants */
    uint64_t first_ns, rest_ns;         /* to the first token of any, and from there to the last */
    bool interrupted;                   /* Ctrl-C */
} variants;

/* Sample all->n answers of the order, each as if it were alone, with seeds counting up from that of
 * its sampling; nothing is streamed.  Answers cut short by Ctrl-C are kept.
 *   all: n is set, the rest zero; always release with variants_free() */
CERIUM_CHECKED int variants_sample(variants *all, cerium_engine *engine,
                                   const generation_order *order, cerium_error *err);
void variants_free(variants *all);

/* Drop answers that the watchdog blocks. before: the code that the answers continue, in GUARD_CODE.
 * CERIUM_ERR_FORMAT, with the finding in the likeliest one, when all are blocked. */
CERIUM_CHECKED int variants_judge(variants *all, watchdog *g, guard_form form, view before,
                                  cerium_error *err);

/* Print the best text to standard output and figures to standard error unless quiet; or all as
 * JSON. */
CERIUM_CHECKED int variants_print(const variants *all, bool quiet, bool as_json,
                                  cerium_error *err);

#endif
