/* feedback.h - counts of accepted and refused completions, by model and language, in a file of the
 * user's.  It never leaves the machine.
 *
 * A model's probability p promises that a completion is wanted.  The ratio taken / sum of p in a
 * language moves the threshold of what is shown unasked: if less is taken, less is shown. */
#ifndef PROGRAMS_FEEDBACK_H
#define PROGRAMS_FEEDBACK_H

#include <jansson.h>

#include "lsp/lsp_server.h"

enum { FEEDBACK_ROWS_MAX = 512, FEEDBACK_NAME_BYTES = 64 };

/* Counts of one model in one language. */
typedef struct {
    char model[FEEDBACK_NAME_BYTES], language[FEEDBACK_NAME_BYTES];
    uint64_t shown, taken, typed, refused; /* completions: shown is the sum of the others */
    uint64_t characters_shown, characters_taken;
    uint64_t chosen[LSP_CANDIDATES_MAX]; /* candidates taken, by their place among several; in no
                                            other count */
    double promised; /* sum of their probabilities */
    double standard; /* the threshold in the model's file, as last seen */
} feedback_row;

typedef struct {
    char path[4096];
    feedback_row rows[FEEDBACK_ROWS_MAX]; /* [n_rows] as stored, with the new counts */
    feedback_row since[FEEDBACK_ROWS_MAX]; /* [n_since] not stored yet */
    uint32_t n_rows, n_since;
    uint64_t kept_ns;
    bool is_off; /* the file is not ours: it is left alone */
} feedback;

/* $XDG_STATE_HOME/cerium/completions.json, or below ~/.local/state.  CERIUM_ERR_IO: the file cannot
 * be read; CERIUM_ERR_FORMAT: it is another program's.  f counts nothing then. */
CERIUM_CHECKED int feedback_open(feedback *f, cerium_error *err);
/* Count an outcome; stores the counts once a minute. */
void feedback_add(feedback *f, const lsp_outcome *o);
/* Add the new counts to the file, which other processes may have changed meanwhile. */
CERIUM_CHECKED int feedback_keep(feedback *f, cerium_error *err);
/* The least probability of a completion shown unasked; standard: the model's own, 0 stays 0. */
double feedback_confidence(const feedback *f, const char *model, const char *language,
                           double standard);
double feedback_confidence_of(const feedback_row *r, double standard);
/* chosen, as an array; returns owned, NULL without memory. */
json_t *feedback_chosen_json(const feedback_row *r);

/* Read the complete rows of a file's text; others, and those beyond the maximum, are skipped.
 * CERIUM_ERR_FORMAT: not such a file. */
CERIUM_CHECKED int feedback_read(view text, feedback_row *rows, uint32_t *n);

#endif
