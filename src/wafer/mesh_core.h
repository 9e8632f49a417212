/* mesh_core.h - shared by the parts of the mesh: splits, tiles, buffers, functions of a core. */
#ifndef WAFER_MESH_CORE_H
#define WAFER_MESH_CORE_H

#include <math.h>

#include "kernels/exp.h"
#include "kernels/kernels.h"
#include "model/program.h"
#include "sampling/sampler.h"
#include "wafer/mesh.h"

/* Values [begin, end) of a vector, on one core of an axis. */
typedef struct {
    uint32_t core, begin, end;
} mesh_piece;

/* A vector over the cores of an axis: its pieces in order, some of a core perhaps apart. */
typedef struct {
    uint32_t n, n_cores, n_pieces, most; /* most: values of the fullest core */
    mesh_piece *pieces;
    uint32_t *share;                     /* [n_cores] values of a core */
} mesh_split;

/* Values shared by quants of a tile: 32 values, 16 of Q6_K. */
typedef struct {
    float d, m;         /* scale, and minimum or the factor of the minima */
    int16_t scale, min; /* small ones, of types with superblocks */
} mesh_unit;

/* A matrix, or one for each expert: all tiles.  Core (n, k) reads rows of its pieces of n, columns
 * of its pieces of k. */
typedef struct {
    const model_matrix *w;
    wafer_axis k_axis;            /* K is cut along it, rows along the other */
    const mesh_split *k, *n;
    uint32_t unit;                /* values that share a mesh_unit; 0 for float types */
    uint32_t closes;              /* values after which sums of integers become floats */
    bool has_min;                 /* of types with minima */
    uint32_t n_units;             /* of a row */
    int8_t *q;                    /* [n_matrices][rows][cols] */
    float *f;                     /* the same of float types */
    mesh_unit *units;             /* [n_matrices][rows][n_units] */
    float *squares;               /* with a bound: panels [n_matrices][n_panels] of w^2 in F32 */
} mesh_tiles;

/* Accumulators of a row of output, passed along K: integers of an open block (or group, if one
 * scale serves it), acc of closed ones. */
typedef struct {
    int32_t dot, min;
    float acc;
} mesh_sum;

/* The adds of a reduction. */
typedef struct {
    uint32_t n, n_adds, root;
    uint32_t depth; /* the most additions of a value on its way to the root */
    wafer_add *adds;
} mesh_schedule;

/* Rows of activations as floats and in 8 bits. */
typedef struct {
    float *f;
    kernel_act *q[KERNEL_ACTS_END]; /* by kernel_acts */
    uint32_t width;
} mesh_rows;

/* A row in the form that the kernels take for matrices of a type. */
static inline const kernel_act *mesh_acts(const mesh_rows *x, block_type type, uint32_t row)
{
    return x->q[kernel_acts_of(type)] + (size_t)row * kernel_n_groups(x->width);
}

typedef struct mesh_bound mesh_bound;

/* Cores that work together: all, or those of a group. */
typedef struct {
    uint32_t x, y, width, height;
    const mesh_schedule *sum[2]; /* along x, along y */
} mesh_ground;

struct model;

struct mesh {
    mesh_layout layout;
    struct model *model;
    const step_program *program;
    kernel_table k;
    mesh_fault fault;
    mesh_tiles *tiles;                 /* [n_tiles]; a tied matrix has one entry */
    uint32_t n_tiles;
    const mesh_tiles *(*op_tiles)[3];  /* [n_ops] of w[0..2]; NULL: there is none */
    wafer_strips strips;
    mesh_split split_e, split_q, split_kv, split_h, split_v, split_r;
    mesh_schedule sum[2];              /* along x, along y */
    mesh_schedule strip_sum;           /* along the columns of a strip */
    mesh_ground whole;
    const mesh_ground *on;             /* where sums are made and counted */

    /* prompts as MeshGEMM products: mesh_gemm.c */
    bool is_prompt;                    /* of the pass */
    uint32_t line_rows;                /* rows of the pass that a line of cores has */
    mesh_ground *lines;                /* [height] */
    mesh_split prompt_e;               /* of n_embd, along x */

    /* experts on groups: mesh_expert_groups.c; n is 0: there are none */
    wafer_expert_groups expert_groups;
    mesh_ground *grounds;              /* [groups.n] */
    mesh_schedule group_sum;
    mesh_split group_e, group_h;       /* over the side of a group */
    mesh_split expert_group_part;      /* of n_embd, over its columns: parts of each slice */
    mesh_rows received;                /* [rows][experts used]: received by a group */
    float *answers;                    /* [experts used][n_embd], of a row of the pass */
    float *met;                        /* [columns of groups][n_embd], sums of their columns */

    /* keys and values: the order of the array does not show their rows */
    uint32_t kv_pages;
    size_t kv_page_bytes;
    uint8_t *kv;                       /* [layers][kv heads][kv_pages]{keys, values} */
    size_t kv_bytes;
    uint32_t *kv_first;                /* [layers][height + 1] of SHIFT: mesh_kv.c */
    uint64_t kv_moves;                 /* tokens passed up by a row */

    /* the pass */
    uint32_t n_rows, position, n_logits;
    step_kind kind;                    /* of the current step, for events */
    float *x;                          /* [rows][n_embd] */
    float *cosine, *sine;
    float *norm_scale;                 /* [rows] */
    bool riding;                       /* sums of squares go with the next product */
    mesh_rows normed, attended, hidden; /* hidden: [rows][experts used] */
    float *q, *key, *value;            /* [rows][heads head_dim] */
    uint8_t *queries;                  /* [rows][heads][query_bytes] */
    size_t query_bytes;
    float *y;                          /* [rows][widest output of a step] */
    float *up;                         /* the same, for the second of a pair */
    float *partial;                    /* [cores of an axis][longest piece of output] */
    mesh_sum *sums;                    /* the same */
    kernel_softmax_state *state;       /* [height + 1] */
    float *out;                        /* the same [..][head_dim] */
    uint32_t *chosen;                  /* [rows][experts used] */
    float *weight;
    float *logits;                     /* [rows][n_vocab] */
    mesh_rows rest;                    /* [1]: rounding errors of a row of the head */
    float *rest_logits;                /* [n_vocab] */
    float *candidates;                 /* [n_vocab]: -INFINITY except for candidates that met */
    float *others;                     /* [n_vocab]: logits without the separate ones */
    sampler *sampler;
    mesh_core_events *events;
    mesh_kind_events kinds[MESH_KIND_END];
    mesh_bound *bound;                 /* NULL without */

    void *owned[96];                   /* every allocation except the mappings */
    uint32_t n_owned;
    bool short_of_memory;
};

/* The residual stream is cut along y, for a prompt along x: a row on one line of cores. */
static inline const mesh_split *mesh_stream(const mesh *m)
{
    return m->is_prompt ? &m->prompt_e : &m->split_e;
}
static inline wafer_axis mesh_stream_axis(const mesh *m)
{
    return m->is_prompt ? WAFER_AXIS_X : WAFER_AXIS_Y;
}
/* The following calls work on row r of the pass; on all of them again. */
static inline void mesh_at_row(mesh *m, uint32_t r)
{
    if (m->is_prompt) m->on = &m->lines[r / m->line_rows];
}
static inline void mesh_at_all(mesh *m) { m->on = &m->whole; }

/* mesh_memory.c: memory that mesh_close() frees: zeroed; NULL and m->short_of_memory: there is
 * none. */
void *mesh_own(mesh *m, size_t n, size_t size);

/* Of the current ground. */
static inline uint32_t mesh_side(const mesh *m, wafer_axis axis)
{
    return axis == WAFER_AXIS_X ? m->on->width : m->on->height;
}

/* ---- mesh_layout.c: the parts of each core ---- */

int mesh_splits_make(mesh *m);
/* Values [0, n) over n_cores in even tiles; and without values, of at most this many pieces. */
int mesh_split_even(mesh *m, mesh_split *s, uint32_t n, uint32_t n_cores);
int mesh_split_begin(mesh *m, mesh_split *s, uint32_t n, uint32_t n_cores, uint32_t pieces_max);
void mesh_split_add(mesh_split *s, uint32_t core, uint32_t begin, uint32_t end);
/* The adds of a line of n cores, into adds [n]; returns the root. */
uint32_t mesh_adds(const mesh_layout *l, uint32_t n, uint32_t degree, wafer_add *adds);
int mesh_schedule_make(mesh *m, mesh_schedule *s, uint32_t n, uint32_t degree);

/* ---- mesh_tile.c: weights ---- */

int mesh_tiles_make(mesh *m, mesh_tiles *t);
void mesh_tiles_close(mesh_tiles *t);
/* sums [n.end - n.begin] += rows of n times columns of k.  x: kernel_act or float of the whole
 * vector.  close: close the open block at the end of k. */
void mesh_tile_run(const mesh_tiles *t, uint32_t matrix, const mesh_piece *n, const mesh_piece *k,
                   const void *x, mesh_sum *sums, bool close);

/* ---- mesh_collect.c: sums over the cores of an axis ---- */

/* y[r][stride] = W x[row + r] over the mesh, n_rows of them. */
void mesh_matmul(mesh *m, float *y, size_t stride, const mesh_tiles *t, uint32_t matrix,
                 const mesh_rows *x, uint32_t row, uint32_t n_rows);
/* Sum over partials [side][n] by a schedule; returns the sums, which are in partials. */
const float *mesh_meet(const mesh_schedule *s, float *partials, uint32_t n);
/* The i-th piece of a vector cut along an axis: i, unless a test plants a fault. */
const mesh_piece *mesh_turn(const mesh *m, wafer_axis axis, const mesh_split *split, uint32_t i);

/* ---- mesh_count.c ---- */

/* Events, for the kind of step in m->kind.  Of one core; of n wavelets along a line; of a schedule
 * on a line whose core 0 is at `first`; of a broadcast to [first, end). */
void mesh_count_core(mesh *m, uint32_t x, uint32_t y, uint64_t n_issues, uint32_t length);
void mesh_count_send(mesh *m, wafer_axis axis, uint32_t line, uint32_t from, uint32_t to,
                     uint64_t n);
void mesh_count_adds(mesh *m, wafer_axis axis, uint32_t line, const mesh_schedule *s,
                     uint32_t first, uint64_t n);
void mesh_count_broadcast(mesh *m, wafer_axis axis, uint32_t line, uint32_t root, uint32_t first,
                          uint32_t end, uint64_t n);
/* n_times the same: on every line of an axis a sum (or maximum) of n values, or of n and the line's
 * share if it has one, and its broadcast; a vector instruction of length n on every core; and every
 * strip's part of a split vector, sent to each of its columns in all rows. */
void mesh_count_collective(mesh *m, wafer_axis axis, const mesh_split *lines, uint32_t n,
                           uint32_t n_times);
void mesh_count_work(mesh *m, uint32_t n, uint32_t n_times);
/* The same for each row of the pass; for a prompt, on its line. */
void mesh_count_rows(mesh *m, uint32_t n, uint32_t n_times);
void mesh_count_gather(mesh *m, const mesh_split *split, uint32_t n_times);
/* For a product of n_rows. */
void mesh_count_product(mesh *m, const mesh_tiles *t, uint32_t n_rows);

/* ---- mesh_kv.c: the rows of tokens ---- */

/* Tokens begin, begin + stride, .. below end. */
typedef struct {
    uint32_t begin, end, stride;
} mesh_kv_range;

int mesh_kv_open(mesh *m);
kernel_kv_page mesh_kv_page(const mesh *m, uint32_t layer, uint32_t head, uint32_t token);
/* Keys and values of a row of the pass are stored, after those before it; op is the QKV. */
void mesh_kv_write(mesh *m, const step_op *op, uint32_t row);
/* Wavelets of a token, key and value, on one core of column x. */
uint64_t mesh_kv_wavelets(const mesh *m, uint32_t x);
/* The tokens of [begin, end) that row y of the mesh keeps. */
mesh_kv_range mesh_kv_tokens(const mesh *m, uint32_t layer, uint32_t y, uint32_t begin,
                             uint32_t end);

/* ---- mesh_gemm.c: products of a prompt ---- */

int mesh_gemm_make(mesh *m);
/* The core of a line of n that has the s-th place after core `at` on the line's ring. */
uint32_t mesh_ring_core(uint32_t n, uint32_t at, uint32_t s);
/* y = W x[row] with the sums of the cores of that row's line; counts nothing. */
void mesh_gemm_row(mesh *m, float *y, const mesh_tiles *t, uint32_t matrix, const mesh_rows *x,
                   uint32_t row, uint32_t line);
/* A product for all rows; for the rows that chose each expert. */
void mesh_gemm_count(mesh *m, const mesh_tiles *t);
void mesh_gemm_count_experts(mesh *m, const mesh_tiles *t);
/* n values at each core of a line rotate. */
void mesh_count_ring(mesh *m, wafer_axis axis, uint32_t line, uint64_t n);
/* The most additions of a term. */
uint32_t mesh_gemm_adds(const mesh *m, const mesh_tiles *t);

/* ---- mesh_expert_groups.c: experts on groups ---- */

int mesh_expert_groups_make(mesh *m);
int mesh_expert_groups_own(mesh *m);
/* The number of a core's experts, for its bytes; x, y: the core. */
uint32_t mesh_expert_groups_held(const mesh *m, uint32_t x, uint32_t y, uint32_t n_experts);
/* Send every row of the pass to the groups of its chosen experts: rows of m->received. */
void mesh_expert_groups_send(mesh *m, uint32_t acts);
/* From now on only the group to which a row for that expert was sent works, until mesh_at_all();
 * returns the index of the row's expert among all. */
uint32_t mesh_expert_groups_enter(mesh *m, uint32_t expert);
/* A row of x += the results of its experts: m->answers, in MESH order weighted already. */
void mesh_expert_groups_answer(mesh *m, uint32_t row);

/* ---- mesh_attend.c, mesh_experts.c, mesh_sample.c ---- */

void mesh_attend(mesh *m, const step_op *op);
void mesh_route(mesh *m, const step_op *op, const mesh_tiles *const *w);
void mesh_experts_up(mesh *m, const step_op *op, const mesh_tiles *const *w);
void mesh_experts_down(mesh *m, const step_op *op, const mesh_tiles *const *w);

/* ---- mesh_vector.c: norms, activations ---- */

/* Row r of m->normed = norm of row `row` of x, also in 8 bits by acts (step_acts).  With fused
 * collectives without its scale, which is known together with the first product: that product's
 * messages have one value more.  Then y, the result of each product, gets the scale, and after all
 * of them the row does. */
void mesh_norm(mesh *m, const step_op *op, uint32_t r, uint32_t row, uint32_t acts);
/* gate[n] = activation of gate and up. */
void mesh_activate(const mesh *m, float *gate, const float *up, uint32_t n);
/* x[n], split over columns: softmax, its sum in the order of the layout. */
void mesh_softmax(mesh *m, float *x, const mesh_split *split);
/* The same for n values that every core has. */
void mesh_softmax_local(const mesh *m, float *x, uint32_t n);
/* A row in 8 bits by acts, split over an axis. */
void mesh_quantize(mesh *m, const mesh_rows *rows, uint32_t row, uint32_t acts, wafer_axis axis);
void mesh_scale_output(mesh *m, float *y, const mesh_split *split, uint32_t r);
void mesh_norm_end(mesh *m, uint32_t r);

/* ---- functions of a core ---- */

/* exp(x) as (e^(x / 2^n))^(2^n), with two squarings missing if that fault is set. */
static inline float mesh_exp(const mesh *m, float x)
{
    return kernel_exp(m->fault == MESH_FAULT_EXP ? 0.25f * x : x);
}
static inline float mesh_decay(const mesh *m, float old_max, float max)
{
    return old_max == -INFINITY ? 0.0f : mesh_exp(m, old_max - max);
}

#endif
