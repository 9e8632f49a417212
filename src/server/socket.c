/* socket.c - messages of a WebSocket, and the lanes that order their answers.
 *
 * Messages with the same stream_id (or none) form a lane: first in, first out.  Lanes run beside
 * each other.  A lane is there while something runs or waits on it.  One message goes out of turn:
 * a response.create that goes on from the response which its lane is just giving interrupts that
 * response, and goes on from what was said. */
#include "server/socket.h"

#include "server/access.h"
#include "server/answers.h"
#include "server/connection.h"
#include "server/http.h"
#include "server/inline.h"
#include "server/routes.h"

enum {
    CLOSE_NORMAL = 1000,
    CLOSE_GOING_AWAY = 1001,
    CLOSE_UNSUPPORTED = 1003,
    CLOSE_TOO_BIG = 1009,
};

typedef struct pending pending;

struct pending {
    pending *next;
    protocol_request *request; /* owned */
    uint64_t started_ns;
};

struct lane {
    connection *c;
    lane *next;
    char *name;       /* stream_id, owned; NULL = none */
    answer *running;
    pending *first, *last;
    bool looping;     /* inside lane_next() */
};

struct socket_state {
    bytes message;    /* received so far of one that comes in pieces */
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
    while (i < m.len && (m.ptr[i] == ' ' || m.ptr[i] == '\t' || m.ptr[i] == '\n' ||
                         m.ptr[i] == '\r'))
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

int socket_confirm(connection *c, char *upgrade)
{
    protocol_error e;
    char *uri, version[8];
    int len;
    if (strcasecmp(upgrade, "websocket") != 0) {
        /* HTTP/2 is offered ("h2c"): libwebsockets would switch, but goes on with HTTP/1.1 when
         * it finds no name that it knows, as RFC 7540 3.2 allows. */
        upgrade[0] = '-';
        return 0;
    }
    int method = lws_http_get_uri_and_method(c->wsi, &uri, &len);
    http_open(c, uri);
    if (method != LWSHUMETH_GET ||
        (strcmp(uri, "/v1/responses") != 0 && strcmp(uri, "/responses") != 0)) {
        (void)protocol_error_set(&e, 404, "invalid_request_error", "not_found", "",
                                 "WebSockets are served at /v1/responses");
        http_refuse(c, &e);
        return -1;
    }
    http_header(c, WSI_TOKEN_VERSION, version, sizeof version);
    if (strcmp(version, "13") != 0) {
        (void)protocol_error_set(&e, 400, "invalid_request_error", "invalid_value",
                                 "Sec-WebSocket-Version", "version 13 of WebSocket is spoken here");
        http_refuse(c, &e);
        return -1;
    }
    if (access_check(c, false, &e)) {
        http_refuse(c, &e);
        return -1;
    }
    if (c->s->draining) {
        (void)protocol_error_set(&e, 503, "server_error", "shutting_down", "",
                                 "the server is shutting down");
        e.retry_after_s = 5;
        http_refuse(c, &e);
        return -1;
    }
    return 0;
}

int socket_open(connection *c)
{
    socket_state *w = memory_zalloc(1, sizeof *w);
    if (!w) return CERIUM_ERR_MEMORY;
    w->message.max = PROTOCOL_BODY_BYTES_MAX;
    w->opened_ns = clock_ns();
    c->http.status = 101;
    http_abandon(c);
    c->socket = w;
    c->s->n_sockets++;
    metrics_count(&c->s->metrics, METRICS_SOCKETS, 1);
    return CERIUM_OK;
}

static void free_lane(lane *l)
{
    while (l->first) {
        pending *p = l->first;
        l->first = p->next;
        protocol_request_free(&p->request);
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
    bytes_free(&w->message);
    memory_free(w);
    c->socket = NULL;
    c->s->n_sockets--;
    history_drop_connection(c->s->history, c->serial);
    log_event(LOG_INFO, "socket_closed", "peer=%s connection=%llu", c->peer,
              (unsigned long long)c->serial);
}

static void close_with(connection *c, int code, const char *text)
{
    lws_close_reason(c->wsi, (enum lws_close_status)code, (unsigned char *)text, strlen(text));
    connection_close(c);
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
    if (!c->socket->lanes && !answers_of(c) && !c->closing)
        close_with(c, CLOSE_GOING_AWAY, "the server is shutting down");
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
    close_with(c, CLOSE_NORMAL, "websocket_connection_limit_reached");
}

void socket_tick(connection *c, uint64_t now_ns)
{
    if (c->closing) return;
    if (c->s->draining)
        socket_drain(c);
    else if (too_old(c, now_ns) && !c->socket->lanes && !answers_of(c))
        say_too_old(c);
    connection_flush(c);
}

/* ---- lanes ---- */

void lane_take(lane *l, answer *a) { l->running = a; }

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
    answer_order order = {.c = c, .lane = l, .request = r, .started_ns = p->started_ns};
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
        pending *p = l->first;
        l->first = p->next;
        if (!l->first) l->last = NULL;
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
        (void)protocol_error_set(e, 500, "server_error", NULL, "", "out of memory");
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

static void cancel(connection *c, const protocol_request *r)
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
}

static int queue(connection *c, protocol_request *r, uint64_t started_ns, protocol_error *e)
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
        return protocol_error_set(e, 500, "server_error", NULL, "", "out of memory");
    }
    *p = (pending){.request = r, .started_ns = started_ns};
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

static void create(connection *c, view message)
{
    protocol_error e;
    protocol_request *r = NULL;
    uint64_t now = clock_ns();
    if (too_old(c, now)) {
        say_too_old(c);
        return;
    }
    int status = protocol_request_parse(&r, PROTOCOL_RESPONSES, message, access_ask(c), &e);
    if (!status && r->cancel) {
        cancel(c, r);
        protocol_request_free(&r);
        return;
    }
    if (!status) {
        r->stream = true;
        status = queue(c, r, now, &e);
        if (status) {
            socket_error(c, &e, r->stream_id);
            protocol_request_free(&r);
            return;
        }
    }
    if (status) socket_error(c, &e, NULL);
}

static void take_message(connection *c, view message)
{
    metrics_count(&c->s->metrics, METRICS_MESSAGES, 1);
    metrics_count(&c->s->metrics, METRICS_BYTES_IN, message.len);
    if (c->s->config.log_prompts) log_said(c->peer, message);
    view type = socket_message_type(message);
    if (view_equal(type, VIEW("completion.create")))
        inline_create(c, message);
    else if (view_equal(type, VIEW("completion.cancel")))
        inline_cancel(c, message);
    else
        create(c, message);
    connection_flush(c);
}

int socket_receive(connection *c, const void *from, size_t len)
{
    socket_state *w = c->socket;
    bool first = lws_is_first_fragment(c->wsi), last = lws_is_final_fragment(c->wsi);
    if (c->closing) return 0;
    if (lws_frame_is_binary(c->wsi)) {
        close_with(c, CLOSE_UNSUPPORTED, "messages are text");
        return -1;
    }
    if (first && last && !lws_remaining_packet_payload(c->wsi)) {
        take_message(c, (view){from, len});
        return 0;
    }
    if (first) w->message.len = 0;
    if (lws_remaining_packet_payload(c->wsi) > PROTOCOL_BODY_BYTES_MAX) len = SIZE_MAX / 2;
    if (bytes_append(&w->message, from, len)) {
        close_with(c, CLOSE_TOO_BIG, "messages have at most 32 MiB");
        return -1;
    }
    if (last && !lws_remaining_packet_payload(c->wsi)) {
        bytes whole = w->message; /* the connection may be gone when the message was taken */
        w->message = (bytes){.max = PROTOCOL_BODY_BYTES_MAX};
        take_message(c, (view){whole.ptr, whole.len});
        bytes_free(&whole);
    }
    return 0;
}
