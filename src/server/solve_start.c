/* solve_start.c - writes the files of the request, starts the process. */
#include "server/solve_start.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/solve_order.h"

extern char **environ;

enum {
    NICER = 10, /* higher than the server's: running answers have priority */
    ENVIRONMENT_MAX = 512,
    SWEEP_S = 60, /* of age: between its making and its lock a folder is nobody's */
};

#define FOLDER "cerium-solve-"
#define FOLDER_OPEN (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* ---- its files ---- */

static int cannot(protocol_error *e, const char *what)
{
    return protocol_error_set(e, 500, "server_error", NULL, "", "%s: %s", what, strerror(errno));
}

static int write_text(const char *folder, const char *name, const char *text, protocol_error *e)
{
    char path[sizeof((solve_process *)0)->folder + sizeof((solve_process *)0)->file];
    if (!text) return CERIUM_OK;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) {
        if (fd >= 0) close(fd);
        return cannot(e, "a file for it cannot be made");
    }
    int bad = fputs(text, out) < 0;
    bad |= fclose(out) != 0;
    return bad ? cannot(e, "a file for it cannot be written") : CERIUM_OK;
}

static const char *temporary(void)
{
    const char *at = getenv("TMPDIR");
    return at && *at ? at : "/tmp";
}

/* A lock ends with the process that holds it, and is seen from other containers. */
static int lock_folder(int at, const char *folder)
{
    const int fd = openat(at, folder, FOLDER_OPEN);
    if (fd < 0 || !flock(fd, LOCK_EX | LOCK_NB)) return fd;
    close(fd);
    return -1;
}

static int write_files(solve_process *p, const solve_order *o, protocol_error *e)
{
    const int n = snprintf(p->folder, sizeof p->folder, "%s/" FOLDER "XXXXXX", temporary());
    if (n >= (int)sizeof p->folder || !mkdtemp(p->folder)) {
        p->folder[0] = 0;
        return cannot(e, "a folder for it cannot be made");
    }
    p->lock = lock_folder(AT_FDCWD, p->folder);
    if (p->lock < 0) return cannot(e, "a folder for it cannot be locked");
    RETURN_IF(write_text(p->folder, p->file, o->code, e));
    RETURN_IF(write_text(p->folder, SOLVE_TESTS_NAME, o->tests, e));
    return write_text(p->folder, SOLVE_HIDDEN_NAME, o->hidden, e);
}

/* ---- its process ---- */

/* It must not get keys and settings of the server. */
static void make_environment(char *out[ENVIRONMENT_MAX])
{
    size_t n = 0;
    for (char **one = environ; *one && n + 1 < ENVIRONMENT_MAX; one++)
        if (strncmp(*one, "CERIUM_", 7) != 0) out[n++] = *one;
    out[n] = NULL;
}

static int spawn_with(solve_process *p, const solve_words *w, int end,
                      posix_spawn_file_actions_t *acts, posix_spawnattr_t *attributes)
{
    char *environment[ENVIRONMENT_MAX];
    sigset_t none, pipe;
    sigemptyset(&none);
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE); /* so it ends with the server */
    make_environment(environment);
    int bad = posix_spawn_file_actions_adddup2(acts, end, STDIN_FILENO);
    bad |= posix_spawn_file_actions_adddup2(acts, end, STDOUT_FILENO);
    bad |= posix_spawn_file_actions_addopen(acts, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    bad |= posix_spawn_file_actions_addchdir_np(acts, p->folder);
    bad |= posix_spawnattr_setsigmask(attributes, &none);
    bad |= posix_spawnattr_setsigdefault(attributes, &pipe);
    bad |= posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (bad) return bad;
    return posix_spawn(&p->pid, "/proc/self/exe", acts, attributes,
                       (char *const *)(uintptr_t)w->all, environment);
}

static int spawn(solve_process *p, const solve_words *w, protocol_error *e)
{
    int ends[2], bad = ENOMEM;
    posix_spawn_file_actions_t acts;
    posix_spawnattr_t attributes;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return cannot(e, "no process for it can be started");
    if (!posix_spawn_file_actions_init(&acts)) {
        if (!posix_spawnattr_init(&attributes)) {
            bad = spawn_with(p, w, ends[1], &acts, &attributes);
            posix_spawnattr_destroy(&attributes);
        }
        posix_spawn_file_actions_destroy(&acts);
    }
    close(ends[1]);
    p->fd = ends[0];
    errno = bad;
    if (bad) {
        p->pid = 0;
        return cannot(e, "no process for it can be started");
    }
    /* Its tests inherit it. */
    (void)setpriority(PRIO_PROCESS, (id_t)p->pid, getpriority(PRIO_PROCESS, 0) + NICER);
    return CERIUM_OK;
}

static int start(solve_process *p, const solve_order *o, protocol_error *e)
{
    solve_words w;
    snprintf(p->file, sizeof p->file, "%s", o->file);
    snprintf(p->model, sizeof p->model, "%s", o->model);
    p->streams = o->streams;
    RETURN_IF(write_files(p, o, e));
    solve_order_words(o, &w);
    return spawn(p, &w, e);
}

int solve_start(solve_process *out, view body, protocol_error *e)
{
    solve_order o;
    *out = (solve_process){.fd = -1, .lock = -1};
    RETURN_IF(solve_order_read(&o, body, e));
    int status = start(out, &o, e);
    solve_order_free(&o);
    if (status) solve_end(out);
    return status;
}

void solve_kill(const solve_process *p)
{
    if (p->pid) kill(p->pid, SIGKILL); /* its sandbox ends with it */
}

static void remove_file(const solve_process *p, const char *name)
{
    char path[sizeof p->folder + sizeof p->file];
    snprintf(path, sizeof path, "%s/%s", p->folder, name);
    unlink(path);
}

void solve_end(solve_process *p)
{
    solve_kill(p);
    while (p->pid && waitpid(p->pid, NULL, 0) < 0 && errno == EINTR) continue;
    if (p->fd >= 0) close(p->fd);
    if (p->folder[0]) {
        remove_file(p, p->file);
        remove_file(p, SOLVE_TESTS_NAME);
        remove_file(p, SOLVE_HIDDEN_NAME);
        rmdir(p->folder);
    }
    if (p->lock >= 0) close(p->lock);
    *p = (solve_process){.fd = -1, .lock = -1};
}

/* ---- those of a server that was killed ---- */

static bool is_left(int folder)
{
    struct stat is;
    return !fstat(folder, &is) && is.st_uid == geteuid() && !(is.st_mode & 077) &&
           time(NULL) - is.st_mtime > SWEEP_S;
}

/* Its own files; folders in it, which no server made, keep it. */
static void remove_left(int at, const char *name)
{
    const int folder = lock_folder(at, name);
    if (folder < 0) return;
    const int again = is_left(folder) ? dup(folder) : -1;
    DIR *files = again < 0 ? NULL : fdopendir(again);
    for (const struct dirent *one; files && (one = readdir(files));)
        (void)unlinkat(folder, one->d_name, 0);
    if (files) {
        closedir(files);
        (void)unlinkat(at, name, AT_REMOVEDIR);
    } else if (again >= 0) close(again);
    close(folder);
}

void solve_sweep(void)
{
    DIR *all = opendir(temporary());
    for (const struct dirent *one; all && (one = readdir(all));)
        if (!strncmp(one->d_name, FOLDER, strlen(FOLDER))) remove_left(dirfd(all), one->d_name);
    if (all) closedir(all);
}
