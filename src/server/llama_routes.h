/* llama_routes.h - handlers of llama.cpp's routes without sampling, and of embeddings. */
#ifndef SERVER_LLAMA_ROUTES_H
#define SERVER_LLAMA_ROUTES_H

#include "server/state.h"

void llama_props(connection *c);
void llama_slots(connection *c);
void llama_detokenize(connection *c);
/* 501: vectors of a language model are useless for search. */

#endif
