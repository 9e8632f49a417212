/* merger.h - merges the symbols of one piece of text until no rule applies.
 *
 * Private to this folder.  Of all neighbours that a rule joins, those of the lowest rank go first,
 * of equal ranks the left ones.  Short pieces are scanned, long ones kept in a heap. */
#ifndef TOKENIZER_MERGER_H
#define TOKENIZER_MERGER_H

#include "tokenizer/merges.h"

enum { MERGER_SCAN_MAX = 40 }; /* symbols; above, the heap is faster */

typedef struct {
    int32_t *ids;    /* [cap] symbols, in place: n of them before and after a merge */
    uint32_t *ranks; /* [cap] of the symbol and the one after it */
    int32_t *merged; /* [cap] what the two become */
    uint32_t *next, *previous; /* [cap] the heap's list of symbols that are alive */
    uint64_t *heap;  /* [2 * cap] rank << 32 | place of the left symbol */
    size_t cap, n;
    uint64_t n_heap_moves; /* work done, for tests */
    int32_t small_ids[MERGER_SCAN_MAX], small_merged[MERGER_SCAN_MAX];
    uint32_t small_ranks[MERGER_SCAN_MAX];
} merger;

/* Needs no memory until a piece has more than MERGER_SCAN_MAX symbols. */
void merger_open(merger *m);
void merger_close(merger *m);
/* Room for n symbols at m->ids; what stood there is lost. */
CERIUM_CHECKED int merger_reserve(merger *m, size_t n);
/* Merge m->ids[0..m->n). */
void merger_run(merger *m, const merge_map *pairs);

#endif
