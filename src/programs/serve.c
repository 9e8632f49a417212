/* serve.c - `cerium serve`: the server. */
#include "programs/programs.h"

#include <signal.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "programs/accounts.h"
#include "programs/options.h"
#include "programs/pull.h"
#include "programs/serve_models.h"
#include "programs/watchdog.h"
#include "sandbox/sandbox.h"
#include "server/access.h"
#include "server/kv_events.h"
#include "server/log.h"
#include "server/replica.h"
#include "server/server.h"
#include "server/solve_start.h"

enum { DAY_S = 86400, KEY_FILE_BYTES_MAX = 1 << 20, STORE_DAYS_MAX = 36500 };

typedef struct {
    options o;
    server_config config;
    const char *keys[SERVER_KEYS_MAX];
    const char *origins[SERVER_ORIGINS_MAX];
    const char *hosts[SERVER_ORIGINS_MAX];
    char address[64]; /* --host [ADDRESS], in brackets as in URLs; here without them */
    const char *key_file;
    bytes key_text; /* of the file, cut into lines */
    bytes hidden;   /* keys of the command line */
    const char *policy_path;
    policy *policy; /* owned; NULL: without a file */
    const char *also[SERVER_MODELS_MAX]; /* [n_also] models beside the first, as given */
    uint32_t n_also;
    const char *models_dir;
    const char *pull; /* "on", "off", or NULL: only on loopback */
    server_pulls pulls;
    serve_models models;
    cerium_engine_config engine_config;
} serving;

/* No client could send a blank, a control byte or a non-ASCII byte in a header. */
static bool add_key(serving *v, const char *key)
{
    size_t len = 0;
    while (key[len] > ' ' && key[len] < 0x7F) len++;
    if (v->config.n_keys == SERVER_KEYS_MAX || !len || key[len] || len > SERVER_KEY_BYTES_MAX)
        return option_wants("1 to %u bytes of ASCII without blanks, given at most %u times",
                            SERVER_KEY_BYTES_MAX, SERVER_KEYS_MAX);
    v->keys[v->config.n_keys++] = key;
    return true;
}

static bool take_key(void *program, const char *value) { return add_key(program, value); }

static bool take_guard_end(void *program, const char *value)
{
    serving *v = program;
    v->config.guard_ends = !strcmp(value, "incomplete");
    if (v->config.guard_ends || !strcmp(value, "message")) return true;
    return option_wants("message or incomplete");
}

static bool take_origin(void *program, const char *value)
{
    serving *v = program;
    if (v->config.n_origins == SERVER_ORIGINS_MAX)
        return option_wants("given at most %u times", SERVER_ORIGINS_MAX);
    return option_text(value, &v->origins[v->config.n_origins++]);
}

static bool take_host(void *program, const char *value)
{
    serving *v = program;
    if (v->config.n_hosts == SERVER_ORIGINS_MAX || !*value || strpbrk(value, "/ "))
        return option_wants("a name, as in code.example.org, given at most %u times",
                            SERVER_ORIGINS_MAX);
    v->hosts[v->config.n_hosts++] = value;
    return true;
}

static bool take_replica(void *program, const char *value)
{
    serving *v = program;
    v->config.replica = value;
    return replica_name_is_good(value) ||
           option_wants("1 to %d letters, digits, '.', '_' and '-'", REPLICA_NAME_BYTES - 1);
}

static bool take_edit_format(void *program, const char *value)
{
    serving *v = program;
    return next_edit_named(view_of(value), &v->config.edit_form) ||
           option_wants("sweep, zeta, zeta2, zeta2.1 or fim");
}

static bool take_pull(void *program, const char *value)
{
    serving *v = program;
    v->pull = value;
    return !strcmp(value, "on") || !strcmp(value, "off") || !strcmp(value, "local") ||
           option_wants("on, off or local");
}

static bool take_model(void *program, const char *value)
{
    serving *v = program;
    if (v->n_also == SERVER_MODELS_MAX)
        return option_wants("given at most %u times", SERVER_MODELS_MAX);
    return option_text(value, &v->also[v->n_also++]);
}

/* clang-format off */
static const option_spec own[] = {
    {"config", "FILE",
     "read options, tiers, prices and upstreams from this file first; the command line wins",
     TAKES_TEXT(serving, policy_path)},
    {"model-id", "NAME", "what requests call the first model (default: its own name)",
     TAKES_TEXT(serving, config.model_id)},
    {"models", "FILE",
     "one more model, as FILE or NAME=FILE, loaded when a request names it; may be given several "
     "times, also without --models",
     TAKES_CALL(take_model)},
    {"models-dir", "DIR", "the same for every model file of this folder",
     TAKES_TEXT(serving, models_dir)},
    {"pull", "WHEN",
     "whoever may ask may have models of `cerium pull --list` fetched and served, as the page "
     "offers: on, off or local (default: local, on loopback alone)",
     TAKES_CALL(take_pull)},
    {"models-memory", "SIZE",
     "memory of all models, as in 20G; the least recently used goes for another (default: nine "
     "tenths of what is available)",
     TAKES_BYTES(serving, config.models_bytes_max)},
    {"host", "ADDRESS", "listen on this address (default 127.0.0.1; any but loopback needs a key)",
     TAKES_TEXT(serving, config.host)},
    {"port", "N", "listen on this port (default 8383; 0: any free one, which the log names)",
     TAKES_U32(serving, config.port, 0, 65535)},
    {"api-key", "KEY", "let in who sends this key; may be given several times (CERIUM_API_KEY)",
     TAKES_CALL(take_key)},
    {"api-key-file", "FILE", "the same, one key a line", TAKES_TEXT(serving, key_file)},
    {"allow-origin", "ORIGIN",
     "web pages of this origin may connect, as in https://example.org, https://*.example.org or "
     "app://*; editors are the windows of editors, * is all; may be given several times",
     TAKES_CALL(take_origin)},
    {"allow-host", "NAME",
     "requests may address this name where no key is needed, as those through a proxy do; may be "
     "given several times (default: only loopback)",
     TAKES_CALL(take_host)},
    {"metrics-listen", "ADDR:PORT",
     "serve /metrics and /health here, too, without a key and without TLS, for scrapers, probes "
     "and endpoint pickers; nothing else is served there (default: nowhere)",
     TAKES_TEXT(serving, config.metrics_listen)},
    {"kv-events", "ADDR:PORT",
     "publish which pages of KV there are, as vLLM's KV events over ZeroMQ (PUB), for routers that "
     "send a prompt where its beginning is; without a key (default: nowhere)",
     TAKES_TEXT(serving, config.kv_events)},
    {"kv-events-replay", "ADDR:PORT",
     "send those that a subscriber missed again (ROUTER), as far as they are kept: 10,000 messages "
     "or 32 MB",
     TAKES_TEXT(serving, config.kv_events_replay)},
    {"kv-events-pod", "HOST:PORT",
     "what routers call this server: topics are kv@HOST:PORT@MODEL (default: the replica's name "
     "and --port)",
     TAKES_TEXT(serving, config.kv_events_pod)},
    {"replica", "NAME",
     "which of several equal servers this is: answers say it in x-cerium-replica, and their ids "
     "begin with 8 digits of its SHA-256 (default: the name of the machine; none: neither)",
     TAKES_CALL(take_replica)},
    {"tls-cert", "FILE", "certificate for HTTPS and WSS, PEM",
     TAKES_TEXT(serving, config.tls_cert)},
    {"tls-key", "FILE", "its private key, PEM", TAKES_TEXT(serving, config.tls_key)},
    {"store", "FILE",
     "keep responses, keys and usage in this SQLite file (default: in memory). A file of another "
     "program is refused",
     TAKES_TEXT(serving, config.store_path)},
    {"store-max", "SIZE",
     "bytes of responses kept, as in 20G (default 1G in a file, 4M in memory); the oldest go first",
     TAKES_BYTES(serving, config.store_bytes_max)},
    {"store-days", "N", "remove responses older than N days (default 30; 0: never)",
     TAKES_U32(serving, config.store_days, 0, STORE_DAYS_MAX)},
    {"replay", "FILE", "answer matching requests from recorded outputs, one JSON object a line",
     TAKES_TEXT(serving, config.replay_path)},
    {"running", "N", "answers that run at once (default 64)",
     TAKES_U32(serving, config.running_max, 1, SERVER_RUNNING_MAX)},
    {"queue", "N", "answers that wait; beyond that, 429 (default 512)",
     TAKES_U32(serving, config.queue_max, 0, SERVER_QUEUE_MAX)},
    {"connections", "N", "open connections (default 4096)",
     TAKES_U32(serving, config.connections_max, 1, 1 << 20)},
    {"input-memory", "SIZE", "memory for requests that are being received (default 256M)",
     TAKES_BYTES(serving, config.input_bytes_max)},
    {"header-time", "S", "seconds for the headers of a request (default 10)",
     TAKES_U32(serving, config.header_s, 1, DAY_S)},
    {"body-time", "S", "seconds for its body (default 60)",
     TAKES_U32(serving, config.body_s, 1, DAY_S)},
    {"idle-time", "S", "seconds that an HTTP connection may have no request (default 120)",
     TAKES_U32(serving, config.idle_s, 1, DAY_S)},
    {"stall-time", "S", "seconds that a client may read nothing (default 60)",
     TAKES_U32(serving, config.stall_s, 1, DAY_S)},
    {"keep-alive", "S",
     "seconds after which a silent stream sends a sign of life (default 10; 0: never)",
     TAKES_U32(serving, config.keep_alive_s, 0, DAY_S)},
    {"socket-time", "S", "age at which a WebSocket must connect again (default 3600; 0: never)",
     TAKES_U32(serving, config.socket_s, 0, 30 * DAY_S)},
    {"lame-duck", "S",
     "after SIGTERM or Ctrl-C, seconds in which /health/ready says 503 and all is served as "
     "before, so that a balancer looks elsewhere first (default 0); a second signal ends them",
     TAKES_U32(serving, config.lame_duck_s, 0, DAY_S)},
    {"drain", "S", "seconds for answers to end after that (default 30)",
     TAKES_U32(serving, config.drain_s, 0, DAY_S)},
    {"min-confidence", "X",
     "show no infill completion that the model gives a probability below X, from 0 to 1, where a "
     "request does not say (default: what the model file says, 0.35 in the bundled one)",
     TAKES_F64(serving, config.confidence_min, 0, 1)},
    {"edit-format", "NAME",
     "in which form models predict edits: sweep, zeta, zeta2, zeta2.1 or fim (default: as the "
     "model's file says, or its name; fim where they say nothing)",
     TAKES_CALL(take_edit_format)},
    {"guard-end", "HOW",
     "how an answer ends that the watchdog cannot let go on: message (it is complete, and says "
     "last what was withheld, and how it is written safely; the default) or incomplete (reason "
     "content_filter)",
     TAKES_CALL(take_guard_end)},
    {"solve", NULL,
     "serve POST /v1/solve, which runs code that clients send, in a sandbox that has to be strict: "
     "two at a time, one of a key (default: off)",
     TAKES_FLAG(serving, config.solves)},
    {"demo", "TEXT",
     "first complete this text over a WebSocket, print the speed, and say what to open in a "
     "browser",
     TAKES_TEXT(serving, config.demo)},
    {"log-prompts", NULL, "log what clients send", TAKES_FLAG(serving, config.log_prompts)},
    {"quiet", NULL, "log only warnings and errors", TAKES_FLAG(serving, config.quiet)},
    {"workspace", .help = "draft from the source files of DIR, too, for clients without a key; "
                          "names that code uses are looked up in what is installed there"},
};
/* clang-format on */
const command_table serve_command = {
    .name = "serve",
    .usage = "[OPTIONS] [[NAME=]FILE...]",
    .about = "Serve models over HTTP and WebSocket: the OpenAI APIs (Responses, Chat Completions, "
             "Completions), /infill for editors, and a page to try it at /. SIGTERM and Ctrl-C let "
             "answers end first; another one ends at once. Sampling options hold where a request "
             "does not say. The first model answers where none is named.",
    .groups = OPTIONS_ENGINE | OPTIONS_CHOICE | OPTIONS_GUARD,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .notes = "Keys with tiers: cerium keys --help. The configuration file: examples/cerium.ini, "
             "docs/service.md.",
    .examples = "cerium serve -m model.gguf --port 8383 --store ~/.local/share/cerium.db\n"
                "cerium serve small=qwen2.5-coder-0.5b large=qwen2.5-coder-7b",
};

/* One key per line; empty lines and lines that begin with '#' are skipped. */
static int read_keys(serving *v, cerium_error *err)
{
    const char *env = getenv("CERIUM_API_KEY");
    if (env && *env && !add_key(v, env))
        return error_set(err, CERIUM_ERR_ARGUMENT, "CERIUM_API_KEY has at most %u bytes, of ASCII "
                         "without blanks", SERVER_KEY_BYTES_MAX);
    if (!v->key_file) return CERIUM_OK;
    v->key_text.max = KEY_FILE_BYTES_MAX;
    RETURN_IF(read_file(v->key_file, &v->key_text, err));
    if (memchr(v->key_text.ptr ? v->key_text.ptr : "", 0, v->key_text.len))
        return error_set(err, CERIUM_ERR_FORMAT, "%s: a NUL byte: this is no text file",
                         v->key_file);
    if (bytes_append(&v->key_text, "\n", 2)) /* ends the last line and the text */
        return error_set(err, CERIUM_ERR_CAPACITY, "%s: longer than %d bytes", v->key_file,
                         KEY_FILE_BYTES_MAX - 2);
    const size_t n_before = v->config.n_keys;
    uint32_t n_line = 1;
    char *line = v->key_text.ptr;
    if (!strncmp(line, "\xEF\xBB\xBF", 3)) line += 3; /* a byte-order mark */
    for (char *end; (end = strchr(line, '\n')); line = end + 1, n_line++) {
        char *last = end;
        line += strspn(line, " \t\r");
        while (last > line && strchr(" \t\r", last[-1])) last--;
        *last = 0;
        if (*line && *line != '#' && !add_key(v, line))
            return error_set(err, CERIUM_ERR_ARGUMENT, "%s:%u: no key: 1 to %u bytes of ASCII "
                             "without blanks, %u keys", v->key_file, n_line, SERVER_KEY_BYTES_MAX,
                             SERVER_KEYS_MAX);
    }
    /* An operator who names a file of keys does not mean a server without keys. */
    if (v->config.n_keys == n_before)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%s: no key in it: one a line, or leave out "
                         "--api-key-file", v->key_file);
    return CERIUM_OK;
}

static server *running; /* for the signal handler */

static void on_signal(int number)
{
    (void)number;
    server_stop(running);
}

static void tell_lacks(void)
{
    char lacks[256];
    guard_lacks(lacks, sizeof lacks);
    if (*lacks)
        log_event(LOG_WARNING, "guard",
                  "reason=\"no grammar for %s: lines of these languages that rules have to look at "
                  "cannot be judged\"", lacks);
}

/* On another address than loopback anybody with a key may connect: only the operator may allow
 * clients to fill the disk. */
static void offer_models(serving *v)
{
    const char *host = v->config.host;
    const bool is_local = !host || access_is_loopback(view_of(host));
    const bool is_off = v->pull && !strcmp(v->pull, "off");
    const bool is_on = v->pull && !strcmp(v->pull, "on");
    v->pulls = (server_pulls){.offers = pull_offers, .pull = pull_listed, .remove = pull_remove};
    if (is_off) v->pulls.refusal = "this server was started with --pull off";
    else if (!is_on && !is_local)
        v->pulls.refusal = "this server is not on loopback alone: start it with --pull on, or use "
                           "`cerium pull` on its machine";
    v->config.pulls = &v->pulls;
}

/* A single model is served as before; the server loads several itself. */
static int gather_models(serving *v, cerium_error *err)
{
    serve_models *m = &v->models;
    if (!v->n_also && !v->models_dir) return CERIUM_OK;
    const bool is_said = v->o.model || getenv("CERIUM_MODEL");
    if (is_said) RETURN_IF(serve_models_add(m, options_model(&v->o), err));
    for (uint32_t i = 0; i < v->n_also; i++) RETURN_IF(serve_models_add(m, v->also[i], err));
    if (v->models_dir) RETURN_IF(serve_models_add_folder(m, v->models_dir, err));
    if (v->config.model_id) {
        if (m->list[0].n_names == SERVER_MODEL_NAMES_MAX) m->list[0].n_names--;
        memmove(&m->names[0][1], &m->names[0][0], m->list[0].n_names * sizeof m->names[0][0]);
        m->names[0][0] = v->config.model_id;
        m->list[0].n_names++;
    }
    if (m->n > 1) return CERIUM_OK;
    v->o.model = m->list[0].path;
    if (m->list[0].n_names) v->config.model_id = m->names[0][0];
    return CERIUM_OK;
}

/* Before an engine is open: it reports all of its pages. */
static int tell_of_kv(serving *v, cerium_error *err)
{
    if (!v->config.kv_events) return CERIUM_OK;
    RETURN_IF(kv_events_open(&v->config.kv_pages, err));
    v->o.kv_watcher = &kv_events_watcher;
    v->o.kv_watcher_user = kv_events_of(v->config.kv_pages, 0);
    return CERIUM_OK;
}

/* Code from clients runs only behind all walls of the sandbox. */
static int check_sandbox(const serving *v, cerium_error *err)
{
    const sandbox_config config = {.level = SANDBOX_STRICT};
    cerium_error why;
    sandbox *s = NULL;
    if (!v->config.solves) return CERIUM_OK;
    int status = sandbox_open(&s, &config, &why);
    sandbox_close(&s);
    if (!status) solve_sweep();
    return status ? error_set(err, status, "--solve: %s", why.message) : CERIUM_OK;
}

static void host_without_brackets(serving *v)
{
    const char *host = v->config.host;
    const size_t n = host ? strlen(host) : 0;
    if (n < 3 || n - 2 >= sizeof v->address || host[0] != '[' || host[n - 1] != ']') return;
    memcpy(v->address, host + 1, n - 2);
    v->config.host = v->address;
}

static int serve(serving *v, cerium_error *err)
{
    struct sigaction action = {.sa_handler = on_signal};
    cerium_engine *engine = NULL;
    server *s = NULL;
    v->config.keys = v->keys;
    v->config.origins = v->origins;
    v->config.hosts = v->hosts;
    host_without_brackets(v);
    RETURN_IF(check_sandbox(v, err));
    RETURN_IF(gather_models(v, err));
    v->config.model_path = options_model(&v->o);
    v->config.sampling = v->o.sampling;
    watchdog w;
    RETURN_IF(watchdog_open(&w, &v->o, err));
    uint32_t sessions = v->config.running_max * SERVER_SESSIONS_PER_PLACE;
    int status = tell_of_kv(v, err);
    if (!status) status = options_engine_config(&v->o, sessions, &v->engine_config, err);
    if (!status && v->models.n > 1)
        v->config.models = v->models.list, v->config.n_models = v->models.n;
    else if (!status)
        status = options_engine(&v->o, &engine, sessions, err);
    v->config.engine_config = &v->engine_config;
    offer_models(v);
    if (!status) status = watchdog_wait(&w, err);
    v->config.engine = engine;
    v->config.guard = w.guard;
    v->config.guard_worker = w.worker;
    v->config.names = w.names;
    v->config.guard_policy = w.policy;
    /* The port answers before `running` is set: a signal in between waits. */
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    if (!status) status = server_open(&s, &v->config, err);
    if (!status) {
        if (w.guard) tell_lacks();
        running = s;
        sigemptyset(&action.sa_mask);
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        signal(SIGPIPE, SIG_IGN);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!status) {
        status = server_run(s, err);
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
    }
    server_close(&s);
    cerium_engine_close(&engine);
    kv_events_close(&v->config.kv_pages);
    watchdog_close(&w);
    return status;
}

static int read_line(serving *v, int argc, char **argv)
{
    *v = (serving){.policy = v->policy};
    server_config_defaults(&v->config);
    return command_parse(&serve_command, v, argc, argv);
}

/* The options of [server], as if given before those of the command line. */
static int apply_policy(serving *v, cerium_error *err)
{
    *v = (serving){.policy = v->policy, .policy_path = v->policy_path};
    server_config_defaults(&v->config);
    for (uint32_t i = 0; i < v->policy->n_settings; i++) {
        const policy_setting *s = &v->policy->settings[i];
        const char *path = v->policy_path;
        option_result how = command_set(&serve_command, v, s->name, s->value);
        const char *near = how == OPTION_UNKNOWN
                               ? command_near_option(&serve_command, s->name) : NULL;
        if (near)
            return error_set(err, CERIUM_ERR_FORMAT,
                             "%s:%u: [server] has no key '%s'; did you mean %s?", path, s->line,
                             s->name, near);
        if (how == OPTION_UNKNOWN || !strcmp(s->name, "config"))
            return error_set(err, CERIUM_ERR_FORMAT,
                             "%s:%u: [server] has no key '%s'; it has the long options of "
                             "`cerium serve`", path, s->line, s->name);
        if (how == OPTION_BAD)
            return error_set(err, CERIUM_ERR_FORMAT,
                             "%s:%u: '%s' is not a value for %s%s%s; see `cerium serve --help`",
                             path, s->line, s->value, s->name,
                             *option_wanted() ? ": it takes " : "", option_wanted());
    }
    v->config.policy = v->policy;
    return CERIUM_OK;
}

/* Every user of this machine can read a command line, so keys are removed from it. */
static int hide_keys(serving *v, int argc, char **argv, cerium_error *err)
{
    size_t n_bytes = 0;
    for (size_t k = 0; k < v->config.n_keys; k++) n_bytes += strlen(v->keys[k]) + 1;
    v->hidden.max = n_bytes;
    if (bytes_reserve(&v->hidden, n_bytes)) /* no reallocation: keys point into it */
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for the keys");
    for (size_t k = 0; k < v->config.n_keys; k++)
        for (int i = 1; i < argc; i++) {
            size_t len = strlen(v->keys[k]), all = strlen(argv[i]);
            if (all < len || argv[i] + (all - len) != v->keys[k]) continue;
            v->keys[k] = v->hidden.ptr + v->hidden.len;
            CHECK(!bytes_append(&v->hidden, argv[i] + (all - len), len + 1));
            memset(argv[i] + (all - len), '*', len);
            break;
        }
    return CERIUM_OK;
}

int program_serve(int argc, char **argv)
{
    static serving v;
    cerium_error err;
    int status = CERIUM_OK;
    RETURN_IF(read_line(&v, argc, argv));
    if (v.policy_path) {
        status = accounts_policy(&v.policy, v.policy_path, &err);
        if (!status) status = apply_policy(&v, &err);
        /* Fails only if file and command line together have too many keys or origins. */
        if (!status &&
            command_parse(&serve_command, &v, argc, argv)) {
            memory_free(v.policy);
            return EXIT_USAGE;
        }
    }
    if (!status) status = hide_keys(&v, argc, argv, &err);
    for (; !status && optind < argc; optind++) {
        if (!*argv[optind]) return usage_error("serve", "``: a model is FILE or NAME=FILE");
        if (!take_model(&v, argv[optind]))
            return usage_error("serve", "at most %u models", SERVER_MODELS_MAX);
    }
    if (!status) status = read_keys(&v, &err);
    if (!status) status = serve(&v, &err);
    bytes_free(&v.key_text);
    bytes_free(&v.hidden);
    serve_models_free(&v.models);
    memory_free(v.policy);
    return status ? failed(&err) : 0;
}
