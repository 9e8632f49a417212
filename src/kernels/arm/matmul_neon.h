/* matmul_neon.h - matmul with 8-bit products for Arm, with and without instructions for dots.
 *
 * A line of a panel, [16 rows][4 columns], is four registers of four rows; h is which of them.
 * Quants get their sign and no offset: both kinds of dot multiply signed bytes.  Loops over the
 * columns of a block and over tokens are unrolled, those over panels and quarters are not: with
 * eight tokens, the registers hold their activations (16), a quarter's dots (8) and the weights,
 * and floats wait in memory for the end of a block.  Before it includes this file, a file defines
 *   dot_lane(sum, w, x, lane)   sum of four rows += their w . x of four columns, of x's sixteen
 * and after it gets every quantized type by MATMUL_NEON_MAP. */
#ifndef KERNELS_ARM_MATMUL_NEON_H
#define KERNELS_ARM_MATMUL_NEON_H

#include "kernels/matmul.h"
#include "kernels/panels.h"
#include "kernels/tiles.h"

enum { QUARTERS = 4, QUARTER_ROWS = KERNEL_PANEL_ROWS / QUARTERS, TILE = TILE_WIDE };

PANEL_INLINE float32x4_t load_quarter_halves(const uint8_t *p, uint32_t h) /* four f16 */
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 8 * h)));
}

/* ---- quants ---- */

/* The table of a type whose nibbles are numbers of values; else unused. */
PANEL_INLINE int8x16_t quant_table(block_type type)
{
    return vld1q_s8(panel_is_fp4(type)   ? block_mxfp4_values
                    : type == BLOCK_Q4_W ? block_q4_w_values
                                         : block_iq4_values);
}

PANEL_INLINE uint8x16_t shifted_right(uint8x16_t v, int32_t by) /* left where by is below 0 */
{
    return vshlq_u8(v, vdupq_n_s8((int8_t)-by));
}

/* Four rows' quants of columns 4 k4 .. 4 k4 + 3; of types with a minimum, without it. */
PANEL_INLINE int8x16_t unpack_quants(block_type type, const uint8_t *block, uint32_t k4, uint32_t h,
                                     int8x16_t table)
{
    const int32_t j = k4 % 4;
    if (type == BLOCK_Q8_0 || type == BLOCK_Q8_W)
        return vreinterpretq_s8_u8(vld1q_u8(block + PANEL_LINE * k4 + 16 * h));
    if (type == BLOCK_Q1_0) { /* 0 or 2, less 1 */
        const uint8x16_t bits = shifted_right(vld1q_u8(block + 16 * h), (int32_t)k4 - 1);
        return vsubq_s8(vreinterpretq_s8_u8(vandq_u8(bits, vdupq_n_u8(2))), vdupq_n_s8(1));
    }
    if (type == BLOCK_Q2_K || panel_is_two_bits(type)) {
        const uint8x16_t four = vld1q_u8(block + PANEL_LINE * (k4 / 4) + 16 * h);
        const uint8x16_t two = vandq_u8(shifted_right(four, 2 * j), vdupq_n_u8(3));
        return vsubq_s8(vreinterpretq_s8_u8(two), vdupq_n_s8(panel_is_two_bits(type)));
    }
    uint8x16_t v = vld1q_u8(block + PANEL_LINE * (uint32_t)j + 16 * h);
    v = k4 < 4 ? vandq_u8(v, vdupq_n_u8(15)) : vshrq_n_u8(v, 4);
    if (type == BLOCK_Q5_0 || type == BLOCK_Q5_1 || type == BLOCK_Q5_K) {
        const uint8x16_t plane = vld1q_u8(block + PANEL_NIBBLES + 16 * h);
        v = vorrq_u8(v, vandq_u8(shifted_right(plane, (int32_t)k4 - 4), vdupq_n_u8(16)));
    }
    if (type == BLOCK_Q6_K) {
        const uint8x16_t plane =
            vld1q_u8(block + PANEL_NIBBLES + PANEL_LINE * (k4 / 4) + 16 * h);
        v = vorrq_u8(v, vandq_u8(shifted_right(plane, 2 * j - 4), vdupq_n_u8(0x30)));
    }
    const int8x16_t quants = vreinterpretq_s8_u8(v);
    if (type == BLOCK_Q4_0) return vsubq_s8(quants, vdupq_n_s8(8));
    if (type == BLOCK_Q5_0) return vsubq_s8(quants, vdupq_n_s8(16));
    if (type == BLOCK_Q6_K) return vsubq_s8(quants, vdupq_n_s8(32));
    if (panel_is_fp4(type) || type == BLOCK_IQ4_NL || type == BLOCK_IQ4_XS ||
        type == BLOCK_Q4_W || panel_has_levels(type))
        return vqtbl1q_s8(table, v);
    return quants;
}

/* A block's activations of each token: its 32 columns are two registers. */
PANEL_INLINE void load_acts(uint32_t n_t, int8x16_t q[TILE][2], const kernel_act *x,
                            uint32_t x_stride, uint32_t b)
{
    UNROLLED for (uint32_t t = 0; t < n_t; t++)
        UNROLLED for (uint32_t i = 0; i < 2; i++)
            q[t][i] = vld1q_s8(x[t * x_stride].q + PANEL_BLOCK * b + 16 * i);
}

/* dot[t] = a quarter's products of 16 columns, the first or second half of a block; with add, onto
 * what dot[t] is. */
PANEL_INLINE void half_block_dots(block_type type, uint32_t n_t, int32x4_t dot[TILE],
                                  const uint8_t *block, uint32_t half, uint32_t h,
                                  int8x16_t q[TILE][2], int8x16_t table, bool add)
{
    UNROLLED for (uint32_t t = 0; t < n_t && !add; t++) dot[t] = vdupq_n_s32(0);
    UNROLLED for (uint32_t lane = 0; lane < 4; lane++) {
        const int8x16_t w = unpack_quants(type, block, 4 * half + lane, h, table);
        UNROLLED for (uint32_t t = 0; t < n_t; t++)
            dot[t] = dot_lane(dot[t], w, q[t][half], lane);
    }
}

PANEL_INLINE void store_tile(uint32_t n_p, uint32_t n_t, float *y, size_t y_stride,
                             float32x4_t acc[TILE][QUARTERS])
{
    for (uint32_t i = 0; i < n_p * n_t; i++)
        for (uint32_t h = 0; h < QUARTERS; h++)
            vst1q_f32(y + i % n_t * y_stride + i / n_t * KERNEL_PANEL_ROWS + QUARTER_ROWS * h,
                      acc[i][h]);
}

PANEL_INLINE void clear(uint32_t n, float32x4_t sum[TILE][QUARTERS])
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t h = 0; h < QUARTERS; h++) sum[i][h] = vdupq_n_f32(0);
}

/* ---- types with a scale for 32 values ---- */

/* 2^(e - 128): a normal number from e = 2, else 2^-128 or 2^-127, whose bits are no smaller. */
PANEL_INLINE float32x4_t load_e8m0_half(const uint8_t *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    const uint16x8_t wide = vmovl_u8(vcreate_u8(four));
    const int32x4_t e = vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(wide)));
    const int32x4_t normal = vshlq_n_s32(vsubq_s32(e, vdupq_n_s32(1)), 23);
    const int32x4_t small = vshlq_s32(vdupq_n_s32(0x00200000), vminq_s32(e, vdupq_n_s32(2)));
    return vreinterpretq_f32_s32(vmaxq_s32(normal, small));
}

/* ue4m3_half_to_f32() of four rows of a panel. */
PANEL_INLINE float32x4_t load_ue4m3_half(const uint8_t *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    const uint16x4_t e = vget_low_u16(vmovl_u8(vcreate_u8(four)));
    const float16x4_t small = vreinterpret_f16_u16(vshl_n_u16(e, 7));
    return vmulq_n_f32(vcvt_f32_f16(small), 0x1p7f);
}

/* Scale s of a block, of one or two. */
PANEL_INLINE float32x4_t load_block_scale(block_type type, const uint8_t *head, uint32_t s,
                                          uint32_t h)
{
    if (type == BLOCK_MXFP4) return load_e8m0_half(head + QUARTER_ROWS * h);
    if (type == BLOCK_NVFP4) return load_ue4m3_half(head + 16 * s + QUARTER_ROWS * h);
    return load_quarter_halves(head, h);
}

/* acc = fma(dot * scale, d, acc) and fma(sum32 * scale, m, acc) for block b of a group, or for its
 * halves, one after the other. */
PANEL_INLINE void block_sums(block_type type, uint32_t n_p, uint32_t n_t,
                             float32x4_t acc[TILE][QUARTERS], const uint8_t *group,
                             const uint8_t *block, size_t panel_bytes, uint32_t b,
                             const kernel_act *x, uint32_t x_stride)
{
    const int8x16_t table = quant_table(type);
    int8x16_t q[TILE][2];
    load_acts(n_t, q, x, x_stride, b);
    for (uint32_t p = 0; p < n_p; p++) {
        const uint8_t *head = group + p * panel_bytes + panel_head_at(type, b);
        for (uint32_t h = 0; h < QUARTERS; h++) {
            const bool halves = panel_block_scales(type) == 2;
            int32x4_t dot[TILE];
            UNROLLED for (uint32_t s = 0; s < 2; s++) {
                half_block_dots(type, n_t, dot, block + p * panel_bytes, s, h, q, table,
                                s == 1 && !halves);
                if (s == 0 && !halves) continue;
                const float32x4_t d = load_block_scale(type, head, s, h);
                UNROLLED for (uint32_t t = 0; t < n_t; t++) {
                    float32x4_t *to = &acc[p * n_t + t][h];
                    const kernel_act *act = x + t * x_stride;
                    *to = vfmaq_f32(*to, vmulq_n_f32(vcvtq_f32_s32(dot[t]), act->scale[b]), d);
                    if (panel_has_min(type))
                        *to = vfmaq_n_f32(*to, load_quarter_halves(head + 32, h),
                                          (float)act->sum32[b] * act->scale[b]);
                }
            }
        }
    }
}

PANEL_INLINE void tile_groups(block_type type, uint32_t n_p, uint32_t n_t, float *y,
                              size_t y_stride, const uint8_t *panel, size_t panel_bytes,
                              const kernel_act *x, uint32_t n_cols)
{
    const uint32_t n_groups = kernel_n_groups(n_cols);
    const uint8_t *factors = panel;
    float32x4_t acc[TILE][QUARTERS];
    clear(n_p * n_t, acc);
    panel += panel_lead_bytes(type);
    for (uint32_t g = 0; g < n_groups; g++) {
        const uint32_t n_blocks = panel_group_blocks(n_cols, g);
        const uint8_t *block = panel + panel_group_head(type, n_blocks);
        for (uint32_t b = 0; b < n_blocks; b++, block += panel_quant_bytes(type))
            block_sums(type, n_p, n_t, acc, panel, block, panel_bytes, b, x + g, n_groups);
        panel += panel_group_bytes(type, n_blocks);
    }
    for (uint32_t i = 0; panel_lead_bytes(type) && i < n_p * n_t; i++)
        for (uint32_t h = 0; h < QUARTERS; h++)
            acc[i][h] = vmulq_f32(acc[i][h],
                                  vreinterpretq_f32_u8(vld1q_u8(factors + i / n_t * panel_bytes +
                                                                4 * QUARTER_ROWS * h)));
    store_tile(n_p, n_t, y, y_stride, acc);
}

/* ---- types with a scale for 256 values ---- */

/* Four rows of a pair of small scales [16 rows][2], signed or not: one of them. */
PANEL_INLINE int32x4_t load_scales(bool is_signed, const uint8_t *pair, uint32_t h, uint32_t which)
{
    const uint8x8_t pairs = vld1_u8(pair + 8 * h);
    if (is_signed) {
        const int32x4_t v = vreinterpretq_s32_s16(vmovl_s8(vreinterpret_s8_u8(pairs)));
        return vshrq_n_s32(vshlq_s32(v, vdupq_n_s32(which ? 0 : 16)), 16);
    }
    const uint32x4_t v = vreinterpretq_u32_u16(vmovl_u8(pairs));
    return vreinterpretq_s32_u32(which ? vshrq_n_u32(v, 16) : vandq_u32(v, vdupq_n_u32(0xffff)));
}

/* total += the scaled integer products of block b of half a superblock. */
PANEL_INLINE void scaled_dots(block_type type, uint32_t n_p, uint32_t n_t,
                              int32x4_t total[TILE][QUARTERS], const uint8_t *pairs,
                              const uint8_t *block, size_t panel_bytes, uint32_t b,
                              int8x16_t q[TILE][2], int8x16_t table)
{
    const bool halves = panel_small(type) == 16, is_signed = panel_small_is_signed(type);
    for (uint32_t p = 0; p < n_p; p++) {
        /* A pair of scales belongs to one block, or to two. */
        const uint8_t *pair = pairs + p * panel_bytes + 32 * (halves ? b : b / 2);
        const uint8_t *from = block + p * panel_bytes;
        for (uint32_t h = 0; h < QUARTERS; h++) {
            const int32x4_t first = load_scales(is_signed, pair, h, halves ? 0 : b % 2);
            const int32x4_t second = halves ? load_scales(is_signed, pair, h, 1) : first;
            int32x4_t dot[TILE];
            half_block_dots(type, n_t, dot, from, 0, h, q, table, false);
            UNROLLED for (uint32_t t = 0; t < n_t && halves; t++)
                total[p * n_t + t][h] = vmlaq_s32(total[p * n_t + t][h], dot[t], first);
            half_block_dots(type, n_t, dot, from, 1, h, q, table, !halves);
            UNROLLED for (uint32_t t = 0; t < n_t; t++)
                total[p * n_t + t][h] = vmlaq_s32(total[p * n_t + t][h], dot[t], second);
        }
    }
}

/* acc = fma(sum, scale, acc) for half a superblock and one token, four rows. */
PANEL_INLINE float32x4_t add_half(block_type type, float32x4_t acc, int32x4_t total,
                                  const uint8_t *super, const uint8_t *pairs, uint32_t h,
                                  const kernel_act *x)
{
    float32x4_t d = load_quarter_halves(super, h);
    if (panel_has_levels(type)) {
        float factor;
        memcpy(&factor, super + 48, sizeof factor);
        d = vmulq_n_f32(d, factor);
    }
    float32x4_t sum = vmulq_f32(d, vcvtq_f32_s32(total));
    if (panel_has_min(type)) {
        const uint8_t *minima = pairs + panel_smalls_bytes(type);
        const int16_t *sums = panel_small(type) == 16 ? x->sum16 : x->sum32;
        int32x4_t min = vdupq_n_s32(0);
        UNROLLED for (uint32_t s = 0; s < KERNEL_GROUP / panel_small(type); s++)
            min = vmlaq_n_s32(min, load_scales(false, minima + 32 * (s / 2), h, s % 2), sums[s]);
        sum = vfmsq_f32(sum, load_quarter_halves(super + 32, h), vcvtq_f32_s32(min));
    }
    return vfmaq_n_f32(acc, sum, x->scale[0]);
}

PANEL_INLINE void tile_supers(block_type type, uint32_t n_p, uint32_t n_t, float *y,
                              size_t y_stride, const uint8_t *panel, size_t panel_bytes,
                              const kernel_act *x, uint32_t n_cols)
{
    const uint32_t n_groups = kernel_n_groups(n_cols), step = panel_quant_bytes(type);
    float32x4_t acc[TILE][QUARTERS];
    clear(n_p * n_t, acc);
    for (uint32_t g = 0; g < n_groups; g++, x++) {
        const uint8_t *pairs = panel + 64 + g % 2 * PANEL_BLOCKS * panel_small_bytes(type);
        const int8x16_t table = panel_has_levels(type)
                                    ? vld1q_s8((const int8_t *)panel + 32)
                                    : quant_table(type);
        const uint8_t *block = panel + panel_head_bytes(type) + g % 2 * PANEL_BLOCKS * step;
        int32x4_t total[TILE][QUARTERS];
        for (uint32_t i = 0; i < n_p * n_t; i++)
            for (uint32_t h = 0; h < QUARTERS; h++) total[i][h] = vdupq_n_s32(0);
        for (uint32_t b = 0; b < PANEL_BLOCKS; b++, block += step) {
            int8x16_t q[TILE][2];
            load_acts(n_t, q, x, n_groups, b);
            scaled_dots(type, n_p, n_t, total, pairs, block, panel_bytes, b, q, table);
        }
        for (uint32_t i = 0; i < n_p * n_t; i++) {
            const size_t at = i / n_t * panel_bytes;
            for (uint32_t h = 0; h < QUARTERS; h++)
                acc[i][h] = add_half(type, acc[i][h], total[i][h], panel + at, pairs + at, h,
                                     x + i % n_t * n_groups);
        }
        panel += g % 2 * panel_super_bytes(type);
    }
    store_tile(n_p, n_t, y, y_stride, acc);
}

/* ---- types with a scale for 128 values ---- */

/* total += the products of a block of 32 columns. */
PANEL_INLINE void wide_dots(block_type type, uint32_t n_p, uint32_t n_t,
                            int32x4_t total[TILE][QUARTERS], const uint8_t *block,
                            size_t panel_bytes, int8x16_t q[TILE][2])
{
    const int8x16_t table = quant_table(type);
    for (uint32_t p = 0; p < n_p; p++)
        for (uint32_t h = 0; h < QUARTERS; h++) {
            int32x4_t dot[TILE];
            UNROLLED for (uint32_t t = 0; t < n_t; t++) dot[t] = total[p * n_t + t][h];
            half_block_dots(type, n_t, dot, block + p * panel_bytes, 0, h, q, table, true);
            half_block_dots(type, n_t, dot, block + p * panel_bytes, 1, h, q, table, true);
            UNROLLED for (uint32_t t = 0; t < n_t; t++) total[p * n_t + t][h] = dot[t];
        }
}

PANEL_INLINE void tile_wide(block_type type, uint32_t n_p, uint32_t n_t, float *y, size_t y_stride,
                            const uint8_t *panel, size_t panel_bytes, const kernel_act *x,
                            uint32_t n_cols)
{
    const uint32_t n_groups = kernel_n_groups(n_cols);
    const uint8_t *block = panel + panel_wide_head(n_cols);
    float32x4_t acc[TILE][QUARTERS];
    clear(n_p * n_t, acc);
    for (uint32_t g = 0; g < n_groups; g++, x++) {
        int32x4_t total[TILE][QUARTERS];
        for (uint32_t i = 0; i < n_p * n_t; i++)
            for (uint32_t h = 0; h < QUARTERS; h++) total[i][h] = vdupq_n_s32(0);
        for (uint32_t b = 0; b < PANEL_BLOCKS; b++, block += panel_quant_bytes(type)) {
            int8x16_t q[TILE][2];
            load_acts(n_t, q, x, n_groups, b);
            wide_dots(type, n_p, n_t, total, block, panel_bytes, q);
        }
        for (uint32_t i = 0; i < n_p * n_t; i++)
            for (uint32_t h = 0; h < QUARTERS; h++) {
                const float32x4_t d =
                    load_quarter_halves(panel + i / n_t * panel_bytes + 32 * g, h);
                acc[i][h] = vfmaq_n_f32(acc[i][h], vmulq_f32(d, vcvtq_f32_s32(total[i][h])),
                                        x[i % n_t * n_groups].scale[0]);
            }
    }
    store_tile(n_p, n_t, y, y_stride, acc);
}

#define MATMUL_NEON(name, type, template)                                                          \
    MATMUL_TILE(name, 1, 8, type, template)                                                        \
    MATMUL_TILED(name, type, template, 4, name##_1_by_8)
/* X(name, type, template) */
#define MATMUL_NEON_MAP(X)                                                                         \
    X(matmul_q1_0, BLOCK_Q1_0, tile_groups)                                                        \
    X(matmul_q2_0, BLOCK_Q2_0, tile_groups)                                                        \
    X(matmul_q4_0, BLOCK_Q4_0, tile_groups)                                                        \
    X(matmul_q4_1, BLOCK_Q4_1, tile_groups)                                                        \
    X(matmul_q5_0, BLOCK_Q5_0, tile_groups)                                                        \
    X(matmul_q5_1, BLOCK_Q5_1, tile_groups)                                                        \
    X(matmul_q8_0, BLOCK_Q8_0, tile_groups)                                                        \
    X(matmul_iq4_nl, BLOCK_IQ4_NL, tile_groups)                                                    \
    X(matmul_mxfp4, BLOCK_MXFP4, tile_groups)                                                      \
    X(matmul_nvfp4, BLOCK_NVFP4, tile_groups)                                                      \
    X(matmul_q4_w, BLOCK_Q4_W, tile_wide)                                                          \
    X(matmul_pq2_0, BLOCK_PQ2_0, tile_wide)                                                        \
    X(matmul_q8_w, BLOCK_Q8_W, tile_wide)                                                          \
    X(matmul_q2_k, BLOCK_Q2_K, tile_supers)                                                        \
    X(matmul_iq3_s, BLOCK_IQ3_S, tile_supers)                                                      \
    X(matmul_q4_k, BLOCK_Q4_K, tile_supers)                                                        \
    X(matmul_q5_k, BLOCK_Q5_K, tile_supers)                                                        \
    X(matmul_q6_k, BLOCK_Q6_K, tile_supers)                                                        \
    X(matmul_iq4_xs, BLOCK_IQ4_XS, tile_supers)
#define MATMUL_NEON_SET(name, type, template) table->matmul[type] = name;

#endif
