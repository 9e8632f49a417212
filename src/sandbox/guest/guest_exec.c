/* guest_exec.c - variants that are separate programs: node, C, a command in a copy of a folder. */
#include "sandbox/guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, STATUS_FAILED = 99 /* tcc's own is 1 */ };

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

/* All parts, one after the other, as a new file. */
static bool write_new(const char *path, mode_t mode, const char *const *parts, const size_t *sizes,
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
    if (!S_ISLNK(e->mode)) return write_new(path, (e->mode & 0700) | 0600, &contents, &size, 1);
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

static bool exists(const char *path) { return access(path, X_OK) == 0; }

/* Ends this process, or returns after an error. */
static int run(const char *const *args)
{
    execv(args[0], (char *const *)args);
    dprintf(2, "%s: %s\n", args[0], strerror(errno));
    return WIRE_STATUS_BROKEN;
}

/* As a child of this process, which is the first of its namespace: a first process has no default
 * actions for signals, and reaps orphans.  Returns its status, over 128 for a signal. */
static int run_below(const char *const *args, bool marks)
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

static int run_javascript(const guest_job *g)
{
    const wire_job *j = &g->job;
    const char *parts[] = {g->program, "\n", g->tests};
    const size_t sizes[] = {j->n_program, 1, j->n_tests};
    char path[WIRE_NAME_BYTES_MAX + 32], mark[WIRE_MARK_BYTES + 1], heap[64];
    const char *slash = strrchr(g->name, '/');
    snprintf(path, sizeof path, "%s/%s", n_folder ? "/tmp/task" : "/tmp",
             slash && !n_folder ? slash + 1 : g->name);
    snprintf(mark, sizeof mark, "%.*s", WIRE_MARK_BYTES, j->mark);
    snprintf(heap, sizeof heap, "--max-old-space-size=%u",
             (unsigned)(j->memory_bytes / 2 >> 20 ? j->memory_bytes / 2 >> 20 : 1));
    if (n_folder && !exec_unpack("/tmp/task")) return WIRE_STATUS_BROKEN;
    if (chdir(n_folder ? "/tmp/task" : "/tmp") || !write_new(path, 0600, parts, sizes, 3))
        return WIRE_STATUS_BROKEN;
    /* The mark is not an argument: a program can read its arguments. */
    int ends[2];
    if (pipe(ends) || !guest_write(ends[1], mark, WIRE_MARK_BYTES)) return WIRE_STATUS_BROKEN;
    close(ends[1]);
    if (dup2(ends[0], 0) != 0) return WIRE_STATUS_BROKEN;
    close(ends[0]);
    const char *args[] = {"/usr/bin/node", heap, "--no-warnings", "--v8-pool-size=1",
                          "/sandbox/harness.cjs", path, NULL};
    return run(args);
}

/* Between a program and its tests: the program's redefinitions of words in the tests are undone,
 * and the tests' main gets a name that no program can know. */
static const char words[] =
    "\n#undef NDEBUG\n#undef assert\n#undef main\n#undef int\n#undef void\n#undef return\n"
    "#undef if\n#undef else\n#undef for\n#undef while\n#undef do\n#undef char\n#undef long\n"
    "#undef short\n#undef unsigned\n#undef signed\n#undef double\n#undef float\n#undef static\n"
    "#undef const\n#undef struct\n#undef union\n#undef enum\n#undef switch\n#undef case\n"
    "#undef default\n#undef break\n#undef continue\n#undef goto\n#undef sizeof\n#undef typedef\n"
    "#undef extern\n#undef inline\n#undef volatile\n#undef abort\n#undef exit\n#undef memcmp\n"
    "#undef strcmp\n#undef strncmp\n";

static bool write_c(const guest_job *g)
{
    const wire_job *j = &g->job;
    char name[128], driver[1024];
    int n = snprintf(name, sizeof name, "#define main cerium_%.*s\n#line 1 \"tests\"\n",
                     WIRE_MARK_BYTES, j->mark);
    const char *parts[] = {g->program, words, name, g->tests};
    const size_t sizes[] = {j->n_program, sizeof words - 1, (size_t)n, j->n_tests};
    n = snprintf(driver, sizeof driver,
                 "int write(int, const char *, unsigned long);\n"
                 "int cerium_%.*s(int, char **, char **);\n"
                 "int main(int argc, char **argv, char **envp)\n{\n"
                 "    int status = cerium_%.*s(argc, argv, envp);\n"
                 "    if (status == 0) write(3, \"%.*s\", %d);\n"
                 "    return status ? %d : 0;\n}\n",
                 WIRE_MARK_BYTES, j->mark, WIRE_MARK_BYTES, j->mark, WIRE_MARK_BYTES, j->mark,
                 WIRE_MARK_BYTES, STATUS_FAILED);
    const char *text = driver;
    const size_t size = (size_t)n;
    return write_new("/tmp/program.c", 0600, parts, sizes, 4) &&
           write_new("/tmp/driver.c", 0600, &text, &size, 1);
}

static int run_c(const guest_job *g)
{
    const char *with_tcc[] = {"/usr/bin/tcc", "-w", "-I/tmp/task", "-lm", "/tmp/driver.c", "-run",
                              "/tmp/program.c", NULL};
    const char *with_cc[] = {"/bin/sh", "-c",
                             "cc -std=gnu17 -O0 -w -pipe -I/tmp/task -o a.out program.c driver.c "
                             "-lm || exit 114; exec ./a.out", NULL};
    if (n_folder && !exec_unpack("/tmp/task")) return WIRE_STATUS_BROKEN;
    if (chdir("/tmp") || !write_c(g)) return WIRE_STATUS_BROKEN;
    bool is_tcc = exists(with_tcc[0]) && !(g->job.flags & WIRE_USE_CC);
    int status = run_below(is_tcc ? with_tcc : with_cc, true);
    if (status == 128 + SIGABRT || status == STATUS_FAILED) return WIRE_STATUS_FAIL;
    return is_tcc && status == 1 ? WIRE_STATUS_PARSE : status;
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
        !write_new(path, 0700, &text, &size, 1)) {
        dprintf(GUEST_FD_MARK, "!the folder does not fit into the sandbox: %s", strerror(errno));
        return WIRE_STATUS_BROKEN;
    }
    int status = run_below(args, false);
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
        return run_c(g);
    case WIRE_COMMAND:
        return run_command(g);
    default:
        return WIRE_STATUS_BROKEN;
    }
}
