/* thread.h - processors, pinning, and waiting that starts hot and cools down. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

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

#endif
