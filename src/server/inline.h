/* inline.h - completion.create and completion.cancel: completing as one types, over a WebSocket.
 *
 * The messages stand in docs/server.md.  It is POST /infill with other words. */
#ifndef SERVER_INLINE_H
#define SERVER_INLINE_H

#include "server/state.h"

void inline_create(connection *c, view message);
void inline_cancel(connection *c, view message);

#endif
