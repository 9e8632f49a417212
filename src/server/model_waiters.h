/* model_waiters.h - answers that wait for a model: they begin, or hear that it will not come. */
#ifndef SERVER_MODEL_WAITERS_H
#define SERVER_MODEL_WAITERS_H

#include "server/state.h"

/* It was loaded, could not be, or is gone. */
void model_moved(served_model *m);

#endif
