/* intake.h - requests on their way from their last byte to what they ask: read by a thread, unless
 * they are small.
 *
 * A WebSocket's messages are taken in their order: after one that a thread reads, all wait; only a
 * small message that cancels what runs goes by. */
#ifndef SERVER_INTAKE_H
#define SERVER_INTAKE_H

#include "server/counting.h"

/* The body of the connection's HTTP request is whole. */
void intake_http(connection *c, protocol_api api, count_what what);
/* A message of a WebSocket, which is taken (and empty then) where a thread is to read it. */
void intake_message(connection *c, bytes *text);
/* The connection is gone: what it asked is not read. */
void intake_close(connection *c);

#endif
