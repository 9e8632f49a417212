/* inline.h - completion.create and completion.cancel: completing as one types, over a WebSocket.
 *
 * The messages stand in docs/server.md.  It is POST /infill with other words. */
#ifndef SERVER_INLINE_H
#define SERVER_INLINE_H

#include "server/state.h"

enum { INLINE_ID_BYTES = 65 }; /* room for an id of a client's */

/* A message completion.create, which is taken; callable from any thread.  id: its own, "" when it
 * has none that is good.  *out owned. CERIUM_ERR_ARGUMENT with *e. */
CERIUM_CHECKED int inline_read(protocol_body *body, const protocol_defaults *defaults,
                               protocol_request **out, char id[INLINE_ID_BYTES],
                               protocol_error *e);
/* Begin, or say why not; takes the request. */
void inline_begin(connection *c, protocol_request *request, const char *id, size_t n_bytes,
                  uint64_t started_ns);
void inline_refuse(connection *c, const char *id, const protocol_error *e);

/* A message completion.cancel, which is taken; callable from any thread.  id: "" when it names
 * none. */
void inline_read_cancel(protocol_body *body, char id[INLINE_ID_BYTES]);
/* False when the connection has no such completion under way. */
bool inline_cancel(connection *c, const char *id);

#endif
