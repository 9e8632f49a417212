/* inline.h - completions while typing, over a WebSocket: completion.create and
 * completion.cancel. */
#ifndef SERVER_INLINE_H
#define SERVER_INLINE_H

#include "server/state.h"

/* Begin, or send the reason for refusing; takes the request, of this many received bytes. */
void inline_begin(connection *c, protocol_request *request, size_t n_bytes, uint64_t started_ns);
/* id: "" when unknown. */
void inline_refuse(connection *c, const char *id, const protocol_error *e);
/* False if no such completion of the connection is running. */
bool inline_cancel(connection *c, const char *id);

#endif
