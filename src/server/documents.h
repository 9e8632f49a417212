/* documents.h - texts that the client of a WebSocket keeps open here, so that a key costs bytes and
 * not the file: document.open, document.change, document.close.
 *
 * completion.create and edit.predict then name a place in one of them. */
#ifndef SERVER_DOCUMENTS_H
#define SERVER_DOCUMENTS_H

#include <jansson.h>

#include "protocol/protocol.h"

typedef struct documents documents;

/* Is that the type of one of these messages? */
bool documents_know(const char *type);
/* One of them; *all is made at first use.  On error the document is closed: the client opens it
 * again. */
CERIUM_CHECKED int documents_take(documents **all, const json_t *message, protocol_error *e);
/* Does the message name a place or a text that only the documents know? */
bool documents_needed(const json_t *message);
/* Put the texts that it names into the message: prefix and suffix of its position, and texts of its
 * files, and the original of an edit.  all: may be NULL. */
CERIUM_CHECKED int documents_fill(const documents *all, json_t *message, protocol_error *e);
void documents_close(documents **all);

#endif
