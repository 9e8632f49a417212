/* convert_fp4.h - matrices in NVFP4, as NVIDIA's ModelOpt and compressed-tensors write them.
 *
 *   ModelOpt             compressed-tensors
 *   NAME.weight          NAME.weight_packed        u8 [rows][columns / 2], the low nibble first
 *   NAME.weight_scale    the same                  E4M3 [rows][columns / 16]
 *   NAME.weight_scale_2  NAME.weight_global_scale  f32, for all: times, or divided by
 *   NAME.input_scale     NAME.input_global_scale   for processors that compute in FP4
 *
 * Private to this folder. */
#ifndef CONVERT_CONVERT_FP4_H
#define CONVERT_CONVERT_FP4_H

#include "convert/convert_plan.h"

/* Columns that share a scale. */
enum { FP4_GROUP = 16 };

/* Tensors of set that are such matrices become SAFE_FP4 [rows][columns], named NAME.weight.
 * names: returns owned, the names that changed.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int convert_find_fp4(safetensors *set, char **names, cerium_error *err);

/* The factor of a matrix; CERIUM_ERR_FORMAT: it is missing, or no number above 0. */
CERIUM_CHECKED int convert_fp4_factor(const safetensors *set, const safetensor *t, float *out,
                                      cerium_error *err);

/* out[n] = row r, its factor included. */
CERIUM_CHECKED int convert_fp4_values(const safetensors *set, const safetensor *t, uint64_t r,
                                      uint64_t n, float *out, cerium_error *err);
/* out = the same without the factor, as blocks of NVFP4; of[i]: which of its groups is group i, or
 * NULL: i. */
CERIUM_CHECKED int convert_fp4_blocks(const safetensors *set, const safetensor *t, uint64_t r,
                                      uint64_t n, const uint32_t *of, uint8_t *out,
                                      cerium_error *err);

/* Of a whole plan without a wanted type: such matrices whose rows stay whole stay as they are, and
 * their factors follow. */
void plan_fp4(planner *p);

#endif
