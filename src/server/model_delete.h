/* model_delete.h - DELETE /api/delete, as Ollama has it: the file of a model that was fetched.
 *
 * It is gone for new requests at once, its weights as soon as nothing of it is being loaded or
 * freed, its vocabulary when no thread works for any request. */
#ifndef SERVER_MODEL_DELETE_H
#define SERVER_MODEL_DELETE_H

#include "server/state.h"

void model_delete(connection *c);
/* Once a second: what was deleted leaves the list when nothing can know of it any more. */
void model_delete_tick(server *s);

#endif
