/* model_delete.h - DELETE /api/delete, as in Ollama: removes the file of a pulled model.
 *
 * New requests no longer see it at once; its weights are freed as soon as no load or unload of it
 * runs, its vocabulary when no thread works for any request. */
#ifndef SERVER_MODEL_DELETE_H
#define SERVER_MODEL_DELETE_H

#include "server/state.h"

void model_delete(connection *c);
/* Once a second: remove deleted models from the list when nothing refers to them any more. */
void model_delete_tick(server *s);

#endif
