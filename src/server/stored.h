/* stored.h - conversations in the store. */
#ifndef SERVER_STORED_H
#define SERVER_STORED_H

#include "server/state.h"

/* On the store's thread: the turn of a response, from memory (of any model: see history_turn.model)
 * or, this model's, from the store, held; *out NULL: there is none.  *failed: the store failed.
 * CERIUM_ERR_ARGUMENT with *e. */
CERIUM_CHECKED int stored_turn(const served_model *m, uint64_t tenant, uint64_t serial,
                               const char *id, const history_turn **out, bool *failed,
                               protocol_error *e);
/* On the store's thread: adds the items of a stored response and of those before it, oldest first;
 * previous_response_not_found where one of them is not stored, as stored_no_turn(). */
CERIUM_CHECKED int stored_conversation(const answer *a, const char *id, json_t *whole, bool *failed,
                                       protocol_error *e);
/* Fills *e: the store failed, which is logged; or no response has this id. */
int stored_failed(const cerium_error *err, protocol_error *e);
int stored_no_turn(const char *id, protocol_error *e);
/* On the store's thread: store an answer for its client; false: that failed, and was logged. */
bool stored_keep(answer *a, view response, const int32_t *tokens, size_t n_tokens);

#endif
