/* prepare.h - what goes before an answer: the turn that it goes on from, its prompts, what another
 * server is asked, drafts, and the shape of the text.
 *
 * It comes about in stages.  Those of a small request that need neither the store nor a grammar
 * compiled are done at once; others by workers.h, one after the other.  Between two stages the loop
 * has the answer, and on the threads nothing of it is touched but the request. */
#ifndef SERVER_PREPARE_H
#define SERVER_PREPARE_H

#include "server/state.h"

typedef struct {
    /* All that goes before it is there, or it cannot be given. */
    void (*prepared)(answer *a);
    void (*unprepared)(answer *a, const protocol_error *e);
    /* Its prompts are made, with n_tokens, or (status, *e) cannot be.  Returns status, or CERIUM_OK
     * after it gave the answer another source. */
    int (*made)(answer *a, uint64_t n_tokens, int status, protocol_error *e);
} preparation_events;

/* Begin, for an answer whose choices are there, without prompts.  Afterwards a->prepare is NULL
 * when all is there; else one of the first two will be called.
 * CERIUM_ERR_ARGUMENT with *e: nothing of it is left. */
CERIUM_CHECKED int prepare_begin(answer *a, const preparation_events *events, protocol_error *e);

/* Nobody wants it, or (the client listens) only as much as an answer has that ends before it runs.
 * True: nothing of it is left; else one of the two calls will come, soon. */
bool prepare_stop(answer *a);
/* No thread has it any more; accepts answers without one. */
void prepare_free(answer *a);

#endif
