/* source_engine.h - answers of the engine in this process. */
#ifndef SERVER_SOURCE_ENGINE_H
#define SERVER_SOURCE_ENGINE_H

#include "server/state.h"

extern const source_type source_engine;

/* A waiting choice gets a place and runs.  CERIUM_ERR_CAPACITY: no session is free. */
CERIUM_CHECKED int source_engine_start(choice *ch);

#endif
