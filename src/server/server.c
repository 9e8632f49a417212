/* server.c - opening, running and closing a server. */
#include "server/server.h"

#include <time.h>

#include "server/access.h"
#include "server/tenant_keys.h"
#include "server/answers.h"
#include "server/connection.h"
#include "server/demo.h"
#include "server/look.h"
#include "server/loop.h"
#include "server/recording.h"
#include "server/kv_publisher.h"
#include "server/probes.h"
#include "server/model_loader.h"
#include "server/model_memory.h"
#include "server/model_list.h"
#include "server/model_pull.h"
#include "server/model_waiters.h"
#include "server/routes.h"
#include "server/socket.h"
#include "server/source_upstream.h"
#include "server/wake.h"

void server_config_defaults(server_config *config)
{
    *config = (server_config){.port = 8383,
                              .running_max = 64,
                              .queue_max = 512,
                              .connections_max = 4096,
                              .header_s = 10,
                              .input_bytes_max = SERVER_INPUT_BYTES_MAX,
                              .body_s = 60,
                              .idle_s = 120,
                              .stall_s = 60,
                              .keep_alive_s = 10,
                              .socket_s = 3600,
                              .drain_s = 30,
                              .confidence_min = -1,
                              .store_days = 30};
}

static int check_config(const server_config *config, cerium_error *err)
{
    if (!config->engine && !config->n_models)
        return error_set(err, CERIUM_ERR_ARGUMENT, "a server needs an engine or models");
    if (config->n_models && !config->engine_config)
        return error_set(err, CERIUM_ERR_ARGUMENT, "a server with models needs engine_config");
    if (config->port > 65535)
        return error_set(err, CERIUM_ERR_ARGUMENT, "port %u is out of range", config->port);
    if (!config->tls_cert != !config->tls_key)
        return error_set(err, CERIUM_ERR_ARGUMENT, "TLS needs a certificate and its key");
    if (config->n_keys > SERVER_KEYS_MAX)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%zu keys: at most %u", config->n_keys,
                         SERVER_KEYS_MAX);
    if (!config->running_max || config->running_max > SERVER_RUNNING_MAX)
        return error_set(err, CERIUM_ERR_ARGUMENT, "answers that run at once: 1 to %u",
                         SERVER_RUNNING_MAX);
    if (config->replica && !replica_name_is_good(config->replica))
        return error_set(err, CERIUM_ERR_ARGUMENT, "the name of a replica has 1 to %d letters, "
                         "digits, '.', '_' and '-'", REPLICA_NAME_BYTES - 1);
    if (config->queue_max > SERVER_QUEUE_MAX)
        return error_set(err, CERIUM_ERR_ARGUMENT, "answers that wait: at most %u",
                         SERVER_QUEUE_MAX);
    return CERIUM_OK;
}

static int open_parts(server *s, cerium_error *err)
{
    const server_config *config = &s->config;
    if (history_open(&s->history, SERVER_HISTORY_BYTES_MAX, SERVER_HISTORY_TURNS_MAX))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for the server");
    RETURN_IF(store_open(&s->store, config->store_path ? config->store_path : ":memory:", err));
    bool in_memory = !store_file(s->store);
    if (!s->config.store_bytes_max)
        s->config.store_bytes_max = in_memory ? STORE_MEMORY_BYTES : STORE_FILE_BYTES;
    store_bound(s->store, s->config.store_bytes_max, s->config.store_days);
    RETURN_IF(tenant_keys_open(s, err));
    RETURN_IF(access_open(s, err));
    if (config->replay_path) RETURN_IF(replay_open(&s->replay, config->replay_path, err));
    s->models_bytes_max =
        config->models_bytes_max ? config->models_bytes_max : models_memory_available();
    RETURN_IF(models_open(s, err));
    models_share(s, false);
    models_limit(s);
    RETURN_IF(loop_open(s, err));
    RETURN_IF(probes_open(s, err));
    RETURN_IF(kv_publisher_open(s, err));
    RETURN_IF(grammar_cache_open(&s->grammars, config->engine, err));
    RETURN_IF(workers_open(&s->workers, wake_for_job, s, err));
    RETURN_IF(source_upstream_open(s, err));
    return tenant_keys_start(s, err);
}

/* Models beside the first one. */
static void log_models(const server *s)
{
    char path[300];
    if (models_n(s) == 1) return;
    for (uint32_t i = 0; i < models_n(s); i++) {
        const served_model *m = models_at(s, i);
        log_event(LOG_INFO, "model", "id=%s path=%s context=%u bytes=%llu", m->names[0],
                  log_quote(path, sizeof path, m->path), m->info.context_tokens_max,
                  (unsigned long long)model_bytes(m));
    }
    log_event(LOG_INFO, "models", "n=%u bytes_max=%llu", models_n(s),
              (unsigned long long)s->models_bytes_max);
}

static void log_start(const server *s)
{
    const server_config *config = &s->config;
    const served_model *first = models_at(s, 0);
    const char *calls = first->info.call_form;
    char model[300], store_name[300];
    const char *host = config->host ? config->host : "127.0.0.1";
    log_quote(model, sizeof model, *first->path ? first->path : "-");
    log_quote(store_name, sizeof store_name, config->store_path ? config->store_path : "-");
    log_event(LOG_INFO, "listening",
              "url=%s://%s%s%s:%u model=%s id=%s context=%u keys=%zu store=%s replay=%s version=%s",
              config->tls_cert ? "https" : "http", strchr(host, ':') ? "[" : "", host,
              strchr(host, ':') ? "]" : "", server_port(s),
              model, first->names[0], first->info.context_tokens_max,
              s->n_keys + (s->ring ? s->ring->n : 0), store_name,
              s->replay ? "on" : "off", cerium_version());
    if (*first->info.chat_refusal)
        log_event(LOG_WARNING, "chat_template",
                  "text=\"cannot be run, so chat is refused: %s; --chat-form NAME takes another\"",
                  first->info.chat_refusal);
    else
        log_event(LOG_INFO, "chat_template", "form=%s calls=%s",
                  *first->info.chat_form ? first->info.chat_form : "none",
                  *calls == '{' ? "marks" : *calls ? calls : "none");
    if (s->replay)
        log_event(LOG_WARNING, "replay", "lines=%u text=\"answers come from a script\"",
                  replay_lines(s->replay));
}

int server_open(server **out, const server_config *config, cerium_error *err)
{
    static policy standard; /* the same for all */
    static const http_routes routes = {.find = route_find,
                                       .find_probed = route_find_probed,
                                       .upgrade = socket_upgrade};
    RETURN_IF(check_config(config, err));
    server *s = memory_zalloc(1, sizeof *s);
    if (!s) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the server");
    log_open(config->quiet ? LOG_WARNING : LOG_INFO);
    s->config = *config;
    if (!config->policy) {
        policy_defaults(&standard);
        s->config.policy = &standard;
    }
    s->routes = &routes;
    s->model_moved = model_moved;
    s->started_at = (int64_t)time(NULL);
    replica_name(&s->replica, config->replica);
    s->rounds[0] = 1, s->rounds[1] = 2, s->n_rounds = 2; /* answers begin with 0: so all are new */
    int status = open_parts(s, err);
    if (status) {
        server_close(&s);
        return status;
    }
    log_start(s);
    log_models(s);
    *out = s;
    return CERIUM_OK;
}

/* SIGTERM arrived: load balancers get time to see it in /health.  Nothing else changes, except that
 * connections close after their answers. */
static void leave(server *s)
{
    s->leaving = true;
    s->leaving_ends_ns = clock_ns() + s->config.lame_duck_s * UINT64_C(1000000000);
    if (s->config.lame_duck_s)
        log_event(LOG_INFO, "leaving", "connections=%u running=%u waiting=%u seconds=%u",
                  s->n_connections, s->n_running, s->n_waiting, s->config.lame_duck_s);
}

/* Accept no more connections, close idle WebSockets, let answers end. */
static void drain(server *s)
{
    s->draining = true;
    s->leaving_was_cut = clock_ns() < s->leaving_ends_ns;
    s->drain_ends_ns = clock_ns() + s->config.drain_s * UINT64_C(1000000000);
    log_event(LOG_INFO, "draining", "connections=%u running=%u waiting=%u seconds=%u",
              s->n_connections, s->n_running, s->n_waiting, s->config.drain_s);
    loop_refuse(s);
    for (connection *c = s->connections; c; c = c->next)
        if (c->type->drain && !c->gone) c->type->drain(c);
}

static bool is_over(server *s)
{
    uint32_t stops = atomic_load(&s->stops);
    if (!stops) return false;
    if (!s->leaving) leave(s);
    if (!s->draining && (stops > 1 || clock_ns() >= s->leaving_ends_ns)) drain(s);
    if (!s->draining) return false;
    if (stops > (s->leaving_was_cut ? 2 : 1) || clock_ns() > s->drain_ends_ns) return true;
    for (const answer *a = s->answers; a; a = a->next)
        if (answer_is_wanted(a)) return false;
    for (const connection *c = s->connections; c; c = c->next) {
        if (c->gone) continue;
        if (c->intake || c->http.job || c->http.awaits_end || c->http.awaits_deletion ||
            c->http.solving)
            return false;
        if (stream_waiting(&c->io) || (c->closing && !c->io.lingers)) return false;
    }
    return true;
}

/* The engine still computes: cancel it, and wait until it released the sessions. */
static void stop_answers(server *s)
{
    for (answer *a = s->answers; a; a = a->next) {
        answer_cancel(a, "shutdown");
        for (uint32_t i = 0; i < a->n_choices; i++)
            if (a->choices[i].session) cerium_session_cancel(a->choices[i].session);
    }
    for (loop_settle(s); s->answers; loop_settle(s)) {
        struct timespec wait = {.tv_nsec = 200000};
        workers_poll(s->workers);
        look_at_answers(s);
        nanosleep(&wait, NULL);
    }
}

int server_run(server *s, cerium_error *err)
{
    (void)err;
    if (s->config.demo) demo_start(s);
    model_want(models_at(s, 0)); /* most requests will be for it */
    while (!is_over(s)) loop_turn(s);
    s->draining = true;
    stop_answers(s);
    log_event(LOG_INFO, "stopped", "answers=%llu",
              (unsigned long long)(s->metrics.answers[0] + s->metrics.answers[1] +
                                   s->metrics.answers[2] + s->metrics.answers[3]));
    return CERIUM_OK;
}

void server_stop(server *s)
{
    atomic_fetch_add(&s->stops, 1);
    net_loop_wake(&s->loop);
}

uint32_t server_port(const server *s) { return s->listeners.port; }

void server_close(server **out)
{
    if (!out || !*out) return;
    server *s = *out;
    stop_answers(s);
    models_stop(s);
    pull_stop(s);
    demo_close(s);
    tenant_keys_stop(s);
    loop_settle(s);
    source_upstream_close(s);
    loop_close(s);
    loop_settle(s);
    recordings_close(s);
    workers_close(&s->workers); /* requests of connections were dropped with these */
    pull_close(s);
    models_close(s);
    grammar_cache_close(&s->grammars);
    store_close(&s->store);
    replay_free(&s->replay);
    history_close(&s->history);
    tenant_keys_close(s);
    access_close(s);
    memory_free(s);
    *out = NULL;
}
