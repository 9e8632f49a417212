/* http.h - HTTP exchanges: a request's head and body in, an answer out.
 *
 * Heads are written by hand, so that head and body are one write.  HTTP/1.1 with keep-alive;
 * streams are chunked. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "server/state.h"

/* One request at a time: what came after it waits until it is answered. */
extern const connection_type http_connection;
/* The same for probes.h. */
extern const connection_type http_probe;

/* For upgrades. Begin an exchange: id, route, method. */
void http_open(connection *c);
/* The connection is gone; what was under way is over. */
void http_abandon(connection *c);

/* Headers that most answers lack. Each line ends with \r\n. */
typedef struct {
    int status;
    const char *type;    /* content-type; NULL = application/json */
    const char *headers; /* more lines, or NULL */
} http_head;

/* The body as a JSON object, read on the loop: so it may have bytes_max bytes, and no more.  The
 * caller owns it; NULL: an error was answered. */
json_t *http_body_object(connection *c, size_t bytes_max);

/* The whole answer. */
void http_answer(connection *c, const http_head *head, view body);
/* The same for an object; takes the reference.  NULL = out of memory. */
void http_json(connection *c, int status, json_t *object);
void http_error(connection *c, const protocol_error *e);

/* The same with fields of its own. */
void http_error_with(connection *c, const protocol_error *e, const char *fields);
/* An error within a stream, appended to *out in the form of what was asked. */
CERIUM_CHECKED int http_error_event(const connection *c, bytes *out, const protocol_error *e);
/* A stream: its head, then pieces, then the end. A piece is a chunk of its own in HTTP/1.1; before
 * has some 100 bytes at most, after a few. */
void http_stream(connection *c, const char *type);
void http_piece(connection *c, view before, view body, view after);
void http_stream_end(connection *c);

/* An upgrade is refused: answered with this error, then closed. */
void http_refuse(connection *c, const protocol_error *e);

/* One argument after the path's '?', decoded.  "" when it is not there. */
void http_argument(const connection *c, const char *name, char *out, size_t cap);

#endif
