/* shaping.h - answers that must have a shape: schemas and tools of requests, compiled and kept. */
#ifndef SERVER_SHAPING_H
#define SERVER_SHAPING_H

#include "protocol/tool_guide.h"

/* The last grammars that requests asked for, by their text, and the thread that compiles others. */
typedef struct shapes shapes;

/* See compiler_open(). */
CERIUM_CHECKED int shapes_open(shapes **out, cerium_engine *engine, void (*wake)(void *user),
                               void *user, cerium_error *err);
/* No order is left. */
void shapes_close(shapes **s);

/* The guide of an answer, compiled. */
typedef struct {
    cerium_grammar *grammar;                          /* owned, or NULL */
    cerium_trigger triggers[PROTOCOL_TRIGGERS_MAX];   /* [n_triggers], their grammars owned */
    uint32_t n_triggers;
} shape;

/* A shape that is being compiled. */
typedef struct shape_order shape_order;

/* The shape of the answer that a request wants; all zero where it is free.  Release it with
 * shape_free().  Where it must be compiled first *order is not NULL and *out zero.
 *   chat_form: cerium_engine_info.chat_form
 *   r:         borrowed as long as there is an order */
CERIUM_CHECKED int shapes_of(shapes *s, const protocol_request *r, const char *chat_form,
                             uint64_t tenant, shape *out, shape_order **order, protocol_error *e);
/* After wake(): what came of it.  *order stays as long as it is not done.
 * CERIUM_ERR_ARGUMENT with *e: what is strict, or the grammar of a tool, cannot be kept to. */
CERIUM_CHECKED int shapes_take(shapes *s, shape_order **order, shape *out, protocol_error *e);
/* Nobody wants it any more; accepts none. */
void shapes_drop(shapes *s, shape_order **order);
void shape_free(shape *s);
/* Borrows all of it; false: the answer is free. */
bool shape_guide(const shape *s, cerium_guide *guide);

#endif
