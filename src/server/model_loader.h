/* model_loader.h - models in and out of memory: on a thread, one after another, within a bound.
 *
 * An answer asks for its model and waits in line (schedule.h); it is notified when the model is
 * loaded, or cannot be.  All of it is called on the loop. */
#ifndef SERVER_MODEL_LOADER_H
#define SERVER_MODEL_LOADER_H

#include "server/state.h"

enum { MODEL_RETRY_S = 5 }; /* after which one that could not be loaded is tried again */

/* Can it be loaded at all?  CERIUM_ERR_ARGUMENT with *e: it does not fit, or just failed. */
CERIUM_CHECKED int model_check(const served_model *m, protocol_error *e);
/* A request waits for it, or soon will. */
void model_want(served_model *m);
/* Apply the request's keep-alive time. */
void model_keep(served_model *m, const protocol_request *r);
/* Nothing runs in it: true; it goes as soon as it can. */
bool model_unload(served_model *m);
/* A choice opened or closed a session of it. */
void model_count_session(served_model *m, int32_t n);
/* May a text of this answer begin: is its model loaded, and does no older request for another model
 * wait for its memory? */
bool model_serves(const answer *a);

/* Begin what can be begun: after something ended, and once a second. */
void models_work(server *s);
/* A load that runs ends, and none begins: waits for it. */
void models_stop(server *s);

#endif
