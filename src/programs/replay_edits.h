/* replay_edits.h - `cerium bench --replay`: recorded edits, verified as if the model made them. */
#ifndef PROGRAMS_REPLAY_EDITS_H
#define PROGRAMS_REPLAY_EDITS_H

#include "programs/options.h"

typedef struct {
    const char *path;       /* JSON lines with `before` and `after`, and optionally `instruction` */
    uint32_t n_edits;       /* at most this many; 0 = all */
    uint32_t n_plain;       /* tokens of each that are decoded plainly, for comparison; 0 = none */
    bool no_prediction;     /* the file is only in the prompt */
    const char *tokenizer;  /* another model, into whose tokens the texts are translated; NULL = the
                             * model's own */
} replay_edits;

/* Replay with an engine of at least two sessions, and print the figures. */
CERIUM_CHECKED int replay_edits_run(const replay_edits *r, cerium_engine *engine, bool json,
                                    cerium_error *err);

#endif
