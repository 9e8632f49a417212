/* ollama.h - handlers of Ollama's routes without sampling. */
#ifndef SERVER_OLLAMA_H
#define SERVER_OLLAMA_H

#include "server/state.h"

void ollama_version_get(connection *c);
void ollama_tags(connection *c);
void ollama_ps(connection *c);
void ollama_show(connection *c);
/* Routes that change models. */
void ollama_unserved(connection *c);

#endif
