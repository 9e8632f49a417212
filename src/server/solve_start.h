/* solve_start.h - what POST /v1/solve asks, as a `cerium solve` of its own in a folder of its own.
 *
 * It knows no connection: all of it may be done by any thread. */
#ifndef SERVER_SOLVE_START_H
#define SERVER_SOLVE_START_H

#include <sys/types.h>

#include "protocol/protocol.h"
#include "base/limits.h"

/* One that runs. */
typedef struct {
    pid_t pid;                   /* 0: none */
    int fd;                      /* its standard input and output; -1: none, or taken */
    char folder[128];            /* with its files, or "" */
    char file[128];              /* name of the code's, or "" */
    char model[SERVER_ID_BYTES]; /* that was asked for, or "" */
    bool streams;
} solve_process;

/* CERIUM_ERR_ARGUMENT with *e: 400, 413, 500. */
CERIUM_CHECKED int solve_start(solve_process *out, view body, protocol_error *e);
/* It ends now.  Does not wait. */
void solve_kill(const solve_process *p);
/* The same; waits for it, and removes its files. */
void solve_end(solve_process *p);

#endif
