/* tool_guide.h - what an answer with tools may be, as grammars in Lark's notation: free text until
 * something that opens a call in the model's chat form, and from there on a call of a tool that
 * there is, with arguments that it takes.
 *
 * The notation is that of cerium_grammar_compile(), which knows control tokens by their names,
 * JSON schemas (%json), and grammars within this one: as they are (%text) or within a string of
 * JSON (%string). */
#ifndef PROTOCOL_TOOL_GUIDE_H
#define PROTOCOL_TOOL_GUIDE_H

#include "protocol/protocol.h"

enum { PROTOCOL_TRIGGERS_MAX = 4 };

typedef struct {
    const char *text; /* static: free text ends after it, */
    view grammar;     /* and goes on so; in guide.text */
    bool ends;        /* after the grammar's text the answer ends; else it is free again */
} protocol_trigger;

typedef struct {
    view grammar; /* the answer begins so; empty: as free text; in text */
    protocol_trigger triggers[PROTOCOL_TRIGGERS_MAX];
    size_t n_triggers; /* 0: after the grammar's text the answer ends */
    bytes text;        /* owned */
    json_t *marks;     /* owned: what triggers of a template are */
} protocol_guide;

/* loose_document: of the request's schema only the type, as no grammar can be made of it.
 * The guide of an answer to r by a model of this form (cerium_engine_info.chat_form); all zero
 * when it is free.  *out must be released with protocol_guide_free(). CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int protocol_guide_make(protocol_guide *out, const protocol_request *r,
                                       const char *chat_form, bool loose_document);
void protocol_guide_free(protocol_guide *guide);
/* The answer has to match a schema or a grammar of the request's own. */
bool protocol_has_format(const protocol_request *r);

/* The grammar or schema that a tool brought, alone; empty: none that is kept to. */
view protocol_tool_grammar(const protocol_request *r, size_t tool, cerium_grammar_syntax *syntax);
/* Whether any arguments would do: it is neither strict nor a custom one. */
bool protocol_tool_may_loosen(const protocol_request *r, size_t tool);
/* No grammar can be made of it: any arguments do from now on. */
void protocol_tool_loosen(const protocol_request *r, size_t tool);
bool protocol_tool_is_loose(const protocol_request *r, size_t tool);

#endif
