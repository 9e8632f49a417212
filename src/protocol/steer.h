/* steer.h - response.steer: a client's new instructions for a running response, and the reports
 * about them.  Sources: OpenAI's guide to steering and the types of its SDKs. */
#ifndef PROTOCOL_STEER_H
#define PROTOCOL_STEER_H

#include "protocol/protocol.h"

typedef struct {
    char *previous;  /* owned: the response; "" if the message names none */
    json_t *input;   /* owned: as sent; NULL: not sent */
    json_t *items;   /* owned: [user messages]; NULL if refused */
    size_t n_bytes;  /* of the message */
} protocol_steer;

/* Read a message of type response.steer; takes the body.  A refused message keeps its input, to
 * return it.  CERIUM_ERR_ARGUMENT with *error: code invalid_input. */
CERIUM_CHECKED int protocol_steer_read(protocol_steer *out, protocol_body *body, size_t n_bytes,
                                       protocol_error *error);
void protocol_steer_free(protocol_steer *steer);

/* ---- events ---- */

typedef struct {
    const char *id;        /* NULL: not assigned */
    const char *previous;
    const char *stream_id; /* or NULL */
    uint64_t sequence;
} protocol_steer_reply;

CERIUM_CHECKED int protocol_steer_accepted(bytes *out, const protocol_steer_reply *reply);
/* output: items of the response whose calls must be answered first. */
CERIUM_CHECKED int protocol_steer_pending(bytes *out, const protocol_steer_reply *reply,
                                          const json_t *output);
CERIUM_CHECKED int protocol_steer_failed(bytes *out, const protocol_steer_reply *reply,
                                         const json_t *input, const protocol_error *error);
/* Is one of these items a complete call that the client must answer? */
bool protocol_calls_client(const json_t *output);

/* ---- requests ---- */

/* The request that continues response `previous` with these items and the settings of `from`. own:
 * the items of `from` follow. */
CERIUM_CHECKED int protocol_request_again(protocol_request **out, const protocol_request *from,
                                          const char *previous, const json_t *items, bool own,
                                          const protocol_defaults *defaults,
                                          protocol_error *error);

/* ---- the answer that is steered ---- */

/* The number of the next event of a Response that another stream sends. */
uint64_t protocol_writer_sequence(protocol_writer *writer);
/* A steer arrived: the answer should end soon. */
void protocol_writer_steer(protocol_writer *writer);
/* May it end here?  Yes within a thought; after a line of text that ended since the steer, outside
 * a fence; after a complete call.  hurry: anywhere except in a call. */
bool protocol_writer_may_end(const protocol_writer *writer, bool hurry, bool *whole);

#endif
