/* source_engine.h - answers that the engine here gives. */
#ifndef SERVER_SOURCE_ENGINE_H
#define SERVER_SOURCE_ENGINE_H

#include "server/state.h"

extern const source_type source_engine;

/* A choice that waits has a place: it runs.  CERIUM_ERR_CAPACITY: no session is free. */
CERIUM_CHECKED int source_engine_start(choice *ch);

#endif
