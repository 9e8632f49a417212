/* feedback.h - what became of completions that were shown, by model and language, kept in a file of
 * the user's.  It never leaves the machine.
 *
 * A model's probability p promises that a completion is wanted.  How much of that a user takes in a
 * language, taken / sum of p, moves what is shown unasked: where less is taken, less is shown. */
#ifndef PROGRAMS_FEEDBACK_H
#define PROGRAMS_FEEDBACK_H

#include "lsp/lsp_server.h"

enum { FEEDBACK_ROWS_MAX = 512, FEEDBACK_NAME_BYTES = 64 };

/* Of one model in one language. */
typedef struct {
    char model[FEEDBACK_NAME_BYTES], language[FEEDBACK_NAME_BYTES];
    uint64_t shown, taken, typed, refused; /* completions: shown is the sum of the others */
    uint64_t characters_shown, characters_taken;
    double promised; /* sum of their probabilities */
    double standard; /* the least that the model's file says: what it was last */
} feedback_row;

typedef struct {
    char path[4096];
    feedback_row rows[FEEDBACK_ROWS_MAX]; /* [n_rows] as they are kept, and what came since */
    feedback_row since[FEEDBACK_ROWS_MAX]; /* [n_since] not kept yet */
    uint32_t n_rows, n_since;
    uint64_t kept_ns;
    bool is_off; /* the file is none of ours: it is left alone */
} feedback;

/* $XDG_STATE_HOME/cerium/completions.json, or below ~/.local/state.  CERIUM_ERR_IO: the file cannot
 * be read; CERIUM_ERR_FORMAT: it is another's.  f counts nothing then. */
CERIUM_CHECKED int feedback_open(feedback *f, cerium_error *err);
/* Counts, and keeps what was counted once a minute. */
void feedback_add(feedback *f, const lsp_outcome *o);
/* Adds what came since to the file, which others may have changed meanwhile. */
CERIUM_CHECKED int feedback_keep(feedback *f, cerium_error *err);
/* The least probability of what is shown unasked; standard: the model's own, 0 stays 0. */
double feedback_confidence(const feedback *f, const char *model, const char *language,
                           double standard);
double feedback_confidence_of(const feedback_row *r, double standard);

/* Of a file's text: rows that are whole; others, and those beyond the most, are passed over.
 * CERIUM_ERR_FORMAT: it is no such file. */
CERIUM_CHECKED int feedback_read(view text, feedback_row *rows, uint32_t *n);

#endif
