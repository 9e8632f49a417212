/* serve.c - `cerium serve`: the server. */
#include "programs/programs.h"

#include <signal.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "programs/accounts.h"
#include "programs/guarding.h"
#include "programs/options.h"
#include "server/log.h"
#include "server/server.h"

static const char help[] =
    "usage: cerium serve [OPTIONS]\n\n"
    "Serve a model over HTTP and WebSocket: the OpenAI APIs (Responses, Chat Completions,\n"
    "Completions), /infill for editors, and a page to try it at /.  Ctrl-C ends it.\n\n"
    "      --config FILE     read options, tiers, prices and upstreams from this file first\n"
    "  -m, --model FILE      GGUF model (default: CERIUM_MODEL, else the bundled one)\n"
    "      --model-id NAME   what requests call it (default: the model's own name)\n"
    "      --host ADDRESS    address to listen on (default 127.0.0.1; others need a key)\n"
    "      --port N          port (default 8383; 0: any free one)\n"
    "      --api-key KEY     let in who sends it (may be given several times; CERIUM_API_KEY)\n"
    "      --api-key-file F  the same, one key a line\n"
    "      --allow-origin O  web pages of this origin may connect, as in https://example.org\n"
    "      --tls-cert F, --tls-key F  PEM files: HTTPS and WSS\n"
    "      --kv-disk DIR     computed prompts survive a restart in this folder (default: off)\n"
    "      --kv-disk-max S   bytes of it for this model, as in 20G (default 4G)\n"
    "      --store FILE      keep responses in this SQLite file (default: in memory)\n"
    "      --store-max SIZE  bytes of responses kept, as in 20G (default 1G; in memory 4M)\n"
    "      --store-days N    remove older ones (default 30; 0: never)\n"
    "      --replay SCRIPT   answer matching requests from recorded outputs (JSON lines)\n"
    "      --running N       answers that run at once (default 64)\n"
    "      --queue N         answers that wait; beyond, 429 (default 256)\n"
    "      --connections N   open connections (default 4096)\n"
    "      --input-memory S  for requests that are being sent, all together (default 256M)\n"
    "      --header-time S, --body-time S   for a request's headers (10) and body (60)\n"
    "      --idle-time S     an HTTP connection without a request (default 120)\n"
    "      --stall-time S    a reader that takes nothing (default 60)\n"
    "      --keep-alive S    signs of life on streams that say nothing (default 10; 0: none)\n"
    "      --socket-time S   age at which a WebSocket must connect again (default 3600; 0: none)\n"
    "      --drain S         for answers to end after SIGTERM or Ctrl-C (default 30)\n"
    "      --min-confidence X  fill no hole with what is less probable to the model (0 to 1; by\n"
    "                          default what the model file says)\n"
    GUARDING_HELP
    "      --demo TEXT       first complete this over a WebSocket of its own\n"
    "      --log-prompts     log what clients say\n"
    "      --quiet           log only warnings and errors\n"
    "      --temp T, --top-k N, --top-p P, --min-p P, --repeat-penalty R, --seed N\n"
    "                        for requests that do not say (default: the likeliest token)\n"
    "      --context N, --batch N, --threads N, --cpu LEVEL, --no-cache\n"
    "      --workspace DIR   drafts from the files of DIR, too, for who connects without a key\n"
    "      --chat-form NAME    a form of docs/chat.md instead of the file's own chat template\n"
    "      --draft-model FILE  a smaller model that drafts where no text does\n"
    "      --no-speculation  do not try drafts of what comes next: the same text, slower\n"
    "      --head auto|full|search|TYPE   the output head: cerium(1)\n\n"
    "Keys with tiers: cerium keys --help.  The file: examples/cerium.ini.\n\n"
    "example: cerium serve -m model.gguf --port 8383 --store ~/.local/share/cerium.db\n";

enum {
    OWN_MODEL_ID = OPTION_OWN,
    OWN_HOST,
    OWN_PORT,
    OWN_KEY,
    OWN_KEY_FILE,
    OWN_ORIGIN,
    OWN_TLS_CERT,
    OWN_TLS_KEY,
    OWN_STORE,
    OWN_STORE_MAX,
    OWN_STORE_DAYS,
    OWN_REPLAY,
    OWN_RUNNING,
    OWN_QUEUE,
    OWN_CONNECTIONS,
    OWN_INPUT_MEMORY,
    OWN_HEADER_TIME,
    OWN_BODY_TIME,
    OWN_IDLE_TIME,
    OWN_STALL_TIME,
    OWN_SOCKET_TIME,
    OWN_KEEP_ALIVE,
    OWN_DRAIN,
    OWN_DEMO,
    OWN_LOG_PROMPTS,
    OWN_QUIET,
    OWN_CONFIG,
    OWN_CONFIDENCE,
};
enum { DAY_S = 86400, KEY_FILE_BYTES_MAX = 1 << 20, STORE_DAYS_MAX = 36500 };

typedef struct {
    options o;
    server_config config;
    const char *keys[SERVER_KEYS_MAX];
    const char *origins[SERVER_ORIGINS_MAX];
    const char *key_file;
    bytes key_text; /* of the file, cut into lines */
    bytes hidden;   /* keys of the command line */
    const char *policy_path;
    policy *policy; /* owned; NULL: without a file */
} serving;

static bool add_key(serving *v, const char *key)
{
    if (v->config.n_keys == SERVER_KEYS_MAX || !*key || strlen(key) > SERVER_KEY_BYTES_MAX)
        return option_wants("1 to %u bytes, given at most %u times", SERVER_KEY_BYTES_MAX,
                            SERVER_KEYS_MAX);
    v->keys[v->config.n_keys++] = key;
    return true;
}

static bool take_name(serving *v, int val, const char *value)
{
    server_config *c = &v->config;
    switch (val) {
    case OWN_MODEL_ID: c->model_id = value; return *value != 0;
    case OWN_HOST: c->host = value; return *value != 0;
    case OWN_KEY: return add_key(v, value);
    case OWN_KEY_FILE: return option_text(value, &v->key_file);
    case OWN_ORIGIN:
        if (c->n_origins == SERVER_ORIGINS_MAX)
            return option_wants("given at most %u times", SERVER_ORIGINS_MAX);
        v->origins[c->n_origins++] = value;
        return *value != 0;
    case OWN_TLS_CERT: return option_text(value, &c->tls_cert);
    case OWN_TLS_KEY: return option_text(value, &c->tls_key);
    case OWN_STORE: return option_text(value, &c->store_path);
    case OWN_REPLAY: return option_text(value, &c->replay_path);
    case OWN_DEMO: c->demo = value; return *value != 0;
    case OWN_LOG_PROMPTS: c->log_prompts = true; return true;
    case OWN_QUIET: c->quiet = true; return true;
    case OWN_CONFIG: v->policy_path = value; return *value != 0;
    default: return false;
    }
}

static bool take_own(void *arg, int val, const char *value)
{
    serving *v = arg;
    server_config *c = &v->config;
    switch (val) {
    case OWN_CONFIDENCE: return option_f64(value, 0, 1, &c->confidence_min);
    case OWN_STORE_MAX: return option_bytes(value, &c->store_bytes_max);
    case OWN_STORE_DAYS: return option_u32(value, 0, STORE_DAYS_MAX, &c->store_days);
    case OWN_PORT: return option_u32(value, 0, 65535, &c->port);
    case OWN_RUNNING: return option_u32(value, 1, SERVER_RUNNING_MAX, &c->running_max);
    case OWN_QUEUE: return option_u32(value, 0, SERVER_QUEUE_MAX, &c->queue_max);
    case OWN_CONNECTIONS: return option_u32(value, 1, 1 << 20, &c->connections_max);
    case OWN_INPUT_MEMORY: return option_bytes(value, &c->input_bytes_max);
    case OWN_HEADER_TIME: return option_u32(value, 1, DAY_S, &c->header_s);
    case OWN_BODY_TIME: return option_u32(value, 1, DAY_S, &c->body_s);
    case OWN_IDLE_TIME: return option_u32(value, 1, DAY_S, &c->idle_s);
    case OWN_STALL_TIME: return option_u32(value, 1, DAY_S, &c->stall_s);
    case OWN_KEEP_ALIVE: return option_u32(value, 0, DAY_S, &c->keep_alive_s);
    case OWN_SOCKET_TIME: return option_u32(value, 0, 30 * DAY_S, &c->socket_s);
    case OWN_DRAIN: return option_u32(value, 0, DAY_S, &c->drain_s);
    default: return take_name(v, val, value);
    }
}

/* One key a line; empty lines and those that begin with '#' are none. */
static int read_keys(serving *v, cerium_error *err)
{
    const char *env = getenv("CERIUM_API_KEY");
    if (env && *env && !add_key(v, env))
        return error_set(err, CERIUM_ERR_ARGUMENT, "CERIUM_API_KEY has at most %u bytes",
                         SERVER_KEY_BYTES_MAX);
    if (!v->key_file) return CERIUM_OK;
    v->key_text.max = KEY_FILE_BYTES_MAX;
    RETURN_IF(read_file(v->key_file, &v->key_text, err));
    if (bytes_append(&v->key_text, "\n", 2)) /* ends the last line, and the text */
        return error_set(err, CERIUM_ERR_CAPACITY, "%s: longer than %d bytes", v->key_file,
                         KEY_FILE_BYTES_MAX - 2);
    const size_t n_before = v->config.n_keys;
    uint32_t n_line = 1;
    for (char *line = v->key_text.ptr, *end; (end = strchr(line, '\n')); line = end + 1, n_line++) {
        *end = 0;
        if (end > line && end[-1] == '\r') end[-1] = 0;
        if (line[strspn(line, " \t")] && *line != '#' && !add_key(v, line))
            return error_set(err, CERIUM_ERR_ARGUMENT, "%s:%u: no key: 1 to %u bytes, %u keys",
                             v->key_file, n_line, SERVER_KEY_BYTES_MAX, SERVER_KEYS_MAX);
    }
    /* Who names a file of keys does not mean a server that asks for none. */
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

static int serve(serving *v, cerium_error *err)
{
    struct sigaction action = {.sa_handler = on_signal};
    cerium_engine *engine = NULL;
    server *s = NULL;
    v->config.keys = v->keys;
    v->config.origins = v->origins;
    v->config.model_path = options_model(&v->o);
    v->config.sampling = v->o.sampling;
    guarding watchdog;
    RETURN_IF(guarding_open(&watchdog, &v->o, err));
    uint32_t sessions = v->config.running_max * SERVER_SESSIONS_PER_PLACE;
    int status = options_engine(&v->o, &engine, sessions, err);
    if (!status) status = guarding_ready(&watchdog, err);
    v->config.engine = engine;
    v->config.guard = watchdog.guard;
    v->config.guard_worker = watchdog.worker;
    v->config.guard_policy = watchdog.policy;
    /* The port answers before `running` is set: a signal that comes between them waits. */
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    if (!status) status = server_open(&s, &v->config, err);
    if (!status) {
        if (watchdog.guard) tell_lacks();
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
    guarding_close(&watchdog);
    return status;
}

static const struct option own[] = {
    {"model-id", required_argument, NULL, OWN_MODEL_ID},
    {"host", required_argument, NULL, OWN_HOST},
    {"port", required_argument, NULL, OWN_PORT},
    {"api-key", required_argument, NULL, OWN_KEY},
    {"api-key-file", required_argument, NULL, OWN_KEY_FILE},
    {"allow-origin", required_argument, NULL, OWN_ORIGIN},
    {"tls-cert", required_argument, NULL, OWN_TLS_CERT},
    {"tls-key", required_argument, NULL, OWN_TLS_KEY},
    {"store", required_argument, NULL, OWN_STORE},
    {"store-max", required_argument, NULL, OWN_STORE_MAX},
    {"store-days", required_argument, NULL, OWN_STORE_DAYS},
    {"replay", required_argument, NULL, OWN_REPLAY},
    {"running", required_argument, NULL, OWN_RUNNING},
    {"queue", required_argument, NULL, OWN_QUEUE},
    {"connections", required_argument, NULL, OWN_CONNECTIONS},
    {"input-memory", required_argument, NULL, OWN_INPUT_MEMORY},
    {"header-time", required_argument, NULL, OWN_HEADER_TIME},
    {"body-time", required_argument, NULL, OWN_BODY_TIME},
    {"idle-time", required_argument, NULL, OWN_IDLE_TIME},
    {"stall-time", required_argument, NULL, OWN_STALL_TIME},
    {"keep-alive", required_argument, NULL, OWN_KEEP_ALIVE},
    {"socket-time", required_argument, NULL, OWN_SOCKET_TIME},
    {"drain", required_argument, NULL, OWN_DRAIN},
    {"demo", required_argument, NULL, OWN_DEMO},
    {"log-prompts", no_argument, NULL, OWN_LOG_PROMPTS},
    {"quiet", no_argument, NULL, OWN_QUIET},
    {"config", required_argument, NULL, OWN_CONFIG},
    {"min-confidence", required_argument, NULL, OWN_CONFIDENCE},
};
enum { GROUPS = OPTIONS_ENGINE | OPTIONS_CHOICE | OPTIONS_GUARD };

static int read_line(serving *v, int argc, char **argv)
{
    *v = (serving){.policy = v->policy};
    server_config_defaults(&v->config);
    return options_parse(&v->o, argc, argv, GROUPS, own, ARRAY_LEN(own), take_own, v, help);
}

/* The options of [server], as if they stood before those of the command line. */
static int apply_policy(serving *v, cerium_error *err)
{
    *v = (serving){.policy = v->policy, .policy_path = v->policy_path};
    server_config_defaults(&v->config);
    for (uint32_t i = 0; i < v->policy->n_settings; i++) {
        const policy_setting *s = &v->policy->settings[i];
        const char *path = v->policy_path;
        option_result how = options_set(&v->o, GROUPS, own, ARRAY_LEN(own), take_own, v, s->name,
                                        s->value);
        const char *near = how == OPTION_UNKNOWN
                               ? options_near(GROUPS, own, ARRAY_LEN(own), s->name) : NULL;
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
                             "%s:%u: '%s' is no value for %s%s%s; see `cerium serve --help`", path,
                             s->line, s->value, s->name, *option_wanted() ? ": it takes " : "",
                             option_wanted());
    }
    v->config.policy = v->policy;
    return CERIUM_OK;
}

/* Everybody on this machine can read a command line: keys are taken out of it. */
static int hide_keys(serving *v, int argc, char **argv, cerium_error *err)
{
    size_t n_bytes = 0;
    for (size_t k = 0; k < v->config.n_keys; k++) n_bytes += strlen(v->keys[k]) + 1;
    v->hidden.max = n_bytes;
    if (bytes_reserve(&v->hidden, n_bytes)) /* what is written must not move */
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
    if (argc > optind) return usage_error("serve", "'%s' is not an option", argv[optind]);
    if (v.policy_path) {
        status = accounts_policy(&v.policy, v.policy_path, &err);
        if (!status) status = apply_policy(&v, &err);
        /* Fails only where file and line together have too many keys or origins. */
        if (!status &&
            options_parse(&v.o, argc, argv, GROUPS, own, ARRAY_LEN(own), take_own, &v, help)) {
            memory_free(v.policy);
            return EXIT_USAGE;
        }
    }
    if (!status) status = hide_keys(&v, argc, argv, &err);
    if (!status) status = read_keys(&v, &err);
    if (!status) status = serve(&v, &err);
    bytes_free(&v.key_text);
    bytes_free(&v.hidden);
    memory_free(v.policy);
    return status ? failed(&err) : 0;
}
