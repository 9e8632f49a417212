/* model_loader.h - models in and out of memory: on a thread, one after another, within a bound.
 *
 * Whoever wants a model says so and waits in line (schedule.h); when it is loaded, or cannot be,
 * those who wait are told.  All of it is called on the loop. */
#ifndef SERVER_MODEL_LOADER_H
#define SERVER_MODEL_LOADER_H

#include "server/state.h"

enum { MODEL_RETRY_S = 5 }; /* after which one that could not be loaded is tried again */

/* Can it be loaded at all?  CERIUM_ERR_ARGUMENT with *e: it does not fit, or just failed. */
CERIUM_CHECKED int model_check(const served_model *m, protocol_error *e);
/* Somebody waits for it, or soon will. */
void model_want(served_model *m);
/* What the request says of how long it is kept. */
void model_keep(served_model *m, const protocol_request *r);
/* Nothing runs in it: true; it goes as soon as it can. */
bool model_unload(served_model *m);
/* A choice opened or closed a session of it. */
void model_count_session(served_model *m, int32_t n);
/* A text of this answer may begin: its model is there, and no older request for another one waits
 * for this one's memory. */
bool model_serves(const answer *a);

/* Begin what can be begun: after something ended, and once a second. */
void models_work(server *s);
/* A load that runs ends, and none begins: waits for it. */
void models_stop(server *s);

#endif
