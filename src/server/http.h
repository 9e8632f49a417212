/* http.h - HTTP exchanges: reads a request's head and body, sends an answer.
 *
 * Heads are written by hand, so that head and body are one write.  HTTP/1.1 with keep-alive;
 * streams are chunked. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "server/state.h"

/* One request at a time: later bytes wait until it is answered. */
extern const connection_type http_connection;
/* The same for probes.h. */
extern const connection_type http_probe;

/* For upgrades: begin an exchange: id, route, method. */
void http_open(connection *c);
/* The connection is gone; its running exchange is over. */
void http_abandon(connection *c);

/* Headers that most answers lack.  Each line ends with \r
 * . */
typedef struct {
    int status;
    const char *type;    /* content-type; NULL = application/json */
    const char *headers; /* more lines, or NULL */
} http_head;

/* The body as a JSON object, parsed on the loop: so it is limited to bytes_max bytes.  The caller
 * owns it; NULL: an error was answered. */
json_t *http_body_object(connection *c, size_t bytes_max);

/* Send the whole answer. */
void http_answer(connection *c, const http_head *head, view body);
/* The same for an object; takes the reference.  NULL = out of memory. */
void http_json(connection *c, int status, json_t *object);
void http_error(connection *c, const protocol_error *e);

/* The same with additional header fields. */
void http_error_with(connection *c, const protocol_error *e, const char *fields);
/* Append an error within a stream to *out, in the form of the request's API. */
CERIUM_CHECKED int http_error_event(const connection *c, bytes *out, const protocol_error *e);
/* A stream: its head, then pieces, then the end.  Each piece is one chunk in HTTP/1.1; before has
 * at most about 100 bytes, after only a few. */
void http_stream(connection *c, const char *type);
void http_piece(connection *c, view before, view body, view after);
void http_stream_end(connection *c);

/* Refuse an upgrade: send this error, then close. */
void http_refuse(connection *c, const protocol_error *e);

/* One argument after the path's '?', decoded.  "" when it is missing. */
void http_argument(const connection *c, const char *name, char *out, size_t cap);

#endif
