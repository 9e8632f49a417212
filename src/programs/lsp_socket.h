/* lsp_socket.h - a WebSocket of `cerium lsp --server` to the server: text messages both ways, and
 * it never blocks.  curl connects (names, TLS), wslay makes the frames. */
#ifndef PROGRAMS_LSP_SOCKET_H
#define PROGRAMS_LSP_SOCKET_H

#include "base/memory.h"

#include <curl/curl.h>

typedef struct lsp_socket lsp_socket;

typedef enum {
    LSP_SOCKET_OPENING = 0,
    LSP_SOCKET_OPEN = 1,
    LSP_SOCKET_REFUSED = 2, /* there is none at that address */
    LSP_SOCKET_LOST = 3,
} lsp_socket_state;

/* url: of the server; headers: of requests.  mark: the handle's
 * CURLINFO_PRIVATE, by which the owner of multi knows that it is connected.  message: a text that
 * came; it must not close the socket.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int lsp_socket_open(lsp_socket **out, CURLM *multi, const char *url,
                                   const struct curl_slist *headers, void *mark,
                                   void (*message)(void *user, view text), void *user);
void lsp_socket_close(lsp_socket **socket);
/* multi says how the connecting ended. */
void lsp_socket_connected(lsp_socket *s, CURLcode code);

/* What to poll; -1: nothing. */
int lsp_socket_fd(const lsp_socket *s);
bool lsp_socket_writes(const lsp_socket *s);
bool lsp_socket_has_more(const lsp_socket *s); /* look again at once; s: or NULL */
bool lsp_socket_is_open(const lsp_socket *s); /* s: or NULL */
/* Read and write what can be; not to be called from message(). */
lsp_socket_state lsp_socket_look(lsp_socket *s);
/* It leaves with the next look.  False: it is not open, the server does not read, or there is no
 * memory. */
bool lsp_socket_send(lsp_socket *s, view text);

#endif
