/* walker.h - where a text stands in a grammar, byte by byte.
 *
 * A place is a set of readings: a state of a rule's automaton, and what goes on after that rule: a
 * set again.  Sets are interned, so equal places are one number, however they were reached; where
 * a byte leads from a set is worked out once and looked up after that.  Readings that differ only
 * in what came before are one, so ambiguous grammars take no more than their places.
 *
 * Numbers change when old sets make room, so places are kept in *slots* of the walker, which also
 * say what must not be forgotten.  Nothing is allocated after opening; what does not fit within the
 * limits (limits.h, WALK_*) is refused like a byte that cannot follow.
 *
 * One thread at a time. */
#ifndef SAMPLING_WALKER_H
#define SAMPLING_WALKER_H

#include "sampling/grammar.h"

/* ---- limits: what a broken or hostile input can make us take ---- */

/* What following a grammar takes, for each answer that runs. */
#define WALK_SETS_MAX    8192u      /* places in the text that are told apart at once */
#define WALK_PAIRS_MAX   65536u     /* readings of those */
#define WALK_ROWS_BYTES  (1u << 20) /* their next places, by byte */
#define WALK_DEPTH_MAX   1024u      /* rules in each other: about three for each level of JSON */
#define WALK_READINGS_MAX 4096u     /* of one place */

enum {
    WALK_SLOTS = 72,  /* places that their owner holds: of an answer, its drafts, and two more */
    WALK_NOWHERE = 0, /* the set without readings */
    WALK_UNKNOWN = UINT32_MAX,
};

typedef struct {
    uint32_t state, rest; /* rest: a set of those to go on with where the rule ends */
} walk_pair;

typedef struct {
    uint32_t first, n; /* pairs, ascending */
    uint32_t hash;
    uint32_t row;      /* of next sets, or UNKNOWN */
    uint32_t mask;     /* slot of its token mask, or UNKNOWN */
    uint16_t depth;    /* rules in each other */
    uint8_t run, most; /* see grammar_state; run of the best reading, most of all of them */
    bool is_complete;  /* the text may end here */
} walk_set;

/* A pair that waits to be called. */
typedef struct {
    uint32_t rule;
    walk_pair back;
} walk_wait;

typedef struct walker {
    const grammar *g;
    uint32_t slots[WALK_SLOTS];
    uint32_t *path; /* [path_max] places on the way through a trie; slots too */
    uint32_t n_path, path_max;

    walk_set *sets; /* those that a set's pairs go on with are before it */
    walk_pair *pairs;
    uint32_t *rows;  /* [rows_max][n_classes] */
    uint32_t *table; /* [table_size] set + 1; 0 = free */
    uint32_t n_sets, n_pairs, n_rows, rows_max, table_size;
    bool is_full; /* there was no room; places that are not held are to be forgotten */
    uint64_t n_collected;

    /* one step */
    walk_pair *found;   /* [WALK_READINGS_MAX] */
    uint32_t *found_at; /* [2 WALK_READINGS_MAX] table of them: stamp and index */
    uint32_t *found_stamp;
    uint32_t n_found, stamp;
    walk_wait *waits; /* [WALK_READINGS_MAX] */
    uint32_t n_waits;
    uint32_t *renamed; /* [WALK_SETS_MAX] while collecting */

    /* masks: see mask.h */
    uint64_t *masks;     /* [n_masks][mask_words] */
    uint32_t *mask_set;  /* [n_masks] or UNKNOWN */
    uint64_t *mask_time; /* [n_masks] */
    uint32_t n_masks, mask_words;
    uint64_t time;
    struct mask_classes *classes; /* one block; NULL: no masks are asked for */
} walker;

/* Borrows g.  token_bytes_max: longest path through a trie; mask_words, n_masks: of the masks that
 * are kept, 0 for none. */
CERIUM_CHECKED int walker_open(walker **out, const grammar *g, uint32_t token_bytes_max,
                               uint32_t mask_words, uint32_t n_masks, cerium_error *err);
void walker_close(walker **w);

/* Put the beginning of the grammar's texts into a slot. */
void walker_begin(walker *w, uint32_t slot);
/* The place after bytes, from one slot to another, or the same.  False, and `to` is as it was: they
 * cannot follow. */
bool walker_feed(walker *w, uint32_t from, uint32_t to, view text);
static inline void walker_copy(walker *w, uint32_t from, uint32_t to)
{
    w->slots[to] = w->slots[from];
}
/* Whether the text may end here. */
static inline bool walker_is_complete(const walker *w, uint32_t slot)
{
    return w->sets[w->slots[slot]].is_complete;
}
/* Bytes of which each is the only one that can follow, until the text may end or there is a choice;
 * up to cap.  The slot stays. */
size_t walker_forced(walker *w, uint32_t slot, char *out, size_t cap);

/* Where a byte of a class leads.  *from is a slot or on the path. */
uint32_t walker_work_out(walker *w, const uint32_t *from, uint32_t class_);
static inline uint32_t walker_next(walker *w, const uint32_t *from, uint32_t class_)
{
    uint32_t row = w->sets[*from].row;
    if (row != WALK_UNKNOWN) {
        uint32_t to = w->rows[(size_t)row * w->g->n_classes + class_];
        if (to != WALK_UNKNOWN) return to;
    }
    return walker_work_out(w, from, class_);
}

#endif
