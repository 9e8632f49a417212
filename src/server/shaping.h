/* shaping.h - answers that must have a shape: schemas of requests, compiled and kept. */
#ifndef SERVER_SHAPING_H
#define SERVER_SHAPING_H

#include "protocol/protocol.h"

/* The last grammars that requests asked for, by their text. */
typedef struct shapes shapes;

CERIUM_CHECKED int shapes_open(shapes **out);
void shapes_close(shapes **s);

/* The grammar of the whole answer that a request wants, owned by the caller; NULL: it wants none.
 *   chat_form: cerium_engine_info.chat_form
 * CERIUM_ERR_ARGUMENT with *e: the schema is strict, and not one that can be kept to. */
CERIUM_CHECKED int shapes_of(shapes *s, const protocol_request *r, const char *chat_form,
                             cerium_grammar **out, protocol_error *e);

/* Where in the answer it begins: fills *guide, which borrows grammar and *trigger. */
void shapes_guide(const char *chat_form, const cerium_grammar *grammar, cerium_trigger *trigger,
                  cerium_guide *guide);

#endif
