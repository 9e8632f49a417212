/* model_waiters.h - answers that wait for a model: starts them, or reports that loading failed. */
#ifndef SERVER_MODEL_WAITERS_H
#define SERVER_MODEL_WAITERS_H

#include "server/state.h"

/* It was loaded, could not be, or was unloaded. */
void model_moved(served_model *m);

#endif
