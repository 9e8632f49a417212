/* mesh_bound.h - a bound on the difference between MESH-order logits and the CPU's, computed along
 * with them.
 *
 * Two runs of the same program that add in different orders differ by their roundings.  Every value
 * has the variance of that difference, and every operation propagates it to first order:
 *
 *   a sum           A rounding of a partial sum s is within u |s|, u = 2^-24, so its variance is
 *                   at most (u s)^2 / 3.  A term passes through as many partial sums as the order
 *                   has additions on its way: with terms of independent signs the roundings of a
 *                   sum have variance u^2 / 3 (depth of the CPU's order + depth of the mesh's)
 *                   (sum of squared terms + squared sum).  Depths are counted: a chain of K has K,
 *                   a core's slice its own and the reduction those of its schedule.
 *   y = W x         variance of y_i = sum over k of W_ik^2 variance of x_k, by the same tiles
 *   8 bits          Once x differs at all, both runs round it for themselves.  The two roundings
 *                   differ by a whole step with the probability that a step's boundary lies
 *                   between the two values: at most step^2 / 4 more, whatever the distance.
 *   norm, softmax, activations    their derivatives
 *
 * A logit's bound is MESH_BOUND_SIGMAS standard deviations.  If a choice of experts is closer than
 * that, there is none: INFINITY, for that token and all that see it.
 *
 * This is a bound with a probability (Higham and Mary, "A new approach to probabilistic rounding
 * error analysis", 2019): a worst case of each rounding would grow by the norm of every matrix,
 * beyond all logits after two layers.  docs/decisions/0015-mesh-order.md has the measurements. */
#ifndef WAFER_MESH_BOUND_H
#define WAFER_MESH_BOUND_H

#include "wafer/mesh_core.h"

#define MESH_BOUND_SIGMAS 8.0f

int mesh_bound_open(mesh *m);
void mesh_bound_close(mesh *m);

/* Rows of the pass start from equal embeddings. */
void mesh_bound_begin(mesh *m);
/* After products and biases, before heads are normed and turned; w: q, k, v. */
void mesh_bound_qkv(mesh *m, const step_op *op, const mesh_tiles *const *w, uint32_t row);
/* When q, key and value have their final values before rounding. */
void mesh_bound_keep(mesh *m, const step_op *op, uint32_t row);
void mesh_bound_attend(mesh *m, const step_op *op);
/* x += y = W in, before it is added. */
void mesh_bound_out(mesh *m, const mesh_tiles *w, const mesh_rows *in, uint32_t row,
                    const float *y);
/* Before the activation; op is NULL if the router has normed x. */
void mesh_bound_up(mesh *m, const step_op *op, const mesh_tiles *const *w, uint32_t expert,
                   uint32_t row, uint32_t hidden, const float *gate, const float *up);
/* logits: the router's, before its softmax. */
void mesh_bound_route(mesh *m, const step_op *op, const mesh_tiles *w, uint32_t row,
                      const float *logits);
/* x += weight y, y = W_e hidden. */
void mesh_bound_down(mesh *m, const mesh_tiles *w, uint32_t expert, uint32_t row, uint32_t hidden,
                     float weight, const float *y);
void mesh_bound_head(mesh *m, const step_op *op, const mesh_tiles *w, uint32_t row,
                     const float *logits);

#endif
