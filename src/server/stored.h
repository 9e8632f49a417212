/* stored.h - the handlers of /v1/responses/{id} and of the list: running and stored responses. */
#ifndef SERVER_STORED_H
#define SERVER_STORED_H

#include "server/state.h"

void stored_list(connection *c);
void stored_get(connection *c);
void stored_delete(connection *c);
void stored_cancel(connection *c);
void stored_input_items(connection *c);

/* The turn that previous_response_id names, from memory or from the store; *out is valid until
 * the history changes.  CERIUM_ERR_ARGUMENT with *e (previous_response_not_found). */
CERIUM_CHECKED int stored_turn(server *s, uint64_t tenant, uint64_t serial, const char *id,
                               const history_turn **out, protocol_error *e);
/* Fills *e: there is no response of this id. */
int stored_no_turn(const char *id, protocol_error *e);
/* Keep an answer that its client wants kept; false, after a line in the log, when that failed. */
bool stored_keep(answer *a, view response, const int32_t *tokens, size_t n_tokens);

#endif
