/* model_routes.h - handlers of the routes that list and load models. */
#ifndef SERVER_MODEL_ROUTES_H
#define SERVER_MODEL_ROUTES_H

#include "server/state.h"

void model_list(connection *c);
void model_get(connection *c);
/* As in llama.cpp's router. */
void model_post_load(connection *c);
void model_post_unload(connection *c);

#endif
