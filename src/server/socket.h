/* socket.h - WebSocket: messages in, lanes, and the order of answers. */
#ifndef SERVER_SOCKET_H
#define SERVER_SOCKET_H

#include "server/state.h"

/* An upgrade is asked for (LWS_CALLBACK_HTTP_CONFIRM_UPGRADE): 0 = go on with it, -1 = refused
 * and answered. */
int socket_confirm(connection *c, char *upgrade);
CERIUM_CHECKED int socket_open(connection *c);
/* A piece of a message. Returns -1 when the connection is to be closed. */
int socket_receive(connection *c, const void *from, size_t len);
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
/* One error event; stream_id: of the lane, or NULL. */
void socket_error(connection *c, const protocol_error *e, const char *stream_id);

/* Pure, fuzzed: the value of "type" on the top level of a JSON object; empty when there is none
 * or it is no plain string.  Looks at no more than it needs. */
view socket_message_type(view message);

#endif
