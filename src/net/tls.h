/* tls.h - TLS over a socket that does not block (OpenSSL): the two calls that a stream needs. */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <sys/types.h>

#include "base/base.h"

typedef struct ssl_ctx_st tls_context; /* OpenSSL's */
typedef struct tls tls;

/* Certificate chain and key, PEM files. TLS 1.2 and newer; HTTP/1.1 alone is offered by ALPN.
 * CERIUM_ERR_IO names the file. */
CERIUM_CHECKED int tls_context_open(tls_context **out, const char *cert, const char *key,
                                    cerium_error *err);
void tls_context_close(tls_context **context);

/* The server's side of a new connection over fd, which stays the caller's; NULL: no memory. */
tls *tls_open(tls_context *context, int fd);
void tls_close(tls **t);

/* As recv() and send() on a socket that does not block: > 0 bytes, 0 = the peer's end (read only),
 * -1 with errno EAGAIN (or another: it is broken). */
ssize_t tls_read(tls *t, void *out, size_t len);
ssize_t tls_write(tls *t, const void *from, size_t len);
/* The handshake, or a key update, waits until the socket is writable. */
bool tls_wants_write(const tls *t);
/* Send close_notify, as far as the socket takes it at once. */
void tls_end(tls *t);

#endif
