/* forward.h - answers that another server gives: which go where, and how they come back.
 *
 * A forwarded answer is an answer like any other, with a choice that has no engine session: its
 * text comes from upstream.c's thread, is read by protocol/onward.h, and told by its writer. */
#ifndef SERVER_FORWARD_H
#define SERVER_FORWARD_H

#include "server/state.h"

/* Start the thread, where there are upstreams; an event loop to wake is there. */
CERIUM_CHECKED int forward_open(server *s, cerium_error *err);
void forward_close(server *s);

/* Set a->forward when the request goes elsewhere, by its model, its effort, the queue here, or
 * where the conversation before it went.
 * CERIUM_ERR_ARGUMENT with *e: it belongs to an upstream that does not answer. */
CERIUM_CHECKED int forward_route(answer *a, protocol_error *e);
/* The same for a prompt of n_tokens, or that is too long for here (status: what making it said).
 * Returns status, or CERIUM_OK when it goes elsewhere. */
CERIUM_CHECKED int forward_route_long(answer *a, uint64_t n_tokens, int status, protocol_error *e);
/* Make the request to be sent: on a thread, that of the store where it needs that.  *store_failed:
 * it did. */
bool forward_needs_store(const answer *a);
CERIUM_CHECKED int forward_make(answer *a, bool *store_failed, protocol_error *e);
/* It is made: back on the loop. */
CERIUM_CHECKED int forward_made(answer *a, protocol_error *e);
/* About how many tokens it asks with. */
uint64_t forward_tokens(const answer *a);
/* It was admitted: what its answer may have is said there, too. */
CERIUM_CHECKED int forward_cap(answer *a, protocol_error *e);
/* Send it.  What comes of that is found by forward_poll(). */
void forward_start(answer *a);
/* What came; false when that was nothing. */
bool forward_poll(answer *a);

/* Keep its conversation, as far as the client wants that; false when it could not be stored. */
bool forward_remember(answer *a, view body);
void forward_usage(const answer *a, cerium_usage *usage);
/* What the model is called there, and who serves it. */
const char *forward_model(const answer *a);
const char *forward_server(const answer *a);
/* Accepts answers without one. */
void forward_free(answer *a);

#endif
