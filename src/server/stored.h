/* stored.h - what the store knows of conversations. */
#ifndef SERVER_STORED_H
#define SERVER_STORED_H

#include "server/state.h"

/* On the store's thread: the turn of a response, from memory or from the store, held; *out NULL:
 * there is none of this model's.  *failed: the store did.  CERIUM_ERR_ARGUMENT with *e. */
CERIUM_CHECKED int stored_turn(const server *s, uint64_t tenant, uint64_t serial, const char *id,
                               const history_turn **out, bool *failed, protocol_error *e);
/* Fills *e: the store failed, which is logged; or there is no response of this id. */
int stored_failed(const cerium_error *err, protocol_error *e);
int stored_no_turn(const char *id, protocol_error *e);
/* On the store's thread: keep an answer that its client wants kept; false, after a line in the log,
 * when that failed. */
bool stored_keep(answer *a, view response, const int32_t *tokens, size_t n_tokens);

#endif
