/* mesh_variance.h - the buffers of the bound of MESH order. */
#ifndef WAFER_MESH_VARIANCE_H
#define WAFER_MESH_VARIANCE_H

#include "wafer/mesh_core.h"

/* Of a token in the cache, one KV head. */
typedef struct {
    float key, value;   /* mean variance of a channel, its rounding included */
    float value_step;   /* scale of the turned value in 8 bits; 0: it has another type */
} mesh_kept;

struct mesh_bound {
    float *x, *normed;     /* [rows][n_embd] variances, like the following */
    float *attended;       /* [rows][n_heads head_dim] */
    float *hidden;         /* [rows][experts used][n_ff] */
    float *q, *key, *value; /* [rows][heads] means of a head */
    float *router;         /* [rows][n_experts] */
    float *z, *y[2];       /* [widest] of an input and of two outputs */
    float *head;           /* [n_vocab rounded up to 16] */
    float *logits;         /* [rows][n_vocab] bounds */
    float *mix;            /* [head_dim][head_dim] */
    float *weights;        /* [context] of a softmax */
    mesh_kept *kept;       /* [layers][kv heads][context] */
    float *vectors;        /* the same [..][2][head_dim]: keys and values before they are rounded */
    size_t n_kept;
};

/* The variance after a rounding to multiples of step that each run does for itself. */
float mesh_bound_rounded(float variance, float step);

#endif
