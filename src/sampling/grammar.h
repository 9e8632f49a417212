/* grammar.h - a grammar compiled to automata that call each other.
 *
 * Every rule is a deterministic automaton over bytes and calls of rules; a text is in the grammar
 * when the root's automaton reads it.  No rule matches the empty text (its callers skip it
 * instead), no rule calls itself before it has read a byte, and every state can reach an end. So a
 * matcher never enters a dead end.
 *
 * Bytes are UTF-8.  A control token is CONTROL_MARK, its name, CONTROL_MARK: a byte that never
 * occurs in UTF-8. A compiled grammar is immutable. */
#ifndef SAMPLING_GRAMMAR_H
#define SAMPLING_GRAMMAR_H

#include "base/base.h"

/* ---- limits: the most that a broken or hostile input can take ---- */

#define GRAMMAR_TEXT_BYTES_MAX (1u << 20)  /* of one, as its author wrote it; known: 20 KB */
#define GRAMMAR_NESTING_MAX    128u        /* parentheses, schemas in schemas */
#define GRAMMAR_NODES_MAX      (1u << 20)  /* of its expressions */
#define GRAMMAR_RULES_MAX      (1u << 16)
#define GRAMMAR_STATES_MAX     (1u << 18)  /* of its automata, each; known schemas: 10,000 */
#define GRAMMAR_PARTS_MAX      (1u << 21)  /* edges of those; states before they are joined */
#define GRAMMAR_WORK_MAX       (UINT64_C(1) << 24) /* steps of compiling: 0.2 seconds */
#define GRAMMAR_REPEAT_MAX     100000u     /* n and m of {n,m}, minLength, maxItems, ... */
#define GRAMMAR_RESIDUES_MAX   4096u       /* multipleOf, in units of its last decimal place */
#define GRAMMAR_CONJUNCTS_MAX  32u         /* schemas that one value must fit at once */

enum {
    GRAMMAR_END = 0, /* the state after the whole text: no edges */
    GRAMMAR_CONTROL_MARK = 0xff,
    GRAMMAR_RUN_MAX = 32, /* plain characters in a token that are counted */
    GRAMMAR_RUN_ANY = GRAMMAR_RUN_MAX + 1,
};

/* *Plain* characters need no escape in a JSON string: all but controls, quotes, backslashes and
 * DEL.  Any text of up to `run` of them may follow in a state, within its rule; none of more than
 * `most` may.  RUN_ANY: of more than RUN_MAX; for most also: unknown. */
typedef struct {
    uint32_t first_edge, first_call; /* up to those of the next state */
    uint8_t is_final;
    uint8_t run, most;
} grammar_state;

typedef struct {
    uint32_t to;
    uint8_t lo, hi; /* bytes, both included */
} grammar_edge;

typedef struct {
    uint32_t rule, to;
    bool is_last; /* to is final and has no edges */
} grammar_call;

typedef struct grammar {
    uint32_t n_states, n_edges, n_calls, n_rules, n_classes;
    uint32_t root;         /* a rule */
    bool takes_empty;      /* the empty text is in the grammar too */
    grammar_state *states; /* [n_states + 1] */
    grammar_edge *edges;   /* [n_edges], ascending and disjoint within a state */
    grammar_call *calls;   /* [n_calls], of a state ascending by rule */
    uint32_t *starts;      /* [n_rules] a start has no edge to it; the calls of rule r's are of
                              rules above r */
    uint8_t class_of[256]; /* bytes that no edge distinguishes share a class */
    uint8_t byte_of[256];  /* [n_classes] one of each */
    char *notes;           /* [notes_len] the omitted parts; a NUL ends each line */
    size_t notes_len;
    uint64_t compile_ns;
} grammar;

/* Compile.  See cerium_grammar_compile(). *out is owned. */
CERIUM_CHECKED int grammar_compile(grammar **out, cerium_grammar_syntax syntax, view text,
                                   cerium_error *err);
/* The same; invalid keys of a schema are omitted, like unsupported ones. */
CERIUM_CHECKED int grammar_compile_forgiving(grammar **out, cerium_grammar_syntax syntax, view text,
                                             cerium_error *err);
void grammar_free(grammar **g);

#endif
