/* scan_batch.h - files of JSON Lines {"id", "language", "code"}, answered by {"id", "findings"}. */
#ifndef PROGRAMS_SCAN_BATCH_H
#define PROGRAMS_SCAN_BATCH_H

#include <jansson.h>

#include "guard/guard.h"

typedef struct {
    /* Append the findings in one line's code to findings. */
    int (*judge)(void *user, guard_language language, view code, json_t *findings,
                 cerium_error *err);
    /* Report what could not be read, in a line of text; the rest is processed. */
    void (*trouble)(void *user, const char *why);
    void *user;
} scan_batch_events;

/* Prints the answers.  Errors: those of judge, of the output, and CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int scan_batch(const char *path, const scan_batch_events *e, cerium_error *err);

#endif
