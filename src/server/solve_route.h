/* solve_route.h - POST /v1/solve: variants of a place in a file, tested, and one that passes.
 *
 * A separate process does it (solve_start.h).  That process requests the model's variants here:
 * each is an answer of class batch for the client's connection, one at a time. */
#ifndef SERVER_SOLVE_ROUTE_H
#define SERVER_SOLVE_ROUTE_H

#include "server/state.h"

void solve_route(connection *c);

#endif
