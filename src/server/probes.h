/* probes.h - a second listener for those who cannot send a key: /metrics and /health, no more. */
#ifndef SERVER_PROBES_H
#define SERVER_PROBES_H

#include "server/state.h"

/* Where config.metrics_listen says, if anywhere.  It stays open until the server is closed, so
 * that a server that ends can be watched.  CERIUM_ERR_ARGUMENT, CERIUM_ERR_IO. */
CERIUM_CHECKED int probes_open(server *s, cerium_error *err);

#endif
