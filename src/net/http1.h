/* http1.h - parses requests of HTTP/1.1 (RFC 9112) from pieces of any size (llhttp).
 *
 * Stricter than the parser where RFC 9112 leaves a choice that two servers in a row might make
 * differently: folded lines, empty names, two hosts and bytes beyond ASCII in the target are
 * refused. No socket; pure but for its memory; fuzzed. */
#ifndef NET_HTTP1_H
#define NET_HTTP1_H

#include "base/memory.h"

typedef enum {
    METHOD_GET = 0,
    METHOD_POST = 1,
    METHOD_OPTIONS = 2,
    METHOD_PUT = 3,
    METHOD_PATCH = 4,
    METHOD_DELETE = 5,
    METHOD_HEAD = 6,
    METHOD_OTHER = 7,
} http_method;

typedef enum {
    HTTP_READ_MORE = 0,  /* all was used, more input is needed */
    HTTP_READ_HEAD = 1,  /* the head is complete: look at it, call again for the body */
    HTTP_READ_WHOLE = 2, /* the body is complete; further bytes are the next request's */
    HTTP_READ_BAD = 3, /* refused: see status and reason; the beginning of the next one is
                        * unknown */
} http_progress;

typedef struct http_reader http_reader;

/* Returns owned; NULL: no memory. */
http_reader *http_reader_open(void);
void http_reader_close(http_reader **r);
/* Prepare for the next request of the connection. */
void http_reader_begin(http_reader *r);

/* Continue parsing; *used bytes of `in` were used.  The body is appended to *body, whose maximum
 * limits it. */
http_progress http_reader_feed(http_reader *r, view in, bytes *body, size_t *used);

/* After HTTP_READ_BAD: 400, 413, 414, 417, 431, 500, 501, 505; one line. */
int http_reader_status(const http_reader *r);
const char *http_reader_reason(const http_reader *r);
/* Has nothing of a request been read yet? */
bool http_reader_is_idle(const http_reader *r);

/* ---- the head, once it is complete ---- */

http_method http_reader_method(const http_reader *r);
const char *http_method_name(http_method method);
/* HTTP/1.1 and newer; else HTTP/1.0. */
bool http_reader_is_1_1(const http_reader *r);
/* The connection may continue after the answer. */
bool http_reader_keeps_alive(const http_reader *r);
/* The client asks for an upgrade to WebSocket. */
bool http_reader_wants_websocket(const http_reader *r);
/* The length of the body that follows: UINT64_MAX for chunks, 0 for none. */
uint64_t http_reader_body_bytes(const http_reader *r);
/* Path of the target, percent-encoded, without arguments; and the text after the '?', or "". */
const char *http_reader_path(const http_reader *r);
const char *http_reader_query(const http_reader *r);
/* The host: from the target in absolute form, else from the Host field. "" without one. */
const char *http_reader_host(const http_reader *r);
/* Value of the first field of this name (any case); NULL when there is none.  Values of several
 * lines of one name are not joined. */
const char *http_reader_field(const http_reader *r, const char *name);
/* The number of fields of this name. */
uint32_t http_reader_fields(const http_reader *r, const char *name);
/* Copy the value into out; "" when the field is missing or too long for out. */
void http_reader_copy(const http_reader *r, const char *name, char *out, size_t cap);

/* ---- parts of a target ---- */

/* %XX decoded in place, and '+' as a blank in an argument; false when it is malformed or contains a
 * NUL. */
bool http_decode(char *text, bool is_argument);
/* Copy one argument of a query, decoded, into out; false when it is missing, malformed, or does not
 * fit: then out is "". */
bool http_argument_of(const char *query, const char *name, char *out, size_t cap);

#endif
