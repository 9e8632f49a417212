/* lsp.c - `cerium lsp`: a language server on standard input and output, for editors. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lsp/frames.h"
#include "programs/lsp_host.h"
#include "programs/programs.h"

enum {
    READ_BYTES = 65536,
    OUT_BYTES_FULL = 8 << 20,  /* waits for the editor: stops reading, drops notes */
    OUT_BYTES_MAX = 128 << 20,
};

typedef struct {
    options o;
    const char *url, *replay;
    bool verbose, is_plain;
    lsp_predicting predicting;
    watchdog watchdog;
    lsp_bell bell;
    lsp_judge *judge;
    lsp_engine *engine;
    lsp_remote *remote;
    lsp_edit *edit;
    lsp_workspace *workspace;
    feedback feedback;
    lsp_server *server;
    lsp_frames frames;
    bytes out;
    size_t out_at;
    int in_fd, out_fd, parent_fd;
    bool ended, lost; /* the editor closed its side; a stream failed */
} session;

static bool take_edit_format(void *program, const char *value)
{
    return next_edit_named(view_of(value), &((session *)program)->predicting.form) ||
           option_wants("sweep, zeta, zeta2, zeta2.1 or fim");
}

/* clang-format off */
static const option_spec own[] = {
    {"edit-format", "NAME",
     "in which form the model in this process predicts edits: sweep, zeta, zeta2, zeta2.1 or fim "
     "(none but completions) (default: as its file or its name says)",
     TAKES_CALL(take_edit_format)},
    {"server", "URL",
     "complete with a running `cerium serve`, as http://127.0.0.1:8383, and not in this process; "
     "its key is in CERIUM_API_KEY", TAKES_TEXT(session, url)},
    {"stdio", NULL, "speak over standard input and output; it always does, and some editors say so",
     TAKES_FLAG(session, is_plain)},
    {"replay", "FILE", "take the model's answers to edits from a file; all else is computed",
     TAKES_TEXT(session, replay)},
    {"verbose", NULL, "tell on standard error what is passed over, and why",
     TAKES_FLAG(session, verbose)},
};
/* clang-format on */
const command_table lsp_command = {
    .name = "lsp",
    .usage = "[OPTIONS]",
    .about = "Serve an editor by the Language Server Protocol (3.18) on standard input and output: "
             "completions as one types (textDocument/inlineCompletion), the watchdog's findings "
             "with their safe forms, edits by a comment `cerium: INSTRUCTION`, and the places that "
             "a rename or another repeated change still has to reach. The model is in this "
             "process, or with --server another's.\n\n"
             "docs/editors.md says how to set up Neovim, VS Code, Emacs, Helix and others, and "
             "what their settings may hold.",
    .groups = OPTIONS_ENGINE | OPTIONS_GUARD,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium lsp --server http://127.0.0.1:8383",
};

/* ---- orders of the language server ---- */

static void send_body(void *user, view body, bool is_answer)
{
    session *x = user;
    x->out.max = OUT_BYTES_MAX;
    if (!is_answer && x->out.len - x->out_at > OUT_BYTES_FULL) return;
    if (lsp_frame_write(&x->out, body)) {
        fprintf(stderr, "cerium lsp: the editor does not read: its answers take %d bytes\n",
                OUT_BYTES_MAX);
        x->ended = true;
    }
}

static void log_line(void *user, const char *line)
{
    if (((session *)user)->verbose) fprintf(stderr, "cerium lsp: %s\n", line);
}

static bool generate(void *user, const lsp_order *order)
{
    session *x = user;
    return x->remote ? lsp_remote_generate(x->remote, order)
                     : lsp_engine_generate(x->engine, order);
}

static void cancel(void *user, uint64_t document)
{
    session *x = user;
    if (x->remote) lsp_remote_cancel(x->remote, document);
    else lsp_engine_cancel(x->engine, document);
}

static bool judge(void *user, uint64_t document, int64_t version, view text, const char *path,
                  guard_language language)
{
    session *x = user;
    return x->judge && lsp_judge_ask(x->judge, document, version, text, path, language);
}

static bool edit(void *user, const lsp_edit_order *order, const char **why)
{
    return lsp_edit_start(((session *)user)->edit, order, why);
}

static bool predict(void *user, const lsp_predict_order *order)
{
    session *x = user;
    return x->remote ? lsp_remote_predict(x->remote, order) : lsp_engine_predict(x->engine, order);
}

static void forget(void *user, uint64_t document)
{
    session *x = user;
    if (x->remote) lsp_remote_forget(x->remote, document);
}

static void cancel_edit(void *user) { lsp_edit_stop(((session *)user)->edit); }

static void read_folder(void *user, const char *path)
{
    lsp_workspace_read(((session *)user)->workspace, path);
}

static void outcome(void *user, const lsp_outcome *o)
{
    feedback_add(&((session *)user)->feedback, o);
}

static double confidence(void *user, const char *model, const char *language, double standard)
{
    return feedback_confidence(&((session *)user)->feedback, model, language, standard);
}

static double speed(void *user)
{
    const session *x = user;
    return x->remote ? lsp_remote_speed(x->remote) : lsp_engine_speed(x->engine);
}

/* ---- standard input and output ---- */

static void lose(session *x, const char *stream)
{
    fprintf(stderr, "cerium lsp: standard %s: %s\n", stream, strerror(errno));
    x->ended = x->lost = true;
}

static void write_out(session *x)
{
    while (x->out_at < x->out.len) {
        ssize_t n = write(x->out_fd, x->out.ptr + x->out_at, x->out.len - x->out_at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) {
            lose(x, "output");
            return;
        }
        x->out_at += (size_t)n;
    }
    if (x->out.cap > OUT_BYTES_FULL) bytes_free(&x->out);
    x->out.len = x->out_at = 0;
}

static void tell_frame(const session *x, lsp_frame_kind kind)
{
    static const char *const faults[] = {
        [LSP_FRAME_TOO_LONG] = "a message is too long: passed over",
        [LSP_FRAME_NO_LENGTH] = "a head without a Content-Length: passed over",
        [LSP_FRAME_HEAD_LONG] = "a head without an end: passed over"};
    (void)x;
    fprintf(stderr, "cerium lsp: %s\n", faults[kind]);
}

static void read_in(session *x)
{
    static char buffer[READ_BYTES];
    view body;
    int status;
    ssize_t n = read(x->in_fd, buffer, sizeof buffer);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) {
        if (n < 0) lose(x, "input");
        x->ended = true;
        return;
    }
    if (lsp_frames_add(&x->frames, (view){buffer, (size_t)n})) {
        fprintf(stderr, "cerium lsp: no memory for a message\n");
        x->ended = true;
        return;
    }
    for (lsp_frame_kind kind; (kind = lsp_frames_next(&x->frames, &body)) != LSP_FRAME_NONE;) {
        if (kind != LSP_FRAME_BODY) tell_frame(x, kind);
        else lsp_server_take(x->server, body, clock_ns());
        if (lsp_server_is_over(x->server, &status)) return;
    }
}

/* ---- the loop ---- */

static int wait_ms(const session *x)
{
    uint64_t due = lsp_server_due(x->server), now = clock_ns();
    if (due == UINT64_MAX) return -1;
    uint64_t ms = due > now ? (due - now + 999999) / 1000000 : 0;
    return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

/* If the editor dies, this process ends with it. */
static void follow_parent(session *x)
{
    int64_t pid = lsp_server_parent(x->server);
    if (x->parent_fd >= 0 || pid <= 0) return;
    x->parent_fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (x->parent_fd < 0 && errno == ESRCH) x->ended = true;
    if (x->parent_fd < 0) x->parent_fd = -1;
}

static void turn(session *x)
{
    const bool is_full = x->out.len - x->out_at > OUT_BYTES_FULL;
    struct pollfd fds[] = {{.fd = is_full ? -1 : x->in_fd, .events = POLLIN},
                           {.fd = x->bell.fd, .events = POLLIN},
                           {.fd = x->parent_fd, .events = POLLIN},
                           {.fd = lsp_edit_fd(x->edit), .events = POLLIN},
                           {.fd = x->out_at < x->out.len ? x->out_fd : -1, .events = POLLOUT}};
    uint64_t rings;
    int n = x->remote ? lsp_remote_poll(x->remote, fds, ARRAY_LEN(fds), wait_ms(x))
                      : poll(fds, ARRAY_LEN(fds), wait_ms(x));
    if (n < 0 && errno != EINTR) x->ended = true;
    if (fds[2].revents) x->ended = true;
    if (fds[1].revents && read(x->bell.fd, &rings, sizeof rings) < 0 && errno != EAGAIN)
        x->ended = true;
    if (fds[0].revents) read_in(x);
    if (x->remote) lsp_remote_look(x->remote, x->server);
    if (x->engine) lsp_engine_look(x->engine, x->server);
    if (x->judge) lsp_judge_look(x->judge, x->server);
    lsp_workspace_look(x->workspace, x->server);
    lsp_edit_look(x->edit, x->server, fds[3].revents != 0);
    lsp_server_tick(x->server, clock_ns());
    follow_parent(x);
    write_out(x);
}

static int serve(session *x)
{
    int status = 1;
    while (!x->ended && !lsp_server_is_over(x->server, &status)) turn(x);
    if (!lsp_server_is_over(x->server, &status) && status) status = 1;
    fcntl(x->out_fd, F_SETFL, fcntl(x->out_fd, F_GETFL) & ~O_NONBLOCK);
    if (!x->ended) write_out(x);
    return x->lost ? 1 : status;
}

/* Only messages may reach the editor: other output goes to standard error. */
static int take_output(session *x, cerium_error *err)
{
    x->in_fd = STDIN_FILENO;
    x->parent_fd = -1;
    x->out_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    x->bell.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (isatty(STDIN_FILENO))
        fprintf(stderr, "cerium lsp: waits for an editor's messages on standard input; "
                "docs/editors.md says how to set one up\n");
    if (x->out_fd < 0 || x->bell.fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return error_set(err, CERIUM_ERR_IO, "standard output: %s", strerror(errno));
    signal(SIGPIPE, SIG_IGN);
    if (!isatty(x->out_fd)) fcntl(x->out_fd, F_SETFL, fcntl(x->out_fd, F_GETFL) | O_NONBLOCK);
    return CERIUM_OK;
}

static int open_all(session *x, cerium_error *err)
{
    const lsp_host host = {.user = x, .send = send_body, .log = log_line, .generate = generate,
                           .cancel = cancel, .forget = forget, .judge = judge, .edit = edit,
                           .cancel_edit = cancel_edit, .predict = predict,
                           .read_folder = read_folder, .outcome = outcome,
                           .confidence = confidence, .speed = speed};

    if (feedback_open(&x->feedback, err)) fprintf(stderr, "cerium lsp: %s\n", err->message);
    if (lsp_server_open(&x->server, &host)) return error_set(err, CERIUM_ERR_MEMORY, "no memory");
    RETURN_IF(lsp_edit_open(&x->edit, &x->o, x->replay, err));
    RETURN_IF(lsp_workspace_open(&x->workspace, &x->bell, err));
    RETURN_IF(watchdog_open(&x->watchdog, &x->o, err));
    x->watchdog.quiet = true;
    if (x->watchdog.on) RETURN_IF(lsp_judge_open(&x->judge, &x->watchdog, &x->bell, err));
    if (x->url) return lsp_remote_open(&x->remote, x->url, err);
    x->predicting.replay = x->replay;
    return lsp_engine_open(&x->engine, &x->o, x->predicting, &x->watchdog, x->judge, &x->bell,
                           err);
}

int program_lsp(int argc, char **argv)
{
    static session x;
    cerium_error err;
    RETURN_IF(command_parse(&lsp_command, &x, argc, argv));
    if (optind < argc) return usage_error("lsp", "it takes no '%s'", argv[optind]);
    int status = take_output(&x, &err), code = 1;
    if (!status) status = open_all(&x, &err);
    if (!status) code = serve(&x);
    cerium_error unkept;
    if (feedback_keep(&x.feedback, &unkept)) fprintf(stderr, "cerium lsp: %s\n", unkept.message);
    lsp_workspace_close(&x.workspace);
    lsp_server_close(&x.server);
    lsp_remote_close(&x.remote);
    lsp_engine_close(&x.engine);
    lsp_edit_close(&x.edit);
    lsp_judge_close(&x.judge);
    watchdog_close(&x.watchdog);
    lsp_frames_close(&x.frames);
    bytes_free(&x.out);
    return status ? failed(&err) : code;
}
