/* guest_serve.c - the fork server: reads jobs from standard input, and gives each to a process that
 * watches it (guest_watch.c), which answers on standard output. */
#include "sandbox/guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FD_JOBS = 0, FD_RESULTS = 1 };

bool guest_write(int fd, const void *from, size_t n)
{
    const char *p = from;
    while (n > 0) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

/* 1, 0 at the end, -1 within a job. */
static int read_all(int fd, void *to, size_t n)
{
    char *p = to;
    size_t got = 0;
    while (got < n) {
        ssize_t more = read(fd, p + got, n - got);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) return got || more < 0 ? -1 : 0;
        got += (size_t)more;
    }
    return 1;
}

static int read_job(guest_job *g)
{
    memset(g, 0, sizeof *g);
    int got = read_all(FD_JOBS, &g->job, sizeof g->job);
    const wire_job *j = &g->job;
    if (got <= 0) return got;
    if (j->magic != WIRE_JOB_MAGIC || j->n_program > WIRE_TEXT_BYTES_MAX ||
        j->n_tests > WIRE_TEXT_BYTES_MAX || j->n_name > WIRE_NAME_BYTES_MAX)
        return -1;
    g->n_map = (size_t)j->n_program + j->n_tests + j->n_name + 3;
    g->map = mmap(NULL, g->n_map, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g->map == MAP_FAILED) return -1;
    char *at = g->map; /* zeros: a NUL ends each */
    g->program = at;
    g->tests = g->program + j->n_program + 1;
    g->name = g->tests + j->n_tests + 1;
    if ((j->n_program && read_all(FD_JOBS, at, j->n_program) != 1) ||
        (j->n_tests && read_all(FD_JOBS, at + j->n_program + 1, j->n_tests) != 1) ||
        (j->n_name && read_all(FD_JOBS, at + j->n_program + j->n_tests + 2, j->n_name) != 1))
        return -1;
    return 1;
}

/* In a new process: set up the walls, start the variant, watch it.  Returns in the variant. */
static void oversee(guest_job *g)
{
    int out[2], err[2], mark[2];
    setsid();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    const char *why = walls_outer(&g->job);
    if (!why && (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) || pipe2(mark, O_CLOEXEC)))
        why = "pipes";
    pid_t pid = why ? -1 : fork();
    if (!why && pid < 0) why = "fork";
    if (why) {
        watch_broken(why, FD_RESULTS);
        _exit(0);
    }
    if (pid == 0) {
        why = walls_inner(&g->job, out[1], err[1], mark[1]);
        if (!why) return;
        (void)!write(GUEST_FD_MARK, why, strlen(why));
        _exit(WIRE_STATUS_BROKEN);
    }
    close(out[1]);
    close(err[1]);
    close(mark[1]);
    const watched v = {pid, out[0], err[0], mark[0], &g->job};
    watch_variant(&v, FD_RESULTS);
    _exit(0);
}

int guest_next(guest_job *out)
{
    signal(SIGPIPE, SIG_IGN);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no variant can inspect this process */
    for (;;) {
        int got = read_job(out);
        if (got <= 0) return got;
        pid_t pid = fork();
        if (pid == 0) {
            oversee(out);
            signal(SIGPIPE, SIG_DFL);
            return 1;
        }
        int status = 1;
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
        if (pid < 0 || status) watch_broken(pid < 0 ? "fork" : "the watcher ended", FD_RESULTS);
        if (out->map) munmap(out->map, out->n_map);
    }
}
