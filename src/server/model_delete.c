/* model_delete.c - decides which model may be deleted, and removes it while others are served. */
#include "server/model_delete.h"

#include "server/connection.h"
#include "server/http.h"
#include "server/model_list.h"
#include "server/model_loader.h"
#include "server/model_pull.h"

/* Removing a file of many gigabytes is slow: a thread does it. */
typedef struct {
    job job; /* first */
    server *s;
    uint64_t serial; /* of the waiting connection */
    char name[SERVER_ID_BYTES];
    char path[SERVER_PULL_PATH_MAX];
    int status;
    cerium_error why;
} deletion;

static bool run(job *j)
{
    deletion *d = (deletion *)j;
    d->status = d->s->config.pulls->remove(d->path, true, &d->why);
    return false;
}

static void release(job *j) { memory_free(j); }

static connection *who_waits(const deletion *d)
{
    connection *c = d->s->connections;
    while (c && (c->serial != d->serial || c->gone || !c->http.awaits_deletion)) c = c->next;
    return c;
}

static void done(job *j)
{
    deletion *d = (deletion *)j;
    connection *c = who_waits(d);
    d->s->n_deletions--;
    protocol_error e;
    char why[300];
    log_event(d->status ? LOG_ERROR : LOG_INFO, "model", "id=%s state=deleted%s%s", d->name,
              d->status ? " reason=" : "",
              d->status ? log_quote(why, sizeof why, d->why.message) : "");
    if (c) {
        c->http.awaits_deletion = false;
        (void)protocol_error_set(&e, 500, "server_error", NULL, "model", "%s", d->why.message);
        if (d->status) http_error(c, &e);
        else http_answer(c, &(http_head){.status = 200}, VIEW(""));
        connection_flush(c);
    }
    release(j);
}

/* ---- deletable models ---- */

static int refuse(protocol_error *e, int status, const char *code, const char *name,
                  const char *why)
{
    return protocol_error_set(e, status, "invalid_request_error", code, "model",
                              "the model '%.100s' is not deleted: %s", name, why);
}

static bool has_answers(const served_model *m)
{
    for (const answer *a = m->s->answers; a; a = a->next)
        if (a->model == m && !a->dead) return true;
    return false;
}

static int check(const served_model *m, protocol_error *e)
{
    const server_pulls *pulls = m->s->config.pulls;
    const char *name = m->names[0];
    cerium_error why;
    if (!pulls || !pulls->remove)
        return refuse(e, 403, "delete_not_allowed", name, "this server fetches no models");
    if (pulls->refusal) return refuse(e, 403, "delete_not_allowed", name, pulls->refusal);
    if (!m->index)
        return refuse(e, 403, "delete_not_allowed", name, "the server's first model stays");
    if (pulls->remove(m->path, false, &why))
        return refuse(e, 403, "delete_not_allowed", name, why.message);
    if (m->n_sessions || has_answers(m))
        return refuse(e, 409, "model_in_use", name, "answers of it run or wait");
    if (m->state == MODEL_LOADING || m->wanted_ns)
        return refuse(e, 409, "model_in_use", name, "it is being loaded");
    if (pull_fetches(m->s, name))
        return refuse(e, 409, "model_in_use", name, "it is being fetched");
    return CERIUM_OK;
}

/* Hide it first, so that no answer starts with it. */
static int begin(connection *c, served_model *m, protocol_error *e)
{
    RETURN_IF(check(m, e));
    deletion *d = memory_zalloc(1, sizeof *d);
    if (!d) return protocol_error_memory(e);
    *d = (deletion){.job = {.run = run, .done = done, .release = release,
                            .lane = WORKERS_MODELS},
                    .s = c->s, .serial = c->serial};
    snprintf(d->name, sizeof d->name, "%s", m->names[0]);
    snprintf(d->path, sizeof d->path, "%s", m->path);
    atomic_store(&m->is_deleted, true);
    (void)model_unload(m);
    c->http.awaits_deletion = true;
    c->s->n_deletions++;
    workers_submit_always(c->s->workers, &d->job);
    return CERIUM_OK;
}

void model_delete(connection *c)
{
    json_t *root = http_body_object(c, SERVER_INLINE_BYTES_MAX);
    if (!root) return;
    const char *name = json_string_value(json_object_get(root, "model"));
    protocol_error e;
    int status;
    if (!name) name = json_string_value(json_object_get(root, "name"));
    served_model *m = name ? models_named(c->s, name) : NULL;
    if (!name)
        status = protocol_error_set(&e, 400, "invalid_request_error", "invalid_value", "model",
                                    "model is required");
    else if (!m)
        status = protocol_error_set(&e, 404, "invalid_request_error", "model_not_found", "model",
                                    "model '%.100s' not found; see GET /api/tags", name);
    else
        status = begin(c, m, &e);
    json_decref(root);
    if (status) http_error(c, &e);
}

void model_delete_tick(server *s)
{
    for (uint32_t i = models_n(s); i-- > 1;) {
        served_model *m = models_at(s, i);
        if (!atomic_load(&m->is_deleted) || m->state != MODEL_UNLOADED || s->model_moves) continue;
        if (has_answers(m) || !workers_are_idle(s->workers)) continue;
        models_remove(s, i);
    }
}
