/* response_routes.h - handlers of /v1/responses/{id} and of the list: running and stored ones. */
#ifndef SERVER_RESPONSE_ROUTES_H
#define SERVER_RESPONSE_ROUTES_H

#include "server/state.h"

void response_list(connection *c);
void response_get(connection *c);
void response_delete(connection *c);
void response_cancel(connection *c);
void response_input_items(connection *c);

#endif
