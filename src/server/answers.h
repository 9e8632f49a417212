/* answers.h - one answer: from an admitted request to its last event. */
#ifndef SERVER_ANSWERS_H
#define SERVER_ANSWERS_H

#include "server/state.h"

typedef struct {
    connection *c;             /* who asks */
    lane *lane;                /* of a WebSocket, or NULL */
    const answer_voice *voice; /* NULL: the voice of the request's API */
    protocol_request *request; /* taken, also when the answer fails */
    const char *id;            /* NULL: one is made */
    const char *document;      /* whose older answers on this client it supersedes, or NULL */
    uint64_t started_ns;       /* when the request was there */
} answer_order;

/* Admit, tell the client that it began, and start to compute.  Nothing was sent on error.
 * CERIUM_ERR_ARGUMENT with *e: 400, 404, 429, 500, 503. */
CERIUM_CHECKED int answer_begin(server *s, const answer_order *order, protocol_error *e);

/* End it now: the client gets the closing events with what was said so far.  Its engine sessions
 * stop within a layer.  No effect on an answer that ended. */
void answer_cancel(answer *a, const char *reason);

/* The connection is gone: what answers only it, is canceled. */
void answers_leave(connection *c);
/* A running one of this tenant; NULL when there is none. */
answer *answers_find(server *s, uint64_t tenant, const char *id);
/* One that this connection waits for; NULL when there is none. */
answer *answers_of(const connection *c);

/* For answers that another server gives (forward.h).  Tell the client that it began; that it ended,
 * with an error for PROTOCOL_END_FAILED; or, in place of both, why it cannot be given. */
void answer_tell_begin(answer *a);
void answer_end(answer *a, protocol_end end, const protocol_error *error);
void answer_refuse(answer *a, const protocol_error *e);
/* What was made of its prompts is not needed. */
void answer_drop_prompts(answer *a);

/* Everything that the engine has for us; false when that was nothing. */
bool answers_poll(server *s);
/* Start what waits for an engine session. */
void answers_start(server *s);

/* Free those that are over; at the end of each turn of the loop, when nothing points to them. */
void answers_reap(server *s);

#endif
