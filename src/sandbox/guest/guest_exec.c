/* guest_exec.c - variants that are separate programs: node, C, a command in a copy of a folder. */
#include "sandbox/guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of the library, in whichever program it is loaded. */
__attribute__((constructor)) static void hide_memory(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

enum { PATH_BYTES = 4096 };

static const char *folder; /* [n_folder] entries; see wire_entry */
static size_t n_folder;

bool exec_open_folder(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT;
    bool good = fstat(fd, &st) == 0;
    if (good && st.st_size > 0) {
        folder = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        good = folder != MAP_FAILED;
        n_folder = good ? (size_t)st.st_size : 0;
    }
    close(fd);
    return good;
}

size_t exec_n_folder(void) { return n_folder; }

bool exec_write_new(const char *path, mode_t mode, const char *const *parts, const size_t *sizes,
                    int n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    bool good = fd >= 0;
    for (int i = 0; i < n && good; i++) good = guest_write(fd, parts[i], sizes[i]);
    return fd >= 0 && close(fd) == 0 && good;
}

static bool make_entry(const char *path, const wire_entry *e, const char *contents)
{
    const size_t size = (size_t)e->n_bytes;
    char to[PATH_BYTES];
    if (S_ISDIR(e->mode)) return mkdir(path, 0700) == 0 || errno == EEXIST;
    if (!S_ISLNK(e->mode))
        return exec_write_new(path, (e->mode & 0700) | 0600, &contents, &size, 1);
    snprintf(to, sizeof to, "%.*s", (int)(size < PATH_BYTES ? size : PATH_BYTES - 1), contents);
    return symlink(to, path) == 0 || errno == EEXIST;
}

bool exec_unpack(const char *path)
{
    char name[PATH_BYTES];
    if (mkdir(path, 0700) && errno != EEXIST) return false;
    for (size_t at = 0; at < n_folder;) {
        wire_entry e;
        if (n_folder - at < sizeof e) return false;
        memcpy(&e, folder + at, sizeof e);
        at += sizeof e;
        if (!e.n_name || e.n_name > n_folder - at || e.n_bytes > n_folder - at - e.n_name ||
            folder[at + e.n_name - 1])
            return false;
        int n = snprintf(name, sizeof name, "%s/%s", path, folder + at);
        if (n <= 0 || n >= PATH_BYTES || !make_entry(name, &e, folder + at + e.n_name))
            return false;
        at += (e.n_name + (size_t)e.n_bytes + 7) & ~(size_t)7;
    }
    return true;
}

/* ---- languages ---- */

/* Ends this process, or returns after an error. */
static int run(const char *const *args)
{
    execv(args[0], (char *const *)args);
    dprintf(2, "%s: %s\n", args[0], strerror(errno));
    return WIRE_STATUS_BROKEN;
}

int exec_below(const char *const *args, bool marks)
{
    int status = 0;
    pid_t pid = fork();
    if (pid < 0) return WIRE_STATUS_BROKEN;
    if (pid == 0) {
        if (!marks) close(GUEST_FD_MARK);
        _exit(run(args));
    }
    for (;;) {
        pid_t done = wait(&status);
        if (done == pid || (done < 0 && errno != EINTR)) break;
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The parts, as a file without a name, at a descriptor that is read from its beginning. */
static bool put_at(int fd, const char *const *parts, const size_t *sizes, int n)
{
    int from = open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    bool good = from >= 0;
    for (int i = 0; i < n && good; i++) good = guest_write(from, parts[i], sizes[i]);
    good = good && lseek(from, 0, SEEK_SET) == 0 && dup2(from, fd) == fd;
    if (from >= 0) close(from);
    return good;
}

static int run_javascript(const guest_job *g)
{
    const wire_job *j = &g->job;
    const char *given[] = {j->mark, g->tests};
    const size_t sizes[] = {WIRE_MARK_BYTES, j->n_tests}, size = j->n_program;
    char path[WIRE_NAME_BYTES_MAX + 32], heap[64];
    const char *slash = strrchr(g->name, '/');
    snprintf(path, sizeof path, "%s/%s", n_folder ? "/tmp/task" : "/tmp",
             slash && !n_folder ? slash + 1 : g->name);
    snprintf(heap, sizeof heap, "--max-old-space-size=%u",
             (unsigned)(j->memory_bytes / 2 >> 20 ? j->memory_bytes / 2 >> 20 : 1));
    if (n_folder && !exec_unpack("/tmp/task")) return WIRE_STATUS_BROKEN;
    if (chdir(n_folder ? "/tmp/task" : "/tmp") ||
        !exec_write_new(path, 0600, &g->program, &size, 1))
        return WIRE_STATUS_BROKEN;
    /* Neither an argument nor a file: a program can read both. */
    if (!put_at(0, given, sizes, 2)) return WIRE_STATUS_BROKEN;
    /* It makes node undumpable: nothing in it can read its memory by /proc. */
    if (setenv("LD_PRELOAD", "/sandbox/guest.so", 1)) return WIRE_STATUS_BROKEN;
    const char *args[] = {"/usr/bin/node", heap, "--no-warnings", "--v8-pool-size=1",
                          "--experimental-vm-modules", "--unhandled-rejections=strict",
                          "/sandbox/harness.cjs", path, NULL};
    return run(args);
}

/* The command's own status is its verdict: the mark is written here, after it, out of reach of the
 * command's processes. */
static int run_command(const guest_job *g)
{
    const wire_job *j = &g->job;
    char path[WIRE_NAME_BYTES_MAX + 32];
    const char *text = g->program, *args[] = {"/bin/sh", "-c", g->tests, NULL};
    const size_t size = j->n_program;
    snprintf(path, sizeof path, "/tmp/task/%s", g->name);
    if (!exec_unpack("/tmp/task") || chdir("/tmp/task") ||
        !exec_write_new(path, 0700, &text, &size, 1)) {
        dprintf(GUEST_FD_MARK, "!the folder does not fit into the sandbox: %s", strerror(errno));
        return WIRE_STATUS_BROKEN;
    }
    int status = exec_below(args, false);
    if (status == 0) (void)!guest_write(GUEST_FD_MARK, j->mark, WIRE_MARK_BYTES);
    return status > 0 && status <= 128 ? WIRE_STATUS_FAIL : status;
}

int exec_job(const guest_job *g)
{
    switch (g->job.language) {
    case WIRE_NOTHING:
        return guest_write(GUEST_FD_MARK, g->job.mark, WIRE_MARK_BYTES) ? 0 : WIRE_STATUS_BROKEN;
    case WIRE_JAVASCRIPT:
        return run_javascript(g);
    case WIRE_C:
        return exec_c(g);
    case WIRE_COMMAND:
        return run_command(g);
    default:
        return WIRE_STATUS_BROKEN;
    }
}
