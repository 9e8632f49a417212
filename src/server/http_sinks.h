/* http_sinks.h - answers that are sent over HTTP. */
#ifndef SERVER_HTTP_SINKS_H
#define SERVER_HTTP_SINKS_H

#include "server/state.h"

extern const sink_type http_lines_sink; /* an object a line */
extern const sink_type http_body_sink;   /* one JSON object */
extern const sink_type http_background_sink; /* the same, before it is answered */
extern const sink_type http_stream_sink; /* server-sent events */

#endif
