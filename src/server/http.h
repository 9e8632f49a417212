/* http.h - HTTP exchanges: a request's head and body in, an answer out.
 *
 * Heads are written by hand, so that head and body are one write.  HTTP/1.1 with keep-alive;
 * streams are chunked. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "server/state.h"

/* Begin an exchange: id, route, method.  For upgrades; http_input() does it itself. */
void http_open(connection *c);
/* Bytes came.  One request at a time: what came behind it waits until it is answered. */
bool http_input(connection *c);
/* The connection is gone; what was under way is over. */
void http_abandon(connection *c);

/* Headers that most answers lack. Each line ends with \r\n. */
typedef struct {
    int status;
    const char *type;    /* content-type; NULL = application/json */
    const char *headers; /* more lines, or NULL */
} http_head;

/* The whole answer. */
void http_answer(connection *c, const http_head *head, view body);
/* The same for an object; takes the reference.  NULL = out of memory. */
void http_json(connection *c, int status, json_t *object);
void http_error(connection *c, const protocol_error *e);
/* An event stream: its head, then connection_event() each, then the end. */
void http_stream(connection *c);
void http_stream_end(connection *c);
/* Everything is sent: make ready for the next request. */
void http_end(connection *c);

/* An upgrade is refused: answered with this error, then closed. */
void http_refuse(connection *c, const protocol_error *e);

/* One header of the request into out; "" when it is not there or too long for out. */
void http_header(const connection *c, const char *name, char *out, size_t cap);
/* One argument behind the path's '?', decoded.  "" when it is not there. */
void http_argument(const connection *c, const char *name, char *out, size_t cap);

#endif
