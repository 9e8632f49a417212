/* taps.h - states of the newest tokens of timelines, as a head of the model reads them: behind the
 * last norm, or the inputs of some layers, for the passes in which they were computed are long over
 * when it drafts.
 *
 * The memory is bounded: so many timelines have a ring of states, and one that has none takes that
 * of a timeline without passes for a while, or goes without, and its head says nothing. */
#ifndef ENGINE_TAPS_H
#define ENGINE_TAPS_H

#include <pthread.h>

#include "base/base.h"

enum {
    TAPS_MAX = 512,       /* tokens of a ring */
    TAPS_RINGS_MIN = 4,
    TAPS_IDLE = 4,        /* passes of all timelines, after which a ring may be taken */
};
#define TAPS_BYTES_MAX ((size_t)128 << 20) /* of all rings, where that is more than the least */

typedef struct taps taps;

/* The rings of an engine.  Zero-initialised, there are none. */
typedef struct {
    pthread_mutex_t lock;   /* of all below, and of the taps of its owners */
    float *states;          /* [n_rings][TAPS_MAX][n] */
    taps **owners;          /* [n_rings]; NULL: it is free */
    uint64_t *used, now;    /* [n_rings] when it was last wanted, of the times that any was */
    uint32_t n_rings, n;    /* n: numbers of a state; 0: there is no pool */
    uint32_t n_timelines;
} taps_pool;

/* Zero-initialised but for the pool, it has no states and takes none. */
struct taps {
    taps_pool *pool;
    float *states;       /* [TAPS_MAX][n]: of token i at i modulo TAPS_MAX; NULL: it has no ring */
    uint32_t ring;
    uint32_t begin, end; /* of tokens [begin, end) */
};

/* For n_timelines at most, and states of n numbers.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int taps_pool_open(taps_pool *p, uint32_t n_timelines, uint32_t n);
void taps_pool_close(taps_pool *p);
/* Bytes of its rings. */
uint64_t taps_pool_bytes(const taps_pool *p);

/* Gives its ring back. */
void taps_close(taps *t);
/* Within a turn, once a pass, before states are put: is there a ring for them? */
bool taps_take(taps *t);
/* Then: where the state of a token goes, [n].  Those that do not join it are gone. */
float *taps_put(taps *t, uint32_t token);
/* Within a turn, until a ring is taken.  NULL: it is not known. */
const float *taps_of(const taps *t, uint32_t token);
/* Only the first n tokens of the timeline stay. */
void taps_cut(taps *t, uint32_t n);

#endif
