/* tree.h - a parsed window as a flat list of nodes that mean the same in every language.
 *
 * tree-sitter's grammars name a call "call", "call_expression" or "method_invocation"; here it is
 * NODE_CALL.  roles.c is the table. */
#ifndef GUARD_TREE_H
#define GUARD_TREE_H

#include <tree_sitter/api.h>

#include "base/memory.h"
#include "guard/guard.h"
#include "guard/outline.h"
#include "guard/tree_memory.h"

typedef enum {
    NODE_OTHER = 0, /* has the value of its children */
    NODE_SKIP,      /* comments, types */
    NODE_BLOCK, NODE_FUNCTION, NODE_SIGNATURE /* a function's without a body */, NODE_DECORATED,
    NODE_PARAMS, NODE_PARAM,
    NODE_CALL, NODE_NEW, NODE_ARGS, NODE_ECHO, NODE_INCLUDE, NODE_SHELL,
    NODE_MEMBER, NODE_SUBSCRIPT, NODE_NAME, NODE_STRING, NODE_TEXT, NODE_HEREDOC, NODE_CONST,
    NODE_BINARY, NODE_COMPARE, NODE_NOT /* !x, not x */, NODE_TERNARY, NODE_CAST,
    NODE_LIST, NODE_DICT, NODE_PAIR, NODE_ASSIGN, NODE_UPDATE, NODE_AS,
    NODE_IF, NODE_UNLESS, NODE_SWITCH, NODE_CASE, NODE_FOREACH, NODE_OPTIONAL, NODE_COMPREHENSION,
    NODE_LEAVE, /* return, throw, break */
    NODE_IMPORT,
    NODE_ROLES,
} node_role;

typedef enum {
    FIELD_NONE = 0, FIELD_CALLEE, FIELD_NAME, FIELD_OBJECT, FIELD_ARGUMENTS, FIELD_LEFT,
    FIELD_RIGHT, FIELD_VALUE, FIELD_CONDITION, FIELD_CONSEQUENCE, FIELD_ALTERNATIVE, FIELD_BODY,
    FIELD_PARAMETERS, FIELD_DECLARATOR, FIELD_TYPE, FIELD_INDEX, FIELD_KEY, FIELD_ALIAS,
    FIELD_MODULE, FIELD_PATTERN, FIELD_INITIALIZER,
} node_field;

typedef enum {
    OP_NONE = 0, OP_PLUS, OP_PERCENT, OP_DOT, OP_SHIFT, OP_EXTRACT, OP_SLASH, OP_EQUAL, OP_DIFFERS,
    OP_IN, OP_NOT_IN,
    OP_MATCH, OP_OR, OP_AND, OP_UPDATE, OP_OTHER,
} node_op;

typedef struct {
    uint8_t role, field, op;
    uint32_t begin, end;          /* bytes of the window */
    int32_t parent, child, next;  /* -1: none */
} node;

enum { TREE_TEXT_MAX = GUARD_WINDOW_BYTES + 2048 };

typedef struct {
    tree_memory memory;
    char *parsed; /* [TREE_TEXT_MAX] the window as the parser sees it */
    node *list; /* [GUARD_NODES_MAX] */
    int32_t n;
    bool whole;       /* the grammar neither skipped nor inserted anything */
    bool broken;      /* it skipped something */
    uint32_t missing; /* where it first inserted something; UINT32_MAX: nowhere */
    const char *missing_sign; /* that, if it is a sign, or NULL */
    view text;
    guard_language language;
} tree;

int tree_open(tree *t);
void tree_close(tree *t);
/* Parse text without the holes in it, which are bodies of functions.  False: there is no grammar,
 * or the window exceeded the parser's limits. */
bool tree_read(tree *t, guard_language language, view text, const outline_hole *holes,
               uint32_t n_holes);

/* -1 when there is none. */
int32_t tree_field(const tree *t, int32_t n, node_field field);
/* Its last child; -1: it has none. */
int32_t tree_last(const tree *t, int32_t n);
static inline view tree_text(const tree *t, int32_t n)
{
    return (view){t->text.ptr + t->list[n].begin, t->list[n].end - t->list[n].begin};
}

/* ---- roles.c ---- */

const TSLanguage *role_grammar(guard_language language); /* NULL: not in this build */
/* Tables of a grammar, by symbol and by field; NULL without the grammar. */
const uint8_t *role_of_symbols(guard_language language);
const uint8_t *role_of_fields(guard_language language);
node_op role_op(const char *token);
/* Fill the tables; once, before any other use.  role_unknown() counts names of the tables that no
 * grammar of this build has: a test requires zero. */
int roles_open(void);
uint32_t roles_unknown(FILE *out);

#endif
