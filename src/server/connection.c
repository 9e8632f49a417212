/* connection.c - gathering, framing and sending. */
#include "server/connection.h"

#include "server/answers.h"
#include "server/http.h"
#include "server/socket.h"

int connection_open(server *s, struct lws *wsi)
{
    connection *c = memory_zalloc(1, sizeof *c);
    if (!c) return CERIUM_ERR_MEMORY;
    c->s = s;
    c->wsi = wsi;
    c->serial = ++s->n_serials;
    c->out.max = SERVER_OUT_BYTES_MAX;
    c->units.max = SERVER_OUT_BYTES_MAX;
    c->http.body.max = PROTOCOL_BODY_BYTES_MAX + 1;
    lws_get_peer_simple(wsi, c->peer, sizeof c->peer);
    c->next = s->connections;
    if (c->next) c->next->previous = c;
    s->connections = c;
    s->n_connections++;
    lws_set_opaque_user_data(wsi, c);
    return CERIUM_OK;
}

void connection_gone(connection *c)
{
    if (c->gone) return;
    c->gone = true;
    answers_leave(c);
    if (c->socket) socket_close(c);
    http_abandon(c);
}

void connection_free(connection *c)
{
    if (!c) return;
    server *s = c->s;
    connection_gone(c);
    *(c->previous ? &c->previous->next : &s->connections) = c->next;
    if (c->next) c->next->previous = c->previous;
    s->n_connections--;
    bytes_free(&c->out);
    bytes_free(&c->units);
    bytes_free(&c->http.body);
    memory_free(c);
}

void connection_break(connection *c)
{
    if (c->gone) return;
    c->closing = true;
    c->out.len = c->out_sent = 0;
    c->units.len = 0;
    lws_set_timeout(c->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
}

void connection_close(connection *c)
{
    c->closing = true;
    if (!c->gone) lws_callback_on_writable(c->wsi);
}

/* Room for another unit; drops the connection of a reader that let too much gather. */
static bool reserve(connection *c, size_t len)
{
    if (c->gone) return false;
    if (c->out_sent && c->out_sent >= c->out.len / 2) {
        size_t rest = c->out.len - c->out_sent, done = c->out_sent;
        memmove(c->out.ptr, c->out.ptr + done, rest);
        c->out.len = rest;
        c->out_sent = 0;
        for (size_t i = 0; i < c->units.len; i += sizeof done) {
            size_t end;
            memcpy(&end, c->units.ptr + i, sizeof end);
            end -= done;
            memcpy(c->units.ptr + i, &end, sizeof end);
        }
    }
    if (!bytes_reserve(&c->out, len) && !bytes_reserve(&c->units, sizeof(size_t))) return true;
    log_event(LOG_WARNING, "dropped", "peer=%s reason=\"%zu bytes wait for the reader\"", c->peer,
              c->out.len - c->out_sent);
    connection_break(c);
    return false;
}

static void put(connection *c, const void *from, size_t len)
{
    memcpy(c->out.ptr + c->out.len, from, len);
    c->out.len += len;
}

static void end_unit(connection *c)
{
    size_t end = c->out.len;
    memcpy(c->units.ptr + c->units.len, &end, sizeof end);
    c->units.len += sizeof end;
}

void connection_send(connection *c, view head, view body)
{
    if (!reserve(c, head.len + body.len)) return;
    put(c, head.ptr, head.len);
    if (body.len) put(c, body.ptr, body.len);
    end_unit(c);
    connection_flush(c);
}

/* A whole, unmasked text frame. */
static void put_frame(connection *c, const char *json, size_t len)
{
    unsigned char head[10] = {0x81};
    size_t n = 2;
    if (len < 126) {
        head[1] = (unsigned char)len;
    } else if (len < 65536) {
        head[1] = 126;
        head[2] = (unsigned char)(len >> 8);
        head[3] = (unsigned char)len;
        n = 4;
    } else {
        head[1] = 127;
        for (size_t i = 0; i < 8; i++) head[2 + i] = (unsigned char)((uint64_t)len >> (56 - 8 * i));
        n = 10;
    }
    put(c, head, n);
    put(c, json, len);
}

static void put_sse(connection *c, const char *name, const char *json, size_t len)
{
    char head[32];
    size_t name_len = name ? strlen(name) : 0;
    size_t size = (name ? 8 + name_len : 0) + 6 + len + 2;
    if (c->http.chunked)
        put(c, head, (size_t)snprintf(head, sizeof head, "%zx\r\n", size));
    if (name) {
        put(c, "event: ", 7);
        put(c, name, name_len);
        put(c, "\n", 1);
    }
    put(c, "data: ", 6);
    put(c, json, len);
    put(c, "\n\n\r\n", c->http.chunked ? 4 : 2);
}

void connection_event(connection *c, const char *name, const char *json, size_t len)
{
    if (!reserve(c, len + (name ? strlen(name) : 0) + 64)) return;
    metrics_count(&c->s->metrics, METRICS_EVENTS, 1);
    if (c->socket) {
        put_frame(c, json, len);
        return; /* the frames of one turn of the loop go out together */
    }
    put_sse(c, name, json, len);
    end_unit(c);
    connection_flush(c);
}

void connection_cork(connection *c)
{
    c->corked = true;
    c->cork_len = c->out.len - c->out_sent;
    c->cork_units = c->units.len - c->units_sent;
}

void connection_drop_corked(connection *c)
{
    c->out.len = c->out_sent + c->cork_len;
    c->units.len = c->units_sent + c->cork_units;
}

void connection_uncork(connection *c)
{
    c->corked = false;
    connection_flush(c);
}

/* Bytes of the next write: one unit, or for a WebSocket all frames that are there. */
static size_t next_write(connection *c)
{
    if (c->socket || !c->units.len) {
        c->units.len = c->units_sent = 0;
        return c->out.len - c->out_sent;
    }
    size_t end;
    memcpy(&end, c->units.ptr + c->units_sent, sizeof end);
    c->units_sent += sizeof end;
    if (c->units_sent == c->units.len) c->units.len = c->units_sent = 0;
    return end - c->out_sent;
}

void connection_flush(connection *c)
{
    if (c->gone || c->corked) return;
    while (c->out_sent < c->out.len && !lws_partial_buffered(c->wsi)) {
        size_t len = next_write(c);
        /* As LWS_WRITE_HTTP, bytes are sent as they are on a WebSocket too. */
        int n = lws_write(c->wsi, (unsigned char *)c->out.ptr + c->out_sent, len, LWS_WRITE_HTTP);
        if (n < 0) {
            connection_break(c);
            return;
        }
        c->out_sent += len;
        metrics_count(&c->s->metrics, METRICS_BYTES_OUT, len);
    }
    bool waits = c->out_sent < c->out.len || lws_partial_buffered(c->wsi);
    if (c->out_sent == c->out.len) c->out.len = c->out_sent = 0;
    if (waits) {
        if (!c->stalled_ns) c->stalled_ns = clock_ns();
        /* libwebsockets reads nothing before this answer is out, but would wake for it for ever. */
        if (c->http.done) lws_rx_flow_control(c->wsi, 0);
        lws_callback_on_writable(c->wsi);
        return;
    }
    c->stalled_ns = 0;
    if (c->http.done) http_end(c);
    if (c->closing) lws_callback_on_writable(c->wsi);
}

int connection_writeable(connection *c)
{
    c->stalled_ns = 0;
    connection_flush(c);
    return c->closing && !c->out.len && !lws_partial_buffered(c->wsi) ? -1 : 0;
}

static void check_deadlines(connection *c, uint64_t now)
{
    const server_config *config = &c->s->config;
    const char *why = NULL;
    if (c->stalled_ns && now - c->stalled_ns > config->stall_s * UINT64_C(1000000000))
        why = "the reader takes nothing";
    else if (c->deadline_ns && now > c->deadline_ns)
        why = "the body does not come";
    if (why) {
        metrics_count(&c->s->metrics, METRICS_TIMED_OUT, 1);
        log_event(LOG_WARNING, "timeout", "peer=%s reason=\"%s\"", c->peer, why);
        connection_break(c);
    } else if (c->socket) {
        socket_tick(c, now);
    } else if (c->http.chunks.done) {
        /* libwebsockets waits for more of a body that it knows no end of. */
        lws_set_timeout(c->wsi, NO_PENDING_TIMEOUT, 0);
    }
}

void connections_tick(server *s, uint64_t now_ns)
{
    for (connection *c = s->connections, *next; c; c = next) {
        next = c->next;
        if (!c->gone) check_deadlines(c, now_ns);
    }
}
