/* matmul_neondot.c - matmul with the dot products of four bytes of Armv8.2. */
#ifndef __ARM_FEATURE_DOTPROD
#error "compile with the flags of dot products (see Makefile)"
#endif
#include <arm_neon.h>

#include "kernels/panels.h"

PANEL_INLINE int32x4_t dot_lane(int32x4_t sum, int8x16_t w, int8x16_t x, uint32_t lane)
{
    switch (lane) { /* a constant, which the instruction holds */
    case 0: return vdotq_laneq_s32(sum, w, x, 0);
    case 1: return vdotq_laneq_s32(sum, w, x, 1);
    case 2: return vdotq_laneq_s32(sum, w, x, 2);
    }
    return vdotq_laneq_s32(sum, w, x, 3);
}

#include "kernels/arm/matmul_neon.h"

MATMUL_NEON_MAP(MATMUL_NEON)

void matmul_init_neondot(kernel_table *table) { MATMUL_NEON_MAP(MATMUL_NEON_SET) }
