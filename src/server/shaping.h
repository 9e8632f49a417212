/* shaping.h - answers that must have a shape: schemas and tools of requests, compiled and kept. */
#ifndef SERVER_SHAPING_H
#define SERVER_SHAPING_H

#include "protocol/tool_guide.h"

/* The last grammars that requests asked for, by their text.  Callable from any thread, but
 * shape_order_step(), which is one thread's. */
typedef struct shapes shapes;

/* engine: sorts its vocabulary for guides before the first grammar is compiled, or NULL. */
CERIUM_CHECKED int shapes_open(shapes **out, cerium_engine *engine, cerium_error *err);
/* No order is left. */
void shapes_close(shapes **s);

/* The guide of an answer, compiled. */
typedef struct {
    cerium_grammar *grammar;                          /* owned, or NULL */
    cerium_trigger triggers[PROTOCOL_TRIGGERS_MAX];   /* [n_triggers], their grammars owned */
    uint32_t n_triggers;
} shape;

void shape_free(shape *s);
/* Borrows all of it; false: the answer is free. */
bool shape_guide(const shape *s, cerium_guide *guide);

/* A shape on its way from a request: first a look at what is kept, then step by step. */
typedef struct shape_order shape_order;

/* Look what the answer that a request wants may be, and whether all of it is kept.  *out NULL: it
 * is free.
 *   r:         borrowed as long as there is an order
 *   chat_form: cerium_engine_info.chat_form; borrowed likewise
 * CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int shape_order_open(shape_order **out, shapes *s, const protocol_request *r,
                                    const char *chat_form);
/* Nothing is left to do. */
bool shape_order_is_done(const shape_order *o);
/* Compile one grammar at most, which takes as long as GRAMMAR_WORK_MAX allows. True: there is more
 * to do. */
bool shape_order_step(shape_order *o);
/* What came of it, once it is done.
 * CERIUM_ERR_ARGUMENT with *e: what is strict, or the grammar of a tool, cannot be kept to. */
CERIUM_CHECKED int shape_order_take(shape_order *o, shape *out, protocol_error *e);
/* Warn the request of what was left out of its schemas. */
void shape_order_warn(const shape_order *o, protocol_request *r);
/* Accepts NULL, and nulls it. */
void shape_order_free(shape_order **o);

#endif
