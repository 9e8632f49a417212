/* socket.c - a WebSocket from its upgrade to its end: incoming messages. */
#include "server/socket.h"

#include "server/access.h"
#include "server/answers.h"
#include "server/connection.h"
#include "server/http.h"
#include "server/intake.h"
#include "server/lanes.h"
#include "server/look.h"
#include "server/schedule.h"

/* Ping a silent client; browsers and proxies keep dead connections for long. */
enum { PING_S = 45, HANGUP_S = 120 };

/* ---- messages ---- */

static void take_message(connection *c, bytes *message)
{
    c->socket->n_messages++;
    metrics_count(&c->s->metrics, METRICS_MESSAGES, 1);
    metrics_count(&c->s->metrics, METRICS_BYTES_IN, message->len);
    if (c->s->config.log_prompts)
        log_body(c->peer, (view){message->ptr ? message->ptr : "", message->len});
    intake_message(c, message);
    connection_flush(c);
}

static void on_message(void *user, bytes *text)
{
    connection *c = user;
    if (!c->closing) take_message(c, text);
}

static bool on_gather(void *user, ptrdiff_t more)
{
    connection *c = user;
    bool fits = connection_gathers(c, SERVER_INPUT_FREE_BYTES + 1, more);
    if (!fits) metrics_count(&c->s->metrics, METRICS_INPUT_REFUSED, 1);
    return fits;
}

static int on_send(void *user, view frame)
{
    connection *c = user;
    return stream_put(&c->io, frame, (view){NULL, 0});
}

static const websocket_events events = {
    .message = on_message, .gathers = on_gather, .send = on_send};

static bool on_input(connection *c)
{
    size_t used;
    view in = stream_input(&c->io);
    /* A peer that does not read is not read from: else the replies to its pings and errors would
     * pile up. A slow reader can still cancel. */
    if (stream_waiting(&c->io) > 2 * SERVER_PARK_BYTES) {
        stream_pause(&c->io);
        return false;
    }
    bool continues = websocket_feed(c->socket->ws, in, SERVER_MESSAGES_A_TURN, &used);
    stream_use(&c->io, used);
    if (!continues) connection_close(c);
    connection_flush(c);
    return continues && used < in.len;
}

/* ---- its life ---- */

static void on_ended(connection *c)
{
    connection_break(c); /* a closing frame ends it, or it is lost */
}

static void on_reads(connection *c)
{
    stream_resume(&c->io); /* it reads again: read from it again */
    if (c->has_parked) look_at_reader(c);
}

/* Nothing runs or waits on it. */
static bool is_quiet(const connection *c)
{
    return !c->socket->lanes && !c->intake && !answers_of(c);
}

/* It never had a request: it can be closed without loss. */
static bool is_unused(const connection *c)
{
    return !c->socket->n_messages && !c->socket->lanes && !answers_of(c);
}

static void on_drain(connection *c)
{
    if (is_quiet(c) && !c->closing)
        socket_end(c, WEBSOCKET_GOING_AWAY, "the server is shutting down");
}

/* A client that is silent for long gets a ping; one that does not answer is gone. */
static void ask_silent(connection *c, uint64_t now_ns)
{
    static const uint64_t second = UINT64_C(1000000000);
    socket_state *w = c->socket;
    uint64_t silent = now_ns > c->active_ns ? now_ns - c->active_ns : 0;
    if (silent > HANGUP_S * second) {
        connection_break(c);
    } else if (silent > PING_S * second && now_ns - w->pinged_ns > PING_S * second) {
        w->pinged_ns = now_ns;
        if (websocket_ping(w->ws)) connection_break(c);
    }
}

static const char *on_tick(connection *c, uint64_t now_ns)
{
    if (c->closing) return NULL;
    ask_silent(c, now_ns);
    if (c->s->draining)
        on_drain(c);
    else if (socket_is_old(c, now_ns) && is_quiet(c))
        socket_end_old(c);
    connection_flush(c);
    return NULL;
}

static void on_gone(connection *c)
{
    socket_state *w = c->socket;
    lanes_close(c);
    answers_leave(c);
    intake_close(c);
    websocket_close(&w->ws);
    memory_free(w);
    c->socket = NULL;
    c->s->n_sockets--;
    history_drop_connection(c->s->history, c->serial);
    log_event(LOG_INFO, "socket_closed", "peer=%s connection=%llu", c->peer,
              (unsigned long long)c->serial);
    answers_start(c->s); /* it waited for its place */
}

const connection_type socket_connection = {.input = on_input,
                                           .ended = on_ended,
                                           .reads = on_reads,
                                           .tick = on_tick,
                                           .drain = on_drain,
                                           .is_idle = is_unused,
                                           .gone = on_gone};

/* ---- the upgrade ---- */

static int refuse_upgrade(connection *c, const char *version, protocol_error *e)
{
    const char *key = http_reader_field(c->reader, "sec-websocket-key");
    char accept[WEBSOCKET_ACCEPT_BYTES];
    if (c->type->is_probe)
        return protocol_error_set(e, 404, "invalid_request_error", "not_found", "",
                                  "WebSockets are not served at this port");
    if (c->http.method != METHOD_GET)
        return protocol_error_set(e, 405, "invalid_request_error", "method_not_allowed", "",
                                  "a WebSocket is opened by GET");
    if (strcmp(c->http.path, "/v1/responses") != 0 && strcmp(c->http.path, "/responses") != 0)
        return protocol_error_set(e, 404, "invalid_request_error", "not_found", "",
                                  "WebSockets are served at /v1/responses");
    if (strcmp(version, "13") != 0)
        return protocol_error_set(e, 426, "invalid_request_error", "invalid_value",
                                  "Sec-WebSocket-Version",
                                  "version 13 of WebSocket is spoken here");
    if (!key || !websocket_accept(key, accept) ||
        http_reader_fields(c->reader, "sec-websocket-key") > 1)
        return protocol_error_set(e, 400, "invalid_request_error", "invalid_value",
                                  "Sec-WebSocket-Key", "the key is 16 bytes in base64");
    if (http_reader_body_bytes(c->reader))
        return protocol_error_set(e, 400, "invalid_request_error", "invalid_value", "",
                                  "an upgrade has no body");
    RETURN_IF(access_check(c, false, e));
    if (!c->s->draining) return CERIUM_OK;
    (void)protocol_error_set(e, 503, "server_error", "shutting_down", "",
                             "the server is shutting down");
    e->retry_after_s = 5;
    return CERIUM_ERR_ARGUMENT;
}

/* The first offered subprotocol of ours; a client that offers none of ours gets none (RFC 6455,
 * 4.2.2). */
static bool offers_cerium(const connection *c)
{
    const char *offered = http_reader_field(c->reader, "sec-websocket-protocol");
    for (const char *at = offered ? offered : ""; *at;) {
        at += strspn(at, ", \t");
        size_t len = strcspn(at, ", \t");
        if (view_equal((view){at, len}, VIEW("cerium"))) return true;
        at += len;
    }
    return false;
}

static void say_switched(connection *c)
{
    char head[512], accept[WEBSOCKET_ACCEPT_BYTES];
    (void)websocket_accept(http_reader_field(c->reader, "sec-websocket-key"), accept);
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                     "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n%s"
                     "x-request-id: %s\r\n%sserver: cerium\r\n\r\n",
                     accept, offers_cerium(c) ? "Sec-WebSocket-Protocol: cerium\r\n" : "",
                     c->http.request_id, c->s->replica.field);
    CHECK(n > 0 && (size_t)n < sizeof head);
    connection_send(c, (view){head, (size_t)n}, (view){NULL, 0});
}

bool socket_upgrade(connection *c)
{
    protocol_error e;
    char version[8];
    http_open(c);
    http_reader_copy(c->reader, "sec-websocket-version", version, sizeof version);
    if (refuse_upgrade(c, version, &e)) {
        http_refuse(c, &e);
        return false;
    }
    socket_state *w = memory_zalloc(1, sizeof *w);
    if (w) w->ws = websocket_open(PROTOCOL_BODY_BYTES_MAX, &events, c);
    if (!w || !w->ws) {
        memory_free(w);
        connection_break(c);
        return false;
    }
    w->opened_ns = clock_ns();
    say_switched(c);
    c->http.status = 101;
    http_abandon(c);
    c->socket = w;
    c->type = &socket_connection;
    c->s->n_sockets++;
    metrics_count(&c->s->metrics, METRICS_SOCKETS, 1);
    return true; /* frames may follow the head */
}
