/* model_pull.h - models that are offered, fetched one at a time by a thread, and then served.
 *
 *   GET /models/pull        what is offered, what fits, and how far a fetch is
 *   POST /models/pull       {"model": NAME}: fetch it; answered at once
 *   DELETE /models/pull     end that; what came is kept for another time
 *   POST /api/pull          the same as Ollama has it, with progress in lines
 */
#ifndef SERVER_MODEL_PULL_H
#define SERVER_MODEL_PULL_H

#include "server/state.h"

void pull_list(connection *c);
void pull_begin(connection *c);
void pull_cancel(connection *c);
void pull_ollama(connection *c);

/* It is being fetched now. */
bool pull_fetches(const server *s, const char *name);
/* Once a second: send progress to the followers of a fetch. */
void pull_tick(server *s);
/* A fetch ends soon: waits for it. */
void pull_stop(server *s);
/* The server closes. */
void pull_close(server *s);

#endif
