/* placement.h - the placement of a step program on a mesh, and the order of its sums.
 *
 * A region is a rectangle of cores that holds the weights of consecutive operations and runs them
 * one after the other with all of its cores.  A matrix y[N] = W[N, K] x[K] is cut into n_k by n_n
 * tiles: core (i along the axis of reduction, j along the other) holds columns [i k_tile, (i + 1)
 * k_tile) of rows [j n_tile, (j + 1) n_tile), cut off at K and N.  x arrives cut along the axis of
 * reduction and replicated on every line across it; each core multiplies its tile; the n_k partial
 * sums of each line become one by the adds of a wafer_reduction, and its root broadcasts it on the
 * line.  So y ends cut along the other axis and replicated along this one, as an operation that
 * reduces along that other axis requires: no transposes.
 *
 *   QKV reduces along y   (x cut along y)        ends cut along x, by strips of KV heads
 *   attention             scores along x within a strip; softmax and values along y
 *   OUT reduces along x   (a cut along x, by strips)  ends cut along y
 *   FFN_UP along y, FFN_DOWN along x; experts as these; ROUTE and HEAD along y
 *
 * Everything here is geometry: no clocks, no numbers of the model.  The simulators of numbers and
 * of time both use these tiles and these adds. */
#ifndef WAFER_PLACEMENT_H
#define WAFER_PLACEMENT_H

#include "model/program.h"
#include "wafer/machines.h"

enum {
    WAFER_LINE_MAX = WAFER_GRID_MAX, /* cores of a line that reduces */
    WAFER_DEGREE_MAX = 4,            /* phases of a reduction */
};

/* ---- the order of a sum ---- */

/* K phases: in the first, neighbouring groups of group[0] cores add up towards the middle of each;
 * in the next, group[1] of the roots do; and so on.  The product of all groups is at least n. */
typedef struct {
    uint32_t n;                       /* cores of the line */
    uint32_t degree;                  /* phases, 1 .. WAFER_DEGREE_MAX */
    uint32_t group[WAFER_DEGREE_MAX]; /* sizes, first phase first */
} wafer_reduction;

/* "to += what from sends": to adds to its own value, on the left, the value that arrives. */
typedef struct {
    uint16_t from, to;
    uint16_t phase;
} wafer_add;

/* The usual choice: groups as equal as n's divisors allow, fewest dependent stages. */
wafer_reduction reduction_of(uint32_t n, uint32_t degree);
/* The n - 1 adds in an order in which they can be executed one by one: a core sends after all adds
 * to it.  If a root takes two streams, the side of the lower index comes first. out: [n - 1];
 * returns the index of the root. */
uint32_t reduction_adds(const wafer_reduction *r, wafer_add *out);

/* ---- tiles ---- */

typedef enum {
    WAFER_AXIS_X = 0, /* along a row: cores of equal y */
    WAFER_AXIS_Y = 1, /* along a column */
} wafer_axis;

typedef struct {
    uint32_t begin, end; /* [begin, end): empty if a core has only padding */
} wafer_range;

/* Piece i of n values in tiles of `tile`. */
static inline wafer_range tile_range(uint32_t n, uint32_t tile, uint32_t i)
{
    uint64_t begin = (uint64_t)tile * i, end = begin + tile;
    return (wafer_range){(uint32_t)(begin < n ? begin : n), (uint32_t)(end < n ? end : n)};
}

static inline uint32_t tiles_of(uint32_t n, uint32_t parts)
{
    return (n + parts - 1) / parts;
}

/* How attention lies on a region: KV head h owns the strip of columns [h cores, (h + 1) cores), or,
 * if heads outnumber columns, a column owns `heads` whole heads.  Column c of a strip has channels
 * tile_range(head_dim, channels, c) of its heads' K and V, and the same channels of their query
 * heads.  wafer_kv_policy gives the row of a token of the cache. */
typedef struct {
    uint32_t strips;   /* along x */
    uint32_t cores;    /* columns of a strip */
    uint32_t heads;    /* KV heads of a strip */
    uint32_t channels; /* of a head in a column, padded */
    uint32_t queries;  /* query heads of a KV head */
} wafer_strips;

typedef enum {
    WAFER_KV_ROUND_ROBIN = 0, /* token t is in row t mod rows: even, and nothing moves */
    WAFER_KV_SHIFT = 1,       /* rows hold adjacent tokens; one with too many passes its oldest
                                 up */
} wafer_kv_policy;

/* channels are a multiple of `multiple` (wafer_choice.k_multiple), or the whole head. */
wafer_strips strips_of(const step_shape *s, uint32_t width, uint32_t multiple);

/* The rows of w[part] (0 q, 1 k, 2 v) of QKV that column x holds are ordered by head: the j-th head
 * of the column's strip (KV heads for k and v; heads * queries for q) gives rows
 * head * head_dim + [begin, end).  Returns how many heads; *first_head, *channels. The same are the
 * columns of OUT's w that column x multiplies: its K is cut like the result of attention. */
uint32_t strip_rows(const step_shape *s, const wafer_strips *t, uint32_t x, int part,
                    uint32_t *first_head, wafer_range *channels);

/* ---- a placement ---- */

typedef struct {
    uint32_t op;         /* of the step program */
    wafer_axis reduce;   /* along which K is cut */
    uint32_t n_k, n_n;   /* cores along it, and along the other */
    uint32_t k_tile;     /* columns of w a core, padded */
    uint32_t n_tile[3];  /* rows of w[i] a core, padded */
    wafer_reduction sum; /* of the n_k partial results */
} wafer_tiles;

typedef struct {
    uint32_t wafer;
    uint32_t x, y, width, height; /* in the usable rectangle */
    uint32_t first_op, n_ops;     /* of the step program; the embedding goes with the head */
    uint32_t first_layer, n_layers;
    uint64_t core_bytes;             /* weights, KV and buffers of the fullest core */
    uint64_t weight_bytes, kv_bytes; /* of them */
} wafer_region;

typedef enum {
    WAFER_EXPERTS_SHARDED = 0, /* every expert is cut over the whole region */
    WAFER_EXPERTS_GROUPED = 1, /* experts are on groups of side x side cores; several a group */
} wafer_expert_layout;

/* Expert groups side by side from the region's corner; the rest at its far edges has none. Expert e
 * is on group e mod n, cut there like on a region of side x side cores, its sums in one phase.
 *
 * All columns have all of x, cut along y, and a group's rows need slices of it: column c of a group
 * broadcasts part c of each slice along its whole length (a sum without further terms), and the
 * columns exchange their parts along the group's rows.  Results of experts go back the same way:
 * slices to the group's columns, the parts along y over the region, added if groups share columns,
 * and along x over all columns.  No route depends on which experts were chosen. */
typedef struct {
    uint32_t side, columns, rows, n; /* cores of an edge; groups along x and y, all */
} wafer_expert_groups;

wafer_expert_groups expert_groups_of(uint32_t width, uint32_t height, uint32_t side);

/* Values per part of a slice of `tile`: part c is tile_range(slice, this, c). */
static inline uint32_t expert_group_part(uint32_t tile, uint32_t side)
{
    return (tile + side - 1) / side;
}

/* The decisions of a search. */
typedef struct {
    uint32_t degree;     /* of reductions along both axes */
    bool is_fused;       /* norms and softmax are fused with the sums of products */
    uint32_t k_multiple; /* k_tile is a multiple of it: a block of a quantization, or 1 */
    wafer_kv_policy kv;
    wafer_expert_layout experts;
    uint32_t group_side; /* side of a group, at most a region's */
    uint32_t context; /* capacity of the KV cache in tokens */
} wafer_choice;

typedef struct {
    const step_program *program; /* borrowed */
    wafer_choice choice;
    wafer_strips strips;   /* of the regions of layers, which all have one size */
    wafer_region *regions; /* [n_regions], in the order of the program */
    uint32_t n_regions;
    uint32_t wafers; /* used */
} wafer_placement;

/* Operation op on a region of width x height cores. ATTEND and EMBED have no tiles: n_k is 0. */
wafer_tiles tiles_of_op(const step_program *p, uint32_t op, uint32_t width, uint32_t height,
                        const wafer_choice *choice);
/* Half of an expert, EXPERTS_UP or EXPERTS_DOWN, on its group. */
wafer_tiles expert_group_tiles(const step_program *p, uint32_t op, const wafer_choice *choice);

void placement_close(wafer_placement *p);

#endif
