/* solve_start.c - reading what is asked, writing its files, starting the process. */
#include "server/solve_start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "guard/guard.h"

extern char **environ;

enum {
    BODY_BYTES_MAX = 4 << 20,
    EXAMPLES_MAX = 64,
    NAME_BYTES_MAX = 100,
    LINES_MAX = 1 << 24,
    VARIANTS_MAX = 4096,
    VARIANTS = 256,
    SECONDS_MAX = 600,
    SECONDS = 30,
    NICER = 10, /* than the server: what answers goes first */
    WORDS_MAX = 64 + 2 * EXAMPLES_MAX,
    ENVIRONMENT_MAX = 512,
};

static const char tests_name[] = "tests.txt", hidden_name[] = "hidden.txt";

/* ---- what is asked ---- */

typedef struct {
    const json_t *root;
    const char *code, *tests, *hidden, *function, *makers[3];
    int64_t line, last_line, column, variants, seed;
    double seconds;
    bool doctest;
} order;

static const char *const known[] = {"code",         "file",        "language", "line",
                                    "last_line",    "column",      "function", "tests",
                                    "examples",     "doctest",     "hidden",   "max_variants",
                                    "max_seconds",  "seed",        "makers",   "model",
                                    "stream"};

#define bad_value(e, param, ...)                                                                   \
    protocol_error_set(e, 400, "invalid_request_error", "invalid_value", param, __VA_ARGS__)

static int check_names(const order *o, protocol_error *e)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)o->root, key, value) {
        size_t i = 0;
        while (i < ARRAY_LEN(known) && strcmp(known[i], key) != 0) i++;
        if (i == ARRAY_LEN(known))
            return protocol_error_set(e, 400, "invalid_request_error", "unknown_parameter", key,
                                      "Unknown parameter: '%.100s'.", key);
    }
    return CERIUM_OK;
}

/* null is as if it were not there. */
static const json_t *field(const order *o, const char *name)
{
    const json_t *value = json_object_get(o->root, name);
    return json_is_null(value) ? NULL : value;
}

static int take_text(const order *o, const char *name, const char **out, protocol_error *e)
{
    const json_t *value = field(o, name);
    *out = json_string_value(value);
    return value && !*out ? bad_value(e, name, "%s is a string", name) : CERIUM_OK;
}

static int take_number(const order *o, const char *name, int64_t least, int64_t most, int64_t *out,
                       protocol_error *e)
{
    const json_t *value = field(o, name);
    if (!value) return CERIUM_OK;
    *out = json_integer_value(value);
    if (json_is_integer(value) && *out >= least && *out <= most) return CERIUM_OK;
    return bad_value(e, name, "%s is a whole number from %lld to %lld", name, (long long)least,
                     (long long)most);
}

static int take_bool(const order *o, const char *name, bool *out, protocol_error *e)
{
    const json_t *value = field(o, name);
    *out = json_is_true(value);
    return value && !json_is_boolean(value) ? bad_value(e, name, "%s is true or false", name)
                                            : CERIUM_OK;
}

static int take_makers(order *o, protocol_error *e)
{
    static const char *const names[] = {"mutate", "model", "repair"};
    const json_t *list = field(o, "makers"), *one;
    bool makes = !list;
    size_t i;
    if (list && !json_is_array(list)) list = json_null(); /* has no elements */
    json_array_foreach(list, i, one) {
        const char *name = json_string_value(one);
        size_t k = 0;
        while (name && k < ARRAY_LEN(names) && strcmp(names[k], name) != 0) k++;
        if (!name || k == ARRAY_LEN(names) || o->makers[k])
            return bad_value(e, "makers", "makers are some of mutate, model and repair, each once");
        o->makers[k] = names[k];
        makes |= k < 2;
    }
    return makes ? CERIUM_OK
                 : bad_value(e, "makers", "makers is a list with mutate or model in it; repair "
                             "goes on from what they made");
}

static int take_seconds(order *o, protocol_error *e)
{
    const json_t *value = field(o, "max_seconds");
    o->seconds = value ? json_number_value(value) : SECONDS;
    if (!value || (json_is_number(value) && o->seconds >= 0.1 && o->seconds <= SECONDS_MAX))
        return CERIUM_OK;
    return bad_value(e, "max_seconds", "max_seconds is a number from 0.1 to %d", SECONDS_MAX);
}

static bool is_served(const char *file)
{
    const int language = (int)guard_language_of_path(view_of(file));
    return language == GUARD_PYTHON || language == GUARD_JAVASCRIPT || language == GUARD_C;
}

/* It becomes a file, and a word of a command. */
static bool is_plain(const char *name)
{
    const size_t n = strlen(name);
    return n && n <= NAME_BYTES_MAX && *name != '-' && *name != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static int take_file(const order *o, solve_process *p, protocol_error *e)
{
    static const char *const languages[][2] = {
        {"python", "code.py"}, {"javascript", "code.js"}, {"c", "code.c"}};
    const char *file, *language;
    RETURN_IF(take_text(o, "file", &file, e));
    RETURN_IF(take_text(o, "language", &language, e));
    if (!file == !language)
        return bad_value(e, "file", "name the code's file or its language: one of both");
    for (size_t i = 0; language && i < ARRAY_LEN(languages); i++)
        if (!strcmp(language, languages[i][0])) file = languages[i][1];
    if (!file) return bad_value(e, "language", "language is python, javascript or c");
    if (!is_plain(file) || !is_served(file))
        return bad_value(e, "file", "file is a name without folders, of letters, digits, '.', '_' "
                         "and '-', of Python, JavaScript or C");
    snprintf(p->file, sizeof p->file, "%s", file);
    return CERIUM_OK;
}

static int take_place(order *o, protocol_error *e)
{
    RETURN_IF(take_number(o, "line", 1, LINES_MAX, &o->line, e));
    RETURN_IF(take_number(o, "last_line", 1, LINES_MAX, &o->last_line, e));
    RETURN_IF(take_number(o, "column", 1, LINES_MAX, &o->column, e));
    RETURN_IF(take_text(o, "function", &o->function, e));
    if (!o->line && (o->last_line || o->column))
        return bad_value(e, "line", "last_line and column need a line");
    if (o->last_line && o->column)
        return bad_value(e, "column", "last_line or column, not both");
    if (o->last_line && o->last_line < o->line)
        return bad_value(e, "last_line", "last_line is not before line");
    if (o->function && (o->line || !is_plain(o->function)))
        return bad_value(e, "function", "function is a name, and a place, as line is");
    return CERIUM_OK;
}

static int take_tests(order *o, protocol_error *e)
{
    const json_t *examples = field(o, "examples"), *one;
    size_t i;
    RETURN_IF(take_text(o, "tests", &o->tests, e));
    RETURN_IF(take_text(o, "hidden", &o->hidden, e));
    RETURN_IF(take_bool(o, "doctest", &o->doctest, e));
    if (examples && (!json_is_array(examples) || json_array_size(examples) > EXAMPLES_MAX))
        return bad_value(e, "examples", "examples is a list of at most %d strings", EXAMPLES_MAX);
    json_array_foreach(examples, i, one)
        if (!json_is_string(one) || !json_string_length(one))
            return bad_value(e, "examples", "examples are expressions, as in 'f(2) == 3'");
    const bool has_texts = o->tests || json_array_size(examples);
    if (has_texts == o->doctest)
        return bad_value(e, "tests", "give tests or examples, or doctest");
    return CERIUM_OK;
}

static int take_order(order *o, solve_process *p, protocol_error *e)
{
    const char *model;
    o->variants = VARIANTS;
    RETURN_IF(check_names(o, e));
    RETURN_IF(take_text(o, "code", &o->code, e));
    if (!o->code) return bad_value(e, "code", "code has to be there: the text of a file");
    RETURN_IF(take_file(o, p, e));
    RETURN_IF(take_place(o, e));
    RETURN_IF(take_tests(o, e));
    RETURN_IF(take_number(o, "max_variants", 1, VARIANTS_MAX, &o->variants, e));
    RETURN_IF(take_number(o, "seed", 0, INT64_MAX, &o->seed, e));
    RETURN_IF(take_seconds(o, e));
    RETURN_IF(take_makers(o, e));
    RETURN_IF(take_text(o, "model", &model, e));
    if (model && strlen(model) >= sizeof p->model)
        return bad_value(e, "model", "model is a name of at most %zu bytes", sizeof p->model - 1);
    snprintf(p->model, sizeof p->model, "%s", model ? model : "");
    return take_bool(o, "stream", &p->streams, e);
}

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

static int write_files(solve_process *p, const order *o, protocol_error *e)
{
    const char *at = getenv("TMPDIR");
    const int n = snprintf(p->folder, sizeof p->folder, "%s/cerium-solve-XXXXXX",
                           at && *at ? at : "/tmp");
    if (n >= (int)sizeof p->folder || !mkdtemp(p->folder)) {
        p->folder[0] = 0;
        return cannot(e, "a folder for it cannot be made");
    }
    RETURN_IF(write_text(p->folder, p->file, o->code, e));
    RETURN_IF(write_text(p->folder, tests_name, o->tests, e));
    return write_text(p->folder, hidden_name, o->hidden, e);
}

/* ---- its process ---- */

typedef struct {
    const char *all[WORDS_MAX];
    size_t n;
    char variants[32], seed[32], seconds[32], makers[32];
    char place[NAME_BYTES_MAX + 64];
} words;

static void add(words *w, const char *option, const char *value)
{
    if (!value) return;
    w->all[w->n++] = option;
    w->all[w->n++] = value;
}

static void make_words(words *w, const solve_process *p, const order *o)
{
    static const char *const always[] = {"cerium", "solve", "--json", "--ask", "--show-nearest",
                                         "--sandbox", "strict", "--slots", "1"};
    const json_t *one;
    size_t i;
    char *at = w->makers;
    for (i = 0; i < ARRAY_LEN(always); i++) w->all[w->n++] = always[i];
    snprintf(w->variants, sizeof w->variants, "%lld", (long long)o->variants);
    snprintf(w->seed, sizeof w->seed, "%lld", (long long)o->seed);
    snprintf(w->seconds, sizeof w->seconds, "%.3f", o->seconds);
    for (i = 0; i < ARRAY_LEN(o->makers); i++)
        if (o->makers[i])
            at += snprintf(at, (size_t)(w->makers + sizeof w->makers - at), "%s%s",
                           at == w->makers ? "" : ",", o->makers[i]);
    add(w, "--variants", w->variants);
    add(w, "--seed", w->seed);
    add(w, "--budget", w->seconds);
    if (at != w->makers) add(w, "--makers", w->makers);
    add(w, "--function", o->function);
    add(w, "--test-file", o->tests ? tests_name : NULL);
    add(w, "--hidden", o->hidden ? hidden_name : NULL);
    json_array_foreach(field(o, "examples"), i, one) add(w, "--example", json_string_value(one));
    if (o->doctest) w->all[w->n++] = "--doctest";
    at = w->place + snprintf(w->place, sizeof w->place, "%s", p->file);
    if (o->line) at += snprintf(at, 32, ":%lld", (long long)o->line);
    if (o->last_line) snprintf(at, 32, "-%lld", (long long)o->last_line);
    if (o->column) snprintf(at, 32, ":%lld", (long long)o->column);
    w->all[w->n++] = "--";
    w->all[w->n++] = w->place;
    w->all[w->n] = NULL;
}

/* Keys and settings of the server are none of its. */
static void make_environment(char *out[ENVIRONMENT_MAX])
{
    size_t n = 0;
    for (char **one = environ; *one && n + 1 < ENVIRONMENT_MAX; one++)
        if (strncmp(*one, "CERIUM_", 7) != 0) out[n++] = *one;
    out[n] = NULL;
}

static int spawn_with(solve_process *p, const words *w, int end, posix_spawn_file_actions_t *acts,
                      posix_spawnattr_t *attributes)
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

static int spawn(solve_process *p, const words *w, protocol_error *e)
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

static int start(solve_process *p, const json_t *root, protocol_error *e)
{
    order o = {.root = root};
    words w = {.n = 0};
    RETURN_IF(take_order(&o, p, e));
    RETURN_IF(write_files(p, &o, e));
    make_words(&w, p, &o);
    return spawn(p, &w, e);
}

int solve_start(solve_process *out, view body, protocol_error *e)
{
    json_t *root = NULL;
    int status;
    *out = (solve_process){.fd = -1};
    if (body.len > BODY_BYTES_MAX)
        return protocol_error_set(e, 413, "invalid_request_error", "request_too_large", "",
                                  "the body has %zu bytes; at most %d are taken here", body.len,
                                  BODY_BYTES_MAX);
    root = json_read(body, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(root))
        status = start(out, root, e);
    else
        status = protocol_error_set(e, 400, "invalid_request_error", "invalid_json", "",
                                    "The body of a request is a JSON object.");
    json_decref(root);
    if (status) solve_end(out);
    return status;
}

void solve_kill(const solve_process *p)
{
    if (p->pid) kill(p->pid, SIGKILL); /* its sandbox goes with it */
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
        remove_file(p, tests_name);
        remove_file(p, hidden_name);
        rmdir(p->folder);
    }
    *p = (solve_process){.fd = -1};
}
