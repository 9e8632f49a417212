/* model_pull.c - pulls offered models. */
#include "server/model_pull.h"

#include <time.h>

#include "server/connection.h"
#include "server/http.h"
#include "server/model_list.h"
#include "server/model_memory.h"

struct model_pull {
    job job; /* first; a worker owns it while `runs` */
    server *s;
    bool runs;
    char name[SERVER_ID_BYTES];
    _Atomic uint64_t done_bytes, total_bytes;
    _Atomic bool unwanted;
    int status;               /* of the last pull, */
    cerium_error why;         /* and its error */
    char path[SERVER_PULL_PATH_MAX];
    served_model *made;       /* the pulled model, not in the list yet */
};

/* ---- the thread ---- */

static void on_progress(void *user, uint64_t done, uint64_t total)
{
    struct model_pull *p = user;
    atomic_store_explicit(&p->total_bytes, total, memory_order_relaxed);
    atomic_store_explicit(&p->done_bytes, done, memory_order_relaxed);
}

static bool is_unwanted(void *user)
{
    struct model_pull *p = user;
    return atomic_load_explicit(&p->unwanted, memory_order_relaxed);
}

static bool run(job *j)
{
    struct model_pull *p = (struct model_pull *)j;
    const server_pull_hooks hooks = {on_progress, is_unwanted, p};
    p->status = p->s->config.pulls->pull(p->name, &hooks, p->path, &p->why);
    if (p->status) return false;
    const char *names[] = {p->name};
    const server_model of = {.path = p->path, .names = names, .n_names = 1};
    p->status = models_read(p->s, &of, &p->made, &p->why);
    return false;
}

/* ---- the loop ---- */

static void tell_followers(struct model_pull *p);

static void done(job *j)
{
    struct model_pull *p = (struct model_pull *)j;
    char why[300];
    p->runs = false;
    if (p->made && models_add(p->s, p->made)) models_free(&p->made); /* it already exists */
    p->made = NULL;
    if (p->status)
        log_event(LOG_WARNING, "pull", "model=%s reason=%s", p->name,
                  log_quote(why, sizeof why, p->why.message));
    else
        log_event(LOG_INFO, "pull", "model=%s state=served path=%s", p->name,
                  log_quote(why, sizeof why, p->path));
    tell_followers(p);
}

static void no_release(job *j) { (void)j; }

static struct model_pull *pull_of(server *s)
{
    if (s->pull) return s->pull;
    s->pull = memory_zalloc(1, sizeof *s->pull);
    if (s->pull) s->pull->s = s;
    return s->pull;
}

static bool is_listed(const server *s, const char *name)
{
    return strcmp(name, "cerium") != 0 && models_named(s, name);
}

bool pull_fetches(const server *s, const char *name)
{
    return s->pull && s->pull->runs && !strcmp(s->pull->name, name);
}

static int refuse(const server *s, protocol_error *e)
{
    const server_pulls *pulls = s->config.pulls;
    if (pulls && !pulls->refusal) return CERIUM_OK;
    return protocol_error_set(e, 403, "invalid_request_error", "pull_not_allowed", "", "%s",
                              pulls ? pulls->refusal : "this server fetches no models");
}

/* Begin a pull; a running one of the same model is joined.  CERIUM_ERR_ARGUMENT with *e. */
static int begin(server *s, const char *name, protocol_error *e)
{
    server_offer all[SERVER_OFFERS_MAX];
    RETURN_IF(refuse(s, e));
    const uint32_t n = s->config.pulls->offers(all, SERVER_OFFERS_MAX);
    uint32_t i = 0;
    while (i < n && strcmp(all[i].name, name)) i++;
    if (i == n)
        return protocol_error_set(e, 404, "invalid_request_error", "model_not_found", "model",
                                  "'%.100s' is none of the models that are offered: see "
                                  "GET /models/pull", name);
    if (s->n_deletions)
        return protocol_error_set(e, 409, "invalid_request_error", "model_in_use", "model",
                                  "a model is being deleted; please try again");
    struct model_pull *p = pull_of(s);
    if (!p) return protocol_error_memory(e);
    if (pull_fetches(s, name) && !is_unwanted(p)) return CERIUM_OK;
    if (p->runs)
        return protocol_error_set(e, 409, "invalid_request_error", "pull_runs", "model",
                                  "'%s' is being fetched: one at a time", p->name);
    snprintf(p->name, sizeof p->name, "%s", name);
    atomic_store(&p->done_bytes, 0);
    atomic_store(&p->total_bytes, all[i].size_bytes);
    atomic_store(&p->unwanted, false);
    p->job = (job){.run = run, .done = done, .release = no_release, .lane = WORKERS_PULLS};
    p->runs = true;
    log_event(LOG_INFO, "pull", "model=%s state=begun", p->name);
    workers_submit_always(s->workers, &p->job);
    return CERIUM_OK;
}

void pull_stop(server *s)
{
    struct model_pull *p = s->pull;
    if (!p) return;
    atomic_store(&p->unwanted, true);
    while (p->runs) { /* its thread wakes the loop, which will be closed */
        struct timespec wait = {.tv_nsec = 200000};
        nanosleep(&wait, NULL);
        workers_poll(s->workers);
    }
}

void pull_close(server *s)
{
    memory_free(s->pull);
    s->pull = NULL;
}

/* ---- our own routes ---- */

static json_t *offered(const server *s)
{
    server_offer all[SERVER_OFFERS_MAX];
    const uint32_t n = s->config.pulls ? s->config.pulls->offers(all, SERVER_OFFERS_MAX) : 0;
    const uint64_t room = models_room(s);
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:I, s:I, s:b, s:b, s:b, s:b}", "name", all[i].name,
                            "size_bytes", (json_int_t)all[i].size_bytes, "memory_bytes",
                            (json_int_t)all[i].memory_bytes, "chats", all[i].chats, "fits",
                            all[i].memory_bytes <= room, "is_here", all[i].is_here, "is_served",
                            is_listed(s, all[i].name)));
    return list;
}

/* The progress of a pull; how the last one ended. */
static json_t *state(const server *s)
{
    const struct model_pull *p = s->pull;
    if (!p || !*p->name) return json_null();
    const char *word = p->runs ? "running" : p->status == CERIUM_ERR_CANCELED ? "canceled"
                                         : p->status ? "failed" : "done";
    return json_pack("{s:s, s:s, s:I, s:I, s:s?}", "model", p->name, "state", word, "done_bytes",
                     (json_int_t)atomic_load(&p->done_bytes), "total_bytes",
                     (json_int_t)atomic_load(&p->total_bytes), "reason",
                     !p->runs && p->status ? p->why.message : NULL);
}

void pull_list(connection *c)
{
    protocol_error e;
    const server *s = c->s;
    const int refused = refuse(s, &e);
    http_json(c, 200,
              json_pack("{s:s, s:b, s:s?, s:I, s:o, s:o}", "object", "list", "allowed", !refused,
                        "reason", refused ? e.message : NULL, "memory_bytes_max",
                        (json_int_t)models_room(s), "pull", state(s), "data", offered(s)));
}

/* The model named in a body; false: an error was answered. */
static bool read_name(connection *c, char out[SERVER_ID_BYTES], bool *streams)
{
    static const char latest[] = ":latest";
    json_t *root = http_body_object(c, SERVER_INLINE_BYTES_MAX);
    if (!root) return false;
    const char *name = json_string_value(json_object_get(root, "model"));
    protocol_error e;
    if (!name) name = json_string_value(json_object_get(root, "name"));
    const bool good = name && *name && strlen(name) < SERVER_ID_BYTES;
    if (good) {
        const size_t len = strlen(name), tail = sizeof latest - 1;
        const bool has_tail = len > tail && !strcmp(name + len - tail, latest);
        snprintf(out, SERVER_ID_BYTES, "%.*s", (int)(has_tail ? len - tail : len), name);
        *streams = !json_is_false(json_object_get(root, "stream"));
    } else {
        (void)protocol_error_set(&e, 400, "invalid_request_error", "invalid_value", "model",
                                 "model is a name of at most %u bytes, and has to be there",
                                 SERVER_ID_BYTES - 1);
        http_error(c, &e);
    }
    json_decref(root);
    return good;
}

void pull_begin(connection *c)
{
    char name[SERVER_ID_BYTES];
    bool streams;
    protocol_error e;
    if (!read_name(c, name, &streams)) return;
    if (begin(c->s, name, &e))
        http_error(c, &e);
    else
        http_json(c, 202, json_pack("{s:o}", "pull", state(c->s)));
}

void pull_cancel(connection *c)
{
    protocol_error e;
    if (refuse(c->s, &e)) {
        http_error(c, &e);
        return;
    }
    if (c->s->pull) atomic_store(&c->s->pull->unwanted, true);
    http_json(c, 200, json_pack("{s:o}", "pull", state(c->s)));
}

/* ---- Ollama's ---- */

static void tell_line(connection *c, json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (text && !c->gone) http_piece(c, VIEW(""), view_of(text), VIEW("\n"));
    memory_release(text);
    connection_flush(c);
}

static json_t *progress_line(const struct model_pull *p)
{
    char digest[SERVER_ID_BYTES + 16];
    snprintf(digest, sizeof digest, "pulling %s", p->name);
    return json_pack("{s:s, s:s, s:I, s:I}", "status", digest, "digest", p->name, "total",
                     (json_int_t)atomic_load(&p->total_bytes), "completed",
                     (json_int_t)atomic_load(&p->done_bytes));
}

static void end_follower(connection *c, const struct model_pull *p)
{
    const pull_follow how = c->http.follows_pull;
    protocol_error e;
    c->http.follows_pull = PULL_FOLLOWS_NOT;
    if (how == PULL_FOLLOWS_LINES) {
        tell_line(c, p->status ? json_pack("{s:s}", "error", p->why.message)
                               : json_pack("{s:s}", "status", "success"));
        http_stream_end(c);
    } else if (p->status) {
        (void)protocol_error_set(&e, 500, "server_error", "pull_failed", "", "%s", p->why.message);
        http_error(c, &e);
    } else {
        http_json(c, 200, json_pack("{s:s}", "status", "success"));
    }
    connection_flush(c);
}

static void tell_followers(struct model_pull *p)
{
    for (connection *c = p->s->connections, *next; c; c = next) {
        next = c->next;
        if (c->gone || c->http.follows_pull == PULL_FOLLOWS_NOT) continue;
        if (!p->runs)
            end_follower(c, p);
        else if (c->http.follows_pull == PULL_FOLLOWS_LINES && !connection_parked(c))
            tell_line(c, progress_line(p));
    }
}

void pull_tick(server *s)
{
    if (s->pull && s->pull->runs) tell_followers(s->pull);
}

void pull_ollama(connection *c)
{
    char name[SERVER_ID_BYTES];
    bool streams = true;
    protocol_error e;
    if (!read_name(c, name, &streams)) return;
    /* For a model that exists: Codex pulls before it checks. */
    const bool is_there = is_listed(c->s, name) || !strcmp(name, "cerium");
    if (!is_there && begin(c->s, name, &e)) {
        http_error(c, &e);
        return;
    }
    if (is_there && !streams) {
        http_json(c, 200, json_pack("{s:s}", "status", "success"));
        return;
    }
    if (!streams) {
        c->http.follows_pull = PULL_FOLLOWS_END;
        return;
    }
    http_stream(c, "application/x-ndjson");
    tell_line(c, json_pack("{s:s}", "status", is_there ? "success" : "pulling manifest"));
    if (is_there)
        http_stream_end(c);
    else
        c->http.follows_pull = PULL_FOLLOWS_LINES;
}
