/* intake.h - requests from their last byte to their handler: parsed by a thread, unless they are
 * small.
 *
 * A WebSocket's messages are processed in order: after one that a thread parses, all wait; only a
 * small message that cancels a running response overtakes them. */
#ifndef SERVER_INTAKE_H
#define SERVER_INTAKE_H

#include "server/counting.h"

/* The body of the connection's HTTP request is complete. */
void intake_http(connection *c, protocol_api api, count_what what);
/* A message of a WebSocket; it is taken (and then empty) if a thread parses it. */
void intake_message(connection *c, bytes *text);
/* The connection is gone: its requests are not parsed. */
void intake_close(connection *c);

#endif
