/* upstream_api.h - a request said again to another server, and its answer read back.
 *
 * A conversation goes on as Responses or, where the other server has only that, as Chat
 * Completions; always as a stream, and always whole, for the other one keeps nothing for us.  What
 * comes back becomes the same parts that a model's text becomes here, so that one writer tells the
 * client, whatever he speaks.  Pure; the answer is read from bytes of an unknown server: fuzzed. */
#ifndef PROTOCOL_UPSTREAM_API_H
#define PROTOCOL_UPSTREAM_API_H

#include "protocol/protocol.h"
#include "protocol/sse.h"

typedef struct {
    const protocol_request *request; /* of Responses or Chat */
    json_t *items;                   /* Responses: the whole conversation; else NULL */
    const char *model;               /* what the other server calls it */
    const char *budget;              /* its field of Chat for a budget of thoughts; NULL: none */
    bool responses;                  /* it has the Responses API */
} upstream_order;

/* The path after the other server's url. */
const char *upstream_path(const upstream_order *order);
/* The body of the request, all but how many tokens the answer may have: that may depend on how long
 * it is.  Appended to *out.  CERIUM_ERR_MEMORY, CERIUM_ERR_CAPACITY. */
CERIUM_CHECKED int upstream_body(bytes *out, const upstream_order *order);
/* The cap goes into the body that was appended last, under the name that the client gave it or the
 * other API has. */
CERIUM_CHECKED int upstream_cap(bytes *out, const upstream_order *order, uint32_t new_tokens_max);

/* An answer as it is read. */
typedef struct {
    const protocol_request *request; /* borrowed */
    protocol_writer *writer;         /* borrowed: gets the parts */
    bool responses;                  /* which API it comes in */
    sse events;
    bytes input;                     /* arguments of a call that takes free text, as JSON */
    int64_t call;                    /* number of the open call; -1 = none */
    bool free_text;                  /* it takes free text */
    bool ended;                      /* it said that it ended */
    protocol_end end;                /* how */
    bool has_usage;
    protocol_usage usage;
    protocol_error error;            /* of PROTOCOL_END_FAILED */
} upstream_reader;

void upstream_reader_open(upstream_reader *o, const protocol_request *request,
                          protocol_writer *writer, bool responses);
void upstream_reader_close(upstream_reader *o);
/* More of the answer's body.  CERIUM_ERR_FORMAT: it is not a stream of that API. */
CERIUM_CHECKED int upstream_reader_feed(upstream_reader *o, view body);
/* An answer that is not a stream: the error that it tells, as ours; http_status as it came. */
void upstream_refusal(view body, int http_status, const char *who, protocol_error *e);

#endif
