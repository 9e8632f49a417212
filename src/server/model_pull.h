/* model_pull.h - offered models, pulled one at a time by a thread, and then served.
 *
 *   GET /models/pull  the offered models, which fit, and the progress of a pull
 *   POST /models/pull  {"model": NAME}: pull it; answered at once
 *   DELETE /models/pull  cancel that; the received part is kept for another time
 *   POST /api/pull  the same as in Ollama, with progress in lines
 */
#ifndef SERVER_MODEL_PULL_H
#define SERVER_MODEL_PULL_H

#include "server/state.h"

void pull_list(connection *c);
void pull_begin(connection *c);
void pull_cancel(connection *c);
void pull_ollama(connection *c);

/* It is being pulled now. */
bool pull_fetches(const server *s, const char *name);
/* Once a second: send progress to the followers of a pull. */
void pull_tick(server *s);
/* End a running pull soon: waits for it. */
void pull_stop(server *s);
/* The server closes. */
void pull_close(server *s);

#endif
