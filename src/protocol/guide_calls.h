/* guide_calls.h - calls of a request's tools as rules of a grammar in Lark's notation.  Private to
 * the guide. */
#ifndef PROTOCOL_GUIDE_CALLS_H
#define PROTOCOL_GUIDE_CALLS_H

#include "reader/call_marks.h"
#include "protocol/json_out.h"
#include "protocol/parse.h"

typedef enum {
    CALL_HERMES = 0, /* {"name": "...", "arguments": {...}} */
    CALL_LINE,       /* the same, from inside the name's quotes, with "parameters" */
    CALL_LIST,       /* a list of such, with optional ids */
    CALL_NAMED,      /* name, mark, {...} */
    CALL_CHANNEL,    /* name, mark, {...}: the mark is the rest of a header */
    CALL_XML,        /* name>, parameters with tags */
    CALL_MARKED,     /* name, arguments with the tags of the model's own template */
    CALL_PROBED,     /* name, mark, {...}, mark, from the model's own template */
    CALL_NONE,       /* no calls */
} call_style;

/* marks: of CALL_MARKED and CALL_PROBED, else unused.
 * The rule `call`, any call that the request allows, and for CALL_LIST the rule `list`. */
void guide_put_calls(json_out *t, const protocol_request *r, call_style style,
                     const call_marks *marks);
/* A mark: its tags are control tokens in some vocabularies and text in others; its ids are
 * arbitrary. */
void guide_put_mark(json_out *t, const char *mark);
/* A regular expression: any text without mark in it, whose first byte must not occur again in the
 * mark. */
void guide_put_avoiding(json_out *t, const char *mark);

#endif
