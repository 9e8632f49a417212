/* test_quiet.c - what a decode loop needs from the system: no memory, no page faults, and no system
 * calls except the bounded waits of threads for each other.
 *
 * System calls are counted by a seccomp filter that reports each to a listener and lets it continue
 * (Linux 5.5).  The filter applies to threads that begin after it, so the listener begins
 * before. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "cerium.h"

#include "../unit/unit.h"

enum { WARM = 40, TOKENS = 256, CALLS_MAX = 512 };

static _Atomic int listener_fd = -1;
static _Atomic bool counts;
static _Atomic pid_t left_out;        /* a thread whose calls are not counted; 0 = none */
static _Atomic uint32_t n_calls[CALLS_MAX];
static cerium_engine *engine;
static cerium_session *session;
static const cerium_sampling sampling = {.ignore_end = true};

static void *listen_to_calls(void *unused)
{
    (void)unused;
    struct timespec nap = {0, 1000000};
    while (atomic_load(&listener_fd) < 0) nanosleep(&nap, NULL);
    for (;;) {
        struct seccomp_notif call = {0};
        if (ioctl(atomic_load(&listener_fd), SECCOMP_IOCTL_NOTIF_RECV, &call)) continue;
        if (atomic_load(&counts) && call.data.nr >= 0 && call.data.nr < CALLS_MAX &&
            (pid_t)call.pid != atomic_load(&left_out))
            atomic_fetch_add(&n_calls[call.data.nr], 1);
        struct seccomp_notif_resp go_on = {.id = call.id,
                                           .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        (void)!ioctl(atomic_load(&listener_fd), SECCOMP_IOCTL_NOTIF_SEND, &go_on);
    }
    return NULL;
}

/* False if the system forbids it, as some containers do. */
static bool count_calls(void)
{
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)};
    struct sock_fprog program = {1, all};
    pthread_t thread;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return false;
    if (pthread_create(&thread, NULL, listen_to_calls, NULL)) return false;
    pthread_detach(thread);
    int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                          &program);
    if (fd >= 0) atomic_store(&listener_fd, fd);
    return fd >= 0;
}

static long page_faults(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_minflt + use.ru_majflt;
}

typedef struct {
    long faults, memory;
} mark;

static mark begin(pid_t without)
{
    for (int i = 0; i < CALLS_MAX; i++) atomic_store(&n_calls[i], 0);
    atomic_store(&left_out, without);
    mark m = {page_faults(), memory_count()};
    atomic_store(&counts, true);
    return m;
}

static uint32_t calls_most(int call)
{
    switch (call) {
    case SYS_futex: return 64 * TOKENS; /* threads wait for each other */
    /* While fewer workers are tried, the caller reads its processor time around each pass. */
    case SYS_clock_gettime: return 2 * TOKENS;
    /* A thread may start late on a busy machine. */
    case SYS_rseq:
    case SYS_set_robust_list:
    case SYS_rt_sigprocmask:
    case SYS_sched_setaffinity: return 2;
    default: return 0;
    }
}

static void check(mark m, bool has_calls)
{
    atomic_store(&counts, false);
    /* A new page of the timeline's tokens is one fault in 1,024, and a pass with more drafts than
     * any before touches new pages of its buffers; the rest is the system's own doing. */
    long faults = page_faults() - m.faults;
    TEST_CHECK_THAT(UNIT_SANITIZED || faults <= TOKENS / 8, "%ld page faults", faults);
    TEST_CHECK_THAT(memory_count() == m.memory, "%ld allocations", memory_count() - m.memory);
    for (int i = 0; has_calls && i < CALLS_MAX; i++) {
        uint32_t n = atomic_load(&n_calls[i]);
        TEST_CHECK_THAT(n <= calls_most(i), "system call %d: %u times in %d tokens", i,
                        (unsigned)n, TOKENS);
    }
}

static bool has_calls;

static void test_steps(void)
{
    /* The maximal rows of a pass with drafts: afterwards all buffers have been used. */
    static int32_t prompt[CERIUM_STEP_TOKENS_MAX];
    cerium_error err;
    cerium_step step;
    for (int i = 0; i < CERIUM_STEP_TOKENS_MAX; i++) prompt[i] = 100 + 7 * i;
    bool ok = !cerium_session_sync(session, prompt, CERIUM_STEP_TOKENS_MAX, NULL, &err);
    uint32_t n = 0;
    for (; ok && n < WARM; n += step.n_tokens)
        ok = !cerium_session_step(session, &sampling, &step, &err);
    mark m = begin(0);
    for (n = 0; ok && n < TOKENS; n += step.n_tokens)
        ok = !cerium_session_step(session, &sampling, &step, &err);
    check(m, has_calls);
    TEST_CHECK(ok);
}

/* The reader polls now and then, and its naps are not counted; no call notifies anyone. */
static void test_request(void)
{
    static const int32_t first = 2;
    struct timespec nap = {0, 200000};
    cerium_error err;
    cerium_event event = {0};
    cerium_request wanted = {.tokens = &first, .n_tokens = 1, .new_tokens_max = WARM + TOKENS,
                             .sampling = &sampling};
    mark m = {0, 0};
    int n = 0;
    bool ok = !cerium_session_start(session, &wanted, &err);
    TEST_CHECK(ok);
    while (ok && n < WARM + TOKENS - 8) {
        cerium_session_poll(session, &event);
        if (event.kind == CERIUM_EVENT_STEP && n++ == WARM) m = begin((pid_t)syscall(SYS_gettid));
        if (event.kind == CERIUM_EVENT_NONE) nanosleep(&nap, NULL);
    }
    check(m, has_calls);
    while (ok && event.kind != CERIUM_EVENT_DONE) {
        cerium_session_poll(session, &event);
        if (event.kind == CERIUM_EVENT_NONE) nanosleep(&nap, NULL);
    }
}

/* The scheduler and the workers are asleep: hardly any processor time in a second. */
static void test_idle(void)
{
    struct timespec second = {1, 0}, settle = {0, 5000000}, used[2];
    double ms = 1000;
    /* On a busy machine it takes a while until all of them had their last turn. */
    for (int second_of = 0; second_of < 60 && ms >= 5; second_of++) {
        nanosleep(&settle, NULL);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used[0]);
        nanosleep(&second, NULL);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used[1]);
        ms = (double)(used[1].tv_sec - used[0].tv_sec) * 1e3 +
             (double)(used[1].tv_nsec - used[0].tv_nsec) / 1e6;
    }
    TEST_CHECK_THAT(ms < 5, "%.3f ms of processor time in an idle second", ms);
}

int main(void)
{
    cerium_error err;
    cerium_engine_config config;
    /* A sanitizer's own calls would be counted, and one that stops all threads at the end would
     * wait for the listener that it has stopped. */
    has_calls = !UNIT_SANITIZED && count_calls();
    if (!has_calls) TEST_SKIP("system calls of a decode loop: they cannot be counted here");
    cerium_engine_config_defaults(&config);
    config.model_path = "models/cerium-line.gguf";
    config.threads = 2;
    config.sessions_max = 2;
    if (cerium_engine_open(&engine, &config, &err) ||
        cerium_session_open(&session, engine, NULL, &err)) {
        printf("  FAIL %s\n", err.message);
        return 1;
    }
    TEST_RUN(test_steps);
    TEST_RUN(test_request);
    TEST_RUN(test_idle);
    cerium_session_close(&session);
    cerium_engine_close(&engine);
    return unit_report("quiet");
}
