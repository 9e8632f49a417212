/* connection.c - events of a stream, output, deadlines.
 */
#include "server/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    KEEPALIVE_S = 45,
    KEEPALIVE_PROBES = 3,
};

static const uint64_t SECOND_NS = UINT64_C(1000000000);

/* ---- events of the stream ---- */

static bool on_input(void *user)
{
    connection *c = user;
    c->active_ns = clock_ns();
    return c->type->input(c);
}

static void on_ended(void *user)
{
    connection *c = user;
    c->has_ended = true;
    c->type->ended(c);
}

static void on_sent(void *user)
{
    connection *c = user;
    connection_flush(c);
    if (!c->gone && !connection_parked(c)) c->type->reads(c);
}

static void on_closed(void *user)
{
    connection *c = user;
    if (c->gone) return;
    c->gone = true;
    c->type->gone(c);
}

static void on_released(void *user)
{
    connection *c = user;
    server *s = c->s;
    *(c->previous ? &c->previous->next : &s->connections) = c->next;
    if (c->next) c->next->previous = c->previous;
    s->n_connections--;
    s->n_probes -= c->type->is_probe;
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
    /* Output for a slow reader waits here, where it is counted, and not in megabytes of kernel
     * buffers. */
    int unsent = SERVER_UNSENT_BYTES_MAX, idle = KEEPALIVE_S, probes = KEEPALIVE_PROBES;
    int interval = KEEPALIVE_S / KEEPALIVE_PROBES;
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
}

void connection_open(server *s, int fd, const char *peer, const connection_type *type)
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
    c->type = type;
    c->reader = reader;
    c->serial = ++s->n_serials;
    c->active_ns = clock_ns();
    c->deadline_ns = c->active_ns + s->config.header_s * SECOND_NS;
    c->http.body.max = PROTOCOL_BODY_BYTES_MAX;
    snprintf(c->peer, sizeof c->peer, "%s", peer);
    if (stream_open(&c->io, &s->loop, fd, type->is_probe ? NULL : s->tls, &events, c)) {
        http_reader_close(&c->reader);
        memory_free(c);
        return;
    }
    c->io.sent_total = &s->metrics.counters[METRICS_BYTES_OUT];
    c->next = s->connections;
    if (c->next) c->next->previous = c;
    s->connections = c;
    s->n_connections++;
    s->n_probes += type->is_probe;
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

void connection_put(connection *c, view head, view body)
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
    connection_put(c, head, body);
    connection_flush(c);
}

void connection_cork(connection *c)
{
    if (c) stream_hold(&c->io);
}

void connection_uncork(connection *c)
{
    if (!c) return;
    stream_let_go(&c->io);
    connection_flush(c);
}

void connection_flush(connection *c)
{
    if (!c || c->gone) return;
    stream_flush(&c->io);
    if (c->type->sent && !stream_waiting(&c->io)) c->type->sent(c);
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

/* It carries nothing now. */
static bool is_idle(const connection *c)
{
    if (c->gone || c->closing || stream_waiting(&c->io)) return false;
    return c->type->is_idle(c);
}

bool connections_evict(server *s)
{
    connection *oldest = NULL;
    for (connection *c = s->connections; c; c = c->next) {
        if (!is_idle(c)) continue;
        bool is_older = !oldest || c->active_ns < oldest->active_ns;
        /* An idle WebSocket is kept longer. */
        if (oldest && c->type != oldest->type) is_older = c->type->is_cheap;
        if (is_older) oldest = c;
    }
    if (!oldest) return false;
    metrics_count(&s->metrics, METRICS_EVICTED, 1);
    connection_break(oldest);
    return true;
}

static void check_deadlines(connection *c, uint64_t now)
{
    const char *why = stream_tick(&c->io, now, c->s->config.stall_s * SECOND_NS)
                          ? "the reader takes nothing" : c->type->tick(c, now);
    if (!why) return;
    metrics_count(&c->s->metrics, METRICS_TIMED_OUT, 1);
    log_event(LOG_INFO, "timeout", "peer=%s reason=\"%s\"", c->peer, why);
    connection_break(c);
}

void connections_tick(server *s, uint64_t now_ns)
{
    for (connection *c = s->connections, *next; c; c = next) {
        next = c->next;
        if (!c->gone) check_deadlines(c, now_ns);
    }
}
