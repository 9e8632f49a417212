/* inline.h - completing as one types, over a WebSocket: completion.create and completion.cancel. */
#ifndef SERVER_INLINE_H
#define SERVER_INLINE_H

#include "server/state.h"

/* Begin, or say why not; takes the request, which came as this many bytes. */
void inline_begin(connection *c, protocol_request *request, size_t n_bytes, uint64_t started_ns);
/* id: "" when it is not known. */
void inline_refuse(connection *c, const char *id, const protocol_error *e);
/* False when the connection has no such completion under way. */
bool inline_cancel(connection *c, const char *id);

#endif
