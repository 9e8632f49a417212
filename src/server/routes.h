/* routes.h - the handler for each path and method. */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include "server/state.h"

typedef void route_fn(connection *c);

typedef struct route {
    const char *path;     /* "{id}" is one segment, "{path}" for the rest */
    unsigned methods;     /* 1 << METHOD_* */
    bool open;            /* served without a key */
    metrics_route metric;
    route_fn *serve;
} route;

/* The route of a request; never NULL: unknown ones have a route that answers 404 or 405.
 * "/v1/models" and "/models" are the same.  id: the segment at {id}, decoded, or "". */
const route *route_find(http_method method, const char *path, char id[SERVER_ID_BYTES]);

/* Handle the routes without a key that only concern the server: /health and /metrics; others are
 * 404. */
const route *route_find_probed(http_method method, const char *path, char id[SERVER_ID_BYTES]);

/* Pure, for tests: does path match pattern? */
bool route_fits(const char *pattern, const char *path, char id[SERVER_ID_BYTES]);

#endif
