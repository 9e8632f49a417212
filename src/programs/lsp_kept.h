/* lsp_kept.h - windows of documents that a server keeps for `cerium lsp`: what differs from the
 * last one is sent, as document.open and document.change (docs/server.md). */
#ifndef PROGRAMS_LSP_KEPT_H
#define PROGRAMS_LSP_KEPT_H

#include <jansson.h>

#include "lsp/document_text.h"
#include "programs/lsp_socket.h"

/* Zero-initialised, the server has nothing. */
typedef struct {
    lsp_text text;      /* as the server has it, if is_open */
    bool is_open;
    json_int_t version;
} lsp_kept;

/* Make the server's text of that name before + after, and *at the place between them.  False: it
 * could not be sent; the server may have another text. */
bool lsp_kept_send(lsp_kept *k, lsp_socket *s, const char *name, view before, view after,
                   lsp_position *at);
/* The server has it no longer. */
void lsp_kept_forget(lsp_kept *k);
/* The same, and the server is told to close it.  s: NULL or lost: it has closed it. */
void lsp_kept_close(lsp_kept *k, lsp_socket *s, const char *name);

/* Takes message; false: not sent. */
bool lsp_socket_send_json(lsp_socket *s, json_t *message);

#endif
