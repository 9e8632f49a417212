/* model_memory.h - shares the memory of all models.
 *
 * A model counts with its weights, from before they are loaded until they are freed, and with the
 * bound of its KV pages.  That is at least one whole context, and more while there is room: when
 * another model is loaded, the others get less, and return unused pages. */
#ifndef SERVER_MODEL_MEMORY_H
#define SERVER_MODEL_MEMORY_H

#include "server/served_model.h"

/* The default memory of all models: a part of the available memory. */
uint64_t models_memory_available(void);
/* Its current use, or its minimum if it is not loaded. */
uint64_t model_bytes(const served_model *m);
uint64_t model_bytes_min(const served_model *m);
/* Available for one model once all others that can be unloaded are. */
uint64_t models_room(const server *s);
/* Can it be loaded beside the loaded ones, once these returned unused pages? */
bool models_fit_with(const server *s, const served_model *m);

/* The KV bound of each loaded model: an equal part of the memory left beside all weights, at most
 * what it can use.  keeps: no bound shrinks. */
void models_share(server *s, bool keeps);
/* Tell the engines.  If a bound shrinks, this takes as long as returning the memory: call it on the
 * loading thread. */
void models_limit(const server *s);

#endif
