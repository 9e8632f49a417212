/* model_loader.c - chooses the next model to load and the one to unload for it, and runs these
 * jobs.
 *
 * server.model_moved() notifies waiting answers, as this file must not depend on them. */
#include "server/model_loader.h"

#include <inttypes.h>
#include <time.h>

#include "server/model_list.h"
#include "server/model_memory.h"
#include "server/model_stats.h"

int model_check(const served_model *m, protocol_error *e)
{
    const server *s = m->s;
    const uint64_t room = models_room(s);
    if (m->state != MODEL_UNLOADED) return CERIUM_OK;
    if (m->failed_ns && clock_ns() - m->failed_ns < MODEL_RETRY_S * UINT64_C(1000000000)) {
        (void)protocol_error_set(e, 503, "server_error", "model_not_loaded", "model",
                                 "the model '%s' cannot be loaded: %s", m->names[0], m->failure);
        e->retry_after_s = MODEL_RETRY_S;
        return CERIUM_ERR_ARGUMENT;
    }
    if (model_bytes_min(m) <= room) return CERIUM_OK;
    return protocol_error_set(e, 503, "server_error", "model_too_large", "model",
                              "the model '%s' takes %.1f MB of memory, %.1f of them weights and "
                              "the rest a context of %u tokens; models have %.1f MB here "
                              "(--models-memory)", m->names[0], (double)model_bytes_min(m) / 1e6,
                              (double)m->own_bytes / 1e6, m->info.context_tokens_max,
                              (double)room / 1e6);
}

/* ---- waiting answers ---- */

/* When the oldest answer arrived that has a text waiting for the model; UINT64_MAX: none. */
static uint64_t oldest_waiting(const served_model *m)
{
    uint64_t oldest = UINT64_MAX;
    for (const answer *a = m->s->answers; a; a = a->next) {
        if (a->model != m || a->started_ns >= oldest) continue;
        for (uint32_t i = 0; i < a->n_choices; i++)
            if (a->choices[i].state == CHOICE_WAITING) oldest = a->started_ns;
    }
    return oldest;
}

/* The unloaded model that was requested first. */
static served_model *next_wanted(const server *s)
{
    served_model *first = NULL;
    for (uint32_t i = 0; i < models_n(s); i++) {
        served_model *m = models_at(s, i);
        if (m->state != MODEL_UNLOADED || !m->wanted_ns) continue;
        if (!first || m->wanted_ns < first->wanted_ns) first = m;
    }
    return first;
}

bool model_serves(const answer *a)
{
    const served_model *m = a->model;
    if (m->state != MODEL_LOADED || m->no_session) return false;
    const served_model *other = m->is_borrowed ? NULL : next_wanted(m->s);
    return !other || models_fit_with(m->s, other) || a->started_ns <= other->wanted_ns;
}

/* The least recently used model without running answers and without an older request for it. */
static served_model *least_used(const server *s, uint64_t older_than)
{
    served_model *least = NULL;
    for (uint32_t i = 0; i < models_n(s); i++) {
        served_model *m = models_at(s, i);
        if (m->state != MODEL_LOADED || m->is_borrowed || m->n_sessions) continue;
        if (oldest_waiting(m) < older_than) continue;
        if (!least || m->used_ns < least->used_ns) least = m;
    }
    return least;
}

/* ---- the jobs ---- */

static void no_release(job *j) { (void)j; }

static void on_progress(void *user, uint64_t done, uint64_t total)
{
    served_model *m = user;
    atomic_store_explicit(&m->total_bytes, total, memory_order_relaxed);
    atomic_store_explicit(&m->done_bytes, done, memory_order_relaxed);
}

static bool is_unwanted(void *user)
{
    served_model *m = user;
    return atomic_load_explicit(&m->unwanted, memory_order_relaxed);
}

static bool run_load(job *j)
{
    served_model *m = (served_model *)j;
    cerium_engine_config config = models_engine_config(m);
    config.threads_of = m->beside;
    config.progress = on_progress;
    config.canceled = is_unwanted;
    config.progress_user = config.canceled_user = m;
    models_limit(m->s);
    m->status = cerium_engine_open(&m->moved, &config, &m->why);
    if (!m->status) cerium_engine_limit_kv(m->moved, m->kv_bytes);
    /* Sort the vocabulary for the first guide now, in the background. */
    if (!m->status && cerium_engine_prepare_guides(m->moved, &m->why)) {
        cerium_engine_close(&m->moved);
        m->status = m->why.status;
    }
    return false;
}

/* One was unloaded: the others get its memory. */
static void share_rest(server *s)
{
    models_share(s, true);
    models_limit(s);
}

static void on_loaded(job *j)
{
    served_model *m = (served_model *)j;
    server *s = m->s;
    char why[300];
    s->model_moves = false;
    m->wanted_ns = 0;
    m->used_ns = clock_ns();
    m->beside = NULL;
    if (m->status) {
        const bool was_canceled = m->status == CERIUM_ERR_CANCELED;
        m->state = MODEL_UNLOADED;
        share_rest(s);
        m->failed_ns = was_canceled ? 0 : m->used_ns;
        snprintf(m->failure, sizeof m->failure, "%.250s", m->why.message);
        const uint64_t oldest = oldest_waiting(m);
        if (was_canceled && oldest < UINT64_MAX) m->wanted_ns = oldest; /* a request arrived
                                                                         * since */
        log_event(was_canceled ? LOG_INFO : LOG_ERROR, "model", "id=%s state=unloaded reason=%s",
                  m->names[0], log_quote(why, sizeof why, m->failure));
    } else {
        cerium_engine_info info;
        m->engine = m->moved;
        m->moved = NULL;
        cerium_engine_describe(m->engine, &info);
        m->state = MODEL_LOADED;
        m->failed_ns = 0;
        m->n_loads++;
        m->own_bytes = info.weights_bytes + info.draft_model_bytes;
        log_event(LOG_INFO, "model", "id=%s state=loaded bytes=%" PRIu64 " seconds=%.1f",
                  m->names[0], model_bytes(m), (double)(m->used_ns - m->moves_ns) * 1e-9);
    }
    models_work(s);
    s->model_moved(m);
}

static bool run_unload(job *j)
{
    served_model *m = (served_model *)j;
    cerium_engine_close(&m->moved);
    return false;
}

static void on_unloaded(job *j)
{
    served_model *m = (served_model *)j;
    const uint64_t oldest = oldest_waiting(m); /* for later requests than those it was unloaded
                                                * for */
    m->s->model_moves = false;
    m->state = MODEL_UNLOADED;
    m->idle_s = -1;
    share_rest(m->s);
    if (oldest < UINT64_MAX) m->wanted_ns = oldest;
    log_event(LOG_INFO, "model", "id=%s state=unloaded", m->names[0]);
    models_work(m->s);
    m->s->model_moved(m);
}

/* Any engine that computes: all share its threads. */
static cerium_engine *any_engine(const server *s)
{
    for (uint32_t i = 0; i < models_n(s); i++)
        if (models_at(s, i)->engine) return models_at(s, i)->engine;
    return NULL;
}

static void begin_move(served_model *m, model_state state)
{
    const bool loads = state == MODEL_LOADING;
    m->state = state;
    m->moves_ns = clock_ns();
    m->job = (job){.run = loads ? run_load : run_unload,
                   .done = loads ? on_loaded : on_unloaded,
                   .release = no_release,
                   .lane = WORKERS_MODELS};
    if (loads) {
        atomic_store(&m->done_bytes, 0);
        atomic_store(&m->total_bytes, 0);
        atomic_store(&m->unwanted, false);
        m->beside = any_engine(m->s);
        models_share(m->s, false);
    } else {
        cerium_engine_stats own;
        cerium_engine_measure(m->engine, &own);
        stats_add(&m->past, &own, false);
        m->moved = m->engine;
        m->engine = NULL;
    }
    m->s->model_moves = true;
    workers_submit_always(m->s->workers, &m->job);
}

/* ---- the next job ---- */

/* A model that was idle for its configured time. */
static served_model *find_idle(const server *s)
{
    const uint64_t now = clock_ns();
    for (uint32_t i = 0; i < models_n(s); i++) {
        served_model *m = models_at(s, i);
        if (m->state != MODEL_LOADED || m->is_borrowed || m->n_sessions || m->idle_s < 0) continue;
        if (oldest_waiting(m) < UINT64_MAX) continue;
        if (now - m->used_ns >= (uint64_t)m->idle_s * UINT64_C(1000000000)) return m;
    }
    return NULL;
}

void models_work(server *s)
{
    if (s->model_moves || s->models_stay) return;
    served_model *m = next_wanted(s), *goes = NULL;
    if (m && models_fit_with(s, m)) {
        begin_move(m, MODEL_LOADING);
        return;
    }
    goes = m ? least_used(s, m->wanted_ns) : find_idle(s);
    if (goes) begin_move(goes, MODEL_UNLOADING);
}

void model_want(served_model *m)
{
    m->used_ns = clock_ns();
    if (m->state == MODEL_LOADED || m->state == MODEL_LOADING || m->wanted_ns) return;
    m->wanted_ns = m->used_ns;
    models_work(m->s);
}

void model_keep(served_model *m, const protocol_request *r)
{
    if (r->keeps_model) m->idle_s = r->keep_model_s;
}

bool model_unload(served_model *m)
{
    if (m->is_borrowed || m->n_sessions || oldest_waiting(m) < UINT64_MAX) return false;
    m->wanted_ns = 0;
    if (m->state == MODEL_LOADING) atomic_store(&m->unwanted, true);
    if (m->state == MODEL_LOADED && !m->s->model_moves) begin_move(m, MODEL_UNLOADING);
    else if (m->state == MODEL_LOADED) m->idle_s = 0;
    return true;
}

void model_count_session(served_model *m, int32_t n)
{
    m->n_sessions += (uint32_t)n;
    if (n > 0) return;
    m->used_ns = clock_ns();
    m->no_session = false;
    if (!m->n_sessions) models_work(m->s);
}

void models_stop(server *s)
{
    s->models_stay = true;
    for (uint32_t i = 0; i < models_n(s); i++) atomic_store(&models_at(s, i)->unwanted, true);
    while (s->model_moves) { /* its thread wakes the loop, which will be closed */
        struct timespec wait = {.tv_nsec = 200000};
        nanosleep(&wait, NULL);
        workers_poll(s->workers);
    }
}
