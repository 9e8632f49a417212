/* vector.h - the variants of the vector and attention kernels, for the table and for tests.
 *
 * X(type, name): kernel_<name>_ref in *_ref.c is the definition; kernel_<name>_avx2 and
 * kernel_<name>_avx512vnni in x86/ give its bits. */
#ifndef KERNELS_VECTOR_H
#define KERNELS_VECTOR_H

#include <math.h>

#include "kernels/kernels.h"

#define KERNEL_VECTOR_MAP(X)                                                                       \
    X(kernel_rms_norm_fn, rms_norm)                                                                \
    X(kernel_layer_norm_fn, layer_norm)                                                            \
    X(kernel_add_fn, add)                                                                          \
    X(kernel_add_scaled_fn, add_scaled)                                                            \
    X(kernel_rope_fn, rope_adjacent)                                                               \
    X(kernel_rope_fn, rope_split)                                                                  \
    X(kernel_activation_fn, silu_gated)                                                            \
    X(kernel_activation_fn, gelu_tanh)                                                             \
    X(kernel_activation_fn, gelu_gated)                                                            \
    X(kernel_activation_fn, swiglu_clamped)                                                        \
    X(kernel_softmax_fn, softmax)                                                                  \
    X(kernel_kv_write_fn, kv_write)                                                                \
    X(kernel_attend_page_fn, attend_page)                                                          \
    X(kernel_attend_join_fn, attend_join)

#define KERNEL_VECTOR_DECLARE(type, name)                                                          \
    type kernel_##name##_ref, kernel_##name##_avx2, kernel_##name##_avx512vnni;
KERNEL_VECTOR_MAP(KERNEL_VECTOR_DECLARE)
#undef KERNEL_VECTOR_DECLARE

/* (a, b) = (a c - b s, b c + a s): each one product rounded, then one fma. */
static inline void kernel_rotate(float *a, float *b, float c, float s)
{
    float old_a = *a, old_b = *b;
    *a = fmaf(old_a, c, -(old_b * s));
    *b = fmaf(old_b, c, old_a * s);
}

#endif
