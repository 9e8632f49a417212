/* enter.h - bubblewrap around the runner: the visible part of this machine, and error messages if
 * it cannot start. */
#ifndef SANDBOX_ENTER_H
#define SANDBOX_ENTER_H

#include <sys/types.h>

#include "sandbox/sandbox.h"

/* Zero-initialised: not started. */
typedef struct {
    pid_t pid;  /* of bubblewrap; 0: none */
    int fd;     /* the runner's standard input and output */
    int errors; /* a file with its standard error */
} sandbox_place;

CERIUM_CHECKED int sandbox_enter(sandbox_place *out, const sandbox_config *config,
                                 cerium_error *err);
/* End all processes in it. */
void sandbox_leave(sandbox_place *place);
/* The first line of the output inside; "": none. */
void sandbox_errors(const sandbox_place *place, char *out, size_t size);
/* CERIUM_ERR_IO, with the remedy for that output. */
int sandbox_refusal(const char *errors, sandbox_level level, cerium_error *err);

#endif
