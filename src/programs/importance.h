/* importance.h - importance matrices: how large the inputs of each column of a matrix are.
 *
 * The files are llama.cpp's: GGUF with general.type "imatrix", and for each tensor NAME of weights
 * "NAME.in_sum2" F32 [columns, matrices], sums of squares, and "NAME.counts" F32 [1, matrices], of
 * how many tokens.  Tensors of experts have a matrix for each. */
#ifndef PROGRAMS_IMPORTANCE_H
#define PROGRAMS_IMPORTANCE_H

#include "gguf/gguf.h"

/* CERIUM_ERR_FORMAT for a GGUF file that is not an importance matrix. Close with gguf_close(). */
CERIUM_CHECKED int importance_open(gguf_file **out, const char *path, cerium_error *err);

/* Weights for block_quantize(): mean squares, [matrices][columns], with a small value for columns
 * that were always 0, and 1 for all columns of an expert that no token used.
 * *out is owned, released with memory_free(); NULL when the file lacks this tensor.
 * CERIUM_ERR_FORMAT when its sizes do not match, CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int importance_of(const gguf_file *file, const gguf_tensor *tensor, float **out,
                                 cerium_error *err);

#endif
