/* mcp.c - `cerium mcp`: tools for agents, by the Model Context Protocol on standard input and
 * output.  A call of solve is a `cerium solve` process, so that both try, judge and refuse the
 * same, and a cancelled call leaves nothing behind. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "programs/mcp_search.h"
#include "programs/mcp_server.h"
#include "programs/options.h"
#include "programs/programs.h"

extern char **environ;

enum { READ_BYTES = 65536, WORDS_MAX = 200, ERRORS_BYTES = 4096, EVENT_BYTES_MAX = 4 << 20 };

/* One running call of solve. */
typedef struct {
    pid_t pid;                 /* 0: none */
    int out_fd, errors_fd;     /* events; standard error.  -1: ended */
    bytes events, errors;
    json_t *end;               /* the last event; NULL: none yet */
    double of;                 /* variants */
} solving;

typedef struct {
    options o;
    const char *root;
    char folder[PATH_MAX];
    mcp_server *server;
    bytes in;
    bool skips, ended;
    int out_fd;
    cerium_error lost; /* why a standard stream ended */
    solving calls[MCP_CALLS_MAX];
} session;

/* clang-format off */
static const option_spec own[] = {
    {"root", "DIR", "the workspace: nothing outside of it is read (default: where it is started)",
     TAKES_TEXT(session, root)},
};
/* clang-format on */
const command_table mcp_command = {
    .name = "mcp",
    .usage = "[OPTIONS]",
    .about = "Serve an agent by the Model Context Protocol on standard input and output, with "
             "three tools: solve, which tries many variants of a place in a file, tests each in a "
             "sandbox and returns the diff of one that passes, as `cerium solve` does; search, "
             "which finds where a name is defined and used; and related, which finds code that is "
             "about the same as a text. None writes a file.\n\n"
             "docs/clients.md says how to set up Codex and Claude Code.",
    .groups = OPTIONS_MODEL,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium mcp --root ~/project -m model.gguf",
};

static void lose(session *x, const char *stream)
{
    (void)error_set(&x->lost, CERIUM_ERR_IO, "standard %s: %s", stream, strerror(errno));
    x->ended = true;
}

/* ---- out ---- */

static void send_line(void *user, view line)
{
    session *x = user;
    const view parts[] = {line, VIEW("\n")};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        for (size_t at = 0; at < parts[i].len && !x->ended;) {
            ssize_t n = write(x->out_fd, parts[i].ptr + at, parts[i].len - at);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) lose(x, "output");
            else at += (size_t)n;
        }
}

/* ---- solve ---- */

static const char *text_of(const json_t *arguments, const char *key)
{
    return json_string_value(json_object_get(arguments, key));
}

/* The text of a file of the workspace, by its path from there; NULL, or why it cannot be read. */
static const char *check_path(const session *x, const char *path)
{
    char whole[2 * PATH_MAX], real[PATH_MAX];
    size_t n = strlen(x->folder);
    snprintf(whole, sizeof whole, "%s%s%s", path[0] == '/' ? "" : x->folder,
             path[0] == '/' ? "" : "/", path);
    if (path[0] == '-') return "a path cannot begin with '-'";
    if (!realpath(whole, real)) return "there is no such file";
    bool inside = n == 1 || (!strncmp(real, x->folder, n) && real[n] == '/');
    return inside ? NULL : "the file is not in the workspace's folder";
}

typedef struct {
    const char *all[WORDS_MAX];
    size_t n;
    char numbers[4][32], place[PATH_MAX + 64];
} words;

static void add(words *w, const char *option, const char *value)
{
    if (!value) return;
    w->all[w->n++] = option;
    w->all[w->n++] = value;
}

static void add_number(words *w, uint32_t i, const char *option, const json_t *value)
{
    if (!value) return;
    snprintf(w->numbers[i], sizeof w->numbers[i], "%lld", (long long)json_integer_value(value));
    add(w, option, w->numbers[i]);
}

static const char *make_place(words *w, const json_t *a)
{
    const json_t *line = json_object_get(a, "line"), *last = json_object_get(a, "last_line");
    const json_t *column = json_object_get(a, "column");
    const long long at = json_integer_value(line);
    const char *path = text_of(a, "path");
    if (strlen(path) >= PATH_MAX) return "the path is too long";
    if (!line && (last || column)) return "last_line and column need a line";
    if (last && column) return "last_line or column, not both";
    if (last) snprintf(w->place, sizeof w->place, "%s:%lld-%lld", path, at,
                       (long long)json_integer_value(last));
    else if (column) snprintf(w->place, sizeof w->place, "%s:%lld:%lld", path, at,
                              (long long)json_integer_value(column));
    else if (line) snprintf(w->place, sizeof w->place, "%s:%lld", path, at);
    else snprintf(w->place, sizeof w->place, "%s", path);
    return NULL;
}

static const char *make_words(const session *x, words *w, const json_t *a)
{
    const json_t *example;
    size_t i;
    const char *test_file = text_of(a, "test_file"), *why = check_path(x, text_of(a, "path"));
    if (!why && test_file) why = check_path(x, test_file);
    if (!why) why = make_place(w, a);
    if (why) return why;
    w->n = 0;
    w->all[w->n++] = "cerium";
    w->all[w->n++] = "solve";
    w->all[w->n++] = "--json";
    add(w, "--function", text_of(a, "function"));
    add(w, "--test-file", test_file);
    add(w, "--pytest", text_of(a, "pytest"));
    add(w, "--test", text_of(a, "command"));
    json_array_foreach(json_object_get(a, "examples"), i, example)
        add(w, "--example", json_string_value(example));
    if (json_is_true(json_object_get(a, "doctest"))) w->all[w->n++] = "--doctest";
    add(w, "--makers", text_of(a, "makers"));
    add_number(w, 0, "--variants", json_object_get(a, "variants"));
    add_number(w, 1, "--seed", json_object_get(a, "seed"));
    add(w, "--model", options_model(&x->o));
    w->all[w->n++] = "--";
    w->all[w->n++] = w->place;
    w->all[w->n] = NULL;
    return NULL;
}

static bool spawn(const session *x, solving *c, const words *w)
{
    int out[2], errors[2];
    posix_spawn_file_actions_t acts;
    if (pipe2(out, O_CLOEXEC)) return false;
    if (pipe2(errors, O_CLOEXEC)) {
        close(out[0]);
        close(out[1]);
        return false;
    }
    int bad = posix_spawn_file_actions_init(&acts);
    if (!bad) {
        bad = posix_spawn_file_actions_addopen(&acts, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        bad |= posix_spawn_file_actions_adddup2(&acts, out[1], STDOUT_FILENO);
        bad |= posix_spawn_file_actions_adddup2(&acts, errors[1], STDERR_FILENO);
        bad |= posix_spawn_file_actions_addchdir_np(&acts, x->folder);
        if (!bad)
            bad = posix_spawn(&c->pid, "/proc/self/exe", &acts, NULL,
                              (char *const *)(uintptr_t)w->all, environ);
        posix_spawn_file_actions_destroy(&acts);
    }
    close(out[1]);
    close(errors[1]);
    c->out_fd = out[0];
    c->errors_fd = errors[0];
    if (!bad) return true;
    close(out[0]);
    close(errors[0]);
    *c = (solving){.out_fd = -1, .errors_fd = -1};
    return false;
}

static void forget(solving *c)
{
    if (c->out_fd >= 0) close(c->out_fd);
    if (c->errors_fd >= 0) close(c->errors_fd);
    bytes_free(&c->events);
    bytes_free(&c->errors);
    json_decref(c->end);
    *c = (solving){.out_fd = -1, .errors_fd = -1};
}

static void cancel(void *user, uint32_t call)
{
    solving *c = &((session *)user)->calls[call];
    if (!c->pid) return;
    kill(c->pid, SIGKILL);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) continue;
    forget(c);
}

static const char *start_solve(session *x, uint32_t call, const json_t *arguments)
{
    static words w;
    solving *c = &x->calls[call];
    const json_t *n = json_object_get(arguments, "variants");
    const char *why = make_words(x, &w, arguments);
    if (why) return why;
    *c = (solving){.of = n ? (double)json_integer_value(n) : 256};
    c->events.max = EVENT_BYTES_MAX;
    c->errors.max = 2 * ERRORS_BYTES;
    return spawn(x, c, &w) ? NULL : "no process for it can be started";
}

static void take_event(session *x, uint32_t call, view line)
{
    json_error_t why;
    solving *c = &x->calls[call];
    json_t *event = json_read(line, 0, &why);
    const char *kind = json_string_value(json_object_get(event, "event"));
    char text[160];
    if (kind && !strcmp(kind, "progress")) {
        const json_int_t made = json_integer_value(json_object_get(event, "made"));
        const json_int_t tested = json_integer_value(json_object_get(event, "tested"));
        snprintf(text, sizeof text, "%lld made, %lld tested, %lld pass", (long long)made,
                 (long long)tested,
                 (long long)json_integer_value(json_object_get(event, "passed")));
        mcp_server_progress(x->server, call, (double)made, c->of, text);
    } else if (kind && !strcmp(kind, "end")) {
        json_decref(c->end);
        c->end = json_incref(event);
    }
    json_decref(event);
}

static void take_events(session *x, uint32_t call)
{
    bytes *b = &x->calls[call].events;
    size_t at = 0;
    for (const char *end; at < b->len && (end = memchr(b->ptr + at, '\n', b->len - at));) {
        size_t n = (size_t)(end - (b->ptr + at));
        take_event(x, call, (view){b->ptr + at, n});
        at += n + 1;
    }
    if (at) memmove(b->ptr, b->ptr + at, b->len - at);
    b->len -= at;
}

/* The last line that it wrote, without the command's name. */
static view last_line(const bytes *errors)
{
    size_t end = errors->len, begin;
    while (end > 0 && errors->ptr[end - 1] == '\n') end--;
    for (begin = end; begin > 0 && errors->ptr[begin - 1] != '\n';) begin--;
    view line = {errors->ptr + begin, end - begin};
    if (line.len > 8 && !memcmp(line.ptr, "cerium: ", 8)) line = (view){line.ptr + 8, line.len - 8};
    return line.len ? line : VIEW("solve ended and said nothing");
}

static void finish(session *x, uint32_t call)
{
    solving *c = &x->calls[call];
    char text[200];
    bytes out = {.max = EVENT_BYTES_MAX};
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) continue;
    c->pid = 0;
    const char *status = text_of(c->end, "status"), *diff = text_of(c->end, "diff");
    const long long made = json_integer_value(json_object_get(c->end, "made"));
    const long long index = json_integer_value(json_object_get(c->end, "index"));
    const long long different = json_integer_value(json_object_get(c->end, "different"));
    if (!status) {
        mcp_server_end(x->server, call, last_line(&c->errors), NULL, true);
    } else if (strcmp(status, "found")) {
        snprintf(text, sizeof text, "none of %lld variants (%lld different) passes the tests; "
                 "nothing was written", made, different);
        mcp_server_end(x->server, call, view_of(text), json_incref(c->end), false);
    } else {
        snprintf(text, sizeof text, "variant %lld of %lld passes the tests; nothing was written. "
                 "Apply this:\n", index, made);
        if (bytes_append(&out, text, strlen(text)) || bytes_append(&out, diff, strlen(diff)))
            mcp_server_end(x->server, call, VIEW("out of memory"), NULL, true);
        else
            mcp_server_end(x->server, call, (view){out.ptr, out.len}, json_incref(c->end), false);
    }
    bytes_free(&out);
    forget(c);
}

/* Read one of its descriptors; -1 at its end. */
static void drain(int *fd, bytes *to, bool keeps_end)
{
    char buffer[ERRORS_BYTES];
    ssize_t n = read(*fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) {
        close(*fd);
        *fd = -1;
        return;
    }
    if (keeps_end && to->len > ERRORS_BYTES) to->len = 0;
    if (bytes_append(to, buffer, (size_t)n)) to->len = 0;
}

/* ---- search ---- */

static const char *search(session *x, uint32_t call, const json_t *arguments)
{
    static char why[sizeof(cerium_error)];
    const json_t *name = json_object_get(arguments, "name"), *limit;
    bytes out = {.max = 2 << 20};
    cerium_error err;
    char none[64];
    uint32_t n = 0;
    limit = json_object_get(arguments, "limit");
    int status = mcp_search(x->folder, (view){json_string_value(name), json_string_length(name)},
                            limit ? (uint32_t)json_integer_value(limit) : 20, &out, &n, &err);
    if (status) snprintf(why, sizeof why, "%s", err.message);
    snprintf(none, sizeof none, "%u places%s", n, n ? "" : ": the name is nowhere");
    if (!status && !n) mcp_server_end(x->server, call, view_of(none), NULL, false);
    else if (!status)
        mcp_server_end(x->server, call, (view){out.ptr, out.len},
                       json_pack("{s:I}", "places", (json_int_t)n), false);
    bytes_free(&out);
    return status ? why : NULL;
}

static const char *related(session *x, uint32_t call, const json_t *arguments)
{
    static char why[sizeof(cerium_error)];
    const json_t *text = json_object_get(arguments, "text");
    bytes out = {.max = 2 << 20};
    cerium_error err;
    uint32_t n = 0;
    int status = mcp_related(x->folder, (view){json_string_value(text), json_string_length(text)},
                             text_of(arguments, "path"), &out, &n, &err);
    if (status) snprintf(why, sizeof why, "%s", err.message);
    if (!status && !n) mcp_server_end(x->server, call, VIEW("nothing is related"), NULL, false);
    else if (!status)
        mcp_server_end(x->server, call, (view){out.ptr, out.len},
                       json_pack("{s:I}", "places", (json_int_t)n), false);
    bytes_free(&out);
    return status ? why : NULL;
}

static const char *begin_call(void *user, uint32_t call, const char *tool, const json_t *arguments)
{
    session *x = user;
    if (!strcmp(tool, "related")) return related(x, call, arguments);
    return strcmp(tool, "solve") ? search(x, call, arguments) : start_solve(x, call, arguments);
}

/* ---- in ---- */

static void take_lines(session *x)
{
    size_t at = 0;
    for (const char *end; !x->ended && at < x->in.len &&
                          (end = memchr(x->in.ptr + at, '\n', x->in.len - at));) {
        view line = {x->in.ptr + at, (size_t)(end - (x->in.ptr + at))};
        at += line.len + 1;
        if (line.len && line.ptr[line.len - 1] == '\r') line.len--;
        if (x->skips) mcp_server_too_long(x->server);
        else if (line.len) mcp_server_take(x->server, line);
        x->skips = false;
    }
    if (at) memmove(x->in.ptr, x->in.ptr + at, x->in.len - at);
    x->in.len -= at;
}

static void read_in(session *x)
{
    static char buffer[READ_BYTES];
    ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) return;
    if (n < 0) {
        lose(x, "input");
        return;
    }
    if (n == 0) {
        /* The last line may lack its line break. */
        if (x->in.len && !bytes_append(&x->in, "\n", 1)) take_lines(x);
        x->ended = true;
        return;
    }
    if (x->in.len + (size_t)n > MCP_LINE_BYTES_MAX) {
        x->skips = true;
        x->in.len = 0;
    }
    if (bytes_append(&x->in, buffer, (size_t)n)) x->ended = true;
    else take_lines(x);
}

static void turn(session *x)
{
    struct pollfd fds[1 + 2 * MCP_CALLS_MAX] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    for (uint32_t i = 0; i < MCP_CALLS_MAX; i++) {
        fds[1 + 2 * i] = (struct pollfd){.fd = x->calls[i].out_fd, .events = POLLIN};
        fds[2 + 2 * i] = (struct pollfd){.fd = x->calls[i].errors_fd, .events = POLLIN};
    }
    if (poll(fds, ARRAY_LEN(fds), -1) < 0) {
        x->ended = errno != EINTR;
        return;
    }
    for (uint32_t i = 0; i < MCP_CALLS_MAX; i++) {
        solving *c = &x->calls[i];
        if (c->out_fd >= 0 && fds[1 + 2 * i].revents) {
            drain(&c->out_fd, &c->events, false);
            take_events(x, i);
        }
        if (c->errors_fd >= 0 && fds[2 + 2 * i].revents) drain(&c->errors_fd, &c->errors, true);
        if (c->pid && c->out_fd < 0 && c->errors_fd < 0) finish(x, i);
    }
    if (fds[0].revents) read_in(x);
}

/* Only messages may reach the client: other output goes to standard error. */
static int open_all(session *x, cerium_error *err)
{
    const mcp_host host = {.user = x, .send = send_line, .call = begin_call, .cancel = cancel};
    const char *root = x->root ? x->root : ".";
    struct stat at;
    if (!realpath(root, x->folder) || stat(x->folder, &at))
        return error_set(err, CERIUM_ERR_IO, "--root %s: %s", root, strerror(errno));
    if (!S_ISDIR(at.st_mode))
        return error_set(err, CERIUM_ERR_IO, "--root %s: %s", root, strerror(ENOTDIR));
    if (x->o.model) RETURN_IF(options_model_check(options_model(&x->o), err));
    if (isatty(STDIN_FILENO))
        fprintf(stderr, "cerium mcp: waits for an agent's messages on standard input; "
                "docs/clients.md says how to set one up\n");
    for (uint32_t i = 0; i < MCP_CALLS_MAX; i++)
        x->calls[i] = (solving){.out_fd = -1, .errors_fd = -1};
    x->in.max = MCP_LINE_BYTES_MAX + READ_BYTES;
    x->out_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (x->out_fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return error_set(err, CERIUM_ERR_IO, "standard output: %s", strerror(errno));
    signal(SIGPIPE, SIG_IGN);
    if (mcp_server_open(&x->server, &host)) return error_set(err, CERIUM_ERR_MEMORY, "no memory");
    return CERIUM_OK;
}

int program_mcp(int argc, char **argv)
{
    static session x;
    cerium_error err;
    RETURN_IF(command_parse(&mcp_command, &x, argc, argv));
    if (optind < argc) return usage_error("mcp", "it takes no '%s'", argv[optind]);
    int status = open_all(&x, &err);
    while (!status && !x.ended) turn(&x);
    if (!status && x.lost.status) {
        status = x.lost.status;
        err = x.lost;
    }
    for (uint32_t i = 0; i < MCP_CALLS_MAX; i++) cancel(&x, i);
    mcp_server_close(&x.server);
    bytes_free(&x.in);
    return status ? failed(&err) : 0;
}
