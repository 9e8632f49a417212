/* loop.c - passes wake-ups, ticks and accepted connections to their handlers. */
#include "server/loop.h"

#include <sys/resource.h>
#include <unistd.h>

#include "server/tenant_keys.h"
#include "server/answers.h"
#include "server/connection.h"
#include "server/http.h"
#include "server/keep_alive.h"
#include "server/kv_publisher.h"
#include "server/lanes.h"
#include "server/look.h"
#include "server/recording.h"
#include "server/model_delete.h"
#include "server/model_loader.h"
#include "server/model_pull.h"
#include "server/schedule.h"
#include "server/socket.h"
#include "server/wake.h"

enum { TURN_MS = 1, FILES_BESIDE = 64 };

/* ---- keys that were revoked ---- */

/* Is the key of a connection still valid? */
static bool still_in(const server *s, const connection *c)
{
    if (c->type->is_probe || c->tenant & 1 || !tenant_keys_needed(s)) return true;
    if (!c->tenant) return c->type == &http_connection && !answers_of(c); /* none was needed */
    const store_key *key = keyring_of(s->ring, c->tenant);
    return key && !strcmp(key->prefix, c->key_prefix);
}

/* For background answers. */
static bool is_known(const server *s, uint64_t tenant)
{
    return tenant & 1 || !tenant || !tenant_keys_needed(s) || keyring_of(s->ring, tenant);
}

static void close_revoked(connection *c)
{
    protocol_error e;
    for (answer *a; (a = answers_of(c)); ) {
        answer_cancel(a, "key_revoked");
        if (a->sink.c == c) break; /* an answer that does not end at once loses its listener */
    }
    if (c->type == &socket_connection) {
        (void)protocol_error_set(&e, 401, "invalid_request_error", "invalid_api_key", "",
                                 "the API key is not known any more");
        socket_error(c, &e, NULL);
        connection_flush(c);
    }
    connection_close(c);
}

static void close_all_revoked(server *s)
{
    if (!s->keys_changed) return;
    s->keys_changed = false;
    for (connection *c = s->connections, *next; c; c = next) {
        next = c->next;
        if (!c->gone && !still_in(s, c)) close_revoked(c);
    }
    for (answer *a = s->answers; a; a = a->next)
        if (!a->sink.c && answer_is_wanted(a) && !is_known(s, a->tenant))
            answer_cancel(a, "key_revoked");
}

static void refresh_keys(server *s)
{
    tenant_keys_refresh(s);
    close_all_revoked(s);
}

/* ---- the engine's events ---- */

static void on_turn(void *user)
{
    server *s = user;
    s->turn_waits = false;
    s->woken_ns = clock_ns();
    refresh_keys(s);
    look_result found = look_at_answers(s);
    if (found == LOOK_SOME) {
        wake_in(s, TURN_MS);
    } else if (found == LOOK_NOTHING) {
        atomic_store(&s->woken, false); /* later events wake it again; the current ones: */
        look_at_answers(s);
    }
}

/* A wake-up costs as much as some tokens.  While they arrive faster than one a turn, they are
 * fetched once a turn, as a network card's packets are under load: together in one write. */
static void look(server *s)
{
    uint64_t now = clock_ns();
    bool quick = now - s->woken_ns < TURN_MS * UINT64_C(1000000);
    s->woken_ns = now;
    if (quick)
        wake_in(s, TURN_MS);
    else
        atomic_store(&s->woken, false); /* before the look: later events wake it again */
    refresh_keys(s);
    look_at_answers(s);
}

/* Finished jobs of the workers are handled at once, without delaying a scheduled look. */
static void on_wake(void *user)
{
    server *s = user;
    workers_poll(s->workers);
    if (!s->turn_waits && atomic_load(&s->woken)) look(s);
}

/* Once a second: deadlines, and answers that wait for a place. */
static void on_tick(void *user)
{
    server *s = user;
    connections_tick(s, clock_ns());
    listeners_tick(&s->listeners);
    listeners_tick(&s->probes);
    kv_publisher_tick(s);
    if (answers_are_stuck(s)) metrics_count(&s->metrics, METRICS_STUCK, 1);
    look_at_answers(s);
    recordings_tick(s, clock_ns());
    models_work(s);
    pull_tick(s);
    model_delete_tick(s);
    keep_alive_tick(s, clock_ns());
}

/* ---- connections ---- */

static bool on_full(void *user)
{
    server *s = user;
    log_event(LOG_WARNING, "refused", "reason=\"no file is left for a connection\"");
    return connections_evict(s);
}

static void on_accepted(void *user, int fd, const char *peer)
{
    server *s = user;
    metrics_count(&s->metrics, METRICS_CONNECTIONS, 1);
    const uint32_t n_clients = s->n_connections - s->n_probes;
    if (!s->draining && (n_clients < s->config.connections_max || connections_evict(s))) {
        connection_open(s, fd, peer, &http_connection);
        return;
    }
    metrics_count(&s->metrics, METRICS_CONNECTIONS_REFUSED, 1);
    if (!s->draining)
        log_event(LOG_WARNING, "refused", "reason=\"%u connections are busy\"", s->n_connections);
    close(fd);
}

/* The system's limit of open files is raised to the configured number, or that number is lowered to
 * the limit. */
static void fit_connections(server *s)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files)) return;
    rlim_t wanted = (rlim_t)s->config.connections_max + FILES_BESIDE;
    if (files.rlim_cur < wanted) {
        files.rlim_cur = wanted < files.rlim_max ? wanted : files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (files.rlim_cur >= wanted) return;
    uint32_t room = files.rlim_cur > 2 * FILES_BESIDE ? (uint32_t)files.rlim_cur - FILES_BESIDE
                                                      : (uint32_t)files.rlim_cur / 2;
    log_event(LOG_WARNING, "connections", "max=%u reason=\"the system allows %llu open files\"",
              room, (unsigned long long)files.rlim_cur);
    s->config.connections_max = room;
}

/* ---- opening and closing ---- */

int loop_open(server *s, cerium_error *err)
{
    static const net_loop_events events = {.woken = on_wake, .ticked = on_tick, .timed = on_turn};
    const server_config *config = &s->config;
    fit_connections(s);
    RETURN_IF(net_loop_open(&s->loop, &events, s, err));
    if (config->tls_cert)
        RETURN_IF(tls_context_open(&s->tls, config->tls_cert, config->tls_key, err));
    const char *host = config->host ? config->host : "127.0.0.1";
    return listeners_open(&s->listeners, &s->loop, "--port ", host, config->port, on_accepted,
                          on_full, s, err);
}

void loop_turn(server *s)
{
    net_loop_turn(&s->loop);
    loop_settle(s);
}

void loop_settle(server *s)
{
    close_all_revoked(s);
    lanes_start(s);
    answers_reap(s);
}

void loop_refuse(server *s)
{
    listeners_close(&s->listeners);
}

void loop_close(server *s)
{
    if (!s->loop.is_open) return;
    kv_publisher_close(s);
    listeners_close(&s->listeners);
    listeners_close(&s->probes);
    for (connection *c = s->connections; c; c = c->next) connection_break(c);
    while (s->n_connections || s->n_solving || s->listeners.n_open || s->probes.n_open)
        net_loop_turn(&s->loop);
    net_loop_close(&s->loop);
    tls_context_close(&s->tls);
}
