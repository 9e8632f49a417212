/* socket.h - WebSocket: messages in, lanes, and the order of answers. */
#ifndef SERVER_SOCKET_H
#define SERVER_SOCKET_H

#include "server/state.h"

/* The head of an upgrade is whole: done, or refused.  True when input goes on. */
bool socket_upgrade(connection *c);
/* Bytes came. */
bool socket_input(connection *c);
/* One message out, with the others of this turn. */
void socket_send(connection *c, view json);
/* Nothing was ever asked on it, and nothing runs: it can be closed at no loss. */
bool socket_is_unused(const connection *c);
/* The connection is gone. */
void socket_close(connection *c);
/* Once a second. */
void socket_tick(connection *c, uint64_t now_ns);
/* The server ends: close as soon as nothing runs. */
void socket_drain(connection *c);

/* An answer left its lane: the next one begins. */
void lane_free(lane *l);
/* An answer begins on it. */
void lane_take(lane *l, answer *a);
/* A message was read: it waits for its turn on its lane, or cancels what it names.  The request,
 * which came as so many bytes, is taken. */
void socket_take(connection *c, protocol_request *request, size_t n_bytes, uint64_t started_ns);
/* What a response.cancel names, if it runs; false: it does not. */
bool socket_cancel(connection *c, const protocol_request *request);
/* One error event; stream_id: of the lane, or NULL. */
void socket_error(connection *c, const protocol_error *e, const char *stream_id);

/* Pure, fuzzed: the value of "type" on the top level of a JSON object; empty when there is none
 * or it is no plain string.  Looks at no more than it needs. */
view socket_message_type(view message);

#endif
