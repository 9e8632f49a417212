/* tool_guide.h - the grammars of an answer with tools, in Lark's notation: free text until the
 * opening of a call in the model's chat form, and from there on a call of an existing tool, with
 * valid arguments.
 *
 * The notation is that of cerium_grammar_compile(), which knows control tokens by their names,
 * JSON schemas (%json), and nested grammars: unchanged (%text) or within a string of JSON
 * (%string). */
#ifndef PROTOCOL_TOOL_GUIDE_H
#define PROTOCOL_TOOL_GUIDE_H

#include "protocol/protocol.h"

enum { PROTOCOL_TRIGGERS_MAX = 4 };

typedef struct {
    const char *text; /* static: free text ends after it, */
    view grammar;     /* and continues with this grammar; in guide.text */
    bool ends;        /* the answer ends after the grammar's text; else free text follows */
} protocol_trigger;

typedef struct {
    view grammar; /* the grammar of the answer's beginning; empty: free text; in text */
    protocol_trigger triggers[PROTOCOL_TRIGGERS_MAX];
    size_t n_triggers; /* 0: the answer ends after the grammar's text */
    bytes text;        /* owned */
    json_t *marks;     /* owned: storage of a template's triggers */
} protocol_guide;

/* loose_document: enforce only the type of the request's schema, as no grammar can be made of it.
 * The guide of an answer to r by a model of this form (cerium_engine_info.chat_form); all zero
 * when it is free.  *out must be released with protocol_guide_free(). CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int protocol_guide_make(protocol_guide *out, const protocol_request *r,
                                       const char *chat_form, bool loose_document);
void protocol_guide_free(protocol_guide *guide);
/* Must the answer match a schema or a grammar of the request itself? */
bool protocol_has_format(const protocol_request *r);

/* The grammar or schema of a tool alone; empty: none is enforced. */
view protocol_tool_grammar(const protocol_request *r, size_t tool, cerium_grammar_syntax *syntax);
/* Would any arguments do?  So unless it is strict or a custom tool. */
bool protocol_tool_may_loosen(const protocol_request *r, size_t tool);
/* No grammar can be made of it: from now on any arguments do. */
void protocol_tool_loosen(const protocol_request *r, size_t tool);
bool protocol_tool_is_loose(const protocol_request *r, size_t tool);

#endif
