/* workers.h - threads for work that would block the event loop.
 *
 * A job comes from the loop and goes back to it: run() on a thread, then done() on the loop, within
 * workers_poll().  Its creator owns it until it is submitted, the workers own it until done() is
 * called, and then the creator again.  Its contents have one owner at a time.
 *
 * Each lane has a thread and a queue of its own, so that long jobs delay only each other; threads
 * of long jobs have a lower priority (thread_be_nicer()).  Within a lane clients take turns: a
 * client with many jobs delays only itself. */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include <stdatomic.h>

#include "base/base.h"

typedef enum {
    WORKERS_SMALL = 0,   /* jobs of at most SERVER_SMALL_BYTES_MAX */
    WORKERS_LARGE = 1,
    WORKERS_COMPILE = 2, /* grammars */
    WORKERS_STORE = 3,   /* whatever uses the store, which belongs to this thread */
    WORKERS_MODELS = 4,  /* models that are loaded and freed */
    WORKERS_PULLS = 5,   /* models that are fetched */
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

    struct job *next, *last;  /* the workers': of the same client, after it; the last of those */
    struct job *next_client;
    uint32_t n;               /* of the client's, where it is the first of them */
    int state;
    atomic_bool is_unwanted;
} job;

typedef struct workers workers;

/* wake: something is done; called by a thread, within the lock. */
CERIUM_CHECKED int workers_open(workers **out, void (*wake)(void *user), void *user,
                                cerium_error *err);
/* Waits for what runs; the jobs that are left are released. */
void workers_close(workers **w);

/* CERIUM_ERR_CAPACITY: too many jobs wait, of this client or of all. */
CERIUM_CHECKED int workers_submit(workers *w, job *j);
/* The same for what cannot be refused any more. */
void workers_submit_always(workers *w, job *j);
/* done() of some of the jobs that are done, in their order; false when there was none.  The rest
 * wakes again. */
bool workers_poll(workers *w);

/* Nothing waits, runs, or is done and not reported, but for models that are loaded or fetched. */
bool workers_are_idle(workers *w);

/* A submitted job: true when it only waited, and is the caller's again; else done() will come,
 * sooner, as run() may see that it is not wanted. */
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
