/* thread.h - processors, pinning, and waiting that starts hot and cools down. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

enum { THREAD_CPUS_MAX = 1024 };

/* The processors that this process may use, one for each physical core first, then the
 * hyper-threads beside them.  Returns how many were written; *n_cores of them are cores. */
uint32_t thread_cpus(uint32_t cpus[THREAD_CPUS_MAX], uint32_t *n_cores);

/* Keep the calling thread on one processor. False when the system refuses; that is harmless. */
bool thread_pin(uint32_t cpu);

/* One step of a wait: a pause while *n is small, then a yield; false when it is time to sleep.
 * The caller sets *n to 0 when it begins to wait. */
bool thread_wait_hot(uint32_t *n);
/* The same, with a short sleep of its own as the last stage. */
void thread_wait_step(uint32_t *n);

/* Sleep until *word differs from seen (may wake early) / wake all who sleep on word. */
void thread_sleep(_Atomic uint32_t *word, uint32_t seen);
void thread_wake(_Atomic uint32_t *word);

/* A lock that is had in the order of asking, so that one who gives it back and wants it again at
 * once starves nobody. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t next, serving;
} thread_turn;

/* False when the system has no memory for it. */
bool thread_turn_open(thread_turn *turn);
void thread_turn_close(thread_turn *turn);
void thread_turn_take(thread_turn *turn);
void thread_turn_give(thread_turn *turn);

/* A bell for one listener.  Ringing takes no lock, also in a signal handler, and is remembered. */
typedef struct {
    _Atomic uint32_t n_rings;
    _Atomic bool asleep;
} thread_bell;

void thread_bell_ring(thread_bell *bell);
/* Return when n_rings differs from seen, which was read before looking for something to do. */
void thread_bell_wait(thread_bell *bell, uint32_t seen);

#endif
