/* thread.c - Linux: affinity, topology from sysfs, futex. */
#include "base/thread.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A pause lasts 10 to 50 ns; looking at the clock costs as much. */
enum { PAUSES_PER_LOOK = 32, SPIN_NS = 10000, NAP_NS = 50000 };

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

/* Signals are for a thread of the caller: a thread here would end the process before the caller has
 * a handler, and a call of the caller's that waits would not see one that a thread here took. */
static int create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *user)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
    sigset_t ours, before;
    sigemptyset(&ours);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) sigaddset(&ours, numbers[i]);
    pthread_sigmask(SIG_BLOCK, &ours, &before);
    int code = pthread_create(out, attr, run, user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

int thread_start(pthread_t *out, const char *name, void *(*run)(void *user), void *user)
{
    pthread_attr_t attr;
    int code = pthread_attr_init(&attr);
    if (code) return code;
    code = pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
    if (!code) code = create(out, &attr, run, user);
    pthread_attr_destroy(&attr);
    if (!code) (void)pthread_setname_np(*out, name);
    return code;
}

bool thread_keep_to(const uint32_t *cpus, uint32_t n)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < n; i++) CPU_SET(cpus[i], &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

bool thread_be_idle(void)
{
    const struct sched_param none = {0};
    return pthread_setschedparam(pthread_self(), SCHED_IDLE, &none) == 0;
}

bool thread_be_nicer(int by)
{
    const id_t self = (id_t)syscall(SYS_gettid); /* Linux: niceness is a thread's own */
    return setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + by) == 0;
}

uint64_t thread_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool thread_spin_step(thread_spin *spin, uint32_t ns)
{
    pause_briefly();
    if (++spin->n % PAUSES_PER_LOOK) return true;
    uint64_t now = clock_ns();
    if (!spin->end_ns) spin->end_ns = now + ns;
    return now < spin->end_ns;
}

void thread_sleep(_Atomic uint32_t *word, uint32_t seen, int set)
{
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, NULL, NULL, set);
}

void thread_wake(_Atomic uint32_t *word, int set)
{
    syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, INT32_MAX, NULL, NULL, set);
}

void thread_wait_step(thread_spin *spin)
{
    struct timespec t = {0, NAP_NS};
    if (!thread_spin_step(spin, SPIN_NS)) nanosleep(&t, NULL);
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
    if (atomic_load(&bell->asleep)) thread_wake(&bell->n_rings, THREAD_SET_ALL);
}

void thread_bell_wait(thread_bell *bell, uint32_t seen)
{
    atomic_store(&bell->asleep, true);
    while (atomic_load(&bell->n_rings) == seen)
        thread_sleep(&bell->n_rings, seen, THREAD_SET_ALL);
    atomic_store(&bell->asleep, false);
}
