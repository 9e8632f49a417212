/* model_routes.c - GET /v1/models, and llama.cpp's POST /models/load and /models/unload. */
#include "server/model_routes.h"

#include "server/http.h"
#include "server/model_loader.h"
#include "server/model_list.h"
#include "server/model_memory.h"

static const char *state_name(const served_model *m)
{
    switch (m->state) {
    case MODEL_UNLOADED: return m->wanted_ns ? "loading" : "unloaded";
    case MODEL_LOADING: return "loading";
    case MODEL_LOADED: return "loaded";
    case MODEL_UNLOADING: return "unloaded";
    }
    return "unloaded";
}

static protocol_model listed(const served_model *m)
{
    protocol_model out = m->listed;
    out.state = state_name(m);
    out.n_bytes = model_bytes(m);
    if (m->state == MODEL_LOADING) {
        out.done_bytes = atomic_load(&m->done_bytes);
        out.total_bytes = atomic_load(&m->total_bytes);
    }
    if (m->failed_ns) out.failure = m->failure;
    for (uint32_t i = 1; i < m->n_names; i++) out.aliases[out.n_aliases++] = m->names[i];
    return out;
}

void model_list(connection *c)
{
    protocol_model all[SERVER_MODELS_MAX];
    const uint32_t n = models_n(c->s);
    uint32_t n_all = 0;
    bytes body = {.max = 4 << 20};
    for (uint32_t i = 0; i < n; i++)
        if (!atomic_load(&models_at(c->s, i)->is_deleted))
            all[n_all++] = listed(models_at(c->s, i));
    if (protocol_models_body(&body, all, n_all))
        http_json(c, 200, NULL);
    else
        http_answer(c, &(http_head){.status = 200}, (view){body.ptr, body.len});
    bytes_free(&body);
}

/* By one of its own names; "cerium" is one. */
static served_model *named(const server *s, const char *name)
{
    served_model *m = models_choose(s, name, MODEL_TALKS);
    if (!m || s->names_count || !strcmp(name, "cerium")) return m;
    for (uint32_t i = 0; i < m->n_names; i++)
        if (!strcmp(m->names[i], name)) return m;
    return NULL;
}

void model_get(connection *c)
{
    const served_model *m = named(c->s, c->http.id);
    bytes body = {.max = 1 << 16};
    protocol_error e;
    if (!m) {
        (void)protocol_error_set(&e, 404, "invalid_request_error", "model_not_found", "model",
                                 "there is no model '%.*s'; see GET /v1/models",
                                 (int)SERVER_ID_BYTES - 1, c->http.id);
        http_error(c, &e);
        return;
    }
    const protocol_model row = listed(m);
    if (protocol_model_body(&body, &row, c->http.id)) {
        (void)protocol_error_memory(&e);
        http_error(c, &e);
    } else {
        http_answer(c, &(http_head){.status = 200}, (view){body.ptr, body.len});
    }
    bytes_free(&body);
}

/* ---- loading ---- */

/* The model named in a body; NULL: an error was answered. */
static served_model *asked_for(connection *c)
{
    json_t *root = http_body_object(c, SERVER_INLINE_BYTES_MAX);
    if (!root) return NULL;
    const char *name = json_string_value(json_object_get(root, "model"));
    served_model *m = name ? named(c->s, name) : NULL;
    protocol_error e;
    if (!name)
        (void)protocol_error_set(&e, 400, "invalid_request_error", "invalid_value", "model",
                                 "model is the name of one, and has to be there");
    else if (!m)
        (void)models_unknown(c->s, name, &e);
    json_decref(root);
    if (!m) http_error(c, &e);
    return m;
}

static void tell_success(connection *c) { http_json(c, 200, json_pack("{s:b}", "success", 1)); }

void model_post_load(connection *c)
{
    served_model *m = asked_for(c);
    protocol_error e;
    if (!m) return;
    if (model_check(m, &e)) {
        http_error(c, &e);
        return;
    }
    model_want(m);
    tell_success(c);
}

void model_post_unload(connection *c)
{
    served_model *m = asked_for(c);
    protocol_error e;
    if (!m) return;
    if (model_unload(m)) {
        tell_success(c);
        return;
    }
    (void)protocol_error_set(&e, 409, "invalid_request_error", "model_in_use", "model",
                             m->is_borrowed ? "the server's first model stays"
                                            : "answers of the model run or wait");
    http_error(c, &e);
}
