/* clocks.h - the simulated time of every core of a region, and event counts.
 *
 * A region's operations are a walk over these calls; each moves the clocks of all cores.  Sums are
 * simulated add by add over the same wafer_add lists that the simulator of numbers executes: ramps,
 * hops, the software of each dependent stage, links that are busy.
 *
 * Folding: as long as no core is dead, every call keeps clock(x, y) = row[y] + column[x], since a
 * line's simulation only adds and takes maxima, so shifting its start shifts its end.  Then one
 * line represents all, and the cost grows with a region's edge, not its area. Time is counted in
 * whole ticks, so both ways agree exactly; tests compare them. */
#ifndef WAFER_CLOCKS_H
#define WAFER_CLOCKS_H

#include "wafer/placement.h"

enum { WAFER_TICKS = 1024 }; /* of one cycle */

/* Events of all cores together. */
typedef struct {
    uint64_t vector_ops;   /* instructions over vectors, */
    uint64_t vector_steps; /* and the SIMD steps that they took */
    uint64_t scalar_ops;   /* elements handled one by one */
    uint64_t macs;         /* multiply-adds */
    uint64_t stages;       /* adds of a value that arrived */
    uint64_t ramps;        /* wavelets between a core and its router */
    uint64_t hops;         /* wavelets times links */
    uint64_t sram_read_bits, sram_write_bits;
    int64_t queue_ticks; /* waits of messages for busy links, in total */
} wafer_events;

/* e += more / of * times: of `of` equal parts, `times` are counted. */
void events_add(wafer_events *e, const wafer_events *more, uint64_t times, uint64_t of);

/* The parts of a critical path's time. */
typedef enum {
    SPENT_ISSUE = 0,  /* starting vector instructions */
    SPENT_VECTOR = 1, /* SIMD steps */
    SPENT_SCALAR = 2, /* element by element: exp, norms, rotations */
    SPENT_STAGE = 3,  /* software between dependent messages, and their ramps */
    SPENT_HOP = 4,    /* wires */
    SPENT_STREAM = 5, /* wavelets after the first of a message, waits for links */
} wafer_spent;
enum { WAFER_SPENT = 6 };
extern const char *const wafer_spent_names[WAFER_SPENT];

/* Costs of a message, in ticks. */
typedef struct {
    int64_t hop, ramp, stage;
} wafer_message_cost;

typedef struct {
    uint32_t width, height;
    bool folded;
    int64_t *row, *column;      /* folded: [height], [width] */
    int64_t *core;              /* else [height][width] */
    uint8_t *extra_x, *extra_y; /* else: additional hops to the core on the right, below; NULL:
                                   none */
    wafer_message_cost cost;
    wafer_events events;
    int64_t spent[WAFER_SPENT]; /* ticks; their sum is that of the longest path */
    /* scratch of one line */
    int64_t *line, *free_right, *free_left, *far;
    wafer_add *adds;
} wafer_clocks;

/* All clocks at zero, no core dead.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int clocks_open(wafer_clocks *c, uint32_t width, uint32_t height, bool folded,
                               wafer_message_cost cost);
/* Step over dead cores, like the fabric's own remapping: logical core (x + i, y + j) is the next
 * live one of its row, so links over a dead core, and those between rows that are shifted against
 * each other, take more hops.  Only unfolded.  CERIUM_ERR_CAPACITY: a row has too few, or is
 * shifted by more than 255. */
CERIUM_CHECKED int clocks_dead(wafer_clocks *c, const wafer_mesh *mesh, uint32_t x, uint32_t y);
void clocks_close(wafer_clocks *c);

int64_t clocks_latest(const wafer_clocks *c);
/* Every core works for this long. */
void clocks_spend(wafer_clocks *c, wafer_spent what, int64_t ticks);
/* An all-reduce of this many wavelets along axis, by each run of sum->n cores of a line on its own;
 * cores left at the end of a line are idle. */
void clocks_reduce(wafer_clocks *c, wafer_axis axis, const wafer_reduction *sum, uint32_t wavelets);
/* A barrier, then a fixed time: transfers that involve every core. */
void clocks_meet(wafer_clocks *c, wafer_spent what, int64_t ticks);

#endif
