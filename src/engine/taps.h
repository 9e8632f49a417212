/* taps.h - states of the newest tokens of a timeline, as a model's own head reads them: behind the
 * last norm, for the passes in which they were computed are long over when it drafts. */
#ifndef ENGINE_TAPS_H
#define ENGINE_TAPS_H

#include "base/base.h"

enum { TAPS_MAX = 512 }; /* tokens */

/* Zero-initialised, it has none and takes none. */
typedef struct {
    float *states;       /* [TAPS_MAX][n]: of token i at i modulo TAPS_MAX */
    uint32_t n;          /* numbers of a state */
    uint32_t begin, end; /* of tokens [begin, end) */
} taps;

/* CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int taps_open(taps *t, uint32_t n);
void taps_close(taps *t);
/* Where the state of a token goes, [n].  Those that do not join it are gone. */
float *taps_put(taps *t, uint32_t token);
/* NULL: it is not known. */
const float *taps_of(const taps *t, uint32_t token);
/* Only the first n tokens of the timeline stay. */
void taps_cut(taps *t, uint32_t n);

#endif
