/* solve_route.h - POST /v1/solve: variants of a place in a file, tested, and one that passes.
 *
 * A process of its own does it (solve_start.h).  It asks here for the model's variants: each
 * request of it is an answer of class batch for the connection that asked, one at a time. */
#ifndef SERVER_SOLVE_ROUTE_H
#define SERVER_SOLVE_ROUTE_H

#include "server/state.h"

void solve_route(connection *c);

#endif
