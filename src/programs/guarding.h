/* guarding.h - the watchdog in terminal programs: its options, its rules, and reports of its
 * findings. */
#ifndef PROGRAMS_GUARDING_H
#define PROGRAMS_GUARDING_H

#include <pthread.h>

#include "exists/exists.h"
#include "programs/options.h"
#include "watch/watch.h"

/* Rules are read beside whatever the program does first; guarding_ready() waits for them. */
typedef struct {
    watch_policy policy;
    guard *guard;          /* NULL: off, or not ready */
    guard_worker *worker;
    exists *names;         /* of the workspace, or NULL */
    const names_index *index; /* taken of it */
    bool quiet;            /* say nothing of findings */
    bool on, reading;
    pthread_t thread;
    char rules[4096];
    int status;
    cerium_error error;
    uint32_t n_corrected, n_blocked, n_warned;
} guarding;

/* Begin to read the rules that the options ask for.  Returns a status with one clear line. */
CERIUM_CHECKED int guarding_open(guarding *g, const options *o, cerium_error *err);
/* The error so far, without waiting. */
CERIUM_CHECKED int guarding_check(const guarding *g, cerium_error *err);
CERIUM_CHECKED int guarding_ready(guarding *g, cerium_error *err);
void guarding_close(guarding *g);
/* A watch for one answer; *out is NULL where the watchdog is off.  how: all but the guard, the
 * worker and the policy. */
CERIUM_CHECKED int guarding_watch(guarding *g, watch **out, watch_config how, cerium_error *err);
/* A dim line for each of findings [n] that the reader of the text should know of. */
void guarding_tell(guarding *g, const cerium_finding *findings, uint32_t n);
/* Text that is whole already, after the code `before` (GUARD_CODE).  CERIUM_ERR_FORMAT when
 * something in it is to be blocked: "NAME FATE: a line would be weak: ..."; what is to be warned of
 * hears of it. */
CERIUM_CHECKED int guarding_judge(guarding *g, const guard_stream_config *config, view before,
                                  view text, const char *name, const char *fate,
                                  cerium_error *err);

#endif
