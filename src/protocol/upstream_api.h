/* upstream_api.h - forwards a request to another server, and parses its answer.
 *
 * A conversation is sent as Responses or, if the other server lacks them, as Chat Completions;
 * always as a stream, and always complete, because the other server stores nothing for us.  Its
 * answer becomes the same parts as a local model's text, so that one writer serves clients of any
 * API.  Pure; the answer is read from bytes of an unknown server: fuzzed. */
#ifndef PROTOCOL_UPSTREAM_API_H
#define PROTOCOL_UPSTREAM_API_H

#include "protocol/protocol.h"
#include "protocol/sse.h"

typedef struct {
    const protocol_request *request; /* of Responses or Chat */
    json_t *items;                   /* Responses: the whole conversation; else NULL */
    const char *model;               /* the model's name on the other server */
    const char *budget;              /* Chat's field for a budget of thoughts; NULL: none */
    bool responses;                  /* it has the Responses API */
} upstream_order;

/* The path after the other server's url. */
const char *upstream_path(const upstream_order *order);
/* The body of the request without the limit of the answer's tokens, which may depend on the body's
 * length.  Appended to *out.  CERIUM_ERR_MEMORY, CERIUM_ERR_CAPACITY. */
CERIUM_CHECKED int upstream_body(bytes *out, const upstream_order *order);
/* Add the limit to the body that was appended last, under the client's name for it or the other
 * API's. */
CERIUM_CHECKED int upstream_cap(bytes *out, const upstream_order *order, uint32_t new_tokens_max);

/* An answer that is being parsed. */
typedef struct {
    const protocol_request *request; /* borrowed */
    protocol_writer *writer;         /* borrowed: receives the parts */
    bool responses;                  /* the API of the answer */
    sse events;
    bytes input;                     /* arguments of a call that takes free text, as JSON */
    int64_t call;                    /* number of the open call; -1 = none */
    bool free_text;                  /* it takes free text */
    bool ended;                      /* it reported its end */
    protocol_end end;                /* how */
    bool has_usage;
    protocol_usage usage;
    protocol_error error;            /* of PROTOCOL_END_FAILED */
} upstream_reader;

void upstream_reader_open(upstream_reader *o, const protocol_request *request,
                          protocol_writer *writer, bool responses);
void upstream_reader_close(upstream_reader *o);
/* Feed more of the answer's body.  CERIUM_ERR_FORMAT: it is not a stream of that API. */
CERIUM_CHECKED int upstream_reader_feed(upstream_reader *o, view body);
/* An answer that is not a stream: its error, as ours; http_status as received. */
void upstream_refusal(view body, int http_status, const char *who, protocol_error *e);

#endif
