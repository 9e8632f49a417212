/* connection.c - what a stream tells, handed on; output; deadlines.
 *
 * Every call from the loop ends with the answers that died in it being freed, so that code in
 * between may hold on to them. */
#include "server/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/answers.h"
#include "server/http.h"
#include "server/intake.h"
#include "server/look.h"
#include "server/socket.h"

enum {
    PROBE_NS = 2000000000, /* after a client said that it sends no more: is it there? */
    KEEPALIVE_S = 45,
    KEEPALIVE_PROBES = 3,
};

static const uint64_t SECOND_NS = UINT64_C(1000000000);

/* ---- what the stream tells ---- */

static bool on_input(void *user)
{
    connection *c = user;
    server *s = c->s;
    c->active_ns = clock_ns();
    bool again = c->socket ? socket_input(c) : http_input(c);
    answers_reap(s);
    return again;
}

static void on_ended(void *user)
{
    connection *c = user;
    c->ended_ns = clock_ns();
    if (c->socket)
        connection_break(c); /* a WebSocket ends by a closing frame, or is lost */
    else if (!c->http.route || !c->http.is_whole)
        connection_close(c);
    /* An answer is under way: who only closed his own side still reads it (RFC 9112, 9.6). */
    answers_reap(c->s);
}

static void on_sent(void *user)
{
    connection *c = user;
    connection_flush(c);
    if (!c->gone && !connection_parked(c)) {
        if (c->socket) stream_resume(&c->io); /* it reads again: so do we */
        if (c->has_parked) look_at_reader(c);
    }
    answers_reap(c->s);
}

static void on_closed(void *user)
{
    connection *c = user;
    server *s = c->s;
    if (c->gone) return;
    c->gone = true;
    answers_leave(c);
    intake_close(c);
    if (c->socket) socket_close(c);
    http_abandon(c);
    answers_start(s); /* what waited for its place */
    answers_reap(s);
}

static void on_released(void *user)
{
    connection *c = user;
    server *s = c->s;
    *(c->previous ? &c->previous->next : &s->connections) = c->next;
    if (c->next) c->next->previous = c->previous;
    s->n_connections--;
    http_reader_close(&c->reader);
    bytes_free(&c->http.body);
    memory_free(c);
}

static const stream_events events = {.input = on_input,
                                     .ended = on_ended,
                                     .sent = on_sent,
                                     .closed = on_closed,
                                     .released = on_released};

/* ---- opening and closing ---- */

static void set_options(int fd)
{
    /* What a slow reader does not take waits with us, where it is counted, and not in megabytes of
     * the kernel's. */
    int unsent = SERVER_UNSENT_BYTES_MAX, idle = KEEPALIVE_S, probes = KEEPALIVE_PROBES;
    int interval = KEEPALIVE_S / KEEPALIVE_PROBES;
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
}

void connection_open(server *s, int fd, const char *peer)
{
    connection *c = memory_zalloc(1, sizeof *c);
    http_reader *reader = c ? http_reader_open() : NULL;
    set_options(fd);
    if (!reader) {
        memory_free(c);
        close(fd);
        return;
    }
    c->s = s;
    c->reader = reader;
    c->serial = ++s->n_serials;
    c->active_ns = clock_ns();
    c->deadline_ns = c->active_ns + s->config.header_s * SECOND_NS;
    c->http.body.max = PROTOCOL_BODY_BYTES_MAX;
    snprintf(c->peer, sizeof c->peer, "%s", peer);
    if (stream_open(&c->io, &s->loop, fd, s->tls, &events, c)) {
        http_reader_close(&c->reader);
        memory_free(c);
        return;
    }
    c->io.sent_total = &s->metrics.counters[METRICS_BYTES_OUT];
    c->next = s->connections;
    if (c->next) c->next->previous = c;
    s->connections = c;
    s->n_connections++;
}

void connection_break(connection *c)
{
    c->closing = true;
    if (!c->gone) stream_break(&c->io);
}

void connection_close(connection *c)
{
    c->closing = true;
    if (!c->gone) stream_close(&c->io);
}

/* ---- output ---- */

static void put(connection *c, view head, view body)
{
    if (c->gone) return;
    if (stream_waiting(&c->io) + head.len + body.len <= SERVER_OUT_BYTES_MAX &&
        !stream_put(&c->io, head, body))
        return;
    log_event(LOG_WARNING, "dropped", "peer=%s reason=\"%zu bytes wait for the reader\"", c->peer,
              stream_waiting(&c->io));
    connection_break(c);
}

void connection_send(connection *c, view head, view body)
{
    put(c, head, body);
    connection_flush(c);
}

static void put_sse(connection *c, const char *name, const char *json, size_t len)
{
    char head[96];
    int n = 0;
    size_t name_len = name ? strlen(name) : 0, size = (name ? 8 + name_len : 0) + 6 + len + 2;
    CHECK(name_len < 60);
    if (c->http.chunked) n = snprintf(head, sizeof head, "%zx\r\n", size);
    if (name) n += snprintf(head + n, sizeof head - (size_t)n, "event: %s\n", name);
    n += snprintf(head + n, sizeof head - (size_t)n, "data: ");
    put(c, (view){head, (size_t)n}, (view){json, len});
    put(c, c->http.chunked ? VIEW("\n\n\r\n") : VIEW("\n\n"), (view){NULL, 0});
}

void connection_event(connection *c, const char *name, const char *json, size_t len)
{
    if (c->gone) return;
    metrics_count(&c->s->metrics, METRICS_EVENTS, 1);
    if (c->socket) {
        socket_send(c, (view){json, len});
        return; /* the messages of one turn of the loop go out together */
    }
    put_sse(c, name, json, len);
    connection_flush(c);
}

void connection_cork(connection *c)
{
    stream_hold(&c->io);
}

void connection_uncork(connection *c)
{
    stream_let_go(&c->io);
    connection_flush(c);
}

void connection_flush(connection *c)
{
    if (c->gone) return;
    stream_flush(&c->io);
    if (c->http.done && !stream_waiting(&c->io)) http_end(c);
}

size_t connections_waiting(const server *s)
{
    size_t n = 0;
    for (const connection *c = s->connections; c; c = c->next) n += stream_waiting(&c->io);
    return n;
}

/* ---- input ---- */

bool connection_gathers(connection *c, size_t so_far, ptrdiff_t more)
{
    server *s = c->s;
    if (more > 0 && so_far > SERVER_INPUT_FREE_BYTES &&
        s->input_bytes + (size_t)more > s->config.input_bytes_max)
        return false;
    s->input_bytes += (size_t)more;
    return true;
}

/* ---- time ---- */

/* It carries nothing just now. */
static bool is_idle(const connection *c)
{
    if (c->gone || c->closing || stream_waiting(&c->io)) return false;
    return c->socket ? socket_is_unused(c) : !c->http.route;
}

bool connections_evict(server *s)
{
    connection *oldest = NULL;
    for (connection *c = s->connections; c; c = c->next) {
        if (!is_idle(c)) continue;
        bool is_older = !oldest || c->active_ns < oldest->active_ns;
        /* A WebSocket is kept for longer than what can be opened again at no cost. */
        if (oldest && !c->socket != !oldest->socket) is_older = !c->socket;
        if (is_older) oldest = c;
    }
    if (!oldest) return false;
    metrics_count(&s->metrics, METRICS_EVICTED, 1);
    connection_break(oldest);
    return true;
}

/* After its end of sending: who is gone answers with a reset, who reads does not mind. */
static void probe(connection *c, uint64_t now)
{
    const exchange *x = &c->http;
    if (!c->ended_ns || now - c->ended_ns < PROBE_NS || c->socket || !x->route || x->done) return;
    c->ended_ns = now + (UINT64_C(1) << 62); /* once */
    if (!x->status && x->chunked)
        connection_send(c, VIEW("HTTP/1.1 100 Continue\r\n\r\n"), (view){NULL, 0});
    else if (x->status && x->chunked)
        connection_send(c, VIEW("3\r\n:\n\n\r\n"), (view){NULL, 0});
}

/* What is late, or NULL. */
static const char *lateness(connection *c, uint64_t now)
{
    if (stream_tick(&c->io, now, c->s->config.stall_s * SECOND_NS))
        return "the reader takes nothing";
    if (!c->deadline_ns || now <= c->deadline_ns || c->closing) return NULL;
    if (c->http.route) return "the body does not come";
    return http_reader_is_idle(c->reader) ? "no request comes" : "the head does not come";
}

static void check_deadlines(connection *c, uint64_t now)
{
    const char *why = lateness(c, now);
    if (why) {
        metrics_count(&c->s->metrics, METRICS_TIMED_OUT, 1);
        log_event(LOG_INFO, "timeout", "peer=%s reason=\"%s\"", c->peer, why);
        connection_break(c);
    } else if (c->socket) {
        socket_tick(c, now);
    } else {
        probe(c, now);
    }
}

void connections_tick(server *s, uint64_t now_ns)
{
    for (connection *c = s->connections, *next; c; c = next) {
        next = c->next;
        if (!c->gone) check_deadlines(c, now_ns);
    }
}
