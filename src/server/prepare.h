/* prepare.h - prepares an answer: the turn that it continues, its prompts, the request to another
 * server, drafts, and the output format.
 *
 * It runs in stages.  Stages of a small request that need neither the store nor a compiled grammar
 * run at once; others run by workers.h, one after the other.  Between two stages the loop owns the
 * answer; the threads touch only its request. */
#ifndef SERVER_PREPARE_H
#define SERVER_PREPARE_H

#include "server/state.h"

typedef struct {
    /* Its preparation is complete, or failed. */
    void (*prepared)(answer *a);
    void (*unprepared)(answer *a, const protocol_error *e);
    /* Its prompts are made, with n_tokens, or failed (status, *e).  Returns status, or CERIUM_OK
     * after it gave the answer another source. */
    int (*made)(answer *a, uint64_t n_tokens, int status, protocol_error *e);
} preparation_events;

/* Begin, for an answer with choices and without prompts.  Afterwards a->prepare is NULL if it is
 * complete; else one of the first two will be called.  CERIUM_ERR_ARGUMENT with *e: it is already
 * freed. */
CERIUM_CHECKED int prepare_begin(answer *a, const preparation_events *events, protocol_error *e);

/* Cancel it, or (if the client still listens) finish it as an answer that ends before it runs.
 * True: it is freed; else one of the two calls will follow soon. */
bool prepare_stop(answer *a);
/* No thread uses it any more; accepts answers without one. */
void prepare_free(answer *a);

#endif
