/* enter.c - the arguments of bubblewrap, and its process. */
#include "sandbox/enter.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "sandbox/sandbox_parts.h"

enum {
    ARGS_MAX = 160,
    NUMBER_BYTES = 16,
    NUMBERS_MAX = 16,
    /* The user of variants when the server runs as root: the limit on processes does not apply to
     * root.  No distribution assigns these ids. */
    GUEST_UID = 64731,
    GUEST_GID = 64731,
};

/* ---- arguments ---- */

typedef struct {
    const char *at[ARGS_MAX];
    uint32_t n, n_numbers, n_fds;
    char numbers[NUMBERS_MAX][NUMBER_BYTES];
    int fds[NUMBERS_MAX]; /* that bubblewrap reads */
} arguments;

static void add(arguments *a, const char *word)
{
    CHECK(a->n < ARGS_MAX - 1);
    a->at[a->n++] = word;
}

static void add_all(arguments *a, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) add(a, words[i]);
}

static const char *number(arguments *a, uint64_t value)
{
    CHECK(a->n_numbers < NUMBERS_MAX);
    char *to = a->numbers[a->n_numbers++];
    snprintf(to, NUMBER_BYTES, "%llu", (unsigned long long)value);
    return to;
}

/* /bin and the like, as they are here: links into /usr, or folders of their own. */
static void add_roots(arguments *a)
{
    static const struct {
        const char *path, *to;
    } roots[] = {{"/bin", "usr/bin"},     {"/sbin", "usr/sbin"},   {"/lib", "usr/lib"},
                 {"/lib32", "usr/lib32"}, {"/lib64", "usr/lib64"}, {"/libx32", "usr/libx32"}};
    struct stat st;
    add_all(a, (const char *const[]){"--ro-bind", "/usr", "/usr"}, 3);
    for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
        if (lstat(roots[i].path, &st)) continue;
        if (S_ISLNK(st.st_mode))
            add_all(a, (const char *const[]){"--symlink", roots[i].to, roots[i].path}, 3);
        else
            add_all(a, (const char *const[]){"--ro-bind", roots[i].path, roots[i].path}, 3);
    }
    static const char *const files[] = {"/etc/alternatives", "/etc/ld.so.cache"};
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (!stat(files[i], &st))
            add_all(a, (const char *const[]){"--ro-bind", files[i], files[i]}, 3);
}

/* A file from memory; takes the descriptor. */
static int add_file(arguments *a, int fd, const char *place, const char *mode, cerium_error *err)
{
    if (fd < 0) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the sandbox's files");
    CHECK(a->n_fds < NUMBERS_MAX);
    a->fds[a->n_fds++] = fd;
    const char *const words[] = {"--perms", mode, "--ro-bind-data",
                                 number(a, (uint64_t)fd), place};
    add_all(a, words, ARRAY_LEN(words));
    return CERIUM_OK;
}

static int add_files(arguments *a, const sandbox_config *config, cerium_error *err)
{
    guest_file files[GUEST_FILES];
    guest_files(files);
    for (size_t i = 0; i < GUEST_FILES; i++)
        RETURN_IF(add_file(a, memory_file(files[i].content), files[i].place, "0555", err));
    int filter = filter_open(err);
    if (filter < 0) return CERIUM_ERR_IO;
    RETURN_IF(add_file(a, filter, "/sandbox/filter", "0444", err));
    if (!config->folder) return CERIUM_OK;
    const view packed = {config->folder->ptr, config->folder->len};
    return add_file(a, memory_file(packed), "/sandbox/folder", "0444", err);
}

static const char *const walls[] = {
    "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL",
    "--hostname", "sandbox"};
static const char *const surroundings[] = {
    "--proc", "/proc", "--dev", "/dev", "--perms", "0700", "--tmpfs", "/tmp",
    "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/tmp", "--setenv", "LC_ALL",
    "C.UTF-8", "--setenv", "TZ", "UTC", "--setenv", "SOURCE_DATE_EPOCH", "0", "--setenv",
    "PYTHONDONTWRITEBYTECODE", "1"};
static const char *const closed[] = {"--chdir", "/tmp", "--remount-ro", "/dev", "--remount-ro",
                                     "/", "--"};

static int make_arguments(arguments *a, const sandbox_config *config, char *modules,
                          cerium_error *err)
{
    add(a, "bwrap");
    add_all(a, walls, ARRAY_LEN(walls));
    add_roots(a);
    add_all(a, surroundings, ARRAY_LEN(surroundings));
    add_all(a, (const char *const[]){"--setenv", "PYTHONHASHSEED", number(a, config->seed)}, 3);
    RETURN_IF(add_files(a, config, err));
    if (config->folder && config->python)
        add_all(a, (const char *const[]){"--perms", "0700", "--tmpfs", "/task"}, 4);
    add_all(a, closed, ARRAY_LEN(closed));
    if (!config->python) {
        add(a, "/sandbox/runner");
        return CERIUM_OK;
    }
    const char *const python[] = {"/usr/bin/python3", "-s", "-B", "/sandbox/zygote.py",
                                  "/sandbox/guest.so", "/sandbox"};
    add_all(a, python, ARRAY_LEN(python));
    for (char *at = modules; at && *at && a->n < ARGS_MAX - 2;) {
        size_t n = strcspn(at, " ");
        bool last = !at[n];
        at[n] = 0;
        if (n) add(a, at);
        at += n + !last;
    }
    return CERIUM_OK;
}

/* ---- its process ---- */

/* In the child, between fork and exec: only system calls.  Returns only if one fails. */
static void become_bwrap(const arguments *a, int socket, int errors)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)) return;
    if (geteuid() == 0 && (setgroups(0, NULL) || setresgid(GUEST_GID, GUEST_GID, GUEST_GID) ||
                           setresuid(GUEST_UID, GUEST_UID, GUEST_UID)))
        return;
    /* All other descriptors of this program stay outside. */
    if (syscall(SYS_close_range, 3, ~0u, 1u << 2 /* CLOSE_RANGE_CLOEXEC */)) return;
    for (uint32_t i = 0; i < a->n_fds; i++)
        if (fcntl(a->fds[i], F_SETFD, 0)) return;
    if (dup2(socket, 0) < 0 || dup2(socket, 1) < 0 || dup2(errors, 2) < 0) return;
    execvp("bwrap", (char *const *)a->at);
}

/* Every supported kernel closes descriptors marked so. */
static int spawn(sandbox_place *out, const arguments *a, cerium_error *err)
{
    int ends[2];
    int errors = memory_file((view){NULL, 0});
    if (errors < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        if (errors >= 0) close(errors);
        return error_set(err, CERIUM_ERR_IO, "no socket for the sandbox: %s", strerror(errno));
    }
    pid_t pid = fork();
    if (pid == 0) {
        become_bwrap(a, ends[1], errors);
        (void)!write(errors, "cannot run bwrap\n", 17);
        _exit(127);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        close(errors);
        return error_set(err, CERIUM_ERR_IO, "no process for the sandbox: %s", strerror(errno));
    }
    *out = (sandbox_place){pid, ends[0], errors};
    return CERIUM_OK;
}

/* The search path of execvp(). */
static bool has_bwrap(void)
{
    char path[4096];
    const char *at = getenv("PATH");
    for (view rest = view_of(at ? at : "/usr/bin:/bin"); rest.len;) {
        const char *colon = memchr(rest.ptr, ':', rest.len);
        size_t n = colon ? (size_t)(colon - rest.ptr) : rest.len;
        snprintf(path, sizeof path, "%.*s/bwrap", (int)(n < 4000 ? n : 4000), rest.ptr);
        if (n && !access(path, X_OK)) return true;
        n += colon != NULL;
        rest = (view){rest.ptr + n, rest.len - n};
    }
    return false;
}

int sandbox_enter(sandbox_place *out, const sandbox_config *config, cerium_error *err)
{
    arguments a = {.n = 0};
    char *modules = config->modules ? memory_copy(config->modules, strlen(config->modules)) : NULL;
    *out = (sandbox_place){0};
    int status = CERIUM_OK;
    if (!has_bwrap())
        status = error_set(err, CERIUM_ERR_IO, "there is no bwrap, which keeps what is tried away "
                           "from your files: install bubblewrap");
    else if (config->python && access("/usr/bin/python3", X_OK))
        status = error_set(err, CERIUM_ERR_IO, "there is no /usr/bin/python3: install python3");
    else if (config->modules && !modules)
        status = error_set(err, CERIUM_ERR_MEMORY, "no memory for a sandbox");
    if (!status) status = make_arguments(&a, config, modules, err);
    if (!status) status = spawn(out, &a, err);
    for (uint32_t i = 0; i < a.n_fds; i++) close(a.fds[i]);
    memory_free(modules);
    return status;
}

void sandbox_leave(sandbox_place *place)
{
    if (!place->pid) return;
    close(place->fd);
    close(place->errors);
    /* Its death ends the first process inside, and thereby all others. */
    kill(place->pid, SIGKILL);
    while (waitpid(place->pid, NULL, 0) < 0 && errno == EINTR) continue;
    *place = (sandbox_place){0};
}

void sandbox_errors(const sandbox_place *place, char *out, size_t size)
{
    size_t n = place->pid ? file_read_at(place->errors, out, size - 1, 0) : 0;
    out[n] = 0;
    out[strcspn(out, "\n")] = 0;
}

int sandbox_refusal(const char *errors, sandbox_level level, cerium_error *err)
{
    static const struct {
        const char *text, *remedy;
    } remedies[] = {
        {"uid map", "allow user namespaces: on Ubuntu an AppArmor profile for bwrap, in docker "
                    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"},
        {"RTM_NEWADDR", "give bwrap an AppArmor profile that allows user namespaces"},
        {"new namespace", "allow user namespaces: sysctl user.max_user_namespaces, in docker "
                          "--security-opt seccomp=unconfined"},
        {"mount proc", "in docker add --security-opt systempaths=unconfined"},
        {"unshare", "nested namespaces are refused here: --sandbox basic goes without, slower"},
        {"Unknown option", "install bubblewrap 0.8 or newer"},
        {"uid_map", "nested namespaces are refused here: --sandbox basic goes without, slower"},
    };
    const char *remedy = "nothing was run";
    for (size_t i = 0; i < ARRAY_LEN(remedies); i++)
        if (strstr(errors, remedies[i].text)) remedy = remedies[i].remedy;
    return error_set(err, CERIUM_ERR_IO, "no %s sandbox here (%s): %s",
                     level == SANDBOX_BASIC ? "basic" : "strict",
                     *errors ? errors : "it ended at once", remedy);
}
