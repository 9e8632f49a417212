/* thread.h - processors, and waiting: a short spin if it pays, else sleep. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

enum {
    THREAD_CPUS_MAX = 1024,
    /* Stack size of every thread. The deepest users are PCRE2's compiler and grammars nested to
     * GRAMMAR_NESTING_MAX. The system's default depends on the shell (ulimit -s), and 128 KiB with
     * musl. */
    THREAD_STACK_BYTES = 2 << 20,
};

/* pthread_create() with a stack of THREAD_STACK_BYTES; returns its error number, 0: it runs.  name:
 * shown by `top -H` and debuggers, at most 15 bytes.  The thread is joined: until then it exists
 * and can be named. */
int thread_start(pthread_t *out, const char *name, void *(*run)(void *user), void *user);

/* The processors that this process may use, one for each physical core first, then their
 * hyper-threads.  Returns how many were written; *n_cores of them are cores. */
uint32_t thread_cpus(uint32_t cpus[THREAD_CPUS_MAX], uint32_t *n_cores);

/* Keep the calling thread on these processors.  False: the system refuses; that is harmless. */
bool thread_keep_to(const uint32_t *cpus, uint32_t n);

/* The calling thread, and those that it starts from now on, run only on otherwise idle processors.
 * This cannot be undone.  False: the system refuses; that is harmless. */
bool thread_be_idle(void);

/* Add to the calling thread's niceness (and to that of threads that it starts from now on): it gets
 * less of a busy processor.  False: the system refuses; that is harmless. */
bool thread_be_nicer(int by);

/* Processor time of the calling thread. */
uint64_t thread_clock_ns(void);

/* A wait for an event that may come at any moment: a spin of limited length, then sleep. {0}
 * initially. */
typedef struct {
    uint64_t end_ns;
    uint32_t n;
} thread_spin;

/* One pause of the spin; false: ns nanoseconds of it are over, and it is time to sleep. */
bool thread_spin_step(thread_spin *spin, uint32_t ns);

/* Sleep until *word differs from seen (may wake early) / wake the threads that sleep on word with a
 * set that shares a bit with theirs. */
enum { THREAD_SET_ALL = -1 };
void thread_sleep(_Atomic uint32_t *word, uint32_t seen, int set);
void thread_wake(_Atomic uint32_t *word, int set);
/* One step of a polling wait: a short spin, then short sleeps. */
void thread_wait_step(thread_spin *spin);

/* A fair lock: threads get it in the order of their requests, so one that unlocks and locks again
 * at once starves no other. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t next, serving;
} thread_turn;

/* False: the system has no memory for it. */
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
/* Return when n_rings differs from seen, which was read before looking for work.  Sleeps at once:
 * the caller has nothing to do, and other threads may have. */
void thread_bell_wait(thread_bell *bell, uint32_t seen);

#endif
