/* guest_watch.c - watches one variant from outside its walls: keeps a part of its output, ends it
 * if it takes too much time or memory, and reports why it ended. */
#include "sandbox/guest/guest.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 65536, TICK_MS = 20, TEXT_BYTES = 2048 };

/* The beginning and the end of a stream; the rest is read and discarded, so that a full pipe does
 * not stop the variant's clock. */
typedef struct {
    int fd;
    uint64_t n; /* bytes that came */
    char first[WIRE_SHOWN_BYTES];
    char last[WIRE_SHOWN_BYTES]; /* a ring of the bytes after first */
} stream;

typedef struct {
    const watched *v;
    stream out, err, mark;
    uint64_t begin_ns, wall_ns;
    int pidfd;
    bool ended;
    wire_verdict forced; /* the reason for ending it; WIRE_PASS: none */
} watch;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void keep(stream *s, const char *from, size_t n)
{
    for (size_t i = 0; i < n; i++, s->n++) {
        if (s->n < WIRE_SHOWN_BYTES) s->first[s->n] = from[i];
        else s->last[(s->n - WIRE_SHOWN_BYTES) % WIRE_SHOWN_BYTES] = from[i];
    }
}

/* Read the available bytes.  The descriptor is closed at its end. */
static void drain(stream *s)
{
    static char chunk[CHUNK];
    for (int i = 0; s->fd >= 0 && i < 16; i++) {
        ssize_t n = read(s->fd, chunk, sizeof chunk);
        if (n > 0) {
            keep(s, chunk, (size_t)n);
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        } else {
            close(s->fd);
            s->fd = -1;
        }
    }
}

/* Its bytes into to [2 * WIRE_SHOWN_BYTES]; returns how many. */
static uint32_t shown(const stream *s, char *to)
{
    size_t n = s->n < WIRE_SHOWN_BYTES ? (size_t)s->n : WIRE_SHOWN_BYTES;
    memcpy(to, s->first, n);
    uint64_t more = s->n - n, begin = more > WIRE_SHOWN_BYTES ? more - WIRE_SHOWN_BYTES : 0;
    for (uint64_t i = begin; i < more; i++) to[n++] = s->last[i % WIRE_SHOWN_BYTES];
    return (uint32_t)n;
}

/* ---- measuring ---- */

typedef struct {
    uint64_t memory_bytes, cpu_ns;
} usage;

/* A file of a process, with a NUL after; its length, 0: there is none. */
static size_t read_process(const char *pid, const char *name, char text[TEXT_BYTES])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%.20s/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, TEXT_BYTES - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

/* Memory, without mapped files of others. */
static uint64_t memory_of(const char *pid)
{
    static const char *const names[] = {"\nRssAnon:", "\nRssShmem:"};
    char text[TEXT_BYTES];
    uint64_t kib = 0;
    if (!read_process(pid, "status", text)) return 0;
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(text, names[i]);
        if (at) kib += strtoull(at + strlen(names[i]), NULL, 10);
    }
    return kib << 10;
}

/* Processor time, with that of its ended children: it does not depend on other users of the
 * processor. */
static uint64_t cpu_of(const char *pid)
{
    enum { UTIME = 14, CSTIME = 17 };
    char text[TEXT_BYTES];
    uint64_t ticks = 0;
    const char *at = read_process(pid, "stat", text) ? strrchr(text, ')') : NULL;
    for (int field = 2; at && field < CSTIME; field++) {
        at = strchr(at + 1, ' ');
        if (at && field + 1 >= UTIME) ticks += strtoull(at + 1, NULL, 10);
    }
    return ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* Of all processes except this one, its parent and the first: each has its own limit, but together
 * they may still take too much. */
static usage usage_of_all(void)
{
    const long others[] = {1, getpid(), getppid()};
    usage sum = {0};
    DIR *dir = opendir("/proc");
    if (!dir) return sum;
    for (struct dirent *e; (e = readdir(dir));) {
        long pid = isdigit((unsigned char)e->d_name[0]) ? strtol(e->d_name, NULL, 10) : 1;
        if (pid == others[0] || pid == others[1] || pid == others[2]) continue;
        sum.memory_bytes += memory_of(e->d_name);
        sum.cpu_ns += cpu_of(e->d_name);
    }
    closedir(dir);
    return sum;
}

/* ---- the end ---- */

static void end_it(watch *w, wire_verdict why)
{
    if (!w->forced) w->forced = why;
    kill(w->v->pid, SIGKILL);
}

static bool is_over(const watch *w)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)w->v->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == w->v->pid;
}

/* One check of everything. */
static void step(watch *w)
{
    const wire_job *job = w->v->job;
    struct pollfd polled[] = {{w->pidfd, POLLIN, 0},
                              {w->out.fd, POLLIN, 0},
                              {w->err.fd, POLLIN, 0},
                              {w->mark.fd, POLLIN, 0}};
    poll(polled, 4, TICK_MS);
    drain(&w->out);
    drain(&w->err);
    drain(&w->mark);
    uint64_t taken = now_ns() - w->begin_ns;
    w->ended = is_over(w);
    if (w->ended) return;
    if (taken >= w->wall_ns) end_it(w, WIRE_TIMEOUT);
    if (w->out.n + w->err.n > job->output_bytes || w->mark.n > CHUNK) end_it(w, WIRE_OUTPUT);
    if (taken < 2 * TICK_MS * 1000000u) return;
    const usage now = usage_of_all();
    if (now.memory_bytes > job->memory_bytes) end_it(w, WIRE_MEMORY);
    if (job->cpu_ms && now.cpu_ns >= job->cpu_ms * 1000000ull) end_it(w, WIRE_CPU);
}

/* Does the last line of the private descriptor report that the last test passed? */
static bool has_mark(const watch *w, const char *note, uint32_t n)
{
    return n >= WIRE_MARK_BYTES &&
           memcmp(note + n - WIRE_MARK_BYTES, w->v->job->mark, WIRE_MARK_BYTES) == 0;
}

/* For a process that a signal ended, or a shell whose child one did. */
static wire_verdict signalled(const watch *w, int signal, const struct rusage *use)
{
    uint64_t cpu_s = (uint64_t)(use->ru_utime.tv_sec + use->ru_stime.tv_sec);
    bool is_limit = signal == SIGXCPU || signal == SIGKILL;
    return is_limit && cpu_s + 1 >= w->v->job->cpu_s ? WIRE_CPU : WIRE_KILLED;
}

static wire_verdict verdict_of(const watch *w, int status, const struct rusage *use, bool marked)
{
    if (w->forced) return w->forced;
    if (WIFSIGNALED(status)) return signalled(w, WTERMSIG(status), use);
    if (WEXITSTATUS(status) > 128) return signalled(w, WEXITSTATUS(status) - 128, use);
    switch (WEXITSTATUS(status)) {
    case 0:
        return marked ? WIRE_PASS : WIRE_EXIT;
    case WIRE_STATUS_ERROR:
        return WIRE_ERROR;
    case WIRE_STATUS_PARSE:
        return WIRE_PARSE;
    case WIRE_STATUS_MEMORY:
        return WIRE_MEMORY;
    case WIRE_STATUS_BROKEN:
        return WIRE_BROKEN;
    case WIRE_STATUS_LEFT:
        return WIRE_EXIT;
    default:
        return WIRE_FAIL;
    }
}

static void send(const wire_result *r, const char *out, const char *err, const char *note, int fd)
{
    (void)!(guest_write(fd, r, sizeof *r) && guest_write(fd, out, r->n_out) &&
            guest_write(fd, err, r->n_err) && guest_write(fd, note, r->n_note));
}

static void tell(const watch *w, int status, const struct rusage *use, int fd)
{
    static char out[2 * WIRE_SHOWN_BYTES], err[2 * WIRE_SHOWN_BYTES], note[2 * WIRE_SHOWN_BYTES];
    wire_result r = {.magic = WIRE_RESULT_MAGIC};
    r.n_out = shown(&w->out, out);
    r.n_err = shown(&w->err, err);
    r.n_note = shown(&w->mark, note);
    bool marked = has_mark(w, note, r.n_note);
    r.verdict = verdict_of(w, status, use, marked);
    if (marked) r.n_note -= WIRE_MARK_BYTES;
    if (r.n_note > WIRE_NOTE_BYTES) r.n_note = WIRE_NOTE_BYTES;
    r.status = WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 0;
    r.signal = WIFSIGNALED(status) ? (uint32_t)WTERMSIG(status) : 0;
    r.wall_ns = now_ns() - w->begin_ns;
    r.cpu_ns = (uint64_t)(use->ru_utime.tv_sec + use->ru_stime.tv_sec) * 1000000000u +
               (uint64_t)(use->ru_utime.tv_usec + use->ru_stime.tv_usec) * 1000u;
    r.memory_bytes = (uint64_t)use->ru_maxrss << 10;
    send(&r, out, err, note, fd);
}

void watch_variant(const watched *v, int fd)
{
    static watch w; /* too large for a small stack */
    int status = 0;
    struct rusage use = {0};
    w = (watch){.v = v, .out.fd = v->out, .err.fd = v->err, .mark.fd = v->mark};
    w.begin_ns = now_ns();
    w.wall_ns = (uint64_t)v->job->wall_ms * 1000000u;
    w.pidfd = (int)syscall(SYS_pidfd_open, v->pid, 0);
    fcntl(v->out, F_SETFL, O_NONBLOCK);
    fcntl(v->err, F_SETFL, O_NONBLOCK);
    fcntl(v->mark, F_SETFL, O_NONBLOCK);
    while (!w.ended) step(&w);
    while (wait4(v->pid, &status, 0, &use) < 0 && errno == EINTR) continue;
    /* The kernel has ended all processes of its namespace; their output is in the pipes. */
    drain(&w.out);
    drain(&w.err);
    drain(&w.mark);
    tell(&w, status, &use, fd);
}

void watch_broken(const char *why, int fd)
{
    wire_result r = {.magic = WIRE_RESULT_MAGIC, .verdict = WIRE_BROKEN,
                     .n_note = (uint32_t)strlen(why)};
    send(&r, NULL, NULL, why, fd);
}
