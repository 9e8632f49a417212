/* shaping.h - answers that must have a shape: schemas and tools of requests, compiled and kept. */
#ifndef SERVER_SHAPING_H
#define SERVER_SHAPING_H

#include "protocol/tool_guide.h"

/* The last grammars that requests asked for, by their text. */
typedef struct shapes shapes;

CERIUM_CHECKED int shapes_open(shapes **out);
void shapes_close(shapes **s);

/* The guide of an answer, compiled. */
typedef struct {
    cerium_grammar *grammar;                          /* owned, or NULL */
    cerium_trigger triggers[PROTOCOL_TRIGGERS_MAX];   /* [n_triggers], their grammars owned */
    uint32_t n_triggers;
} shape;

/* The shape of the answer that a request wants; all zero where it is free.  Release it with
 * shape_free().
 *   chat_form: cerium_engine_info.chat_form
 * CERIUM_ERR_ARGUMENT with *e: what is strict, or the grammar of a tool, cannot be kept to. */
CERIUM_CHECKED int shapes_of(shapes *s, const protocol_request *r, const char *chat_form,
                             shape *out, protocol_error *e);
void shape_free(shape *s);
/* Borrows all of it; false: the answer is free. */
bool shape_guide(const shape *s, cerium_guide *guide);

#endif
