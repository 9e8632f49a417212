/* model_memory.h - what models take of the memory that all of them may have.
 *
 * A model counts with its weights, from before they are loaded until they are freed, and with what
 * its KV pages may take.  That is at least one whole context, and more as long as there is room:
 * when another model comes, those that are there get less, and give back what nobody uses. */
#ifndef SERVER_MODEL_MEMORY_H
#define SERVER_MODEL_MEMORY_H

#include "server/served_model.h"

/* The memory that models may have where nobody says: of what is available now. */
uint64_t models_memory_available(void);
/* What it takes now, or needs at least where it is not loaded. */
uint64_t model_bytes(const served_model *m);
uint64_t model_bytes_min(const served_model *m);
/* For one model, with all others gone that can go. */
uint64_t models_room(const server *s);
/* It can be loaded beside those that are there, once they gave back what nobody uses. */
bool models_fit_with(const server *s, const served_model *m);

/* How much each of those that are there may have for its KV: of what is left beside all weights,
 * as much as the others, and none more than it can use.  keeps: none gets less than it has. */
void models_share(server *s, bool keeps);
/* Let engines know.  Where one has less than before it takes as long as giving back memory does:
 * that is the thread's that loads. */
void models_limit(const server *s);

#endif
