/* sse.h - reads a stream of server-sent events, in any cuts.
 *
 * As in the HTML standard (9.2.6): lines end with \r\n, \n or \r, `data` lines of one event are
 * joined, an empty line ends it; names of events, ids and comments are skipped, because the JSON
 * has the type.  Fuzzed. */
#ifndef PROTOCOL_SSE_H
#define PROTOCOL_SSE_H

#include "base/base.h"
#include "base/memory.h"

typedef struct {
    bytes line;       /* of an incomplete line; its max bounds lines and events */
    bytes data;       /* of an incomplete event */
    bool any, was_cr; /* has data; the last byte was \r */
} sse;

/* Returns 0, or a status that ends the reading. */
typedef int sse_fn(void *user, view data);

void sse_open(sse *s, size_t event_bytes_max);
void sse_close(sse *s);
/* CERIUM_ERR_CAPACITY for an event over the bound, CERIUM_ERR_MEMORY, or what fn returned. */
CERIUM_CHECKED int sse_feed(sse *s, view text, sse_fn *fn, void *user);

#endif
