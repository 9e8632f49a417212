/* websocket.h - WebSocket (RFC 6455), the server's side: the handshake's key, messages in, messages
 * out (wslay).  No socket: bytes arrive by websocket_feed() and leave by events->send. */
#ifndef NET_WEBSOCKET_H
#define NET_WEBSOCKET_H

#include "base/memory.h"

typedef struct websocket websocket;

typedef enum {
    WEBSOCKET_NORMAL = 1000,
    WEBSOCKET_GOING_AWAY = 1001,
    WEBSOCKET_PROTOCOL_ERROR = 1002,
    WEBSOCKET_BAD_TYPE = 1003,
    WEBSOCKET_TOO_BIG = 1009,
    WEBSOCKET_TRY_LATER = 1013,
} websocket_code;

typedef struct {
    /* A whole text message; the owner may take it, leaving it empty.  Otherwise it is freed. */
    void (*message)(void *user, bytes *text);
    /* The buffered size of a message changed by n bytes since the last call: false rejects it. */
    bool (*gathers)(void *user, ptrdiff_t more);
    /* Bytes for the peer; CERIUM_ERR_MEMORY: the connection is lost. */
    int (*send)(void *user, view frame);
} websocket_events;

/* bytes_max: of one message.  Returns owned; NULL: no memory. */
websocket *websocket_open(size_t bytes_max, const websocket_events *events, void *user);
void websocket_close(websocket **w);

/* Read frames until `in` is used up, or messages_max messages or pings were read; *used: bytes
 * used. False: nothing more is read; the closing frame was sent.  Must not be called from an event.
 */
CERIUM_CHECKED bool websocket_feed(websocket *w, view in, uint32_t messages_max, size_t *used);

/* Send a text message; CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int websocket_send(websocket *w, view text);
CERIUM_CHECKED int websocket_ping(websocket *w);
/* Send the close frame, once: nothing is sent or read after it. */
void websocket_end(websocket *w, websocket_code code, const char *why);

/* Sec-WebSocket-Accept for a client's key (RFC 6455, 4.2.2); false when it is not a key of 16
 * bytes. */
enum { WEBSOCKET_ACCEPT_BYTES = 29 };
bool websocket_accept(const char *key, char out[WEBSOCKET_ACCEPT_BYTES]);

#endif
