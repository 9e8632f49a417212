/* answers.h - one answer: from an admitted request to its last event. */
#ifndef SERVER_ANSWERS_H
#define SERVER_ANSWERS_H

#include "server/state.h"

typedef struct {
    sink sink;                 /* who asks, and hears the answer */
    const answer_voice *voice; /* NULL: the voice of the request's API */
    protocol_request *request; /* taken, also when the answer fails */
    const char *id;            /* NULL: one is made */
    const char *document;      /* whose older answers to this client it supersedes, or NULL */
    const char *client;        /* of a document */
    const char *guard;         /* x-cerium-guard, or NULL */
    size_t n_bytes;            /* of the request, as it came */
    uint64_t started_ns;       /* when the request was there */
} answer_order;

/* Tokens that each of its texts may have; UINT32_MAX: nobody says. Only what is our own idea has a
 * cap of ours: a summary is short. */
enum { SUMMARY_TOKENS_MAX = 1024 };
static inline uint32_t answer_cap(const answer *a)
{
    uint32_t most = a->warm_up ? 0 : a->request->new_tokens_max;
    return a->request->compacts && most > SUMMARY_TOKENS_MAX ? SUMMARY_TOKENS_MAX : most;
}

/* Admit, tell the client that it began, and start to compute.  Nothing was sent on error; what is
 * found wrong later, when its prompt was made by a thread, is told like what fails later.
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

/* For prepare.h: all that goes before it is there, or it cannot be given. */
void answer_prepared(answer *a);
void answer_unprepared(answer *a, const protocol_error *e);

/* For answers that another server gives (forward.h).  Tell the client that it began; that it ended,
 * with an error for PROTOCOL_END_FAILED; or, in place of both, why it cannot be given. */
void answer_tell_begin(answer *a);
void answer_end(answer *a, protocol_end end, const protocol_error *error);
void answer_refuse(answer *a, const protocol_error *e);

/* Start what waits for a place. */
void answers_start(server *s);
/* Something waits that could begin: must never be so behind answers_start(). */
bool answers_are_stuck(server *s);

/* Free those that are over; at the end of each turn of the loop, when nothing points to them. */
void answers_reap(server *s);

#endif
