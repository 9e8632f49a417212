/* mesh.h - a placed model run on a simulated mesh of cores, bit for bit like on real cores.
 *
 * One region of width x height cores holds the whole model, cut as in placement.h: every core has
 * its tile of each matrix (some output rows by a slice of K) and nothing else; values of other
 * cores reach it as wavelets of 32 bits.  A vector is cut along one axis and replicated along the
 * other:
 *
 *   residual stream, norms    cut along y
 *   q, k, v, attention        along x: strips of columns for KV heads, channels within a strip
 *   hidden, logits            along x
 *
 * mesh_kv.c chooses the row of keys and values.  A sum along an axis is the adds of a
 * wafer_reduction and a broadcast from its root.  Experts are cut like all else, or are on groups
 * of cores as in placement.h: a row is sent to the groups of its experts, and their results are
 * sent back.
 *
 * Two orders of sums:
 *   EQUAL  the accumulators of docs/numerics.md travel from core to core in the order of K (of an
 *          open block also its integer sum), the running softmax in the order of tokens.  Logits
 *          equal those of the CPU engine bit for bit, for any mesh.
 *   MESH   every core sums its own values, and partial sums meet in the order of the reduction.
 *          Logits are near those of the CPU: mesh_bound.h has the bound.
 *
 * Weights, keys and values are in one array each, of which every core reads only its own part.
 * Values replicated along an axis are computed once and counted for each core.  Events are counted
 * by core and link while executing; cycles are not modelled here.
 *
 * mesh_open() allocates all memory.  One thread at a time. */
#ifndef WAFER_MESH_H
#define WAFER_MESH_H

#include "base/base.h"
#include "gguf/gguf.h"
#include "kernels/kernels.h"
#include "wafer/placement.h"

enum {
    MESH_SIDE_MAX = 256,    /* cores on a side: a functional run does the work of each */
    MESH_ROWS_MAX = 512,    /* tokens in a pass */
    MESH_COLOURS_MAX = 64,
};

typedef enum { MESH_EQUAL = 0, MESH_ORDER = 1 } mesh_order;

typedef struct {
    uint32_t width, height;  /* cores */
    mesh_order order;
    wafer_choice choice;     /* is_fused, and degree, are of MESH order: in EQUAL order sums go
                                from the first core to the last; context 0 = the model's */
    uint32_t colours;        /* of a router that are free for us */
    uint32_t lanes;          /* values in a vector step */
    kernel_kv_type kv_type;
    uint32_t rows_max;       /* tokens in a pass, 1 to MESH_ROWS_MAX */
    bool mesh_gemm;          /* of MESH order: mesh_prompt() may be called */
} mesh_layout;

/* 8 x 8, EQUAL, degree 2, round-robin, 24 colours, 8 lanes, KV in 8 bits, passes of 16 tokens. */
mesh_layout mesh_layout_default(void);
/* The KV type of this name; if *name is NULL, it becomes that of the only one.  False: an unknown
 * name. */
bool mesh_layout_name_kv(mesh_layout *l, const char **name);
/* CERIUM_ERR_ARGUMENT with the field, its error and the possible values. */
CERIUM_CHECKED int mesh_layout_validate(const mesh_layout *layout, const step_shape *shape,
                                        cerium_error *err);

/* ---- routes ---- */

typedef enum { MESH_EAST = 0, MESH_WEST = 1, MESH_SOUTH = 2, MESH_NORTH = 3, MESH_RAMP = 4 }
    mesh_port;

/* The colours of all flows, each with one route in every router that it passes.  A router has one
 * route for a colour: in from one port, out to some.  Two flows with different routes for a colour
 * collide; those with the same do not, because along a line of cores a collective begins only after
 * the one before it has been broadcast.  CERIUM_ERR_ARGUMENT names both operations and the core.
 *   swap: only in tests: the broadcast along y gets the colour of the first adds; else false */
CERIUM_CHECKED int mesh_routes_check(const mesh_layout *layout, const step_shape *shape, bool swap,
                                     uint32_t *n_colours, cerium_error *err);

/* ---- events ---- */

typedef struct {
    uint64_t issues;    /* vector instructions */
    uint64_t steps;     /* vector steps: ceil(length / lanes) of each */
    uint64_t link[4];   /* wavelets that its router sent east, west, south, north */
    uint64_t up, down;  /* wavelets over the ramp: from the core, to the core */
} mesh_core_events;

/* The same of all cores, by kind of step. */
typedef struct {
    uint64_t issues, steps, hops, up, down, collectives;
} mesh_kind_events;
enum { MESH_KIND_SAMPLE = STEP_HEAD + 1, MESH_KIND_END };

/* ---- faults for tests ---- */

typedef enum {
    MESH_SOUND = 0,
    MESH_FAULT_ORDER = 1, /* the first two slices of every sum along y are exchanged */
    MESH_FAULT_TILE = 2,  /* the tile in the middle of the first matrix has one row too few */
    MESH_FAULT_EXP = 3,   /* exp by squaring squares twice too few: e^(x/4) */
    MESH_FAULT_SHIFT = 4, /* of WAFER_KV_SHIFT: the first row has no room for passed tokens */
    MESH_FAULT_GROUP = 5, /* the first expert of a row: it is sent to the next group instead */
    MESH_FAULT_ANSWER = 6, /* the last column of a group sends nothing back */
    MESH_FAULT_STEP = 7, /* MeshGEMM products end one step early */
} mesh_fault;

/* ---- running ---- */

typedef struct mesh mesh;

/* Borrows file.  fault: MESH_SOUND, except in tests.
 *   with_bound: also carry the error bound of mesh_bound.h (four bytes more for each weight)
 * CERIUM_ERR_ARGUMENT  layout; CERIUM_ERR_FORMAT  the model; CERIUM_ERR_MEMORY */
CERIUM_CHECKED int mesh_open(mesh **out, const gguf_file *file, const mesh_layout *layout,
                             bool with_bound, mesh_fault fault, cerium_error *err);
void mesh_close(mesh **m);
const step_shape *mesh_shape(const mesh *m);
const mesh_layout *mesh_layout_of(const mesh *m);
const step_program *mesh_program(const mesh *m);

/* Compute tokens [n] at positions [position, position + n); those before were computed already,
 * those after are discarded.  Logits of row r at mesh_logits(m, r) for the last n_logits rows. */
void mesh_run(mesh *m, const int32_t *tokens, uint32_t n, uint32_t position, uint32_t n_logits);
/* The same as MeshGEMM products (mesh_gemm.c), in a layout with such: for prompts. */
void mesh_prompt(mesh *m, const int32_t *tokens, uint32_t n, uint32_t position, uint32_t n_logits);
/* Of a row of the last pass: [n_vocab], split over the columns of the mesh. */
const float *mesh_logits(const mesh *m, uint32_t row);
/* with_bound: the bound on the difference of that row's logits from the CPU's, [n_vocab]; INFINITY:
 * a router was undecided (mesh_bound.h). */
const float *mesh_logit_bounds(const mesh *m, uint32_t row);

/* On the mesh: candidates meet in a reduction over the columns, and sampler_choose() draws.
 *   sampling: validated; NULL for greedy */
int32_t mesh_sample(mesh *m, uint32_t row, const cerium_sampling *sampling, const int32_t *recent,
                    size_t n_recent, uint64_t position);

/* Verify drafted tokens: draft[0] is the newest token of the text, at `position`, the others are
 * guesses; n <= rows_max.  Writes the next tokens, greedily, to out[n], and returns how many: the
 * right guesses and one more. */
uint32_t mesh_verify(mesh *m, const int32_t *draft, uint32_t n, uint32_t position, int32_t *out);

const mesh_core_events *mesh_events(const mesh *m); /* [height][width] */
const mesh_kind_events *mesh_kinds(const mesh *m);  /* [MESH_KIND_END] */
void mesh_events_clear(mesh *m);
/* Bytes of the fullest core: of matrices in the file's formats, and of keys and values in a full
 * context. */
uint64_t mesh_core_weight_bytes(const mesh *m);
uint64_t mesh_core_kv_bytes(const mesh *m);

#endif
