/* watchdog.h - the watchdog in programs: its options, its rules, its findings on the terminal. */
#ifndef PROGRAMS_WATCHDOG_H
#define PROGRAMS_WATCHDOG_H

#include <pthread.h>

#include "exists/exists.h"
#include "programs/options.h"
#include "watch/watch.h"

/* A thread reads the rules while the program starts; watchdog_wait() waits for it. */
typedef struct {
    watch_policy policy;
    guard *guard;          /* NULL: off, or not ready */
    guard_worker *worker;
    exists *names;         /* of the workspace, or NULL */
    const names_index *index; /* an index taken from names */
    bool quiet;            /* do not print findings */
    bool on, reading;
    pthread_t thread;
    char rules[4096];
    int status;
    cerium_error error;
    uint32_t n_corrected, n_blocked, n_warned;
} watchdog;

/* Begin to load the rules that the options ask for.  Returns a status with a one-line message. */
CERIUM_CHECKED int watchdog_open(watchdog *g, const options *o, cerium_error *err);
/* The error so far, without waiting. */
CERIUM_CHECKED int watchdog_check(const watchdog *g, cerium_error *err);
CERIUM_CHECKED int watchdog_wait(watchdog *g, cerium_error *err);
void watchdog_close(watchdog *g);
/* A watch for one answer; *out is NULL if the watchdog is off.  how: all except the guard, the
 * worker and the policy. */
CERIUM_CHECKED int watchdog_watch(watchdog *g, watch **out, watch_config how, cerium_error *err);
/* Print a dim line on stderr for each of findings [n], and counts of the actions taken. */
void watchdog_report(watchdog *g, const cerium_finding *findings, uint32_t n);
/* Judge a complete text, after the code `before` (GUARD_CODE).  CERIUM_ERR_FORMAT when the policy
 * blocks a finding in it: "NAME FATE: a line would be weak: ...".  Warnings go to stderr. */
CERIUM_CHECKED int watchdog_judge(watchdog *g, const guard_stream_config *config, view before,
                                  view text, const char *name, const char *fate,
                                  cerium_error *err);

#endif
