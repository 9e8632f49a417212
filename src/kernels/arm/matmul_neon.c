/* matmul_neon.c - matmul on any 64-bit Arm: products of bytes in 16 bits, and what has no quants.
 *
 * Two products are 2 * 128 * 127 < 2^15 at most, so pairs are added before they are widened. */
#include <arm_neon.h>

#include "kernels/panels.h"

PANEL_INLINE int8x16_t four_columns(int8x16_t x, uint32_t lane)
{
    const int32x4_t words = vreinterpretq_s32_s8(x);
    switch (lane) { /* a constant, which the instruction holds */
    case 0: return vreinterpretq_s8_s32(vdupq_laneq_s32(words, 0));
    case 1: return vreinterpretq_s8_s32(vdupq_laneq_s32(words, 1));
    case 2: return vreinterpretq_s8_s32(vdupq_laneq_s32(words, 2));
    }
    return vreinterpretq_s8_s32(vdupq_laneq_s32(words, 3));
}

PANEL_INLINE int32x4_t dot_lane(int32x4_t sum, int8x16_t w, int8x16_t x, uint32_t lane)
{
    const int8x16_t four = four_columns(x, lane);
    const int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(four));
    const int16x8_t high = vmull_high_s8(w, four);
    return vpadalq_s16(sum, vpaddq_s16(low, high));
}

#include "kernels/arm/matmul_neon.h"

MATMUL_NEON_MAP(MATMUL_NEON)

/* ---- float types ---- */

enum { FLOAT_TILE = 4 /* tokens */ };

PANEL_INLINE float32x4_t load_weights(block_type type, const uint8_t *panel, size_t k, uint32_t h)
{
    if (type == BLOCK_F32) return vreinterpretq_f32_u8(vld1q_u8(panel + 64 * k + 16 * h));
    if (type == BLOCK_F16) return load_quarter_halves(panel + 32 * k, h);
    const uint16x4_t v = vreinterpret_u16_u8(vld1_u8(panel + 32 * k + 8 * h));
    return vreinterpretq_f32_u32(vshll_n_u16(v, 16));
}

/* One panel against n_t tokens: one chain of fma a row, 4 n_t registers of them. */
PANEL_INLINE void tile_floats(block_type type, uint32_t n_t, float *y, size_t y_stride,
                              const uint8_t *panel, const float *x, uint32_t n_cols)
{
    float32x4_t acc[FLOAT_TILE][QUARTERS];
    UNROLLED for (uint32_t t = 0; t < n_t; t++)
        UNROLLED for (uint32_t h = 0; h < QUARTERS; h++) acc[t][h] = vdupq_n_f32(0);
    for (size_t k = 0; k < n_cols; k++)
        UNROLLED for (uint32_t h = 0; h < QUARTERS; h++) {
            const float32x4_t w = load_weights(type, panel, k, h);
            UNROLLED for (uint32_t t = 0; t < n_t; t++)
                acc[t][h] = vfmaq_n_f32(acc[t][h], w, x[t * (size_t)n_cols + k]);
        }
    UNROLLED for (uint32_t t = 0; t < n_t; t++)
        UNROLLED for (uint32_t h = 0; h < QUARTERS; h++)
            vst1q_f32(y + t * y_stride + QUARTER_ROWS * h, acc[t][h]);
}

PANEL_INLINE void matmul_floats(block_type type, float *y, size_t y_stride, const uint8_t *panels,
                                const float *x, uint32_t n_panels, uint32_t n_cols,
                                uint32_t n_tokens)
{
    const size_t panel_bytes = kernel_panel_bytes(type, n_cols);
    for (uint32_t p = 0; p < n_panels; p++, panels += panel_bytes, y += KERNEL_PANEL_ROWS)
        for (uint32_t t = 0, n_t; t < n_tokens; t += n_t) {
            float *out = y + t * y_stride;
            const float *in = x + (size_t)t * n_cols;
            n_t = n_tokens - t < FLOAT_TILE ? 1 : FLOAT_TILE;
            if (n_t == FLOAT_TILE)
                tile_floats(type, FLOAT_TILE, out, y_stride, panels, in, n_cols);
            else
                tile_floats(type, 1, out, y_stride, panels, in, n_cols);
        }
}

#define MATMUL_FLOATS(name, type)                                                                  \
    static void name(float *restrict y, size_t y_stride, const void *restrict panels,              \
                     const void *restrict x, uint32_t n_panels, uint32_t n_cols,                   \
                     uint32_t n_tokens)                                                            \
    {                                                                                              \
        matmul_floats(type, y, y_stride, panels, x, n_panels, n_cols, n_tokens);                   \
    }
MATMUL_FLOATS(matmul_f32, BLOCK_F32)
MATMUL_FLOATS(matmul_f16, BLOCK_F16)
MATMUL_FLOATS(matmul_bf16, BLOCK_BF16)

/* ---- activations ---- */

/* The largest magnitude of n values, n a multiple of 32. */
static inline float largest_magnitude(const float *x, uint32_t n)
{
    const float32x4_t zero = vdupq_n_f32(0);
    float32x4_t m[4] = {zero, zero, zero, zero};
    for (uint32_t i = 0; i < n; i += 16)
        UNROLLED for (uint32_t j = 0; j < 4; j++)
            m[j] = vmaxq_f32(vabsq_f32(vld1q_f32(x + i + 4 * j)), m[j]);
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(m[0], m[1]), vmaxq_f32(m[2], m[3])));
}

/* 16 values to bytes; their sum. */
static inline int16_t quantize_16(int8_t *q, const float *x, float inverse)
{
    const float32x4_t round = vdupq_n_f32(0x1.8p23f); /* as in quantize_ref */
    uint16x4_t low[4]; /* of the bits: the integer is in the last eight */
    UNROLLED for (uint32_t j = 0; j < 4; j++) {
        const float32x4_t v = vmulq_n_f32(vld1q_f32(x + 4 * j), inverse);
        low[j] = vmovn_u32(vreinterpretq_u32_f32(vaddq_f32(v, round)));
    }
    const uint8x8_t first = vmovn_u16(vcombine_u16(low[0], low[1]));
    const uint8x8_t second = vmovn_u16(vcombine_u16(low[2], low[3]));
    const int8x16_t bytes = vreinterpretq_s8_u8(vcombine_u8(first, second));
    vst1q_s8(q, bytes);
    return vaddlvq_s8(bytes);
}

/* n_blocks blocks of a group, from `first` on, that share n_scales scales. */
static inline void quantize_run(kernel_act *out, const float *x, uint32_t first, uint32_t n_blocks,
                                uint32_t n_scales)
{
    const float magnitude = largest_magnitude(x + PANEL_BLOCK * first, PANEL_BLOCK * n_blocks);
    if (magnitude < KERNEL_ACT_TINY) return;
    const float inverse = 127.0f / magnitude, scale = magnitude / 127.0f;
    for (uint32_t b = first; b < first + n_blocks; b++) {
        for (uint32_t i = 2 * b; i < 2 * b + 2; i++)
            out->sum16[i] = quantize_16(out->q + 16 * i, x + 16 * i, inverse);
        out->sum32[b] = (int16_t)(out->sum16[2 * b] + out->sum16[2 * b + 1]);
    }
    for (uint32_t b = first; b < first + n_scales; b++) out->scale[b] = scale;
}

static void quantize_32(kernel_act *restrict out, const float *restrict x, uint32_t n)
{
    for (uint32_t g = 0; g < kernel_n_groups(n); g++, x += KERNEL_GROUP, out++) {
        memset(out, 0, sizeof *out);
        for (uint32_t b = 0; b < panel_group_blocks(n, g); b++) quantize_run(out, x, b, 1, 1);
    }
}

static void quantize_128(kernel_act *restrict out, const float *restrict x, uint32_t n)
{
    for (uint32_t g = 0; g < kernel_n_groups(n); g++, x += KERNEL_GROUP, out++) {
        memset(out, 0, sizeof *out);
        quantize_run(out, x, 0, panel_group_blocks(n, g), PANEL_BLOCKS);
    }
}

void matmul_init_neon(kernel_table *table)
{
    MATMUL_NEON_MAP(MATMUL_NEON_SET)
    table->matmul[BLOCK_F32] = matmul_f32;
    table->matmul[BLOCK_F16] = matmul_f16;
    table->matmul[BLOCK_BF16] = matmul_bf16;
    table->quantize[KERNEL_ACTS_32] = quantize_32;
    table->quantize[KERNEL_ACTS_128] = quantize_128;
}
