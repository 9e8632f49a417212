/* workers.h - threads for work that would block the event loop.
 *
 * A job starts on the loop and returns to it: run() on a thread, then done() on the loop, within
 * workers_poll().  Its creator owns it until it is submitted, the workers own it until done() is
 * called, and then the creator again.  Its contents have one owner at a time.
 *
 * Each lane has its own thread and queue, so that long jobs delay only each other; threads of long
 * jobs have a lower priority (thread_be_nicer()).  Within a lane clients take turns: a client with
 * many jobs delays only itself. */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include <stdatomic.h>

#include "base/base.h"

typedef enum {
    WORKERS_SMALL = 0,   /* jobs of at most SERVER_SMALL_BYTES_MAX */
    WORKERS_LARGE = 1,
    WORKERS_COMPILE = 2, /* grammars */
    WORKERS_STORE = 3,   /* all uses of the store, which belongs to this thread */
    WORKERS_MODELS = 4,  /* loading and unloading of models */
    WORKERS_PULLS = 5,   /* pulling of models */
} workers_lane;
enum { WORKERS_LANES = 6 };

typedef struct job {
    /* On the lane's thread.  True: it has not finished, and runs again after the other clients had
     * a turn. */
    bool (*run)(struct job *j);
    void (*done)(struct job *j);    /* on the loop; may free or submit it.  NULL: release() is
                                       called instead */
    void (*release)(struct job *j); /* it was dropped, or the workers closed; on any thread */
    workers_lane lane;
    uint64_t client;

    struct job *next, *last;  /* the workers': the client's next job; its last one */
    struct job *next_client;
    uint32_t n;               /* of clients, if it is the first job of one */
    int state;
    atomic_bool is_unwanted;
} job;

typedef struct workers workers;

/* wake: a job is done; called by a thread, within the lock. */
CERIUM_CHECKED int workers_open(workers **out, void (*wake)(void *user), void *user,
                                cerium_error *err);
/* Waits for running jobs; the remaining ones are released. */
void workers_close(workers **w);

/* CERIUM_ERR_CAPACITY: too many jobs wait, of this client or of all. */
CERIUM_CHECKED int workers_submit(workers *w, job *j);
/* The same for a job that can no longer be refused. */
void workers_submit_always(workers *w, job *j);
/* Call done() of some of the finished jobs, in order; false when there was none.  The rest wakes
 * again. */
bool workers_poll(workers *w);

/* No job waits, runs, or is done and not reported, except loads and pulls of models. */
bool workers_are_idle(workers *w);

/* Cancel a submitted job: true when it only waited, and is the caller's again; else done() will
 * follow, sooner if run() sees that it is canceled. */
bool workers_withdraw(workers *w, job *j);
/* Drop a job: release() is called now, or by the thread; done() is not.  Nulls the pointer; accepts
 * NULL. */
void workers_drop(workers *w, job **j);
/* Free something large on a thread, or here if there is no memory for the job. */
void workers_bury(workers *w, void (*free_it)(void *thing), void *thing);
/* For run(): is its result still wanted? */
static inline bool job_is_wanted(const job *j)
{
    return !atomic_load_explicit(&j->is_unwanted, memory_order_relaxed);
}

#endif
