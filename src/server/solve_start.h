/* solve_start.h - a request of POST /v1/solve, as a separate `cerium solve` in its own folder.
 *
 * It knows no connection: any thread may call it. */
#ifndef SERVER_SOLVE_START_H
#define SERVER_SOLVE_START_H

#include <sys/types.h>

#include "protocol/protocol.h"
#include "base/limits.h"

/* A running process. */
typedef struct {
    pid_t pid;                   /* 0: none */
    int fd;                      /* its standard input and output; -1: none, or taken */
    char folder[128];            /* the folder of its files, or "" */
    int lock;                    /* of that folder, while this server lives; -1: none */
    char file[128];              /* name of the code's file, or "" */
    char model[SERVER_ID_BYTES]; /* the requested one, or "" */
    bool streams;
} solve_process;

/* CERIUM_ERR_ARGUMENT with *e: 400, 413, 500. */
CERIUM_CHECKED int solve_start(solve_process *out, view body, protocol_error *e);
/* End it now, without waiting. */
void solve_kill(const solve_process *p);
/* The same; waits for it, and removes its files. */
void solve_end(solve_process *p);

/* Remove the folders in TMPDIR whose server was killed: of this user, a minute old, and locked by
 * nobody.  Before the first start.  What cannot be removed stays. */
void solve_sweep(void);

#endif
