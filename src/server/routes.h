/* routes.h - which path and method is served by what. */
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

/* The route of a request; never NULL: what is unknown has a route that answers 404 or 405.
 * Both "/v1/models" and "/models" name the same.  id: the segment at {id}, decoded, or "". */
const route *route_find(http_method method, const char *path, char id[SERVER_ID_BYTES]);

/* Handle the routes without a key that are about the server only: /health and /metrics; others are
 * 404. */
const route *route_find_probed(http_method method, const char *path, char id[SERVER_ID_BYTES]);

/* Pure, for tests: whether path fits pattern. */
bool route_fits(const char *pattern, const char *path, char id[SERVER_ID_BYTES]);

#endif
