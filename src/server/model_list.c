/* model_list.c - the list of models, and their names. */
#include "server/model_list.h"

#include <time.h>

#include "base/hash.h"
#include "server/kv_events.h"
#include "server/log.h"

static const char any_model[] = "cerium";

/* ---- one model ---- */

/* Recorded answers are shown, however improbable they are to the model. */
static double confidence_of(const served_model *m)
{
    const server_config *config = &m->s->config;
    if (config->confidence_min >= 0) return config->confidence_min;
    return config->replay_path ? 0 : (double)m->info.confidence;
}

/* As configured, else from the model's file, else by its name. */
static next_edit_form edit_form_of(const served_model *m)
{
    next_edit_form form = m->s->config.edit_form;
    if (!form && !next_edit_named(view_of(m->info.edit_format), &form))
        form = next_edit_of_model(m->info.name);
    return form;
}

/* Without a chat form a model completes at the caret, if it can. */
static const char *edit_form_name(const served_model *m)
{
    const next_edit_form form = m->defaults.edit_form;
    return next_edit_name(!form && m->info.fill_in_middle ? NEXT_EDIT_FIM : form);
}

/* Its name in requests: without blanks, so that it fits on a command line. */
static void take_name(served_model *m, const char *name)
{
    char *out = m->names[m->n_names++];
    size_t n = 0;
    for (; name[n] && n + 1 < SERVER_ID_BYTES; n++) out[n] = name[n] == ' ' ? '-' : name[n];
    out[n] = 0;
}

/* Its file's name, as in `-m` and `cerium pull`. */
static void take_file_name(served_model *m)
{
    char name[SERVER_ID_BYTES];
    const char *slash = strrchr(m->path, '/'), *base = slash ? slash + 1 : m->path;
    const char *end = strstr(base, ".gguf");
    const size_t len = end ? (size_t)(end - base) : strlen(base);
    if (!len || len >= sizeof name || m->n_names == SERVER_MODEL_NAMES_MAX) return;
    snprintf(name, sizeof name, "%.*s", (int)len, base);
    for (uint32_t i = 0; i < m->n_names; i++)
        if (!strcmp(m->names[i], name)) return;
    take_name(m, name);
}

/* The configured names, else its own. */
static void take_names(served_model *m, const server_model *of)
{
    for (uint32_t i = 0; i < of->n_names && i < SERVER_MODEL_NAMES_MAX; i++)
        take_name(m, of->names[i]);
    if (!m->n_names) take_name(m, m->info.name);
    take_file_name(m);
}

static void describe(served_model *m)
{
    const cerium_engine_info *info = &m->info;
    cerium_engine_describe(m->vocab, &m->info);
    m->own_bytes = info->weights_bytes + info->draft_model_bytes;
    m->kv_bytes_min = info->kv_bytes_min;
    m->kv_bytes_max = m->kv_bytes = info->kv_bytes;
    snprintf(m->key, sizeof m->key, "%.60s/%u/%llu", info->name, info->n_vocab,
             (unsigned long long)info->n_parameters);
    m->key_hash = hash_bytes(m->key, strlen(m->key), 0) | 1;
    m->defaults = (protocol_defaults){.sampling = m->s->config.sampling,
                                      .has_chat_form = info->chat_form[0] != 0,
                                      .edit_form = edit_form_of(m),
                                      .fills_in = info->fill_in_middle,
                                      .pointer = info->pointer,
                                      .n_embedding = info->pooling ? info->n_embedding : 0,
                                      .guard_ends = m->s->config.guard_ends,
                                      .confidence_min = confidence_of(m)};
    m->listed = (protocol_model){.id = m->names[0],
                                 .display_name = info->name,
                                 .context_tokens = info->context_tokens_max,
                                 .created_at = m->s->started_at,
                                 /* A model without a chat form gets a plain one; one whose template
                                  * cannot be run has none. */
                                 .chats = !*info->chat_refusal,
                                 .chat_form = info->chat_form,
                                 .chat_refusal = info->chat_refusal,
                                 .fills_in = info->fill_in_middle,
                                 .completes_only = info->completes_only,
                                 .confidence_min = m->defaults.confidence_min,
                                 .pointer = (double)info->pointer,
                                 .edit_form = edit_form_name(m)};
}

static served_model *new_model(server *s)
{
    served_model *m = memory_zalloc(1, sizeof *m);
    if (!m) return NULL;
    m->s = s;
    m->path = "";
    m->idle_s = -1;
    return m;
}

/* Only for the first model a context longer than the model's is an error. */
static int open_vocab(served_model *m, bool is_first, cerium_error *err)
{
    m->is_first = is_first;
    cerium_engine_config config = models_engine_config(m);
    const uint32_t wanted = config.context_tokens_max;
    config.vocab_only = true;
    config.progress = NULL;
    if (!is_first) config.context_tokens_max = 0;
    RETURN_IF(cerium_engine_open(&m->vocab, &config, err));
    cerium_engine_describe(m->vocab, &m->info);
    if (!wanted || wanted >= m->info.context_tokens_max) return CERIUM_OK;
    m->context = config.context_tokens_max = wanted;
    cerium_engine_close(&m->vocab);
    RETURN_IF(cerium_engine_open(&m->vocab, &config, err));
    cerium_engine_describe(m->vocab, &m->info);
    return CERIUM_OK;
}

int models_read(server *s, const server_model *of, served_model **out, cerium_error *err)
{
    served_model *m = new_model(s);
    if (m) m->own_path = memory_copy(of->path, strlen(of->path));
    if (!m || !m->own_path) {
        models_free(&m);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a model");
    }
    m->path = m->own_path;
    int status = open_vocab(m, of->is_first, err);
    if (status) {
        models_free(&m);
        return status;
    }
    take_names(m, of);
    describe(m);
    *out = m;
    return CERIUM_OK;
}

void models_free(served_model **out)
{
    if (!out || !*out) return;
    served_model *m = *out;
    if (m->is_borrowed) {
        cerium_engine_limit_kv(m->engine, 0);
    } else {
        cerium_engine_close(&m->moved);
        cerium_engine_close(&m->engine);
        cerium_engine_close(&m->vocab);
    }
    memory_free(m->own_path);
    memory_free(m);
    *out = NULL;
}

static uint32_t place_of(const served_model *m)
{
    uint32_t i = 0;
    while (i < models_n(m->s) && models_at(m->s, i) != m) i++;
    return i; /* the next one that is not in the list yet */
}

cerium_engine_config models_engine_config(const served_model *m)
{
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    if (m->s->config.engine_config) config = *m->s->config.engine_config;
    config.model_path = m->path;
    const uint32_t place = place_of(m);
    if (place >= KV_EVENTS_MODELS_MAX) config.kv_watcher = NULL; /* nor will the file be loaded */
    if (config.kv_watcher)
        config.kv_watcher_user = kv_events_of(m->s->config.kv_pages, place);
    if (m->is_first) return config;
    config.context_tokens_max = m->vocab ? m->context : config.context_tokens_max;
    /* Options of one model do not apply to others. */
    config.chat_form = NULL;
    config.draft_model = config.workspace = "";
    return config;
}

/* ---- the list ---- */

uint32_t models_n(const server *s)
{
    return atomic_load_explicit(&s->n_models, memory_order_acquire);
}

served_model *models_at(const server *s, uint32_t i) { return s->models[i]; }

static bool is_gone(const served_model *m)
{
    return atomic_load_explicit(&m->is_deleted, memory_order_acquire);
}

static served_model *find_name(const server *s, const char *name, size_t len)
{
    for (uint32_t i = 0; i < models_n(s); i++)
        for (uint32_t k = 0; k < s->models[i]->n_names && !is_gone(s->models[i]); k++)
            if (view_equal(view_of(s->models[i]->names[k]), (view){name, len}))
                return s->models[i];
    return NULL;
}

/* A model whose name is taken keeps its other names, or gets a number. */
static void free_names(const server *s, served_model *m)
{
    char first[SERVER_ID_BYTES];
    uint32_t n = 0;
    memcpy(first, m->names[0], sizeof first);
    for (uint32_t i = 0; i < m->n_names; i++)
        if (!find_name(s, m->names[i], strlen(m->names[i])))
            memmove(m->names[n++], m->names[i], sizeof *m->names);
    for (uint32_t i = 2; !n; i++) {
        snprintf(m->names[0], sizeof m->names[0], "%.60s-%u", first, i);
        n = !find_name(s, m->names[0], strlen(m->names[0]));
    }
    m->n_names = n;
}

int models_add(server *s, served_model *m)
{
    const uint32_t n = models_n(s);
    if (n == SERVER_MODELS_MAX) return CERIUM_ERR_CAPACITY;
    for (uint32_t i = 0; i < n; i++)
        if (*m->path && !is_gone(s->models[i]) && !strcmp(s->models[i]->path, m->path))
            return CERIUM_ERR_CAPACITY;
    free_names(s, m);
    m->index = n;
    s->models[n] = m;
    atomic_store_explicit(&s->n_models, n + 1, memory_order_release);
    return CERIUM_OK;
}

void models_remove(server *s, uint32_t i)
{
    const uint32_t n = models_n(s);
    served_model *m = s->models[i];
    CHECK(i && is_gone(m) && m->state == MODEL_UNLOADED);
    for (uint32_t k = i; k + 1 < n; k++) {
        s->models[k] = s->models[k + 1];
        s->models[k]->index = k;
    }
    atomic_store_explicit(&s->n_models, n - 1, memory_order_release);
    models_free(&m);
}

/* ---- choosing one ---- */

model_use models_use_of(protocol_api api, bool has_suffix)
{
    switch (api) {
    case PROTOCOL_COMPLETIONS:
    case PROTOCOL_COMPLETION:
    case PROTOCOL_INFILL: return MODEL_COMPLETES;
    case PROTOCOL_EDITS: return MODEL_EDITS;
    case PROTOCOL_EMBEDDINGS:
    case PROTOCOL_OLLAMA_EMBED: return MODEL_EMBEDS;
    case PROTOCOL_OLLAMA_GENERATE: return has_suffix ? MODEL_COMPLETES : MODEL_TALKS;
    case PROTOCOL_RESPONSES:
    case PROTOCOL_CHAT:
    case PROTOCOL_COMPACT:
    case PROTOCOL_MESSAGES:
    case PROTOCOL_OLLAMA_CHAT: break;
    }
    return MODEL_TALKS;
}

static bool can(const served_model *m, model_use use)
{
    if (is_gone(m)) return false;
    if (use == MODEL_COMPLETES) return m->listed.fills_in;
    if (use == MODEL_EDITS) return m->defaults.edit_form || m->listed.fills_in;
    if (use == MODEL_EMBEDS) return m->info.pooling != CERIUM_POOLING_NONE;
    return m->listed.chats && !m->listed.completes_only && *m->info.chat_form;
}

/* The name without ":latest". */
static size_t name_length(const char *name)
{
    static const char latest[] = ":latest";
    const size_t len = strlen(name), tail = sizeof latest - 1;
    return len > tail && !strcmp(name + len - tail, latest) ? len - tail : len;
}

served_model *models_named(const server *s, const char *name)
{
    const size_t len = name_length(name);
    served_model *m = find_name(s, name, len);
    if (m || !view_equal((view){name, len}, VIEW(any_model))) return m;
    return models_choose(s, NULL, MODEL_TALKS);
}

served_model *models_choose(const server *s, const char *name, model_use use)
{
    const size_t len = name ? name_length(name) : 0;
    served_model *named = len ? find_name(s, name, len) : NULL;
    if (named) return named;
    if (len && s->names_count && !view_equal((view){name, len}, VIEW(any_model))) return NULL;
    for (uint32_t i = 0; i < models_n(s); i++)
        if (can(s->models[i], use)) return s->models[i];
    return s->models[0];
}

served_model *models_of(const server *s, const protocol_request *r)
{
    served_model *m = models_choose(s, r->model, models_use_of(r->api, r->fill_in));
    return m ? m : s->models[0];
}

int models_unknown(const server *s, const char *name, protocol_error *e)
{
    char list[280] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < models_n(s) && n + SERVER_ID_BYTES + 2 < sizeof list; i++)
        if (!is_gone(s->models[i]))
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "",
                                  s->models[i]->names[0]);
    return protocol_error_set(e, 404, "invalid_request_error", "model_not_found", "model",
                              "there is no model '%.100s'; there are %s", name, list);
}

/* ---- all ---- */

/* The program's own engine, which is loaded and stays. */
static int add_borrowed(server *s, cerium_error *err)
{
    const server_config *config = &s->config;
    served_model *m = new_model(s);
    if (!m) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a model");
    m->is_borrowed = true;
    m->vocab = m->engine = config->engine;
    m->state = MODEL_LOADED;
    if (config->model_path) m->path = config->model_path;
    cerium_engine_describe(m->vocab, &m->info);
    take_name(m, config->model_id ? config->model_id : m->info.name);
    take_file_name(m);
    describe(m);
    CHECK(!models_add(s, m));
    return CERIUM_OK;
}

static int add_listed(server *s, const server_model *of, cerium_error *err)
{
    served_model *m = NULL;
    RETURN_IF(models_read(s, of, &m, err));
    if (!models_add(s, m)) return CERIUM_OK;
    models_free(&m);
    return error_set(err, CERIUM_ERR_CAPACITY, "%s: named twice, or more than %u models",
                     of->path, SERVER_MODELS_MAX);
}

int models_open(server *s, cerium_error *err)
{
    const server_config *config = &s->config;
    if (config->engine) RETURN_IF(add_borrowed(s, err));
    for (size_t i = 0; i < config->n_models; i++) {
        cerium_error why;
        char path[300], reason[300];
        int status = add_listed(s, &config->models[i], &why);
        if (!status) continue;
        if (config->models[i].is_named) {
            if (err) *err = why;
            return status;
        }
        log_event(LOG_WARNING, "model", "path=%s reason=%s",
                  log_quote(path, sizeof path, config->models[i].path),
                  log_quote(reason, sizeof reason, why.message));
    }
    if (!models_n(s)) return error_set(err, CERIUM_ERR_ARGUMENT, "a server needs a model");
    s->names_count = config->n_models > 0;
    return CERIUM_OK;
}

void models_close(server *s)
{
    for (uint32_t i = models_n(s); i-- > 0;) models_free(&s->models[i]);
    atomic_store(&s->n_models, 0);
}
