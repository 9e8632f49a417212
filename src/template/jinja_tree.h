/* jinja_tree.h - a template as tokens and as a tree in an arena.  Private to this folder. */
#ifndef TEMPLATE_JINJA_TREE_H
#define TEMPLATE_JINJA_TREE_H

#include "template/jinja.h"

/* ---- memory that grows in blocks and is freed as a whole ---- */

typedef struct jinja_block jinja_block;

typedef struct {
    jinja_block *blocks;
    uint8_t *at, *end;  /* of the newest block */
    size_t used, max;   /* bytes of all blocks */
} jinja_pool;

/* NULL beyond max, or without memory.  Aligned for any plain type, not zeroed. */
void *jinja_take(jinja_pool *pool, size_t size);
void jinja_pool_free(jinja_pool *pool);

/* ---- tokens ---- */

typedef enum {
    TOK_END,
    TOK_DATA,  /* text between tags */
    TOK_BLOCK, TOK_BLOCK_END,
    TOK_PRINT, TOK_PRINT_END,
    TOK_NAME, TOK_STRING, TOK_INTEGER, TOK_REAL,
    TOK_ADD, TOK_SUB, TOK_MUL, TOK_DIV, TOK_FLOORDIV, TOK_MOD, TOK_POW, TOK_TILDE,
    TOK_EQ, TOK_NE, TOK_LT, TOK_LE, TOK_GT, TOK_GE, TOK_ASSIGN,
    TOK_DOT, TOK_COLON, TOK_COMMA, TOK_PIPE,
    TOK_LPAREN, TOK_RPAREN, TOK_LBRACKET, TOK_RBRACKET, TOK_LBRACE, TOK_RBRACE,
} jinja_token_kind;

typedef struct {
    jinja_token_kind kind;
    uint32_t line;
    view text; /* of strings: decoded */
    union {
        int64_t integer;
        double real;
    };
} jinja_token;

typedef struct {
    jinja_pool *pool;
    jinja_error *err;
    int status;
    view source; /* line feeds normalized, without the last one */
    size_t at;
    uint32_t line;
    bool in_tag, in_print;
    bool line_start;   /* the last read text ended with a line feed */
    uint32_t depth;    /* open brackets of the tag */
} jinja_lexer;

void jinja_lexer_open(jinja_lexer *x, view source, jinja_pool *pool, jinja_error *err);
/* The next token; TOK_END at the end and once status is set. */
jinja_token jinja_lexer_next(jinja_lexer *x);
const char *jinja_token_name(jinja_token_kind kind);

/* ---- the tree ---- */

/* a, b, c are children; list is a chain of nodes linked by next; name is text of the template. */
typedef enum {
    /* Expressions. */
    NODE_CONST,      /* value */
    NODE_NAME,       /* name, symbol */
    NODE_LIST,       /* list */
    NODE_TUPLE,      /* list */
    NODE_DICT,       /* list of NODE_PAIR */
    NODE_PAIR,       /* a: key, b: value */
    NODE_ATTRIBUTE,  /* a.name; method: name is a method's */
    NODE_ITEM,       /* a[b] */
    NODE_SLICE,      /* [a:b:c], as the b of a NODE_ITEM */
    NODE_CALL,       /* a(list) */
    NODE_FILTER,     /* a | name(list); a NULL: the output of a block */
    NODE_TEST,       /* a is name(list) */
    NODE_KEYWORD,    /* name=a, in a list of arguments */
    NODE_NOT, NODE_NEGATIVE, NODE_POSITIVE, /* a */
    NODE_AND, NODE_OR,                      /* a, b */
    NODE_ADD, NODE_SUB, NODE_MUL, NODE_DIV, NODE_FLOORDIV, NODE_MOD, NODE_POW, /* a, b */
    NODE_CONCAT,     /* list */
    NODE_COMPARE,    /* a, list of NODE_OPERAND */
    NODE_OPERAND,    /* op, a */
    NODE_CONDITION,  /* a if b else c; c may be NULL */
    /* Statements. */
    NODE_DATA,       /* name: the text */
    NODE_PRINT,      /* a */
    NODE_IF,         /* a, body, otherwise (a NODE_IF for elif) */
    NODE_FOR,        /* a: target, b: iterable, c: filter; body, otherwise; flag: recursive */
    NODE_SET,        /* a: target, b: value */
    NODE_SET_BLOCK,  /* a: target, b: filter or NULL, body */
    NODE_MACRO,      /* name, symbol, list of NODE_KEYWORD (a: default or NULL), body */
    NODE_CALL_BLOCK, /* a: the call; list, body as a macro's */
    NODE_FILTER_BLOCK, /* b: filter, body */
    NODE_WITH,       /* list of NODE_SET, body */
    NODE_SCOPE,      /* body: transparent (generation) */
    NODE_BREAK, NODE_CONTINUE,
    /* Targets. */
    NODE_MEMBER,     /* name.text of a namespace: symbol, a: the name */
} jinja_node_kind;

typedef enum { OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_IN, OP_NOT_IN } jinja_operator;

typedef struct jinja_node jinja_node;
struct jinja_node {
    uint8_t kind, op;
    bool flag;
    uint8_t depth;    /* of the tree below; at most JINJA_NESTING_MAX */
    uint16_t callee;  /* of filters, tests, methods: an index into their table */
    uint16_t symbol;  /* of names */
    uint32_t line;
    view name;
    jinja_value value;
    const jinja_node *a, *b, *c, *list, *body, *otherwise, *next;
};

/* Symbols with a special meaning. */
typedef enum {
    SYMBOL_LOOP, SYMBOL_CALLER, SYMBOL_VARARGS, SYMBOL_KWARGS, SYMBOL_NAMESPACE, SYMBOL_RANGE,
    SYMBOL_DICT, SYMBOL_RAISE, SYMBOL_STRFTIME, SYMBOL_CYCLER, SYMBOL_JOINER, SYMBOLS_KNOWN,
} jinja_symbol;

struct jinja_template {
    jinja_pool pool;
    view source;
    const jinja_node *body;
    view *symbols; /* [n_symbols] */
    size_t n_symbols, cap_symbols;
};

typedef struct {
    jinja_template *t;
    jinja_lexer lexer;
    jinja_token token, ahead;
    bool has_ahead;
    uint32_t nesting;
    uint32_t loops;
    jinja_error *err;
    int status;
    jinja_node none; /* the value after a failure: unused */
} jinja_parser;

/* ---- jinja_parser.c: expressions ---- */

void jinja_advance(jinja_parser *p);
bool jinja_at(const jinja_parser *p, jinja_token_kind kind);
bool jinja_at_name(const jinja_parser *p, const char *name);
void jinja_expect(jinja_parser *p, jinja_token_kind kind);
void jinja_parse_fail(jinja_parser *p, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Never NULL: after a failure it is an arbitrary node. */
jinja_node *jinja_new(jinja_parser *p, jinja_node_kind kind);
uint16_t jinja_symbol_of(jinja_parser *p, view name);
const jinja_node *jinja_expression(jinja_parser *p);
/* With commas, a tuple. with_if: `a if b else c` is one. */
const jinja_node *jinja_tuple(jinja_parser *p, bool with_if);
/* `|name(...)` chains on a; inline: the first | was not there. */
const jinja_node *jinja_filter_chain(jinja_parser *p, const jinja_node *a, bool is_inline);
/* A name, or a tuple of them; a member of a namespace if members is set. */
const jinja_node *jinja_target(jinja_parser *p, bool members);

/* ---- jinja_statements.c ---- */

/* ---- tables ---- */

enum { CALLEE_NONE = 0xFFFF };
uint16_t jinja_find_filter(view name);
uint16_t jinja_find_test(view name);
uint16_t jinja_find_method(view name);

#endif
