/* socket.c - messages of a WebSocket, and the lanes that order their answers.
 *
 * Messages with the same stream_id (or none) form a lane: first in, first out.  Lanes run beside
 * each other.  A lane is there while something runs or waits on it.  One message goes out of turn:
 * a response.create that goes on from the response which its lane is just giving interrupts that
 * response, and goes on from what was said. */
#include "server/socket.h"

#include "net/websocket.h"
#include "server/access.h"
#include "server/answers.h"
#include "server/connection.h"
#include "server/ending.h"
#include "server/http.h"
#include "server/intake.h"
#include "server/routes.h"

/* We ask a silent client whether it is there; browsers and proxies keep silent peers for long. */
enum { PING_S = 45, HANGUP_S = 120 };

typedef struct pending pending;

struct pending {
    pending *next;
    protocol_request *request; /* owned */
    size_t n_bytes;            /* that it came as, counted as input until it begins */
    uint64_t started_ns;
};

struct lane {
    connection *c;
    lane *next;
    char *name; /* stream_id, owned; NULL = none */
    answer *running;
    pending *first, *last;
    bool looping; /* inside lane_next() */
};

struct socket_state {
    websocket *ws; /* owned */
    uint64_t n_messages;
    uint64_t pinged_ns;
    lane *lanes;
    uint32_t n_lanes, n_pending;
    uint64_t opened_ns;
};

/* ---- the type of a message ---- */

/* Behind the string that begins at the quote m[i]; m.len when it does not end. */
static size_t skip_string(view m, size_t i)
{
    for (i++; i < m.len && m.ptr[i] != '"'; i++)
        if (m.ptr[i] == '\\') i++;
    return i < m.len ? i + 1 : m.len;
}

static size_t skip_space(view m, size_t i)
{
    while (i < m.len &&
           (m.ptr[i] == ' ' || m.ptr[i] == '\t' || m.ptr[i] == '\n' || m.ptr[i] == '\r'))
        i++;
    return i;
}

/* Behind a value, or at the ',' or '}' that ends it. */
static size_t skip_value(view m, size_t i)
{
    size_t depth = 0;
    while (i < m.len) {
        char c = m.ptr[i];
        if (c == '"') {
            i = skip_string(m, i);
            continue;
        }
        if (!depth && (c == ',' || c == '}' || c == ']')) return i;
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']') depth--;
        i++;
    }
    return i;
}

view socket_message_type(view m)
{
    view none = {NULL, 0};
    size_t i = skip_space(m, 0);
    if (i >= m.len || m.ptr[i] != '{') return none;
    i = skip_space(m, i + 1);
    while (i < m.len && m.ptr[i] == '"') {
        size_t key = i + 1;
        i = skip_string(m, i);
        bool found = i - key == 5 && !memcmp(m.ptr + key, "type\"", 5);
        i = skip_space(m, i);
        if (i >= m.len || m.ptr[i] != ':') return none;
        i = skip_space(m, i + 1);
        if (found) {
            size_t end = i < m.len && m.ptr[i] == '"' ? skip_string(m, i) : i;
            if (end < i + 2) return none;
            view type = {m.ptr + i + 1, end - i - 2};
            return m.ptr[end - 1] == '"' && !memchr(type.ptr, '\\', type.len) ? type : none;
        }
        i = skip_space(m, skip_value(m, i));
        if (i >= m.len || m.ptr[i] != ',') return none;
        i = skip_space(m, i + 1);
    }
    return none;
}

/* ---- opening and closing ---- */

static void take_message(connection *c, bytes *message);

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

static int refuse_upgrade(connection *c, const char *version, protocol_error *e)
{
    const char *key = http_reader_field(c->reader, "sec-websocket-key");
    char accept[WEBSOCKET_ACCEPT_BYTES];
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
    if (!key || !websocket_accept(key, accept))
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

/* The first subprotocol of ours that is offered; a client that offers none of ours gets none (RFC
 * 6455, 4.2.2). */
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
                     "x-request-id: %s\r\nserver: cerium\r\n\r\n",
                     accept, offers_cerium(c) ? "Sec-WebSocket-Protocol: cerium\r\n" : "",
                     c->http.request_id);
    connection_send(c, (view){head, (size_t)n}, (view){NULL, 0});
}

bool socket_upgrade(connection *c)
{
    protocol_error e;
    char version[8];
    http_open(c);
    http_header(c, "sec-websocket-version", version, sizeof version);
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
    c->s->n_sockets++;
    metrics_count(&c->s->metrics, METRICS_SOCKETS, 1);
    return true; /* frames may stand behind the head */
}

/* The first one waits no longer; its request is the caller's. */
static pending *take_pending(lane *l)
{
    pending *p = l->first;
    l->first = p->next;
    if (!l->first) l->last = NULL;
    (void)connection_gathers(l->c, 0, -(ptrdiff_t)p->n_bytes);
    return p;
}

static void free_lane(lane *l)
{
    while (l->first) {
        pending *p = take_pending(l);
        request_bury(l->c->s, &p->request, p->n_bytes);
        memory_free(p);
    }
    memory_free(l->name);
    memory_free(l);
}

void socket_close(connection *c)
{
    socket_state *w = c->socket;
    while (w->lanes) {
        lane *l = w->lanes;
        w->lanes = l->next;
        free_lane(l);
    }
    websocket_close(&w->ws);
    memory_free(w);
    c->socket = NULL;
    c->s->n_sockets--;
    history_drop_connection(c->s->history, c->serial);
    log_event(LOG_INFO, "socket_closed", "peer=%s connection=%llu", c->peer,
              (unsigned long long)c->serial);
}

static void close_with(connection *c, websocket_code code, const char *text)
{
    websocket_end(c->socket->ws, code, text);
    connection_close(c);
}

void socket_send(connection *c, view json)
{
    size_t waiting = stream_waiting(&c->io);
    if (c->closing) return;
    if (waiting + json.len <= SERVER_OUT_BYTES_MAX && !websocket_send(c->socket->ws, json)) return;
    log_event(LOG_WARNING, "dropped", "peer=%s reason=\"%zu bytes wait for the reader\"", c->peer,
              waiting);
    connection_break(c);
}

bool socket_is_unused(const connection *c)
{
    return !c->socket->n_messages && !c->socket->lanes && !answers_of(c);
}

void socket_error(connection *c, const protocol_error *e, const char *stream_id)
{
    bytes event = {.max = 16384};
    if (!protocol_error_event(&event, e, stream_id))
        connection_event(c, NULL, event.ptr, event.len);
    else
        connection_break(c);
    bytes_free(&event);
}

void socket_drain(connection *c)
{
    if (!c->socket->lanes && !c->intake && !answers_of(c) && !c->closing)
        close_with(c, WEBSOCKET_GOING_AWAY, "the server is shutting down");
}

static bool too_old(const connection *c, uint64_t now_ns)
{
    uint64_t limit = c->s->config.socket_s;
    return limit && now_ns - c->socket->opened_ns > limit * UINT64_C(1000000000);
}

static void say_too_old(connection *c)
{
    protocol_error e;
    (void)protocol_error_set(&e, 400, "invalid_request_error", "websocket_connection_limit_reached",
                             "", "this WebSocket is open for %u seconds: connect again",
                             c->s->config.socket_s);
    socket_error(c, &e, NULL);
    close_with(c, WEBSOCKET_NORMAL, "websocket_connection_limit_reached");
}

/* A client that is silent for long is asked; one that does not answer is gone. */
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

void socket_tick(connection *c, uint64_t now_ns)
{
    if (c->closing) return;
    ask_silent(c, now_ns);
    if (c->s->draining)
        socket_drain(c);
    else if (too_old(c, now_ns) && !c->socket->lanes && !c->intake && !answers_of(c))
        say_too_old(c);
    connection_flush(c);
}

/* ---- lanes ---- */

void lane_take(lane *l, answer *a)
{
    l->running = a;
}

static void drop_lane_if_idle(lane *l)
{
    if (l->running || l->first || l->looping) return;
    socket_state *w = l->c->socket;
    lane **at = &w->lanes;
    while (*at != l) at = &(*at)->next;
    *at = l->next;
    w->n_lanes--;
    free_lane(l);
}

static void begin_pending(lane *l, pending *p)
{
    connection *c = l->c;
    protocol_error e;
    protocol_request *r = p->request;
    char previous[SERVER_ID_BYTES] = "";
    if (r->previous_response_id && strlen(r->previous_response_id) < sizeof previous)
        snprintf(previous, sizeof previous, "%s", r->previous_response_id);
    answer_order order = {.c = c, .lane = l, .request = r, .n_bytes = p->n_bytes,
                          .started_ns = p->started_ns};
    if (!answer_begin(c->s, &order, &e)) return;
    /* What a continuation failed on is not kept for another try. */
    if (previous[0]) history_evict(c->s->history, c->tenant, c->serial, previous);
    metrics_request(&c->s->metrics, METRICS_RESPONSES_SOCKET, e.http_status);
    log_event(LOG_INFO, "refused", "status=%d code=%s peer=%s", e.http_status,
              e.code ? e.code : "-", c->peer);
    socket_error(c, &e, l->name);
}

static void lane_next(lane *l)
{
    if (l->looping) return;
    l->looping = true;
    while (!l->running && l->first && !l->c->closing) {
        pending *p = take_pending(l);
        l->c->socket->n_pending--;
        begin_pending(l, p);
        memory_free(p);
    }
    l->looping = false;
    drop_lane_if_idle(l);
}

void lane_free(lane *l)
{
    l->running = NULL;
    lane_next(l);
}

/* The lane of a message; a new one when it is idle. NULL with *e when there are too many. */
static lane *find_lane(connection *c, const char *name, protocol_error *e)
{
    socket_state *w = c->socket;
    for (lane *l = w->lanes; l; l = l->next)
        if (l->name && name ? !strcmp(l->name, name) : l->name == name) return l;
    if (w->n_lanes >= SERVER_LANES_MAX) {
        (void)protocol_error_set(e, 400, "invalid_request_error", "websocket_stream_limit_reached",
                                 "stream_id", "%u streams are in flight on this WebSocket",
                                 w->n_lanes);
        return NULL;
    }
    lane *l = memory_zalloc(1, sizeof *l);
    char *copy = l && name ? memory_copy(name, strlen(name)) : NULL;
    if (!l || (name && !copy)) {
        memory_free(l);
        (void)protocol_error_memory(e);
        return NULL;
    }
    l->c = c;
    l->name = copy;
    l->next = w->lanes;
    w->lanes = l;
    w->n_lanes++;
    return l;
}

/* ---- messages ---- */

bool socket_cancel(connection *c, const protocol_request *r)
{
    answer *a = NULL;
    if (r->response_id) {
        a = answers_find(c->s, c->tenant, r->response_id);
    } else {
        for (lane *l = c->socket->lanes; l && !a; l = l->next)
            if (r->stream_id && l->name ? !strcmp(l->name, r->stream_id) : l->name == r->stream_id)
                a = l->running;
    }
    if (a) answer_cancel(a, "response.cancel");
    return a != NULL;
}

static int queue(connection *c, protocol_request *r, size_t n_bytes, uint64_t started_ns,
                 protocol_error *e)
{
    socket_state *w = c->socket;
    if (w->n_pending >= SERVER_PENDING_MAX) {
        e->retry_after_s = 0;
        return protocol_error_set(e, 429, "rate_limit_error", "rate_limit_exceeded", "",
                                  "%u messages wait on this WebSocket; please try again in 1s",
                                  w->n_pending);
    }
    lane *l = find_lane(c, r->stream_id, e);
    pending *p = l ? memory_zalloc(1, sizeof *p) : NULL;
    if (!l) return CERIUM_ERR_ARGUMENT;
    if (!p) {
        drop_lane_if_idle(l);
        return protocol_error_memory(e);
    }
    *p = (pending){.request = r, .n_bytes = n_bytes, .started_ns = started_ns};
    (void)connection_gathers(c, 0, (ptrdiff_t)n_bytes);
    *(l->last ? &l->last->next : &l->first) = p;
    l->last = p;
    w->n_pending++;
    answer *now = l->running;
    if (now && r->previous_response_id && !strcmp(r->previous_response_id, now->id))
        answer_cancel(now, "new_message"); /* may free the lane when it is done with it */
    else
        lane_next(l);
    return CERIUM_OK;
}

void socket_take(connection *c, protocol_request *r, size_t n_bytes, uint64_t started_ns)
{
    protocol_error e;
    if (too_old(c, clock_ns()) || r->cancel) {
        if (r->cancel)
            (void)socket_cancel(c, r);
        else
            say_too_old(c);
        request_bury(c->s, &r, n_bytes);
        return;
    }
    r->stream = true;
    if (!queue(c, r, n_bytes, started_ns, &e)) return;
    socket_error(c, &e, r->stream_id);
    request_bury(c->s, &r, n_bytes);
}

static void take_message(connection *c, bytes *message)
{
    c->socket->n_messages++;
    metrics_count(&c->s->metrics, METRICS_MESSAGES, 1);
    metrics_count(&c->s->metrics, METRICS_BYTES_IN, message->len);
    if (c->s->config.log_prompts)
        log_said(c->peer, (view){message->ptr ? message->ptr : "", message->len});
    intake_message(c, message);
    connection_flush(c);
}

bool socket_input(connection *c)
{
    size_t used;
    view in = stream_input(&c->io);
    /* Who reads nothing of what it is told is not listened to: else its pings and errors would
     * gather. A slow reader can still cancel. */
    if (stream_waiting(&c->io) > 2 * SERVER_PARK_BYTES) {
        stream_pause(&c->io);
        return false;
    }
    bool goes_on = websocket_feed(c->socket->ws, in, SERVER_MESSAGES_A_TURN, &used);
    stream_use(&c->io, used);
    if (!goes_on) connection_close(c);
    connection_flush(c);
    return goes_on && used < in.len;
}
