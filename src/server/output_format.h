/* output_format.h - answers with a required format: compiles and caches schemas and tools of
 * requests. */
#ifndef SERVER_OUTPUT_FORMAT_H
#define SERVER_OUTPUT_FORMAT_H

#include "protocol/tool_guide.h"

/* The last requested grammars, by their text.  Callable from any thread, except
 * format_order_step(), which belongs to one thread. */
typedef struct grammar_cache grammar_cache;

/* engine: sorts its vocabulary for guides before the first grammar is compiled, or NULL. */
CERIUM_CHECKED int grammar_cache_open(grammar_cache **out, cerium_engine *engine,
                                      cerium_error *err);
/* Call it when no order is left. */
void grammar_cache_close(grammar_cache **s);

/* The guide of an answer, compiled. */
typedef struct {
    cerium_grammar *grammar;                          /* owned, or NULL */
    cerium_trigger triggers[PROTOCOL_TRIGGERS_MAX];   /* [n_triggers], their grammars owned */
    uint32_t n_triggers;
} output_format;

void output_format_free(output_format *s);
/* Borrows all of it; false: the answer is unconstrained. */
bool output_format_guide(const output_format *s, cerium_guide *guide);

/* The format of a request under preparation: first a look-up in the cache, then step by step. */
typedef struct format_order format_order;

/* Find the guide of a request's answer, and whether all of it is cached.  *out NULL: the answer is
 * unconstrained. r: borrowed as long as the order exists
 *   chat_form: cerium_engine_info.chat_form; borrowed likewise
 * CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int format_order_open(format_order **out, grammar_cache *s,
                                     const protocol_request *r, const char *chat_form);
/* Is nothing left to do? */
bool format_order_is_done(const format_order *o);
/* Compile one grammar at most, which takes as long as GRAMMAR_WORK_MAX allows. True: there is more
 * to do. */
bool format_order_step(format_order *o);
/* The result, once it is done. CERIUM_ERR_ARGUMENT with *e: a strict schema, or the grammar of a
 * tool, cannot be enforced. */
CERIUM_CHECKED int format_order_take(format_order *o, output_format *out, protocol_error *e);
/* Add warnings to the request about ignored parts of its schemas. */
void format_order_warn(const format_order *o, protocol_request *r);
/* Accepts NULL, and nulls it. */
void format_order_free(format_order **o);

#endif
