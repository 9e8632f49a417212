/* worker_tuner.h - how many workers take part in a pass, on a machine that others use too.
 *
 * A worker that is descheduled in the middle of a unit delays all others until it is back, for
 * milliseconds; one that must be woken for every pass costs more than it gains.  In both cases
 * fewer workers are faster.  This depends on the model and the other programs, so it is measured:
 * passes alternate between fewer workers and the current number, and the faster number stays.  All
 * workers are tried again after a time, which grows each time that it did not help.  While pass
 * times are steady, and no worker waits for others, nothing is tried.
 *
 * No threads and no clock in here: a function of its arguments. */
#ifndef CPU_WORKER_TUNER_H
#define CPU_WORKER_TUNER_H

#include "base/base.h"

enum {
    TUNER_WINDOW_NS = 16000000, /* time over which passes are summed: some turns of a processor */
    TUNER_PASSES_MIN = 4,       /* in it */
    TUNER_TURNS = 3,            /* of each number of workers in a trial */
    TUNER_REST_NS = 500000000,  /* until the next trial; twice as long after a failed one, up to */
};
#define TUNER_REST_NS_MAX UINT64_C(4000000000)
_Static_assert(TUNER_REST_NS > 4 * TUNER_TURNS * TUNER_WINDOW_NS, "trials are a small part");

typedef struct {
    uint32_t n;        /* workers that should take part in the next pass */
    uint32_t n_all;
    uint32_t n_steady; /* workers that others did not wait for, recently */
    uint64_t kind;     /* of the passes of this window */
    uint64_t ns, least_ns, sleep_ns, busy_ns; /* of all of them; of the quickest */
    uint32_t n_passes;
    uint64_t rest_ns, left_ns; /* between trials; until the next may begin */
    /* the trial: of those that there were, and of those that are tried */
    uint32_t turn, n_of[2]; /* turn 0 = there is none */
    double cost[2];         /* of a pass, summed over turns */
} worker_tuner;

worker_tuner worker_tuner_of(uint32_t n_workers);

/* This many are not waited for again and again: the number to try when fewer are. */
static inline void worker_tuner_see_steady(worker_tuner *m, uint32_t n) { m->n_steady = n; }

/* Whether passes are being compared, and their cost is wanted. */
static inline bool worker_tuner_is_trying(const worker_tuner *m) { return m->turn > 0; }

/* A pass took ns. kind: undisturbed passes of the same take the same time.  sleep_ns: that the
 * caller slept for workers that were taken away.  busy_ns, in a trial: processor time it had.
 * So what the caller itself was taken away, whatever the number of workers, does not count. */
void worker_tuner_learn(worker_tuner *m, uint64_t kind, uint64_t ns, uint64_t sleep_ns,
                        uint64_t busy_ns);

#endif
