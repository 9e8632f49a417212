/* lanes.c - what a WebSocket says, and the lanes that order its answers.
 *
 * Messages with the same stream_id (or none) form a lane: first in, first out.  Lanes run beside
 * each other.  A lane is there while something runs or waits on it.  One message goes out of turn:
 * a response.create that goes on from the response which its lane is just giving interrupts that
 * response, and goes on from what was said. */
#include "server/lanes.h"

#include <time.h>

#include "server/answer.h"
#include "server/answer_open.h"
#include "server/connection.h"

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
    lane *next_ready; /* in server.ready */
    bool is_ready;
};

/* ---- what is said ---- */

void socket_send(connection *c, view json)
{
    size_t waiting = stream_waiting(&c->io);
    if (c->gone) return;
    metrics_count(&c->s->metrics, METRICS_EVENTS, 1);
    if (c->closing) return;
    if (waiting + json.len <= SERVER_OUT_BYTES_MAX && !websocket_send(c->socket->ws, json)) return;
    log_event(LOG_WARNING, "dropped", "peer=%s reason=\"%zu bytes wait for the reader\"", c->peer,
              waiting);
    connection_break(c);
}

void socket_error(connection *c, const protocol_error *e, const char *stream_id)
{
    bytes event = {.max = 16384};
    if (!protocol_error_event(&event, e, stream_id))
        socket_send(c, (view){event.ptr, event.len});
    else
        connection_break(c);
    bytes_free(&event);
}

void socket_end(connection *c, websocket_code code, const char *text)
{
    websocket_end(c->socket->ws, code, text);
    connection_close(c);
}

bool socket_is_old(const connection *c, uint64_t now_ns)
{
    uint64_t limit = c->s->config.socket_s;
    return limit && now_ns - c->socket->opened_ns > limit * UINT64_C(1000000000);
}

void socket_end_old(connection *c)
{
    protocol_error e;
    (void)protocol_error_set(&e, 400, "invalid_request_error", "websocket_connection_limit_reached",
                             "", "this WebSocket is open for %u seconds: connect again",
                             c->s->config.socket_s);
    socket_error(c, &e, NULL);
    socket_end(c, WEBSOCKET_NORMAL, "websocket_connection_limit_reached");
}

/* ---- answers are heard ---- */

void socket_event(const sink *k, const char *name, view json)
{
    (void)name;
    if (json.ptr) socket_send(k->c, json); /* the messages of one turn go out together */
}

void socket_limits(const sink *k, const rates_told *left, const char *served_by)
{
    char event[RATES_EVENT_BYTES];
    size_t len = rates_event(event, left, (int64_t)time(NULL));
    (void)served_by;
    if (len) socket_send(k->c, (view){event, len});
}

static void refuse(const sink *k, const protocol_error *e) { socket_error(k->c, e, k->name); }

/* The next request begins at the end of the turn, when nothing of the answer is under way. */
static void occupy(const sink *k, answer *a)
{
    lane *l = k->lane;
    l->running = a;
    if (a || l->is_ready) return;
    l->is_ready = true;
    l->next_ready = l->c->s->ready;
    l->c->s->ready = l;
}

static const sink_type lane_sink = {.streams = true,
                                    .limits = socket_limits,
                                    .event = socket_event,
                                    .fail = refuse,
                                    .refuse = refuse,
                                    .occupy = occupy};

/* ---- lanes ---- */

static void not_ready(lane *l)
{
    lane **at = &l->c->s->ready;
    if (!l->is_ready) return;
    while (*at != l) at = &(*at)->next_ready;
    *at = l->next_ready;
    l->is_ready = false;
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
    not_ready(l);
    if (l->running) l->running->sink.lane = NULL;
    memory_free(l->name);
    memory_free(l);
}

void lanes_close(connection *c)
{
    socket_state *w = c->socket;
    while (w->lanes) {
        lane *l = w->lanes;
        w->lanes = l->next;
        free_lane(l);
    }
}

static void drop_lane_if_idle(lane *l)
{
    if (l->running || l->first) return;
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
    answer_order order = {.sink = {.type = &lane_sink, .c = c, .lane = l, .name = l->name},
                          .request = r,
                          .n_bytes = p->n_bytes,
                          .started_ns = p->started_ns};
    if (!answer_open(c->s, &order, &e)) return;
    /* What a continuation failed on is not kept for another try. */
    if (previous[0]) history_evict(c->s->history, c->tenant, c->serial, previous);
    metrics_request(&c->s->metrics, METRICS_RESPONSES_SOCKET, e.http_status);
    log_event(LOG_INFO, "refused", "status=%d code=%s peer=%s", e.http_status,
              e.code ? e.code : "-", c->peer);
    socket_error(c, &e, l->name);
}

static void begin_next(lane *l)
{
    while (!l->running && l->first && !l->c->closing) {
        pending *p = take_pending(l);
        l->c->socket->n_pending--;
        begin_pending(l, p);
        memory_free(p);
    }
    drop_lane_if_idle(l);
}

void lanes_start(server *s)
{
    while (s->ready) {
        lane *l = s->ready;
        not_ready(l);
        begin_next(l);
    }
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

bool lanes_cancel(connection *c, const protocol_request *r)
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
        answer_cancel(now, "new_message");
    else
        begin_next(l);
    return CERIUM_OK;
}

void lanes_take(connection *c, protocol_request *r, size_t n_bytes, uint64_t started_ns)
{
    protocol_error e;
    lanes_start(c->s); /* what is free is not taken by those behind it */
    if (socket_is_old(c, clock_ns()) || r->cancel) {
        if (r->cancel)
            (void)lanes_cancel(c, r);
        else
            socket_end_old(c);
        request_bury(c->s, &r, n_bytes);
        return;
    }
    r->stream = true;
    if (!queue(c, r, n_bytes, started_ns, &e)) return;
    socket_error(c, &e, r->stream_id);
    request_bury(c->s, &r, n_bytes);
}
