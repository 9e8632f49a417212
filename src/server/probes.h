/* probes.h - a second listener for probes without a key: /metrics and /health only. */
#ifndef SERVER_PROBES_H
#define SERVER_PROBES_H

#include "server/state.h"

/* Listen at config.metrics_listen, if set.  It stays open until the server is closed, so that a
 * stopping server can be watched.  CERIUM_ERR_ARGUMENT, CERIUM_ERR_IO. */
CERIUM_CHECKED int probes_open(server *s, cerium_error *err);

#endif
