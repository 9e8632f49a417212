/* server.c - opening, running and closing a server. */
#include "server/server.h"

#include <sys/random.h>
#include <time.h>

#include "server/access.h"
#include "server/answers.h"
#include "server/connection.h"
#include "server/demo.h"
#include "server/forward.h"
#include "server/gate.h"
#include "server/loop.h"
#include "server/socket.h"

void server_config_defaults(server_config *config)
{
    *config = (server_config){.port = 8383,
                              .running_max = 64,
                              .queue_max = 256,
                              .connections_max = 4096,
                              .header_s = 10,
                              .body_s = 60,
                              .idle_s = 120,
                              .stall_s = 60,
                              .socket_s = 3600,
                              .drain_s = 30};
}

void make_id(char out[SERVER_ID_BYTES], const char *prefix)
{
    unsigned char random[16];
    size_t n = strlen(prefix);
    CHECK(n + 33 <= SERVER_ID_BYTES);
    CHECK(getrandom(random, sizeof random, 0) == (ssize_t)sizeof random);
    memcpy(out, prefix, n);
    for (size_t i = 0; i < sizeof random; i++) {
        out[n + 2 * i] = "0123456789abcdef"[random[i] >> 4];
        out[n + 2 * i + 1] = "0123456789abcdef"[random[i] & 15];
    }
    out[n + 2 * sizeof random] = 0;
}

static json_t *find_item(void *user, const char *id)
{
    server *s = user;
    return history_find_item(s->history, s->asking, id);
}

static int check_config(const server_config *config, cerium_error *err)
{
    if (!config->engine) return error_set(err, CERIUM_ERR_ARGUMENT, "a server needs an engine");
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
    if (config->queue_max > SERVER_QUEUE_MAX)
        return error_set(err, CERIUM_ERR_ARGUMENT, "answers that wait: at most %u",
                         SERVER_QUEUE_MAX);
    return CERIUM_OK;
}

/* What requests call the model: its name without blanks, so that it fits on a command line. */
static void name_model(server *s)
{
    const char *name = s->config.model_id ? s->config.model_id : s->info.name;
    size_t n = 0;
    for (; name[n] && n + 1 < sizeof s->model_name; n++)
        s->model_name[n] = name[n] == ' ' ? '-' : name[n];
    s->model_name[n] = 0;
    s->model = (protocol_model){.id = s->model_name,
                                .display_name = s->info.name,
                                .context_tokens = s->info.context_tokens_max,
                                .created_at = s->started_at,
                                .chats = true, /* a model without a form gets a plain one */
                                .fills_in = s->info.fill_in_middle};
    snprintf(s->model_key, sizeof s->model_key, "%.60s/%u/%llu", s->info.name, s->info.n_vocab,
             (unsigned long long)s->info.n_parameters);
}

static int open_parts(server *s, cerium_error *err)
{
    const server_config *config = &s->config;
    s->scratch_cap = (size_t)s->info.context_tokens_max + 1;
    s->scratch = memory_alloc(s->scratch_cap * sizeof *s->scratch);
    s->show.max = 1 << 20;
    s->event.b.max = 1 << 20;
    if (!s->scratch ||
        history_open(&s->history, SERVER_HISTORY_BYTES_MAX, SERVER_HISTORY_TURNS_MAX))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for the server");
    RETURN_IF(store_open(&s->store, config->store_path ? config->store_path : ":memory:", err));
    RETURN_IF(gate_open(s, err));
    RETURN_IF(access_open(s, err));
    if (config->replay_path) RETURN_IF(replay_open(&s->replay, config->replay_path, err));
    RETURN_IF(loop_open(s, err));
    RETURN_IF(shapes_open(&s->shapes, config->engine, gate_wake, s, err));
    RETURN_IF(forward_open(s, err));
    return gate_start(s, err);
}

static void log_start(const server *s)
{
    const server_config *config = &s->config;
    char model[300], store_name[300];
    const char *host = config->host ? config->host : "127.0.0.1";
    log_quote(model, sizeof model, config->model_path ? config->model_path : "-");
    log_quote(store_name, sizeof store_name, config->store_path ? config->store_path : "-");
    log_event(LOG_INFO, "listening",
              "url=%s://%s%s%s:%u model=%s id=%s context=%u keys=%zu store=%s replay=%s version=%s",
              config->tls_cert ? "https" : "http", strchr(host, ':') ? "[" : "", host,
              strchr(host, ':') ? "]" : "", s->port,
              model, s->model.id, s->info.context_tokens_max,
              s->n_keys + (s->ring ? s->ring->n : 0), store_name,
              s->replay ? "on" : "off", cerium_version());
    if (s->replay)
        log_event(LOG_WARNING, "replay", "lines=%u text=\"answers come from a script\"",
                  replay_lines(s->replay));
}

int server_open(server **out, const server_config *config, cerium_error *err)
{
    static policy standard; /* the same for all */
    RETURN_IF(check_config(config, err));
    server *s = memory_zalloc(1, sizeof *s);
    if (!s) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the server");
    log_open(config->quiet ? LOG_WARNING : LOG_INFO);
    s->config = *config;
    if (!config->policy) {
        policy_defaults(&standard);
        s->config.policy = &standard;
    }
    s->started_at = (int64_t)time(NULL);
    cerium_engine_describe(config->engine, &s->info);
    name_model(s);
    s->defaults = (protocol_defaults){.sampling = config->sampling,
                                      .has_chat_form = s->info.chat_form[0] != 0,
                                      .fills_in = s->info.fill_in_middle,
                                      .pointer = s->info.pointer,
                                      .confidence_min = config->confidence_min,
                                      .find_item = find_item,
                                      .user = s};
    int status = open_parts(s, err);
    if (status) {
        server_close(&s);
        return status;
    }
    log_start(s);
    *out = s;
    return CERIUM_OK;
}

/* SIGTERM came: no more connections, idle WebSockets close, answers may end. */
static void drain(server *s)
{
    s->draining = true;
    s->drain_ends_ns = clock_ns() + s->config.drain_s * UINT64_C(1000000000);
    log_event(LOG_INFO, "draining", "connections=%u running=%u waiting=%u seconds=%u",
              s->n_connections, s->n_running, s->n_waiting, s->config.drain_s);
    for (connection *c = s->connections; c; c = c->next)
        if (c->socket && !c->gone) socket_drain(c);
}

static bool is_over(server *s)
{
    uint32_t stops = atomic_load(&s->stops);
    if (stops && !s->draining) drain(s);
    if (!s->draining) return false;
    if (stops > 1 || clock_ns() > s->drain_ends_ns) return true;
    for (const answer *a = s->answers; a; a = a->next)
        if (a->c) return false;
    for (const connection *c = s->connections; c; c = c->next)
        if (!c->gone && (c->out.len || lws_partial_buffered(c->wsi) || c->closing)) return false;
    return true;
}

/* The engine still computes for us: cancel it, and wait until it let go of our sessions. */
static void stop_answers(server *s)
{
    for (answer *a = s->answers; a; a = a->next) {
        answer_cancel(a, "shutdown");
        for (uint32_t i = 0; i < a->n_choices; i++)
            if (a->choices[i].session) cerium_session_cancel(a->choices[i].session);
    }
    for (answers_reap(s); s->answers; answers_reap(s)) {
        struct timespec wait = {.tv_nsec = 200000};
        answers_poll(s);
        nanosleep(&wait, NULL);
    }
}

int server_run(server *s, cerium_error *err)
{
    int status = CERIUM_OK;
    if (s->config.demo) demo_start(s);
    while (!is_over(s) && !status)
        if (!loop_turn(s)) status = error_set(err, CERIUM_ERR_IO, "the event loop failed");
    s->draining = true;
    stop_answers(s);
    log_event(LOG_INFO, "stopped", "answers=%llu",
              (unsigned long long)(s->metrics.answers[0] + s->metrics.answers[1] +
                                   s->metrics.answers[2] + s->metrics.answers[3]));
    return status;
}

void server_stop(server *s)
{
    atomic_fetch_add(&s->stops, 1);
    lws_cancel_service(s->lws);
}

uint32_t server_port(const server *s) { return s->port; }

void server_close(server **out)
{
    if (!out || !*out) return;
    server *s = *out;
    stop_answers(s);
    demo_close(s);
    gate_stop(s);
    shapes_close(&s->shapes);
    answers_reap(s);
    forward_close(s);
    loop_close(s);
    answers_reap(s);
    store_close(&s->store);
    replay_free(&s->replay);
    history_close(&s->history);
    gate_close(s);
    access_close(s);
    json_out_free(&s->event);
    bytes_free(&s->show);
    memory_free(s->scratch);
    memory_free(s);
    *out = NULL;
}
