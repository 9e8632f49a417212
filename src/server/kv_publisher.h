/* kv_publisher.h - KV events for subscribers: a PUB socket of ZeroMQ, and a ROUTER for missed
 * events, as in vLLM. */
#ifndef SERVER_KV_PUBLISHER_H
#define SERVER_KV_PUBLISHER_H

#include "server/state.h"

/* Open the sockets of config.kv_events and config.kv_events_replay, if set; models are open.
 * CERIUM_ERR_ARGUMENT, CERIUM_ERR_IO, CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int kv_publisher_open(server *s, cerium_error *err);
/* Once a second. */
void kv_publisher_tick(server *s);
/* Engines may still run; their events are dropped.  Ends the loop's part; turns it. */
void kv_publisher_close(server *s);

#endif
