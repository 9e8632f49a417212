/* connection.h - one TCP connection: its protocol, its queued output, and its end.
 *
 * net/tcp_stream.h moves the bytes.  While much output waits for the reader, its answers are
 * parked. */
#ifndef SERVER_CONNECTION_H
#define SERVER_CONNECTION_H

#include "server/state.h"

/* Take an accepted socket.  Closed if it cannot be served. */
void connection_open(server *s, int fd, const char *peer, const connection_type *type);

/* Queue head and body, to be sent at the next connection_flush(); */
void connection_put(connection *c, view head, view body);
/* or send them at once, as far as the socket takes them. */
void connection_send(connection *c, view head, view body);

/* Between the two output is held: then it is sent in one write.  These, connection_flush() and
 * connection_parked() accept NULL. */
void connection_cork(connection *c);
void connection_uncork(connection *c);

/* Send queued output, as far as the socket takes it. */
void connection_flush(connection *c);
/* Close once everything is sent. */
void connection_close(connection *c);
/* Close now, and send nothing more. */
void connection_break(connection *c);

/* Count bytes of an incomplete body or message, more or fewer.  False: no room, and nothing was
 * counted. */
bool connection_gathers(connection *c, size_t so_far, ptrdiff_t bytes);

/* Its reader is slow: let the answers wait (backpressure). */
static inline bool connection_parked(const connection *c)
{
    return c && stream_waiting(&c->io) > SERVER_PARK_BYTES;
}

/* Close the connection that has been idle the longest, to serve another one.  False when none is
 * idle. */
bool connections_evict(server *s);
/* Check the deadlines of all connections; once a second. */
void connections_tick(server *s, uint64_t now_ns);
/* Bytes that wait for readers. */
size_t connections_waiting(const server *s);

#endif
