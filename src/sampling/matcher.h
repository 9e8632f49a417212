/* matcher.h - the state of a text in a grammar, byte by byte.
 *
 * A matcher's state is a set of parses (readings). Each is a state of a rule's automaton and the
 * continuation after that rule, which is a set again. Sets are interned, so equal states have one
 * number, however they were reached; the transition of a set by a byte is computed once and cached.
 * Parses that differ only in the past are merged, so an ambiguous grammar costs no more than its
 * distinct states.
 *
 * Numbers change when unused sets are collected, so states are kept in *slots* of the matcher,
 * which are the roots of the collection. Nothing is allocated after opening; a text beyond the
 * limits (MATCH_*) is rejected like a byte that cannot follow.
 *
 * One thread at a time. */
#ifndef SAMPLING_MATCHER_H
#define SAMPLING_MATCHER_H

#include "sampling/grammar.h"

/* ---- limits: the most that a broken or hostile input can take ---- */

/* The memory for following a grammar, for each running answer. */
#define MATCH_SETS_MAX    8192u     /* distinct states of one matcher */
#define MATCH_PAIRS_MAX   65536u    /* parses in those states */
#define MATCH_ROWS_BYTES  (1u << 20) /* cached transitions, by byte */
#define MATCH_DEPTH_MAX   1024u     /* nesting of rules: about three for each level of JSON */
#define MATCH_READINGS_MAX 4096u    /* of one state */

enum {
    MATCH_SLOTS = 72, /* sets held by their owner: of an answer, its drafts, and two more */
    MATCH_NOWHERE = 0, /* the set without readings */
    MATCH_UNKNOWN = UINT32_MAX,
};

typedef struct {
    uint32_t state, rest; /* rest: the set that continues after the rule */
} match_pair;

typedef struct {
    uint32_t first, n; /* pairs, ascending */
    uint32_t hash;
    uint32_t row;      /* of next sets, or UNKNOWN */
    uint32_t mask;     /* slot of its token mask, or UNKNOWN */
    uint16_t depth;    /* nesting of rules */
    uint8_t run, most; /* see grammar_state; run of the best reading, most of all of them */
    bool is_complete;  /* the text may end here */
} match_set;

/* A pair that waits to be called. */
typedef struct {
    uint32_t rule;
    match_pair back;
} match_wait;

typedef struct matcher {
    const grammar *g;
    uint32_t slots[MATCH_SLOTS];
    uint32_t *path; /* [path_max] places on the way through a trie; slots too */
    uint32_t n_path, path_max;

    match_set *sets; /* the continuations of a set's pairs are before it */
    match_pair *pairs;
    uint32_t *rows;  /* [rows_max][n_classes] */
    uint32_t *table; /* [table_size] set + 1; 0 = free */
    uint32_t n_sets, n_pairs, n_rows, rows_max, table_size;
    bool is_full; /* out of space; collect the states that no slot holds */
    uint64_t n_collected;

    /* one step */
    match_pair *found; /* [MATCH_READINGS_MAX] */
    uint32_t *found_at; /* [2 MATCH_READINGS_MAX] table of them: stamp and index */
    uint32_t *found_stamp;
    uint32_t n_found, stamp;
    match_wait *waits; /* [MATCH_READINGS_MAX] */
    uint32_t n_waits;
    uint32_t *renamed; /* [MATCH_SETS_MAX] while collecting */

    /* masks: see mask.h */
    uint64_t *masks;     /* [n_masks][mask_words] */
    uint32_t *mask_set;  /* [n_masks] or UNKNOWN */
    uint64_t *mask_time; /* [n_masks] */
    uint32_t n_masks, mask_words;
    uint64_t time;
    struct mask_classes *classes; /* one block; NULL: no masks are needed */
} matcher;

/* Borrows g.  token_bytes_max: longest path through a trie; mask_words, n_masks: of the masks that
 * are kept, 0 for none. */
CERIUM_CHECKED int matcher_open(matcher **out, const grammar *g, uint32_t token_bytes_max,
                                uint32_t mask_words, uint32_t n_masks, cerium_error *err);
void matcher_close(matcher **m);

/* Put the beginning of the grammar's texts into a slot. */
void matcher_begin(matcher *m, uint32_t slot);
/* Advance the state in slot `from` by text, into slot `to`, which may be the same. False when the
 * text cannot follow; `to` is then unchanged. */
bool matcher_accept(matcher *m, uint32_t from, uint32_t to, view text);
static inline void matcher_copy(matcher *m, uint32_t from, uint32_t to)
{
    m->slots[to] = m->slots[from];
}
/* Whether the text may end here. */
static inline bool matcher_is_complete(const matcher *m, uint32_t slot)
{
    return m->sets[m->slots[slot]].is_complete;
}
/* Bytes that are each the only possible one, until the text may end or there is a choice; up to
 * cap.  The slot stays. */
size_t matcher_forced(matcher *m, uint32_t slot, char *out, size_t cap);

/* The target of a byte of a class.  *from is a slot or on the path. */
uint32_t matcher_compute(matcher *m, const uint32_t *from, uint32_t class_);
static inline uint32_t matcher_next(matcher *m, const uint32_t *from, uint32_t class_)
{
    uint32_t row = m->sets[*from].row;
    if (row != MATCH_UNKNOWN) {
        uint32_t to = m->rows[(size_t)row * m->g->n_classes + class_];
        if (to != MATCH_UNKNOWN) return to;
    }
    return matcher_compute(m, from, class_);
}

#endif
