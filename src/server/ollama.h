/* ollama.h - handlers of Ollama's routes that sample nothing. */
#ifndef SERVER_OLLAMA_H
#define SERVER_OLLAMA_H

#include "server/state.h"

void ollama_version_get(connection *c);
void ollama_tags(connection *c);
void ollama_ps(connection *c);
void ollama_show(connection *c);
/* What changes models. */
void ollama_unserved(connection *c);

#endif
