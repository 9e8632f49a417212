/* convert_plan.h - the plan of a GGUF file: its tensors, and their sources.  Private to
 * this folder. */
#ifndef CONVERT_CONVERT_PLAN_H
#define CONVERT_CONVERT_PLAN_H

#include "convert/convert_states.h"

/* The first error stays in status and err. */
typedef struct {
    const convert_config *c;
    const safetensors *set;
    const block_type *type; /* of matrices; NULL: keep each type */
    const char *prefix;     /* of the decoder's names: "model." */
    const char *only_layer; /* the name of the one layer, where it has no number; else NULL */
    convert_tensor *all;
    size_t n, cap;
    int status;
    cerium_error *err;
} planner;

/* ---- convert_plan.c; layer: UINT32_MAX for tensors of the whole model ---- */

/* The prefix of the names of a layer's tensors in name: those of Qwen's MTP head are separate. */
const char *plan_layer_name(const planner *p, uint32_t layer, char name[64]);
/* NULL: there is none.  missing: it is an error that there is none. */
const safetensor *plan_find(const planner *p, uint32_t layer, const char *what);
void plan_missing(planner *p, uint32_t layer, const char *what);
/* The name in the file: blk.LAYER.NAME, or NAME. */
void plan_name(convert_tensor *t, uint32_t layer, const char *name);
/* The source is [a], [a][b] or [a][b][c]: the others are 0. */
void plan_shape(planner *p, const safetensor *t, uint64_t a, uint64_t b, uint64_t c);
/* A copy of t, in the plan. */
convert_tensor *plan_add(planner *p, const convert_tensor *t);
/* A tensor of one source, [rows][columns] or, with columns 0, [rows].  NULL: there is none. */
convert_tensor *plan_plain(planner *p, uint32_t layer, const char *from, const char *to,
                           uint64_t rows, uint64_t columns, bool optional);
/* An RMS norm [n]; Gemma's multiplies by 1 + weight, and files hold the sum. */
void plan_norm(planner *p, uint32_t layer, const char *from, const char *to, uint64_t n,
               bool optional);

/* ---- convert_tensors.c ---- */

/* Is it the source of a planned tensor, or one of those that are not planned separately: experts,
 * scales, computed tables? */
bool plan_uses(const planner *p, const safetensor *t);
/* Finds the prefix of the decoder's names. */
void plan_find_prefix(planner *p);

/* ---- convert_attention.c, convert_feed_forward.c: the parts of a layer ---- */

void plan_attention(planner *p, uint32_t i);
void plan_latents(planner *p, uint32_t i);
void plan_feed_forward(planner *p, uint32_t i);
/* A tensor for each expert; where: the block's name, names: those of gate, which may be missing, up
 * and down. */
void plan_experts(planner *p, uint32_t i, const char *where, const char *const names[3]);

/* ---- convert_recurrent.c: the tensors of a layer's state ---- */

void plan_recurrent(planner *p, uint32_t i);
/* where: the name of the layer's part. */
void plan_mamba(planner *p, uint32_t i, const char *where);

#endif
