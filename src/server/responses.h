/* responses.h - handlers of /v1/responses/{id} and of the list: running and stored ones. */
#ifndef SERVER_RESPONSES_H
#define SERVER_RESPONSES_H

#include "server/state.h"

void responses_list(connection *c);
void responses_get(connection *c);
void responses_delete(connection *c);
void responses_cancel(connection *c);
void responses_input_items(connection *c);

#endif
