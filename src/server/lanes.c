/* lanes.c - messages of a WebSocket, and the lanes that order its answers.
 *
 * Messages with the same stream_id (or none) form a lane: first in, first out.  Lanes run in
 * parallel.  A lane exists while something runs or waits on it.  The response that continues after
 * a steer comes before all waiting ones. */
#include "server/lanes.h"

#include <time.h>

#include "server/answer_open.h"
#include "server/answers.h"
#include "server/connection.h"
#include "server/model_list.h"
#include "server/steering.h"

typedef struct pending pending;

struct pending {
    pending *next;
    protocol_request *request; /* owned */
    size_t n_bytes;            /* bytes received, counted as input until it begins */
    uint64_t started_ns;
    bool is_successor;         /* requested by steers, not by a create */
};

struct lane {
    connection *c;
    lane *next;
    char *name; /* stream_id, owned; NULL = none */
    answer *running;
    pending *first, *last;
    steering steers;
    bool is_successor; /* running, or about to run */
    lane *next_ready; /* in server.ready */
    bool is_ready;
};

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

void socket_limits(const sink *k, const rates_report *left, const char *served_by)
{
    char event[RATES_EVENT_BYTES];
    size_t len = rates_event(event, left, (int64_t)time(NULL));
    (void)served_by;
    if (len) socket_send(k->c, (view){event, len});
}

static steering_lane place_of(const lane *l, answer *a)
{
    return (steering_lane){.c = l->c, .name = l->name, .a = a};
}

/* The request of some steers is refused: return their input; without a request of the client, send
 * no other error. */
static void fail_leaving(lane *l, const protocol_error *e)
{
    const steering_lane at = place_of(l, NULL);
    char why[640], again[48] = "";
    if (e->retry_after_s)
        snprintf(again, sizeof again, "; please try again in %us", e->retry_after_s);
    snprintf(why, sizeof why, "%s%s", e->message, strstr(e->message, "try again") ? "" : again);
    steering_fail(&l->steers, &at, true, "successor_creation_failed", why);
}

/* A client that is told that the server ends retries elsewhere; after an error it may give up. */
static void tell_refusal(connection *c, const protocol_error *e, const char *stream_id)
{
    if (c->s->draining && e->http_status == 503 && !answers_of(c) && !c->closing)
        socket_end(c, WEBSOCKET_GOING_AWAY, "the server is shutting down");
    else
        socket_error(c, e, stream_id);
}

static void refuse(const sink *k, const protocol_error *e)
{
    lane *l = k->lane;
    if (l && l->steers.n_leaving) fail_leaving(l, e);
    if (!l || !l->is_successor) tell_refusal(k->c, e, k->name);
}

/* The first event of a request with steers commits them. */
static void event(const sink *k, const char *name, view json)
{
    if (k->lane) steering_commit(&k->lane->steers);
    socket_event(k, name, json);
}

static void end_steered(lane *l, answer *a);

/* The next request begins at the end of the turn, when nothing of the answer is running. */
static void occupy(const sink *k, answer *a)
{
    lane *l = k->lane;
    answer *was = l->running;
    l->running = a;
    if (!a && was && was->finished) end_steered(l, was);
    if (a || l->is_ready) return;
    l->is_ready = true;
    l->next_ready = l->c->s->ready;
    l->c->s->ready = l;
}

static const sink_type lane_sink = {.streams = true,
                                    .limits = socket_limits,
                                    .event = event,
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

/* Remove the first waiting one; the caller then owns its request. */
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
    steering_close(&l->steers);
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
    if (l->running || l->first || l->steers.n) return;
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
    l->is_successor = p->is_successor;
    if (!answer_open(c->s, &order, &e)) return;
    if (l->steers.n_leaving) fail_leaving(l, &e);
    if (p->is_successor) return;
    /* If a continuation fails, its turn is not kept for another try. */
    if (previous[0]) history_evict(c->s->history, c->tenant, c->serial, previous);
    metrics_request(&c->s->metrics, METRICS_RESPONSES_SOCKET, e.http_status);
    log_event(LOG_INFO, "refused", "status=%d code=%s peer=%s", e.http_status,
              e.code ? e.code : "-", c->peer);
    tell_refusal(c, &e, l->name);
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
        connection *c = l->c;
        not_ready(l);
        begin_next(l); /* l may be freed */
        connection_flush(c);
    }
}

/* The lane of a message; a new one if needed.  NULL with *e when there are too many. */
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

/* ---- steers ---- */

static bool continues_from(const protocol_request *r, const char *id)
{
    return r->previous_response_id && !strcmp(r->previous_response_id, id);
}

/* Put the steers' items before the input of the waiting request.  False: it cannot be made, and
 * they are returned. */
static bool take_steers(lane *l, pending *p)
{
    protocol_request *made = NULL;
    protocol_error e;
    json_t *items = steering_leave(&l->steers);
    int status = items ? protocol_request_again(&made, p->request,
                                                p->request->previous_response_id, items, true,
                                                &models_of(l->c->s, p->request)->defaults, &e)
                       : protocol_error_memory(&e);
    json_decref(items);
    if (status) {
        fail_leaving(l, &e);
        return false;
    }
    made->stream = true;
    made->class_ = p->request->class_;
    request_bury(l->c->s, &p->request, p->n_bytes);
    p->request = made;
    return true;
}

/* A request of the steers alone, with the settings of the response; it comes before all waiting
 * ones. */
static void make_successor(lane *l, const answer *a)
{
    protocol_request *made = NULL;
    protocol_error e;
    pending *p = memory_zalloc(1, sizeof *p);
    json_t *items = p ? steering_leave(&l->steers) : NULL;
    int status = items ? protocol_request_again(&made, a->request, a->id, items, false,
                                                &a->model->defaults, &e)
                       : protocol_error_memory(&e);
    json_decref(items);
    if (status) {
        const steering_lane at = place_of(l, (answer *)a);
        memory_free(p);
        steering_fail(&l->steers, &at, false, "successor_creation_failed", e.message);
        return;
    }
    made->stream = true;
    made->class_ = a->request->class_;
    *p = (pending){.request = made, .n_bytes = a->n_bytes, .started_ns = clock_ns(),
                   .is_successor = true, .next = l->first};
    (void)connection_gathers(l->c, 0, (ptrdiff_t)p->n_bytes);
    l->first = p;
    if (!l->last) l->last = p;
    l->c->socket->n_pending++;
}

/* A response ended: continue, report or return its steers. */
static void end_steered(lane *l, answer *a)
{
    socket_state *w = l->c->socket;
    steering *g = &l->steers;
    const steering_lane at = place_of(l, a);
    snprintf(w->ended[w->n_ended++ % SERVER_ENDED_IDS], SERVER_ID_BYTES, "%s", a->id);
    if (!g->n || l->c->closing) return;
    if (a->canceled || a->failed || !a->begun) {
        steering_fail(g, &at, false, "response_not_active", "the response was ended");
        return;
    }
    if (l->c->s->draining) {
        steering_fail(g, &at, false, "successor_creation_failed", "the server is shutting down");
        return;
    }
    g->sequence = protocol_writer_sequence(a->writer);
    for (pending *p = l->first; p; p = p->next)
        if (continues_from(p->request, a->id)) {
            (void)take_steers(l, p);
            return;
        }
    if (protocol_calls_client(protocol_writer_output(a->writer)))
        steering_wait(g, &at);
    else
        make_successor(l, a);
}

/* Does a response run, or wait for its calls' results, or is the request of its steers not
 * begun? */
static bool is_of(const lane *l, const char *id)
{
    const answer *a = l->running;
    if (!a) return l->steers.of[0] && !strcmp(l->steers.of, id);
    if (!strcmp(a->id, id)) return true;
    return l->is_successor && !a->begun && continues_from(a->request, id);
}

static lane *lane_of(connection *c, const char *id)
{
    for (lane *l = c->socket->lanes; l; l = l->next)
        if (is_of(l, id)) return l;
    return NULL;
}

static bool has_ended(const socket_state *w, const char *id)
{
    for (uint32_t i = 0; i < SERVER_ENDED_IDS; i++)
        if (w->ended[i][0] && !strcmp(w->ended[i], id)) return true;
    return false;
}

/* Why the response cannot be steered; NULL: it can. */
static const char *why_not(const connection *c, const lane *l, const char *id, const char **why)
{
    const answer *a = l ? l->running : NULL;
    if (!l && has_ended(c->socket, id)) {
        *why = "the response is completed";
        return "response_already_completed";
    }
    *why = "no response of this id runs on this connection";
    if (!l) return "response_not_found";
    if (!a) return NULL; /* its calls' results are awaited */
    *why = "the response is completed";
    if (a->warm_up) return "response_already_completed";
    *why = "this response cannot be steered";
    if (!a->source->is_local || a->request->compacts || !a->writer) return "steering_not_supported";
    *why = "the response was ended";
    return a->canceled || a->failed ? "response_not_active" : NULL;
}

void lanes_steer(connection *c, protocol_steer *asked, const protocol_error *refused)
{
    lane *l = asked->previous ? lane_of(c, asked->previous) : NULL;
    const steering_lane at = {.c = c, .name = l ? l->name : NULL, .a = l ? l->running : NULL};
    const char *why = NULL, *code = refused ? NULL : why_not(c, l, asked->previous, &why);
    protocol_error e;
    if (code) (void)protocol_error_set(&e, 400, "invalid_request_error", code, "", "%s", why);
    if (refused || code) {
        steering_refuse(&at, asked, refused ? refused : &e);
        protocol_steer_free(asked);
        return;
    }
    const uint32_t n = l->steers.n;
    steering_take(&l->steers, &at, asked);
    if (l->steers.n == n) return;
    if (l->running && !l->running->steered) {
        l->running->steered = true;
        protocol_writer_steer(l->running->writer);
    }
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
    if (!l->running && l->steers.of[0] && continues_from(r, l->steers.of))
        (void)take_steers(l, p);
    begin_next(l);
    return CERIUM_OK;
}

void lanes_take(connection *c, protocol_request *r, size_t n_bytes, uint64_t started_ns)
{
    protocol_error e;
    lanes_start(c->s); /* a later request does not take a free place */
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
