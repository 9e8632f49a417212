/* vector.h - the levels of the vector and attention kernels, and what their variants share. */
#ifndef KERNELS_VECTOR_H
#define KERNELS_VECTOR_H

#include <math.h>

#include "kernels/exp.h"
#include "kernels/kernels.h"

/* Each sets what its level has and leaves the rest; called from the lowest level upwards.
 * The reference has everything and is the definition; the others give its bits. */
void kernel_vector_init_ref(kernel_table *table);
void kernel_vector_init_avx2(kernel_table *table);
void kernel_vector_init_avx512vnni(kernel_table *table);
void kernel_vector_init_neon(kernel_table *table);
void kernel_recurrent_init_ref(kernel_table *table);
void kernel_recurrent_init_avx2(kernel_table *table);
void kernel_recurrent_init_avx512vnni(kernel_table *table);
void kernel_recurrent_init_neon(kernel_table *table);
void kernel_attention_init_ref(kernel_table *table);
void kernel_attention_i8_init_ref(kernel_table *table);
void kernel_attention_init_avx2(kernel_table *table);
void kernel_attention_f32_init_avx2(kernel_table *table);
void kernel_attention_i8_init_avx2(kernel_table *table);
void kernel_attention_init_avx512vnni(kernel_table *table);
void kernel_attention_f32_init_avx512vnni(kernel_table *table);
void kernel_attention_i8_init_avx512vnni(kernel_table *table);
void kernel_attention_i8_init_amx(kernel_table *table);
void kernel_attention_init_neon(kernel_table *table);
void kernel_attention_f32_init_neon(kernel_table *table);

/* (a, b) = (a c - b s, b c + a s): each one product rounded, then one fma. */
static inline void kernel_rotate(float *a, float *b, float c, float s)
{
    float old_a = *a, old_b = *b;
    *a = fmaf(old_a, c, -(old_b * s));
    *b = fmaf(old_b, c, old_a * s);
}

/* What a running softmax is multiplied by when its maximum becomes max. */
static inline float kernel_decay(float old_max, float max)
{
    return old_max == -INFINITY ? 0.0f : kernel_exp(old_max - max);
}

#endif
