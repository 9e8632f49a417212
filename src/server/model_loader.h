/* model_loader.h - loads and unloads models: on a thread, one after another, within a bound of
 * memory.
 *
 * An answer requests its model and waits in the queue (schedule.h); it is notified when the model
 * is loaded, or cannot be.  All functions are called on the loop. */
#ifndef SERVER_MODEL_LOADER_H
#define SERVER_MODEL_LOADER_H

#include "server/state.h"

enum { MODEL_RETRY_S = 5 }; /* after which a failed load is tried again */

/* Can it be loaded at all?  CERIUM_ERR_ARGUMENT with *e: it does not fit, or just failed. */
CERIUM_CHECKED int model_check(const served_model *m, protocol_error *e);
/* A request waits for the model, or soon will. */
void model_want(served_model *m);
/* Apply the request's keep-alive time. */
void model_keep(served_model *m, const protocol_request *r);
/* Does nothing run in it?  Then it is unloaded as soon as possible. */
bool model_unload(served_model *m);
/* A choice opened or closed a session of it. */
void model_count_session(served_model *m, int32_t n);
/* May a text of this answer begin?  Its model must be loaded, and no older request for another
 * model may wait for the memory. */
bool model_serves(const answer *a);

/* Start possible loads and unloads: after a job ended, and once a second. */
void models_work(server *s);
/* Stop loading: ends a running load and waits for it; no other begins. */
void models_stop(server *s);

#endif
