/* lsp_edit.c - edits of `cerium lsp` by instruction: `cerium edit` over a copy of the text, in a
 * separate process, so that both commands change, judge and refuse the same. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "programs/lsp_host.h"
#include "protocol/edit_answer.h"

extern char **environ;

enum { WORDS_MAX = 12 + 2 * OPTIONS_GUARDS_MAX, ERRORS_BYTES_MAX = 4096 };

struct lsp_edit {
    const options *o;
    uint64_t serial; /* 0: none is running */
    pid_t pid;
    int errors_fd;   /* its standard error; -1: none */
    char folder[256], path[1024];
    bytes errors;
    char *replay;    /* full path of a recorded answer; or NULL */
};

int lsp_edit_open(lsp_edit **out, const options *o, const char *replay, cerium_error *err)
{
    lsp_edit *e = memory_zalloc(1, sizeof *e);
    if (!e) return error_set(err, CERIUM_ERR_MEMORY, "out of memory");
    e->o = o;
    e->errors_fd = -1;
    e->errors.max = 2 * ERRORS_BYTES_MAX;
    *out = e;
    char whole[PATH_MAX];
    if (!replay) return CERIUM_OK;
    if (!realpath(replay, whole))
        return error_set(err, CERIUM_ERR_IO, "--replay %s: %s", replay, strerror(errno));
    e->replay = memory_copy(whole, strlen(whole));
    return e->replay ? CERIUM_OK : error_set(err, CERIUM_ERR_MEMORY, "out of memory");
}

int lsp_edit_fd(const lsp_edit *e) { return e->errors_fd; }

static void clean(lsp_edit *e)
{
    if (e->errors_fd >= 0) close(e->errors_fd);
    if (e->path[0]) unlink(e->path);
    if (e->folder[0]) rmdir(e->folder);
    e->errors_fd = -1;
    e->path[0] = e->folder[0] = 0;
    e->serial = 0;
}

/* A private copy of the text, under the file's name. */
static bool write_copy(lsp_edit *e, const lsp_edit_order *order, const char **why)
{
    const char *temporary = getenv("TMPDIR");
    snprintf(e->folder, sizeof e->folder, "%.200s/cerium-edit-XXXXXX",
             temporary && *temporary ? temporary : "/tmp");
    *why = "no place for a copy of the file: is TMPDIR a folder that can be written?";
    if (!mkdtemp(e->folder)) {
        e->folder[0] = 0;
        return false;
    }
    snprintf(e->path, sizeof e->path, "%s/%.250s", e->folder, order->path);
    int fd = open(e->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    int code = file_write_at(fd, order->text.ptr, order->text.len, 0);
    close(fd);
    return !code;
}

/* The words of the command: the options of the model and the watchdog, then the edit. */
static void make_words(const lsp_edit *e, const lsp_edit_order *order, const char *model,
                       const char *words[WORDS_MAX])
{
    const options *o = e->o;
    size_t n = 0;
    words[n++] = "cerium";
    words[n++] = "edit";
    words[n++] = "--apply";
    words[n++] = "--quiet";
    for (uint32_t i = 0; i < o->n_guard; i++) {
        words[n++] = "--guard";
        words[n++] = o->guard[i];
    }
    if (e->replay) {
        words[n++] = "--replay";
        words[n++] = e->replay;
    }
    if (model) {
        words[n++] = "-m";
        words[n++] = model;
    }
    words[n++] = order->path;
    words[n++] = order->instruction;
    words[n] = NULL;
}

static bool spawn(lsp_edit *e, const char *words[], int errors)
{
    posix_spawn_file_actions_t acts;
    if (posix_spawn_file_actions_init(&acts)) return false;
    int bad = posix_spawn_file_actions_addopen(&acts, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    bad |= posix_spawn_file_actions_adddup2(&acts, errors, STDERR_FILENO);
    bad |= posix_spawn_file_actions_addopen(&acts, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    bad |= posix_spawn_file_actions_addchdir_np(&acts, e->folder);
    if (!bad)
        bad = posix_spawn(&e->pid, "/proc/self/exe", &acts, NULL, (char *const *)(void *)words,
                          environ);
    posix_spawn_file_actions_destroy(&acts);
    return !bad;
}

bool lsp_edit_start(lsp_edit *e, const lsp_edit_order *order, const char **why)
{
    const char *words[WORDS_MAX], *model = options_model(e->o);
    char whole[PATH_MAX];
    int ends[2];
    *why = "another edit is under way";
    if (e->serial) return false;
    if (order->path[0] == 0 || order->path[0] == '-') {
        *why = "the file has no name that can be used";
        return false;
    }
    if (model && !realpath(model, whole)) snprintf(whole, sizeof whole, "%s", model);
    if (!write_copy(e, order, why)) {
        clean(e);
        return false;
    }
    make_words(e, order, model ? whole : NULL, words);
    *why = "no process for it can be started";
    if (pipe2(ends, O_CLOEXEC)) {
        clean(e);
        return false;
    }
    bool runs = spawn(e, words, ends[1]);
    close(ends[1]);
    e->errors_fd = ends[0];
    if (!runs) {
        clean(e);
        return false;
    }
    e->errors.len = 0;
    e->serial = order->serial;
    return true;
}

/* The last line that it wrote, without the command's name. */
static const char *last_line(lsp_edit *e)
{
    static const char name[] = "cerium: ";
    if (bytes_append(&e->errors, "", 1)) return "out of memory";
    char *text = e->errors.ptr;
    size_t n = strlen(text);
    while (n && text[n - 1] == '\n') text[--n] = 0;
    char *line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    if (!strncmp(line, name, sizeof name - 1)) line += sizeof name - 1;
    return *line ? line : "the edit failed and said nothing";
}

static void finish(lsp_edit *e, lsp_server *s)
{
    int code = 1;
    cerium_error err;
    const uint64_t serial = e->serial;
    bytes text = {.max = EDIT_FILE_BYTES_MAX};
    const char *why = NULL;
    while (waitpid(e->pid, &code, 0) < 0 && errno == EINTR) continue;
    if (!WIFEXITED(code) || WEXITSTATUS(code)) why = last_line(e);
    else if (read_file(e->path, &text, &err)) why = err.message;
    clean(e);
    lsp_server_edited(s, serial, (view){text.ptr ? text.ptr : "", text.len}, why, clock_ns());
    bytes_free(&text);
}

void lsp_edit_look(lsp_edit *e, lsp_server *s, bool is_readable)
{
    char buffer[ERRORS_BYTES_MAX];
    if (!e->serial || !is_readable) return;
    ssize_t n = read(e->errors_fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) {
        finish(e, s);
        return;
    }
    if (e->errors.len > ERRORS_BYTES_MAX) { /* only its last lines are shown */
        e->errors.len -= ERRORS_BYTES_MAX / 2;
        memmove(e->errors.ptr, e->errors.ptr + ERRORS_BYTES_MAX / 2, e->errors.len);
    }
    if (e->errors.len + (size_t)n < e->errors.max && bytes_append(&e->errors, buffer, (size_t)n))
        e->errors.len = 0;
}

void lsp_edit_stop(lsp_edit *e)
{
    if (!e->serial) return;
    kill(e->pid, SIGKILL);
    while (waitpid(e->pid, NULL, 0) < 0 && errno == EINTR) continue;
    clean(e);
}

void lsp_edit_close(lsp_edit **edit)
{
    if (!edit || !*edit) return;
    lsp_edit_stop(*edit);
    bytes_free(&(*edit)->errors);
    memory_free((*edit)->replay);
    memory_free(*edit);
    *edit = NULL;
}
