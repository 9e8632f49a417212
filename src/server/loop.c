/* loop.c - what libwebsockets calls, handed to those who know.
 *
 * Every callback of a connection ends with the answers that died in it being freed, so that code
 * in between may hold on to them. */
#include "server/loop.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "server/answers.h"
#include "server/connection.h"
#include "server/gate.h"
#include "server/http.h"
#include "server/socket.h"

enum { TICK_US = 1000000, TURN_US = 1000, PING_S = 45, HANGUP_S = 120, KEEPALIVE_PROBES = 3 };

static server *server_of(struct lws *wsi) { return lws_context_user(lws_get_context(wsi)); }

/* A connection is accepted: -1 refuses it. */
static int accept_one(server *s, int fd)
{
    /* What a slow reader does not take waits with us, where it is counted, and not in megabytes of
     * the kernel's.  libwebsockets has set TCP_NODELAY. */
    int unsent = SERVER_UNSENT_BYTES_MAX;
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    metrics_count(&s->metrics, METRICS_CONNECTIONS, 1);
    if (!s->draining && s->n_connections < s->config.connections_max) return 0;
    metrics_count(&s->metrics, METRICS_CONNECTIONS_REFUSED, 1);
    if (!s->draining)
        log_event(LOG_WARNING, "refused", "reason=\"%u connections are open\"", s->n_connections);
    return -1;
}

static void on_turn(lws_sorted_usec_list_t *turn)
{
    server *s = lws_container_of(turn, server, turn);
    s->woken_ns = clock_ns();
    gate_refresh(s);
    if (answers_poll(s)) {
        lws_sul_schedule(s->lws, 0, &s->turn, on_turn, TURN_US);
    } else {
        atomic_store(&s->woken, false); /* what comes later wakes us again; what came just now: */
        answers_poll(s);
    }
    answers_reap(s);
}

/* Being woken costs as much as some tokens do.  While they come quicker than one a turn, they are
 * fetched once a turn, as a network card's packets are under load: together in one write. */
static void wake(server *s)
{
    uint64_t now = clock_ns();
    bool quick = now - s->woken_ns < TURN_US * UINT64_C(1000);
    s->woken_ns = now;
    if (quick)
        lws_sul_schedule(s->lws, 0, &s->turn, on_turn, TURN_US);
    else
        atomic_store(&s->woken, false); /* before we look: what comes later wakes us again */
    gate_refresh(s);
    answers_poll(s);
    answers_reap(s);
}

static int on_connection(connection *c, enum lws_callback_reasons reason, void *in, size_t len)
{
    switch ((int)reason) {
    case LWS_CALLBACK_HTTP:
        http_request(c, in);
        return 0;
    case LWS_CALLBACK_HTTP_BODY:
        http_body(c, in, len);
        return 0;
    case LWS_CALLBACK_HTTP_BODY_COMPLETION:
        http_body_end(c);
        return 0;
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        return socket_confirm(c, in);
    case LWS_CALLBACK_ESTABLISHED:
        return socket_open(c) ? -1 : 0;
    case LWS_CALLBACK_RECEIVE:
        return c->socket ? socket_receive(c, in, len) : -1;
    case LWS_CALLBACK_HTTP_WRITEABLE:
    case LWS_CALLBACK_SERVER_WRITEABLE: {
        bool parked = connection_parked(c);
        int closes = connection_writeable(c);
        if (parked && !connection_parked(c)) answers_poll(c->s);
        return closes;
    }
    case LWS_CALLBACK_CLOSED_HTTP:
    case LWS_CALLBACK_CLOSED:
        connection_gone(c);
        return 0;
    default:
        return 0;
    }
}

static int on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                    size_t len)
{
    (void)user;
    switch ((int)reason) {
    case LWS_CALLBACK_FILTER_NETWORK_CONNECTION:
        return accept_one(server_of(wsi), (int)(intptr_t)in);
    case LWS_CALLBACK_SERVER_NEW_CLIENT_INSTANTIATED:
        return connection_open(server_of(wsi), wsi) ? -1 : 0;
    case LWS_CALLBACK_WSI_DESTROY:
        connection_free(lws_get_opaque_user_data(wsi));
        lws_set_opaque_user_data(wsi, NULL);
        return 0;
    case LWS_CALLBACK_EVENT_WAIT_CANCELLED:
        wake(server_of(wsi));
        return 0;
    default:
        break;
    }
    connection *c = wsi ? lws_get_opaque_user_data(wsi) : NULL;
    if (!c) return 0;
    server *s = c->s;
    int result = on_connection(c, reason, in, len);
    answers_reap(s);
    return result;
}

/* Once a second: deadlines, and the end of a drain. */
static void on_tick(lws_sorted_usec_list_t *tick)
{
    server *s = lws_container_of(tick, server, tick);
    connections_tick(s, clock_ns());
    answers_reap(s);
    lws_sul_schedule(s->lws, 0, &s->tick, on_tick, TICK_US);
}

static void on_log(int level, const char *line)
{
    char text[512];
    log_event(level & LLL_ERR ? LOG_ERROR : LOG_WARNING, "libwebsockets", "text=%s",
              log_quote(text, sizeof text, line));
}

static const struct lws_protocols protocols[] = {
    /* "cerium" is what our page offers as subprotocol; a client without one gets it too. */
    {.name = "cerium",
     .callback = on_event,
     .rx_buffer_size = SERVER_READ_BYTES,
     .tx_packet_size = SERVER_WRITE_BYTES_MAX},
    {.name = NULL},
};

/* Browsers and proxies keep silent peers for long; we ask. */
static const lws_retry_bo_t idle_policy = {.secs_since_valid_ping = PING_S,
                                           .secs_since_valid_hangup = HANGUP_S};

int loop_open(server *s, cerium_error *err)
{
    const server_config *config = &s->config;
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN,
        .protocols = protocols,
        .user = s,
        .gid = (gid_t)-1,
        .uid = (uid_t)-1,
        .options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS | LWS_SERVER_OPTION_FAIL_UPON_UNABLE_TO_BIND |
                   LWS_SERVER_OPTION_VALIDATE_UTF8 |
                   (config->host && strchr(config->host, ':') ? 0
                                                              : LWS_SERVER_OPTION_DISABLE_IPV6) |
                   (config->tls_cert ? LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT : 0),
        .max_http_header_data = SERVER_HEADER_BYTES_MAX,
        .pt_serv_buf_size = 4 * SERVER_READ_BYTES,
        .fd_limit_per_thread = config->connections_max + 32,
        .timeout_secs = config->header_s,
        .timeout_secs_ah_idle = config->header_s,
        .keepalive_timeout = (int)config->idle_s,
        .ka_time = PING_S,
        .ka_probes = KEEPALIVE_PROBES,
        .ka_interval = PING_S / KEEPALIVE_PROBES,
        .retry_and_idle_policy = &idle_policy,
    };
    lws_set_log_level(LLL_ERR, on_log);
    s->lws = lws_create_context(&info);
    if (!s->lws) return error_set(err, CERIUM_ERR_IO, "the event loop cannot be made");
    info.port = (int)config->port;
    info.iface = config->host ? config->host : "127.0.0.1";
    info.vhost_name = "cerium";
    info.alpn = "http/1.1";
    info.ssl_cert_filepath = config->tls_cert;
    info.ssl_private_key_filepath = config->tls_key;
    s->vhost = lws_create_vhost(s->lws, &info);
    if (!s->vhost)
        return error_set(err, CERIUM_ERR_IO, "cannot listen on %s port %u%s", info.iface,
                         config->port, config->tls_cert ? " with this certificate and key" : "");
    s->port = (uint32_t)lws_get_vhost_listen_port(s->vhost);
    lws_sul_schedule(s->lws, 0, &s->tick, on_tick, TICK_US);
    return CERIUM_OK;
}

bool loop_turn(server *s) { return lws_service(s->lws, 0) >= 0; }

void loop_close(server *s)
{
    if (!s->lws) return;
    lws_sul_cancel(&s->tick);
    lws_sul_cancel(&s->turn);
    lws_context_destroy(s->lws);
    s->lws = NULL;
}
