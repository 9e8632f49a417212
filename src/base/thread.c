/* thread.c - Linux: affinity, topology from sysfs, futex. */
#include "base/thread.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Waits: about 10 us of pauses, then yields, then sleeps, so that a machine that is busy with
 * something else does not collapse and an idle one burns nothing. */
enum { WAIT_SPINS = 2000, WAIT_YIELDS = 200, WAIT_SLEEP_NS = 50000 };

/* The lowest-numbered hyper-thread that shares cpu's core; cpu itself when unknown. */
static uint32_t first_sibling(uint32_t cpu)
{
    char path[96];
    unsigned first = cpu;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    FILE *f = fopen(path, "r");
    if (!f) return cpu;
    if (fscanf(f, "%u", &first) != 1) first = cpu;
    fclose(f);
    return first;
}

uint32_t thread_cpus(uint32_t cpus[THREAD_CPUS_MAX], uint32_t *n_cores)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set)) CPU_SET(0, &set);
    uint32_t n = 0;
    for (int siblings = 0; siblings < 2; siblings++) {
        for (uint32_t cpu = 0; cpu < CPU_SETSIZE && n < THREAD_CPUS_MAX; cpu++) {
            if (!CPU_ISSET(cpu, &set)) continue;
            uint32_t first = first_sibling(cpu);
            bool is_sibling = first != cpu && first < CPU_SETSIZE && CPU_ISSET(first, &set);
            if (is_sibling == (siblings == 1)) cpus[n++] = cpu;
        }
        if (siblings == 0) *n_cores = n;
    }
    return n;
}

bool thread_pin(uint32_t cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool thread_wait_hot(uint32_t *n)
{
    if (*n >= WAIT_SPINS + WAIT_YIELDS) return false;
    if (*n < WAIT_SPINS)
        pause_briefly();
    else
        sched_yield();
    ++*n;
    return true;
}

void thread_wait_step(uint32_t *n)
{
    struct timespec t = {0, WAIT_SLEEP_NS};
    if (!thread_wait_hot(n)) nanosleep(&t, NULL);
}

void thread_sleep(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

void thread_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

bool thread_turn_open(thread_turn *turn)
{
    *turn = (thread_turn){0};
    if (pthread_mutex_init(&turn->lock, NULL)) return false;
    if (pthread_cond_init(&turn->changed, NULL)) {
        pthread_mutex_destroy(&turn->lock);
        return false;
    }
    return true;
}

void thread_turn_close(thread_turn *turn)
{
    pthread_cond_destroy(&turn->changed);
    pthread_mutex_destroy(&turn->lock);
}

void thread_turn_take(thread_turn *turn)
{
    pthread_mutex_lock(&turn->lock);
    uint64_t mine = turn->next++;
    while (turn->serving != mine) pthread_cond_wait(&turn->changed, &turn->lock);
    pthread_mutex_unlock(&turn->lock);
}

void thread_turn_give(thread_turn *turn)
{
    pthread_mutex_lock(&turn->lock);
    turn->serving++;
    if (turn->serving != turn->next) pthread_cond_broadcast(&turn->changed);
    pthread_mutex_unlock(&turn->lock);
}

void thread_bell_ring(thread_bell *bell)
{
    atomic_fetch_add(&bell->n_rings, 1);
    if (atomic_load(&bell->asleep)) thread_wake(&bell->n_rings);
}

void thread_bell_wait(thread_bell *bell, uint32_t seen)
{
    uint32_t n_waits = 0;
    while (atomic_load(&bell->n_rings) == seen) {
        if (thread_wait_hot(&n_waits)) continue;
        atomic_store(&bell->asleep, true);
        if (atomic_load(&bell->n_rings) == seen) thread_sleep(&bell->n_rings, seen);
        atomic_store(&bell->asleep, false);
    }
}
