/* guest.h - the part of the sandbox that runs inside it: one process serves, each job gets a
 * process that watches it and one that runs it behind walls.
 *
 * It is built twice from the same files: as a program, and as a library that a Python interpreter
 * loads.  It uses only the C library, and keeps nothing that a variant could reach: each job is
 * read, forked away and forgotten. */
#ifndef SANDBOX_GUEST_H
#define SANDBOX_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "sandbox/wire.h"

/* A job, as read. */
typedef struct {
    wire_job job;
    const char *program, *tests, *name; /* their lengths are in the job; a NUL ends each */
    void *map;
    size_t n_map;
} guest_job;

/* Descriptors of a variant. */
enum { GUEST_FD_MARK = 3 };

/* Take the next job.  Returns 1 in a new process behind the walls, which runs it; 0: there are no
 * more; -1: the input is invalid. */
int guest_next(guest_job *out);

/* ---- guest_walls.c ---- */

/* Namespaces and file systems of a variant, set up by its watcher.  NULL, or the step that
 * failed. */
const char *walls_outer(const wire_job *job);
/* All other walls, set up by the variant itself, the filter last.  NULL, or the step that
 * failed. */
const char *walls_inner(const wire_job *job, int out, int err, int mark);
/* Read the filter once, while files can be opened.  False: there is none. */
bool walls_open(const char *path);

/* ---- guest_watch.c ---- */

/* The ends of a variant that is running. */
typedef struct {
    pid_t pid;
    int out, err, mark;
    const wire_job *job;
} watched;

/* Wait for its end, or end it; write the result to fd. */
void watch_variant(const watched *v, int fd);
/* Report that nothing ran, and why. */
void watch_broken(const char *why, int fd);

/* ---- guest_exec.c ---- */

/* Run a job of another language than Python, in place of this process.  Returns the exit status if
 * that is impossible. */
int exec_job(const guest_job *g);
/* Write the folder into path; false: it does not fit. */
bool exec_unpack(const char *path);
/* The place of the folder, if the sandbox was given one. */
bool exec_open_folder(const char *path);
/* Its bytes; 0: there is none. */
size_t exec_n_folder(void);

/* All parts, one after the other, as a new file. */
bool exec_write_new(const char *path, mode_t mode, const char *const *parts, const size_t *sizes,
                    int n);
/* As a child of this process, which is the first of its namespace: a first process has no default
 * actions for signals, and reaps orphans.  Returns its status, over 128 for a signal. */
int exec_below(const char *const *args, bool marks);

/* ---- guest_c.c ---- */

/* As exec_job(), for C. */
int exec_c(const guest_job *g);

/* All of the bytes; false: the other end is gone. */
bool guest_write(int fd, const void *from, size_t n);

#endif
