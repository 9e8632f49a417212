/* answer_open.h - from a request to an answer that runs: admission, who gives it, what it needs. */
#ifndef SERVER_ANSWER_OPEN_H
#define SERVER_ANSWER_OPEN_H

#include "server/state.h"

typedef struct {
    sink sink;                 /* who asks, and hears the answer */
    protocol_request *request; /* taken, also when the answer fails */
    const char *id;            /* NULL: one is made */
    const char *document;      /* whose older answers to this client it supersedes, or NULL */
    const char *client;        /* of a document */
    const char *guard;         /* x-cerium-guard, or NULL */
    size_t n_bytes;            /* of the request, as it came */
    uint64_t started_ns;       /* when the request was there */
} answer_order;

/* Admit, tell the client that it began, and start to compute.  Nothing was sent on error; what is
 * found wrong later, when its prompt was made by a thread, is told like what fails later.
 * CERIUM_ERR_ARGUMENT with *e: 400, 404, 429, 500, 503. */
CERIUM_CHECKED int answer_open(server *s, const answer_order *order, protocol_error *e);

#endif
