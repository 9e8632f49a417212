/* grammar_build.h - expressions that front ends make, and the way from those to automata.
 *
 * An expression is an index; children are made before parents, so they form no cycle: rules do.
 * Errors stick: after the first, everything made is EXPR_NEVER, and builder_finish() returns it. */
#ifndef SAMPLING_GRAMMAR_BUILD_H
#define SAMPLING_GRAMMAR_BUILD_H

#include "base/memory.h"
#include "sampling/grammar.h"

#define GRAMMAR_NONE   UINT32_MAX
#define GRAMMAR_NO_MAX UINT32_MAX /* of a repetition */

enum { EXPR_NEVER = 0, EXPR_EMPTY = 1 }; /* expressions: no text; the empty text */

typedef enum {
    NODE_NEVER,
    NODE_EMPTY,
    NODE_BYTES,    /* one byte in [a, b] */
    NODE_TEXT,     /* texts[a, a + b) */
    NODE_SEQ,      /* lists[a, a + b) one after the other */
    NODE_ALT,      /* any of lists[a, a + b) */
    NODE_REPEAT,   /* a, b to c times */
    NODE_LIST,     /* lists[a, a + b): separator, then members, each followed by its LIST_* */
    NODE_CALL,     /* rule a */
    NODE_AND,      /* in a and in b: both without calls */
    NODE_MINUS,    /* in a and not in b */
    NODE_SPRINKLED, /* a, with bytes in [b, c] anywhere in it */
    NODE_MADE,     /* automaton a; b: it reads the empty text */
    NODE_MULTIPLE, /* a decimal number without sign, at most b places, times 10^b a multiple of a */
} node_kind;

enum {
    LIST_MUST = 0,
    LIST_MAY = 1,
    LIST_MANY = 2
}; /* of a member: once, at most once, any times */

typedef struct {
    uint8_t kind; /* node_kind */
    bool is_nullable;
    uint16_t depth;
    uint32_t a, b, c;
} expr_node;

typedef struct {
    uint32_t expr; /* NONE: not yet defined */
    bool is_nullable;
    bool is_plain; /* one character: every plain one, and maybe more */
} builder_rule;

typedef struct {
    cerium_error *err;
    int status;
    const char *what; /* begins the line of an error: "schema" */
    bytes nodes;      /* expr_node */
    bytes lists;      /* uint32_t */
    bytes texts;
    bytes rules;   /* builder_rule */
    bytes made;    /* dfa: automata of expressions that were made before all others */
    uint64_t work, work_max; /* steps taken, and how many may be */
    bytes notes;     /* char: the omitted parts; a NUL ends each line */
    bool forgives;   /* also omit parts that no author may write */
    bool is_careful; /* omit parts that make automata large from the beginning */
    uint32_t n_failed; /* trials */
} grammar_builder;

void builder_open(grammar_builder *b, const char *what, cerium_error *err);
/* A part of the grammar is omitted: "/properties/to/pattern: ..."; of equal lines the first
 * counts. */
void builder_note(grammar_builder *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A part that may be too large or unsupported: errors between begin and end belong to the trial,
 * which may take half of all steps. */
typedef struct {
    cerium_error *err, own;
    uint64_t work, work_max;
} builder_trial;

void builder_trial_begin(grammar_builder *b, builder_trial *t);
/* True on success. On failure false, with the reason in why, and b unchanged; but lack of memory,
 * or too many oversized parts, leave the error set. */
bool builder_trial_end(grammar_builder *b, builder_trial *t, const char **why);
void builder_close(grammar_builder *b);
/* Make the automata of root and all that it calls.  *out is owned. */
CERIUM_CHECKED int builder_finish(grammar_builder *b, uint32_t root, grammar **out);

/* Only the first error is kept; returns its status. */
int builder_fail(grammar_builder *b, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Count n steps; false: there were too many. */
bool builder_work(grammar_builder *b, uint64_t n);
/* A new zeroed item of size at the end of v; NULL after an error. */
void *builder_add(grammar_builder *b, bytes *v, size_t size);
int builder_lack(grammar_builder *b); /* memory or its limit was reached */

uint32_t expr_bytes(grammar_builder *b, uint8_t lo, uint8_t hi);
uint32_t expr_text(grammar_builder *b, view text);
uint32_t expr_seq(grammar_builder *b, const uint32_t *of, size_t n);
uint32_t expr_alt(grammar_builder *b, const uint32_t *of, size_t n);
uint32_t expr_repeat(grammar_builder *b, uint32_t e, uint32_t min, uint32_t max);
/* Members in this order, with a separator between two that are present.
 *   of: [2 n] pairs of an expression and LIST_*; MANY only at the end */
uint32_t expr_list(grammar_builder *b, uint32_t separator, const uint32_t *of, size_t n);
uint32_t expr_call(grammar_builder *b, uint32_t rule);
uint32_t expr_and(grammar_builder *b, uint32_t x, uint32_t y);
uint32_t expr_minus(grammar_builder *b, uint32_t x, uint32_t y);
/* Texts of e, without calls, with any bytes in [lo, hi] between their bytes; only within a
 * MINUS. */
uint32_t expr_sprinkled(grammar_builder *b, uint32_t e, uint8_t lo, uint8_t hi);
/* Texts of e, without calls, with all bytes in [lo, hi] removed.  Built at once, so that an error
 * of size names the right place; lo > hi: none are removed. */
uint32_t expr_without(grammar_builder *b, uint32_t e, uint8_t lo, uint8_t hi);
uint32_t expr_control(grammar_builder *b, view name); /* a control token */
/* Decimal numbers without sign and leading zeros, with at most `places` digits after the point,
 * which are multiples of unit / 10^places. */
uint32_t expr_multiple(grammar_builder *b, uint32_t unit, uint32_t places);

#define EXPR_SEQ(b, ...)                                                                           \
    expr_seq((b), (const uint32_t[]){__VA_ARGS__}, ARRAY_LEN(((const uint32_t[]){__VA_ARGS__})))
#define EXPR_ALT(b, ...)                                                                           \
    expr_alt((b), (const uint32_t[]){__VA_ARGS__}, ARRAY_LEN(((const uint32_t[]){__VA_ARGS__})))

uint32_t rule_new(grammar_builder *b);
void rule_set(grammar_builder *b, uint32_t rule, uint32_t expr);
uint32_t rule_expr(const grammar_builder *b, uint32_t rule);

static inline expr_node *builder_node(const grammar_builder *b, uint32_t e)
{
    return (expr_node *)b->nodes.ptr + e;
}
static inline builder_rule *builder_rule_at(const grammar_builder *b, uint32_t rule)
{
    return (builder_rule *)b->rules.ptr + rule;
}
static inline uint32_t builder_n_rules(const grammar_builder *b)
{
    return (uint32_t)(b->rules.len / sizeof(builder_rule));
}
static inline uint32_t *builder_list(const grammar_builder *b, uint32_t at)
{
    uint32_t *lists = (uint32_t *)b->lists.ptr;
    return lists ? lists + at : NULL;
}

/* ---- intermediate automata ---- */

typedef enum {
    NFA_STEP = 0,  /* to a and to b without reading; either may be NONE */
    NFA_BYTES = 1, /* to a by a byte in [lo, hi] */
    NFA_CALL = 2,  /* to a by rule b */
    NFA_FINAL = 3,
} nfa_kind;

typedef struct {
    uint8_t kind, lo, hi;
    uint32_t a, b;
} nfa_state;

typedef struct {
    bytes states; /* nfa_state */
} nfa;

typedef struct {
    uint32_t first_edge, n_edges, first_call, n_calls;
    bool is_final;
} dfa_state;

/* State 0 is the start; no edge leads to it. */
typedef struct {
    bytes states; /* dfa_state */
    bytes edges;  /* grammar_edge: ascending and disjoint within a state */
    bytes calls;  /* grammar_call: of a state ascending by rule */
} dfa;

static inline uint32_t dfa_n_states(const dfa *d)
{
    return (uint32_t)(d->states.len / sizeof(dfa_state));
}
static inline dfa_state *dfa_state_at(const dfa *d, uint32_t i)
{
    return (dfa_state *)d->states.ptr + i;
}
static inline grammar_edge *dfa_edges(const dfa *d, uint32_t i)
{
    grammar_edge *edges = (grammar_edge *)d->edges.ptr; /* NULL: no state has one */
    return edges ? edges + dfa_state_at(d, i)->first_edge : NULL;
}
static inline grammar_call *dfa_calls(const dfa *d, uint32_t i)
{
    grammar_call *calls = (grammar_call *)d->calls.ptr;
    return calls ? calls + dfa_state_at(d, i)->first_call : NULL;
}
void nfa_open(nfa *n);
void nfa_close(nfa *n);
uint32_t nfa_add(grammar_builder *b, nfa *n, nfa_state state); /* NONE after an error */
static inline nfa_state *nfa_at(const nfa *n, uint32_t i)
{
    return (nfa_state *)n->states.ptr + i;
}
void dfa_open(dfa *d);
void dfa_close(dfa *d);

/* grammar_nfa.c: the automaton of an expression, ending in state 0, the only FINAL.  Rules have
 * their nullable flag set.  Returns its start; NONE after an error. */
uint32_t nfa_of_expr(grammar_builder *b, nfa *n, uint32_t expr);
/* The automaton of an expression alone, with bytes in [lo, hi] removed. */
void dfa_without(grammar_builder *b, uint32_t expr, uint8_t lo, uint8_t hi, dfa *out);
/* Say for every rule whether the empty text is in it. */
void builder_find_nullable(grammar_builder *b);

/* grammar_dfa.c: errors stick in b.  *out is open. */
void dfa_of_nfa(grammar_builder *b, const nfa *n, uint32_t start, dfa *out);
/* min to max texts of one; false, with out unchanged: one of its texts may begin another, or it
 * calls. */
bool dfa_repeat(grammar_builder *b, const dfa *one, uint32_t min, uint32_t max, dfa *out);
/* Texts of x that are in y (AND), or are not (MINUS); neither calls. */
void dfa_product(grammar_builder *b, const dfa *x, const dfa *y, bool minus, dfa *out);

/* grammar_recursion.c: rules [n] that call themselves before a byte was read no longer do so. */
void builder_unroll(grammar_builder *b, dfa *rules, uint32_t n);

/* grammar_link.c */
CERIUM_CHECKED int builder_link(grammar_builder *b, dfa *rules, uint32_t n, uint32_t root,
                                grammar **out);

/* grammar_plain.c: run and most of every state.  plain: [n_rules] rules that are one character. */
CERIUM_CHECKED int grammar_measure(grammar *g, const bool *plain);

#endif
