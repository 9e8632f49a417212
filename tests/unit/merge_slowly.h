/* merge_slowly.h - the definition of merging, for tests of merger.c: quadratic, and plainly
 * right. */
#ifndef UNIT_MERGE_SLOWLY_H
#define UNIT_MERGE_SLOWLY_H

#include "tokenizer/merges.h"

/* The lowest rank first, of equal ranks the left one, until none applies.  ids[n], in place;
 * returns the number of remaining ids. */
static inline size_t merge_slowly(int32_t *ids, size_t n, const merge_map *pairs)
{
    for (;;) {
        const merge_slot *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const merge_slot *slot = merge_find(pairs, ids[i], ids[i + 1]);
            if (slot && (!best || slot->rank < best->rank)) best = slot, at = i;
        }
        if (!best) return n;
        ids[at] = best->id;
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
    }
}

#endif
