/* matmul.h - the kernels that read weights: which function serves which type at which level. */
#ifndef KERNELS_MATMUL_H
#define KERNELS_MATMUL_H

#include "kernels/kernels.h"

/* Activations that share a scale and whose magnitudes all stay below this count as zero: above it,
 * 127 / x is finite and x / 127 is a normal number. */
#define KERNEL_ACT_TINY 0x1p-100f

/* Fill table->matmul[] and table->quantize for a level that this machine has. */
void kernel_matmul_init(kernel_table *table, kernel_cpu cpu);

/* Each sets what its level has and leaves the rest; called from the lowest level upwards. */
void matmul_init_ref(kernel_table *table);
void matmul_init_avx2(kernel_table *table);
void matmul_init_wide_avx2(kernel_table *table);
void matmul_init_avx512vnni(kernel_table *table, kernel_panel_order order);
void matmul_init_wide_avx512vnni(kernel_table *table, kernel_panel_order order);
void quantize_init_avx512vnni(kernel_table *table);
void matmul_init_amx(kernel_table *table);
void matmul_init_neon(kernel_table *table);
void matmul_init_neondot(kernel_table *table);

#endif
