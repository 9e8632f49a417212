/* source_upstream.h - answers of other servers: chooses the server, sends requests, reads answers.
 *
 * Such an answer has a choice without an engine session: its text comes from upstream.c's thread,
 * is read by protocol/upstream_api.h, and written by its writer. */
#ifndef SERVER_SOURCE_UPSTREAM_H
#define SERVER_SOURCE_UPSTREAM_H

#include "server/state.h"

/* Start the thread if there are upstreams; the event loop must exist. */
CERIUM_CHECKED int source_upstream_open(server *s, cerium_error *err);
void source_upstream_close(server *s);

/* Set a->source when the request goes to another server: by its model, its effort, the queue here,
 * or the earlier route of its conversation.
 * CERIUM_ERR_ARGUMENT with *e: it belongs to an upstream that does not answer. */
CERIUM_CHECKED int source_upstream_route(answer *a, protocol_error *e);
/* The same for a prompt of n_tokens, or one too long for this server (status: the result of making
 * it). Returns status, or CERIUM_OK when it goes to another server. */
CERIUM_CHECKED int source_upstream_route_long(answer *a, uint64_t n_tokens, int status,
                                       protocol_error *e);

#endif
