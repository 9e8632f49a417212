/* answer_open.h - from a request to a running answer: admission, source, preparation. */
#ifndef SERVER_ANSWER_OPEN_H
#define SERVER_ANSWER_OPEN_H

#include "server/state.h"

typedef struct {
    sink sink;                 /* the client, which gets the answer */
    protocol_request *request; /* taken, also when the answer fails */
    const char *id;            /* NULL: one is made */
    const char *document;      /* whose older answers to this client it supersedes, or NULL */
    const char *client;        /* of a document */
    const char *guard;         /* x-cerium-guard, or NULL */
    size_t n_bytes;            /* of the request, as received */
    uint64_t started_ns;       /* when the request was complete */
} answer_order;

/* Admit, send the beginning to the client, and start to compute.  On error nothing was sent; errors
 * in its prompt that a thread finds later are sent like later failures.  CERIUM_ERR_ARGUMENT with
 * *e: 400, 404, 429, 500, 503. */
CERIUM_CHECKED int answer_open(server *s, const answer_order *order, protocol_error *e);

#endif
