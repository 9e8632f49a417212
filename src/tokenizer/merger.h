/* merger.h - merges the symbols of one piece of text until no rule applies.
 *
 * Private to this folder.  The rule of the lowest rank merges first; of equal ranks the leftmost
 * place.  Short pieces are scanned; in long ones each rank has a list of the places where it
 * applies (merger.c).  One thread at a time. */
#ifndef TOKENIZER_MERGER_H
#define TOKENIZER_MERGER_H

#include "tokenizer/merges.h"

enum {
    MERGER_SCAN_MAX = 40, /* symbols; above, lists are faster */
    MERGER_WINDOW = 8192, /* symbols of a piece that are merged at once: fits into caches */
};

/* A symbol of a long piece, beside its id.  Numbers are places in the piece. */
typedef struct {
    uint32_t rule;          /* of it and its right neighbour: a slot of the map, or MERGER_NONE */
    uint32_t left, right;   /* its neighbours; right is n at the end */
    uint32_t before, after; /* in the list of its rule's rank, or MERGER_NONE */
} merger_symbol;

/* The places where the rules of one rank apply. */
typedef struct {
    uint32_t first, last, n; /* first and last are set while n is not 0 */
    bool queued;             /* its rank is in the queue */
    bool mixed;              /* not in the order of places */
    bool open;               /* in that order, and kept so */
} merger_list;

typedef struct {
    const merge_map *pairs; /* borrowed */
    int32_t *ids;           /* [cap] the symbols of a piece, n of them */
    int32_t *merged;        /* [cap] the result of merger_run(), n_merged; may be ids */
    size_t cap, n, n_merged;
    size_t window;          /* MERGER_WINDOW, or set by a test */
    int32_t *work;          /* [work_cap] of one window: the symbols */
    merger_symbol *symbols; /* [work_cap] and their state; n_work are in use */
    merger_list *lists;     /* [n_ranks], all empty between two windows */
    uint32_t *queue;        /* [n_ranks] a heap of ranks, the lowest at 0 */
    size_t work_cap, n_work, n_queue;
    uint64_t n_moves, n_looked; /* work done, for tests: moves in queue and lists; look-ups */
    int32_t small_ids[MERGER_SCAN_MAX], small_merged[MERGER_SCAN_MAX];
    uint32_t small_ranks[MERGER_SCAN_MAX];
} merger;

/* pairs: the rules, which outlive m.  Takes no memory until a piece has more than MERGER_SCAN_MAX
 * symbols. */
void merger_open(merger *m, const merge_map *pairs);
void merger_close(merger *m);
/* Room for n symbols at m->ids; the old contents are lost.  Takes 8 bytes for each, and once 24 for
 * each of a window and for each rank of the rules.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int merger_reserve(merger *m, size_t n);
/* Merge m->ids[0..m->n) into m->merged[0..m->n_merged).  Takes memory only if a window is not
 * enough (merger.c): 24 bytes for each symbol, CERIUM_ERR_MEMORY.
 * Cost: n log w at most, w the symbols of a window; a piece for which a window is not enough,
 * n log n. */
CERIUM_CHECKED int merger_run(merger *m);

#endif
