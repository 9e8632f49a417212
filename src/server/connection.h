/* connection.h - one TCP connection: what waits to be sent, in what cuts, and its end.
 *
 * Output goes out at once where the socket takes it: libwebsockets lets a callback of another
 * socket write, and keeps what the kernel did not take.  As long as it keeps something, ours
 * gathers in `out`, and its answers are parked when that grows. */
#ifndef SERVER_CONNECTION_H
#define SERVER_CONNECTION_H

#include "server/state.h"

CERIUM_CHECKED int connection_open(server *s, struct lws *wsi);
/* libwebsockets closed it: its answers go on without a listener, or end. */
void connection_gone(connection *c);
/* Accepts NULL. */
void connection_free(connection *c);

/* Bytes that take one write of their own. */
void connection_send(connection *c, view head, view body);
/* One event of a stream, framed for a WebSocket or as an SSE event (name may be NULL). */
void connection_event(connection *c, const char *name, const char *json, size_t len);

/* Between the two nothing is sent: what must first be stored is not yet said. */
void connection_cork(connection *c);
void connection_uncork(connection *c);
/* What was gathered is not said at all; still corked. */
void connection_drop_corked(connection *c);

/* Send what waits. */
void connection_flush(connection *c);
/* lws says that the socket takes more. Returns -1 when the connection is to be closed. */
int connection_writeable(connection *c);
/* Close once everything is sent. */
void connection_close(connection *c);
/* Close now, and send nothing more. */
void connection_break(connection *c);

/* Its reader is behind: let the answers wait. */
static inline bool connection_parked(const connection *c)
{
    return c->out.len - c->out_sent > SERVER_PARK_BYTES;
}

/* Deadlines of all connections; once a second. */
void connections_tick(server *s, uint64_t now_ns);

#endif
